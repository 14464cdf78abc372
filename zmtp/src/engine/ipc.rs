//! ipc: Unix domain sockets, and the files they leave in the file system.
//!
//! libzmq removes whatever is at the path and leaves its own file behind. Here only a socket that nobody listens on is
//! replaced, and our own file goes when its listener does, if it is still ours.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::tcp::set_buffers;
use crate::random::Random;
use crate::socket::{Network, Options};
use crate::{BindError, Credentials, IpcAddress, IpcEndpoint, PeerAddress};

/// A socket that refuses is asked again after this long: it may have been bound just now and not listen yet.
const ALMOST_LISTENING: Duration = Duration::from_millis(50);
/// How long another process may take to remove a dead socket: its lock is held for that only.
const LOCK_ATTEMPTS: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Attempts to find a name that is not taken.
const ATTEMPTS: usize = 16;

/// A listener and what it has put into the file system.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Goes first: while we listen nobody takes our file for a dead one and replaces it.
    _file: Option<SocketFile>,
    listener: UnixListener,
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

/// Listens on an endpoint; gives it back with its actual path.
pub(super) async fn bind(endpoint: &IpcEndpoint, options: &Options) -> Result<(Listener, IpcEndpoint), BindError> {
    let failed = |source| BindError::Io { endpoint: endpoint.clone().into(), source };
    match endpoint.address() {
        IpcAddress::Path(path) => {
            make_way(path, endpoint).await?;
            let listener = Listener::at(path, None, options).map_err(failed)?;
            Ok((listener, endpoint.clone()))
        }
        IpcAddress::Abstract(_) => {
            let listener = listen(&system_path(endpoint).map_err(failed)?, options).map_err(failed)?;
            Ok((Listener { _file: None, listener }, endpoint.clone()))
        }
        IpcAddress::Wildcard => {
            let directory = FreshDirectory::make().map_err(failed)?;
            let path = directory.0.join("socket");
            let bound = path.to_str().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?.parse()?;
            let listener = Listener::at(&path, Some(directory), options).map_err(failed)?;
            Ok((listener, bound))
        }
    }
}

impl Listener {
    fn at(path: &Path, directory: Option<FreshDirectory>, options: &Options) -> io::Result<Self> {
        let listener = listen(path, options)?;
        // Absolute: the working directory may be another one when it is to be removed.
        let path = std::path::absolute(path)?;
        let identity = Identity::of(&path)?;
        Ok(Self { _file: Some(SocketFile { path, identity, directory }), listener })
    }
}

fn listen(path: &Path, options: &Options) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    socket.listen(options.backlog)
}

/// Connects once.
pub(super) async fn connect(endpoint: &IpcEndpoint, network: &Network) -> io::Result<UnixStream> {
    let stream = UnixSocket::new_stream()?.connect(system_path(endpoint)?).await?;
    set_up(&stream, network);
    Ok(stream)
}

/// Sets what is set on every open connection.
pub(super) fn set_up(stream: &UnixStream, network: &Network) {
    if let Err(error) = set_buffers(&SockRef::from(stream), network) {
        tracing::debug!(%error, "cannot set the buffers of an ipc connection");
    }
}

/// Who is at the other end.
pub(super) fn peer(stream: &UnixStream) -> PeerAddress {
    let credentials = stream.peer_cred().ok();
    PeerAddress::Ipc(credentials.map(|of| Credentials { uid: of.uid(), gid: of.gid(), pid: of.pid() }))
}

/// The path as system calls take it: an abstract name begins with a zero byte.
fn system_path(endpoint: &IpcEndpoint) -> io::Result<PathBuf> {
    match endpoint.address() {
        IpcAddress::Path(path) => Ok(path.to_owned()),
        IpcAddress::Abstract(name) if cfg!(any(target_os = "linux", target_os = "android")) => {
            Ok(PathBuf::from(format!("\0{name}")))
        }
        IpcAddress::Abstract(_) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no abstract socket names"))
        }
        IpcAddress::Wildcard => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Removes a socket that nobody listens on from `path`; anything else there is an error.
async fn make_way(path: &Path, endpoint: &IpcEndpoint) -> Result<(), BindError> {
    let failed = |source| BindError::Io { endpoint: endpoint.clone().into(), source };
    let mut refused = None;
    loop {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        if !found.file_type().is_socket() {
            return Err(BindError::NotASocket { endpoint: endpoint.clone().into() });
        }
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(failed(error)),
            // It answers, or is too busy to.
            _ => return Err(failed(io::ErrorKind::AddrInUse.into())),
        }
        let identity = Identity::from(&found);
        if refused.replace(identity) == Some(identity) {
            remove(path, identity).await.map_err(failed)?;
            continue;
        }
        tokio::time::sleep(ALMOST_LISTENING).await;
    }
}

/// Removes the file at `path` if it is that one. Of several processes that find the same dead socket one does so at a
/// time: the slower ones would otherwise remove what the fastest has just bound.
async fn remove(path: &Path, expected: Identity) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lock = File::open(directory)?;
    for _ in 0..LOCK_ATTEMPTS {
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
            // A file system without locks has to do without.
            Err(fs::TryLockError::Error(_)) | Ok(()) => break,
        }
    }
    match Identity::of(path) {
        Ok(there) if there == expected => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    /// Numbers of removed files are used again at once; times are not.
    modified: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|file| Self::from(&file))
    }
}

impl From<&fs::Metadata> for Identity {
    fn from(file: &fs::Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino(), modified: (file.mtime(), file.mtime_nsec()) }
    }
}

/// The file of our listener; removed with it if it is still ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: Identity,
    /// Removed after the file.
    directory: Option<FreshDirectory>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if Identity::of(&self.path).is_ok_and(|there| there == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the file of an ipc socket");
        }
        drop(self.directory.take());
    }
}

/// A directory of our own that nobody else may enter; removed with it.
#[derive(Debug)]
struct FreshDirectory(PathBuf);

impl FreshDirectory {
    /// Under TMPDIR, TEMPDIR or TMP, else where the system has such things.
    fn make() -> io::Result<Self> {
        let mut named = ["TMPDIR", "TEMPDIR", "TMP"].iter().filter_map(std::env::var_os).map(PathBuf::from);
        let parent = named.find(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
        let mut random = Random::from_system();
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let path = parent.join(format!("zmtp-{:012x}", random.next() >> 16));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return std::path::absolute(path).map(Self),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

impl Drop for FreshDirectory {
    fn drop(&mut self) {
        // Not empty if somebody put something there: then it is theirs.
        let _ = fs::remove_dir(&self.0);
    }
}
