//! ipc: Unix domain sockets and the files they leave, or do not leave.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use zmtp::{BindError, Dealer, Endpoint, IpcAddress, Message, MonitorEvent, PeerAddress, Router};
use zmtp_testkit::{Raw, echo, soon, until};

/// A directory for one test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("zt{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn endpoint(&self, name: &str) -> Endpoint {
        endpoint(&self.path(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn endpoint(path: &Path) -> Endpoint {
    format!("ipc://{}", path.display()).parse().unwrap()
}

fn router() -> Router {
    Router::builder().build()
}

fn kind(error: BindError) -> io::ErrorKind {
    match error {
        BindError::Io { source, .. } => source.kind(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn messages_and_who_sent_them() {
    let directory = Directory::new();
    let mut router = router();
    let mut monitor = router.monitor();
    let bound = router.bind(&directory.endpoint("s")).await.unwrap();
    assert_eq!(bound, directory.endpoint("s"));
    echo(&mut router, &bound).await;

    let peer = until(&mut monitor, "the connection", |event| match event {
        MonitorEvent::Accepted { peer, endpoint } => Some((peer, endpoint)),
        _ => None,
    });
    let (PeerAddress::Ipc(Some(credentials)), at) = peer.await else { panic!("no credentials") };
    let owner = fs::metadata(&directory.0).unwrap();
    assert_eq!((credentials.uid, credentials.gid), (owner.uid(), owner.gid()));
    assert_eq!(credentials.pid.and_then(|pid| u32::try_from(pid).ok()), Some(std::process::id()));
    assert_eq!(at, bound);
}

#[tokio::test]
async fn large_messages_and_a_foreign_peers_bytes() {
    let directory = Directory::new();
    let mut router = router();
    let bound = router.bind(&directory.endpoint("s")).await.unwrap();
    let mut dealer = Dealer::builder().build();
    dealer.connect(&bound).unwrap();
    let large = Message::from_frames([vec![1; 3 << 20], vec![2; 10], vec![3; 1 << 20]]);
    dealer.send(large.clone()).await.unwrap();
    let (peer, got) = soon("the large message", router.recv()).await.unwrap();
    assert!(got == large);
    router.send(&peer, got).await.unwrap();
    assert!(soon("its echo", dealer.recv()).await.unwrap() == large);

    // The bytes are those of tcp.
    let mut raw = Raw::ipc(&directory.path("s")).await;
    raw.shake("DEALER", b"raw").await;
    raw.send(&zmtp_testkit::wire(&["", "hello"])).await;
    let (peer, got) = soon("the raw message", router.recv()).await.unwrap();
    assert_eq!((peer.as_bytes(), got), (&b"raw"[..], Message::from_frames(["", "hello"])));
}

#[tokio::test]
async fn relative_paths() {
    let directory = Directory::new();
    let depth = std::env::current_dir().unwrap().components().count() - 1;
    let below_root = directory.path("s").strip_prefix("/").unwrap().to_owned();
    let relative = Path::new(&"../".repeat(depth)).join(below_root);
    let mut router = router();
    let bound = router.bind(&endpoint(&relative)).await.unwrap();
    echo(&mut router, &directory.endpoint("s")).await;
    echo(&mut router, &bound).await;
    soon("the close", router.close()).await;
    assert!(!directory.path("s").exists());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn abstract_names_leave_no_file_and_collide() {
    let name: Endpoint = format!("ipc://@zmtp test/{}", std::process::id()).parse().unwrap();
    let mut first = router();
    first.bind(&name).await.unwrap();
    echo(&mut first, &name).await;
    assert_eq!(kind(router().bind(&name).await.unwrap_err()), io::ErrorKind::AddrInUse);
    soon("the close", first.close()).await;
    let mut second = router();
    second.bind(&name).await.unwrap();
    echo(&mut second, &name).await;
}

#[tokio::test]
async fn a_wildcard_is_a_fresh_file_in_a_directory_of_ones_own() {
    let mut router = router();
    let any: Endpoint = "ipc://*".parse().unwrap();
    let bound = router.bind(&any).await.unwrap();
    let other = router.bind(&any).await.unwrap();
    assert_ne!(bound, other);
    echo(&mut router, &bound).await;
    echo(&mut router, &other).await;
    let Endpoint::Ipc(ipc) = &bound else { panic!("{bound}") };
    let IpcAddress::Path(path) = ipc.address() else { panic!("{bound}") };
    let directory = path.parent().unwrap().to_owned();
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(soon("the unbinding", router.unbind(&bound)).await);
    assert!(!directory.exists());
    echo(&mut router, &other).await;
}

/// Pitfall 29.
#[tokio::test]
async fn pitfall_29_a_dead_socket_is_replaced() {
    let directory = Directory::new();
    let path = directory.path("s");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let mut router = router();
    let bound = router.bind(&directory.endpoint("s")).await.unwrap();
    echo(&mut router, &bound).await;
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
}

#[tokio::test]
async fn a_live_socket_is_left_alone() {
    let directory = Directory::new();
    let at = directory.endpoint("s");
    let mut first = router();
    first.bind(&at).await.unwrap();
    let second = router();
    assert_eq!(kind(second.bind(&at).await.unwrap_err()), io::ErrorKind::AddrInUse);
    soon("the close", second.close()).await;
    assert_eq!(kind(first.bind(&at).await.unwrap_err()), io::ErrorKind::AddrInUse);
    echo(&mut first, &at).await;
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let directory = Directory::new();
    let (file, link) = (directory.path("file"), directory.path("link"));
    fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link, &directory.0] {
        let error = router().bind(&endpoint(path)).await.unwrap_err();
        assert!(matches!(error, BindError::NotASocket { .. }), "{error}");
        assert!(error.to_string().contains("not a socket"));
    }
    assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
    let missing = directory.endpoint("no/such");
    assert_eq!(kind(router().bind(&missing).await.unwrap_err()), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn our_file_goes_with_the_listener_and_only_ours() {
    let directory = Directory::new();
    let (mine, theirs) = (directory.path("mine"), directory.path("theirs"));
    let router = router();
    let bound = router.bind(&endpoint(&mine)).await.unwrap();
    router.bind(&endpoint(&theirs)).await.unwrap();
    assert!(soon("the unbinding", router.unbind(&bound)).await);
    assert!(!mine.exists());
    fs::remove_file(&theirs).unwrap();
    let stranger = std::os::unix::net::UnixListener::bind(&theirs).unwrap();
    soon("the close", router.close()).await;
    assert!(theirs.exists());
    drop(stranger);
}

/// B13, over ipc: connect before bind, and again after the bound side is back.
#[tokio::test]
async fn b13_the_bound_side_comes_and_goes() {
    let directory = Directory::new();
    let at = directory.endpoint("s");
    let reconnect =
        zmtp::Reconnect { first: std::time::Duration::from_millis(5), longest: std::time::Duration::from_millis(20) };
    let dealer = Dealer::builder().reconnect(reconnect).build();
    dealer.connect(&at).unwrap();
    for round in 0..5 {
        dealer.send(Message::from(format!("{round}"))).await.unwrap();
        let mut router = router();
        router.bind(&at).await.unwrap();
        let (_, message) = soon("the message of this round", router.recv()).await.unwrap();
        assert_eq!(message, Message::from(format!("{round}")));
        soon("the close", router.close()).await;
    }
}

/// Many take over one dead socket at the same time: one of them has it, and can be reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_for_a_dead_socket_has_one_winner() {
    for _ in 0..5 {
        let directory = Directory::new();
        drop(std::os::unix::net::UnixListener::bind(directory.path("s")).unwrap());
        let at = directory.endpoint("s");
        let mut racing = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let at = at.clone();
            racing.spawn(async move {
                let router = router();
                let won = router.bind(&at).await.is_ok();
                (router, won)
            });
        }
        let mut winners: Vec<Router> = Vec::new();
        let mut losers = Vec::new();
        while let Some(done) = soon("every racer", racing.join_next()).await {
            let (router, won) = done.unwrap();
            if won { winners.push(router) } else { losers.push(router) }
        }
        assert_eq!(winners.len(), 1);
        drop(losers);
        echo(&mut winners[0], &at).await;
        soon("the close", winners.remove(0).close()).await;
    }
}

#[tokio::test]
async fn buffer_sizes_are_set() {
    let directory = Directory::new();
    let mut router = Router::builder().send_buffer(65_536).receive_buffer(65_536).build();
    let bound = router.bind(&directory.endpoint("s")).await.unwrap();
    echo(&mut router, &bound).await;
}
