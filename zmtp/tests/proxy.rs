//! The proxy over real loopback sockets.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tokio::task::JoinHandle;
use zmtp::{
    Dealer, Endpoint, Message, Pair, ProxyControl, ProxyError, ProxySocket, ProxyStatistics, Pub, Pull, Push, Rep, Req,
    Router, SocketType, Sub, XPub, XPubEvent, XSub, proxy, proxy_control,
};
use zmtp_testkit::{any_port, soon};

type Running = JoinHandle<Result<ProxyStatistics, ProxyError>>;

fn start(
    mut frontend: impl ProxySocket + 'static,
    mut backend: impl ProxySocket + 'static,
    capture: Option<Push>,
) -> (ProxyControl, Running) {
    let (control, commands) = proxy_control();
    let running = tokio::spawn(async move {
        let mut capture = capture;
        let capture = capture.as_mut().map(|capture| capture as &mut dyn ProxySocket);
        proxy(&mut frontend, &mut backend, capture, Some(commands)).await
    });
    (control, running)
}

async fn ended(control: &ProxyControl, running: Running) -> ProxyStatistics {
    control.terminate();
    let statistics = soon("the end of the proxy", running).await.unwrap().unwrap();
    assert_eq!(control.statistics().await, None);
    statistics
}

async fn streamer(capture: Option<Push>, hwm: usize) -> (ProxyControl, Running, Push, Endpoint) {
    let (frontend, backend) = (Pull::builder().receive_hwm(hwm).build(), Push::builder().send_hwm(hwm).build());
    let (entry, exit) = (frontend.bind(&any_port()).await.unwrap(), backend.bind(&any_port()).await.unwrap());
    let (control, running) = start(frontend, backend, capture);
    let push = Push::builder().build();
    push.connect(&entry).unwrap();
    (control, running, push, exit)
}

#[tokio::test]
async fn a_shared_queue_of_requests() {
    let (frontend, backend) = (Router::builder().build(), Dealer::builder().build());
    let (entry, exit) = (frontend.bind(&any_port()).await.unwrap(), backend.bind(&any_port()).await.unwrap());
    let (control, running) = start(frontend, backend, None);
    for name in ["a", "b"] {
        let mut rep = Rep::builder().build();
        rep.connect(&exit).unwrap();
        tokio::spawn(async move {
            while let Ok(request) = rep.recv().await {
                rep.send(Message::from_frames([request.frame(0).unwrap(), name.as_bytes()])).unwrap();
            }
        });
    }
    let asking = (0..4).map(|asker| {
        let entry = entry.clone();
        tokio::spawn(async move {
            let mut req = Req::builder().build();
            req.connect(&entry).unwrap();
            for i in 0..50 {
                let question = format!("{asker}: {i}");
                req.send(Message::single(&question)).await.unwrap();
                let reply = soon("a reply", req.recv()).await.unwrap();
                assert_eq!(reply.frame(0).unwrap(), question.as_bytes());
            }
        })
    });
    for asker in asking.collect::<Vec<_>>() {
        asker.await.unwrap();
    }
    let statistics = ended(&control, running).await;
    for traffic in [statistics.frontend, statistics.backend] {
        assert_eq!((traffic.received.messages, traffic.sent.messages), (200, 200));
    }
    assert_eq!(statistics.frontend.received, statistics.backend.sent);
}

#[tokio::test]
async fn a_forwarder_passes_subscriptions_the_other_way() {
    let (frontend, backend) = (XSub::builder().build(), XPub::builder().build());
    let (entry, exit) = (frontend.bind(&any_port()).await.unwrap(), backend.bind(&any_port()).await.unwrap());
    let (control, running) = start(frontend, backend, None);
    let mut publisher = XPub::builder().build();
    publisher.connect(&entry).unwrap();
    let mut subs = Vec::new();
    for topic in ["A", "A", "B"] {
        let sub = Sub::builder().build();
        sub.subscribe(topic).unwrap();
        sub.connect(&exit).unwrap();
        subs.push(sub);
    }
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let XPubEvent::Subscribe(topic) = soon("a subscription", publisher.recv()).await.unwrap() else { panic!() };
        asked.push(topic);
    }
    asked.sort();
    assert_eq!(asked, ["A", "B"]);
    // The second A may still be on its way; the first and B are not.
    let mut heard = [0; 3];
    let all = async {
        while heard.contains(&0) {
            publisher.send(Message::from_frames(["A1", "body"])).await.unwrap();
            publisher.send(Message::from_frames(["B1", "body"])).await.unwrap();
            publisher.send(Message::from_frames(["C1", "body"])).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
            for (sub, heard) in subs.iter_mut().zip(&mut heard) {
                while sub.try_recv().is_some() {
                    *heard += 1;
                }
            }
        }
    };
    soon("everybody's message", all).await;
    drop(subs);
    for _ in 0..2 {
        assert!(matches!(soon("the end of a topic", publisher.recv()).await.unwrap(), XPubEvent::Cancel(_)));
    }
    ended(&control, running).await;
}

#[tokio::test]
async fn a_streamer_loses_nothing_and_holds_back() {
    let (control, running, push, exit) = streamer(None, 10).await;
    let sending = tokio::spawn(async move {
        for i in 0..20_000u32 {
            push.send(Message::from_frames([&i.to_be_bytes()[..], b"body"])).await.unwrap();
        }
        push.close().await;
    });
    // With nobody at the other end little is taken, whatever is sent.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(control.statistics().await.unwrap().frontend.received.messages <= 256);
    let mut pull = Pull::builder().build();
    pull.connect(&exit).unwrap();
    for i in 0..20_000u32 {
        let message = soon("every message", pull.recv()).await.unwrap();
        assert_eq!(message, Message::from_frames([&i.to_be_bytes()[..], b"body"]));
    }
    soon("the sender", sending).await.unwrap();
    let statistics = ended(&control, running).await;
    assert_eq!(statistics.frontend.received.messages, 20_000);
    assert_eq!(statistics.backend.sent.bytes, 20_000 * 12);
}

#[tokio::test]
async fn a_capture_sees_everything_first_and_holds_back_too() {
    let capture = Push::builder().send_hwm(1).build();
    let captured = capture.bind(&any_port()).await.unwrap();
    let (control, running, push, exit) = streamer(Some(capture), 1000).await;
    let mut pull = Pull::builder().build();
    pull.connect(&exit).unwrap();
    for i in 0..100 {
        push.send(Message::single(i.to_string())).await.unwrap();
    }
    assert!(tokio::time::timeout(Duration::from_millis(20), pull.recv()).await.is_err(), "nothing passes uncaptured");
    let mut witness = Pull::builder().build();
    witness.connect(&captured).unwrap();
    for i in 0..100 {
        assert_eq!(soon("a copy", witness.recv()).await.unwrap(), Message::single(i.to_string()));
        assert_eq!(soon("the message", pull.recv()).await.unwrap(), Message::single(i.to_string()));
    }
    ended(&control, running).await;
}

#[tokio::test]
async fn pause_resume_and_the_end() {
    let (control, running, push, exit) = streamer(None, 1000).await;
    let mut pull = Pull::builder().build();
    pull.connect(&exit).unwrap();
    push.send(Message::from("one")).await.unwrap();
    assert_eq!(soon("one", pull.recv()).await.unwrap(), Message::from("one"));
    control.pause();
    push.send(Message::from("two")).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(20), pull.recv()).await.is_err());
    assert_eq!(control.statistics().await.unwrap().frontend.received.messages, 1);
    control.resume();
    assert_eq!(soon("two", pull.recv()).await.unwrap(), Message::from("two"));
    assert_eq!(ended(&control, running).await.backend.sent.messages, 2);
}

/// What has been taken is passed on before the proxy ends; a closed socket ends it too.
#[tokio::test]
async fn the_end_is_graceful() {
    let (control, running, push, exit) = streamer(None, 5).await;
    for i in 0..50 {
        push.send(Message::single(i.to_string())).await.unwrap();
    }
    let taken = loop {
        match control.statistics().await.unwrap().frontend.received.messages {
            0 => tokio::task::yield_now().await,
            taken => break taken,
        }
    };
    control.terminate();
    let mut pull = Pull::builder().build();
    pull.connect(&exit).unwrap();
    for i in 0..taken {
        assert_eq!(soon("what was taken", pull.recv()).await.unwrap(), Message::single(i.to_string()));
    }
    let statistics = soon("the end", running).await.unwrap().unwrap();
    assert_eq!(statistics.frontend.received, statistics.backend.sent);

    let (frontend, backend) = (Pair::builder().build(), Push::builder().build());
    let closing = backend.clone();
    let mut frontend = frontend;
    let (mut backend, mut pull) = (backend, Pull::builder().build());
    let refused = proxy(&mut frontend, &mut pull, None, None).await;
    assert_eq!(refused, Err(ProxyError::OneWay { from: SocketType::Pair, to: SocketType::Pull }));
    let entry = pull.bind(&any_port()).await.unwrap();
    let push = Push::builder().build();
    push.connect(&entry).unwrap();
    push.send(Message::from("for a closed socket")).await.unwrap();
    closing.close().await;
    let end = soon("the end", proxy(&mut pull, &mut backend, None, None)).await;
    assert_eq!(end.unwrap().backend.sent.messages, 0);
}

#[tokio::test]
async fn sockets_that_do_not_fit_are_refused() {
    let (mut push, mut publisher, mut sub) = (Push::builder().build(), Pub::builder().build(), Sub::builder().build());
    let mut xpub = XPub::builder().build();
    let refused = proxy(&mut push, &mut publisher, None, None).await;
    assert_eq!(refused, Err(ProxyError::Nothing(SocketType::Push, SocketType::Pub)));
    let refused = proxy(&mut sub, &mut xpub, None, None).await;
    assert_eq!(refused, Err(ProxyError::OneWay { from: SocketType::XPub, to: SocketType::Sub }));
    let (mut pull, mut capture) = (Pull::builder().build(), Pull::builder().build());
    let refused = proxy(&mut pull, &mut push, Some(&mut capture), None).await;
    assert_eq!(refused, Err(ProxyError::OneWay { from: SocketType::Pull, to: SocketType::Pull }));
}
