//! REQ and REP over real loopback sockets: turns, envelopes, and what a peer may do without disturbing them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tokio::time::timeout;
use zmtp::{
    Dealer, Endpoint, Heartbeat, LockstepError, Message, MonitorEvent, Reconnect, Rep, Req, Router, SendFailure,
};
use zmtp_testkit::{Raw, any_port, command, dead_port, frame, soon, until, wire};

async fn bound_rep() -> (Rep, Endpoint) {
    let rep = Rep::builder().build();
    let endpoint = rep.bind(&any_port()).await.unwrap();
    (rep, endpoint)
}

async fn bound_req() -> (Req, Endpoint) {
    let req = Req::builder().build();
    let endpoint = req.bind(&any_port()).await.unwrap();
    (req, endpoint)
}

async fn round_trip(req: &mut Req, rep: &mut Rep, text: &str) {
    soon("a request", req.send(Message::single(text))).await.unwrap();
    assert_eq!(soon("a request", rep.recv()).await.unwrap(), Message::single(text));
    rep.send(Message::from_frames([text, "", "too"])).unwrap();
    assert_eq!(soon("a reply", req.recv()).await.unwrap(), Message::from_frames([text, "", "too"]));
}

#[tokio::test]
async fn requests_and_replies_whoever_binds() {
    let (mut rep, endpoint) = bound_rep().await;
    let mut req = Req::builder().build();
    req.connect(&endpoint).unwrap();
    for i in 0..100 {
        round_trip(&mut req, &mut rep, &i.to_string()).await;
    }
    let (mut req, endpoint) = bound_req().await;
    let mut rep = Rep::builder().build();
    rep.connect(&endpoint).unwrap();
    round_trip(&mut req, &mut rep, "the other way").await;
}

#[tokio::test]
async fn turns_are_kept() {
    let (mut rep, endpoint) = bound_rep().await;
    let mut req = Req::builder().build();
    req.connect(&endpoint).unwrap();
    assert_eq!(req.recv().await, Err(LockstepError::OutOfTurn));
    assert_eq!(rep.send(Message::from("unasked")).unwrap_err().reason, SendFailure::OutOfTurn);
    req.send(Message::from("one")).await.unwrap();
    let refused = req.send(Message::from("two")).await.unwrap_err();
    assert_eq!((refused.reason, refused.message), (SendFailure::OutOfTurn, Message::from("two")));
    soon("the request", rep.recv()).await.unwrap();
    assert_eq!(rep.recv().await, Err(LockstepError::OutOfTurn));
    rep.send(Message::from("reply")).unwrap();
    assert_eq!(rep.send(Message::from("twice")).unwrap_err().reason, SendFailure::OutOfTurn);
    assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::from("reply"));
    round_trip(&mut req, &mut rep, "and on").await;
}

#[tokio::test]
async fn requests_go_to_the_peers_in_turn_and_only_who_was_asked_may_answer() {
    let (mut req, endpoint) = bound_req().await;
    let mut monitor = req.monitor();
    let mut peers = Vec::new();
    for _ in 0..2 {
        peers.push(Raw::shaken(&endpoint, "REP", b"").await);
        until(&mut monitor, "a handshake", |e| matches!(e, MonitorEvent::HandshakeSucceeded { .. }).then_some(()))
            .await;
    }
    for turn in 0..4 {
        let (asked, other) = (turn % 2, 1 - turn % 2);
        req.send(Message::from("q")).await.unwrap();
        assert_eq!(peers[asked].read(5).await, wire(&["", "q"]));
        peers[other].send(&wire(&["", "not asked"])).await;
        peers[other].send(&command("PING", b"\0\0")).await;
        assert_eq!(peers[other].read_frame().await.1, b"\x04PONG");
        // Malformed replies are skipped and do not end the connection.
        peers[asked]
            .send(&[wire(&["no delimiter"]), wire(&["no", ""]), wire(&[""]), wire(&["", "a", ""])].concat())
            .await;
        assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::from_frames(["a", ""]));
        // What comes after the reply is not the reply to the next request.
        peers[asked].send(&wire(&["", "again"])).await;
        peers[asked].send(&command("PING", b"\0\0")).await;
        assert_eq!(peers[asked].read_frame().await.1, b"\x04PONG");
    }
}

/// Section 8: the wire of a correlated REQ, and late replies to requests given up.
#[tokio::test]
async fn relaxed_and_correlated() {
    let req = Req::builder().relaxed(true).correlate(true).build();
    let (mut req, endpoint) = (req, any_port());
    let endpoint = req.bind(&endpoint).await.unwrap();
    let mut raw = Raw::shaken(&endpoint, "ROUTER", b"").await;
    soon("room", req.send(Message::from("one"))).await.unwrap();
    req.send(Message::from("two")).await.unwrap();
    let mut ids = Vec::new();
    for body in ["one", "two"] {
        let (flags, id) = raw.read_frame().await;
        assert_eq!((flags, id.len()), (1, 4));
        assert_eq!(raw.read_frame().await, (1, vec![]));
        assert_eq!(raw.read_frame().await, (0, body.as_bytes().to_vec()));
        ids.push(id);
    }
    let number = |id: &[u8]| u32::from_le_bytes(id.try_into().unwrap());
    assert_eq!(number(&ids[0]).wrapping_add(1), number(&ids[1]));
    raw.send(&wire(&[&ids[0][..], b"", b"late"])).await;
    raw.send(&wire(&[&b""[..], b"no id"])).await;
    raw.send(&wire(&[&ids[1][..], b"", b"yes"])).await;
    assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::from("yes"));
    assert_eq!(req.recv().await, Err(LockstepError::OutOfTurn));
}

#[tokio::test]
async fn a_relaxed_req_asks_the_next_peer_when_one_is_silent() {
    let mut req = Req::builder().relaxed(true).correlate(true).build();
    let endpoint = req.bind(&any_port()).await.unwrap();
    let mut monitor = req.monitor();
    let mut silent = Raw::shaken(&endpoint, "REP", b"").await;
    until(&mut monitor, "a handshake", |e| matches!(e, MonitorEvent::HandshakeSucceeded { .. }).then_some(())).await;
    let mut rep = Rep::builder().build();
    rep.connect(&endpoint).unwrap();
    until(&mut monitor, "a handshake", |e| matches!(e, MonitorEvent::HandshakeSucceeded { .. }).then_some(())).await;
    req.send(Message::from("q")).await.unwrap();
    silent.read(4).await;
    drop(silent);
    // Nothing to wait for: the peer is gone, and the request with it.
    assert!(timeout(Duration::from_millis(50), req.recv()).await.is_err());
    round_trip(&mut req, &mut rep, "and the next").await;
}

/// Section 8: a request is not sent again, but a reply on the endpoint's next connection is the reply.
#[tokio::test]
async fn a_reply_after_a_reconnect_counts() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let quick = Reconnect { first: Duration::from_millis(10), longest: Duration::from_millis(20) };
    let mut req = Req::builder().reconnect(quick).build();
    req.connect(&Endpoint::from(listener.local_addr().unwrap())).unwrap();
    req.send(Message::from("q")).await.unwrap();
    let mut first = Raw(soon("a connection", listener.accept()).await.unwrap().0);
    first.shake("REP", b"").await;
    assert_eq!(first.read(5).await, wire(&["", "q"]));
    drop(first);
    let mut second = Raw(soon("a connection", listener.accept()).await.unwrap().0);
    second.shake("REP", b"").await;
    second.send(&wire(&["", "a"])).await;
    assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::from("a"));
}

/// Section 9: without peers, and with a full queue.
#[tokio::test]
async fn section_9_a_req_blocks() {
    let mut req = Req::builder().relaxed(true).send_hwm(2).build();
    assert_eq!(req.try_send(Message::from("nobody")).unwrap_err().reason, SendFailure::Full);
    assert_eq!(req.recv().await, Err(LockstepError::OutOfTurn));
    req.connect(&dead_port()).unwrap();
    for _ in 0..2 {
        req.try_send(Message::from("waits")).unwrap();
    }
    assert_eq!(req.try_send(Message::from("full")).unwrap_err().reason, SendFailure::Full);
}

/// Pitfall 14: PINGs, before, between and amid the frames of a reply, are nothing to REQ and REP.
#[tokio::test]
async fn pitfall_14_pings_do_not_disturb_turns() {
    let ping = command("PING", b"\0\0");
    let (mut req, endpoint) = bound_req().await;
    let mut raw = Raw::shaken(&endpoint, "REP", b"").await;
    for _ in 0..3 {
        raw.send(&ping).await;
        assert_eq!(raw.read_frame().await.1, b"\x04PONG");
        soon("room", req.send(Message::from("q"))).await.unwrap();
        assert_eq!(raw.read(5).await, wire(&["", "q"]));
        raw.send(&[&ping[..], &frame(1, b""), &ping, &frame(1, b"a"), &ping, &frame(0, b"b"), &ping].concat()).await;
        assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::from_frames(["a", "b"]));
        assert_eq!(raw.read_frame().await.1, b"\x04PONG");
    }

    let heartbeat =
        Heartbeat { interval: Duration::from_millis(2), timeout: Duration::from_secs(20), ttl: Duration::ZERO };
    let mut rep = Rep::builder().heartbeat(heartbeat).build();
    let endpoint = rep.bind(&any_port()).await.unwrap();
    let mut req = Req::builder().heartbeat(heartbeat).build();
    req.connect(&endpoint).unwrap();
    for i in 0..20 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        round_trip(&mut req, &mut rep, &i.to_string()).await;
    }
}

/// Pitfall 7: an envelope that a ROUTER or proxies made, of any number of ids.
#[tokio::test]
async fn pitfall_07_rep_keeps_the_whole_envelope() {
    let (mut rep, endpoint) = bound_rep().await;
    let mut raw = Raw::shaken(&endpoint, "DEALER", b"").await;
    // Messages without a delimiter, or with nothing behind it, are dropped without effect.
    raw.send(&[wire(&["q"]), wire(&["a", "b"]), wire(&["a", ""]), wire(&[""])].concat()).await;
    raw.send(&wire(&["env1", "env2", "", "q", "", "r"])).await;
    assert_eq!(soon("the request", rep.recv()).await.unwrap(), Message::from_frames(["q", "", "r"]));
    rep.send(Message::from("R")).unwrap();
    let expected = wire(&["env1", "env2", "", "R"]);
    assert_eq!(raw.read(expected.len()).await, expected);

    let mut dealer = Dealer::builder().build();
    dealer.connect(&endpoint).unwrap();
    dealer.send(Message::from_frames(["", "q"])).await.unwrap();
    assert_eq!(soon("the request", rep.recv()).await.unwrap(), Message::from("q"));
    rep.send(Message::from_frames(["", "R"])).unwrap();
    assert_eq!(soon("the reply", dealer.recv()).await.unwrap(), Message::from_frames(["", "", "R"]));
}

/// Section 8: a reply to who is gone is dropped quietly; so is one to who takes nothing.
#[tokio::test]
async fn replies_never_block() {
    let (mut rep, endpoint) = bound_rep().await;
    let mut monitor = rep.monitor();
    let mut raw = Raw::shaken(&endpoint, "REQ", b"").await;
    raw.send(&wire(&["", "q"])).await;
    soon("the request", rep.recv()).await.unwrap();
    drop(raw);
    until(&mut monitor, "the loss", |event| matches!(event, MonitorEvent::Disconnected { .. }).then_some(())).await;
    rep.send(Message::from("to nobody")).unwrap();

    let mut deaf = Raw::shaken(&endpoint, "DEALER", b"").await;
    let big = Message::single(vec![b'x'; 1 << 20]);
    for _ in 0..1100 {
        deaf.send(&wire(&["", "q"])).await;
        soon("the request", rep.recv()).await.unwrap();
        rep.send(big.clone()).unwrap();
    }
    let mut req = Req::builder().build();
    req.connect(&endpoint).unwrap();
    round_trip(&mut req, &mut rep, "others are served").await;
}

/// Pitfall 8: a `recv` given up keeps the turn, and loses no reply.
#[tokio::test]
async fn pitfall_08_a_recv_given_up_changes_nothing() {
    let (mut rep, endpoint) = bound_rep().await;
    let mut req = Req::builder().build();
    req.connect(&endpoint).unwrap();
    for i in 0..200 {
        assert!(timeout(Duration::ZERO, rep.recv()).await.is_err());
        req.send(Message::single(i.to_string())).await.unwrap();
        assert!(timeout(Duration::ZERO, req.recv()).await.is_err());
        assert_eq!(soon("the request", rep.recv()).await.unwrap(), Message::single(i.to_string()));
        assert!(timeout(Duration::ZERO, req.recv()).await.is_err());
        rep.send(Message::single(i.to_string())).unwrap();
        assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::single(i.to_string()));
    }
}

/// PROBE_ROUTER: a ROUTER learns of a REQ before it asks.
#[tokio::test]
async fn a_probe_comes_first() {
    let mut router = Router::builder().build();
    let endpoint = router.bind(&any_port()).await.unwrap();
    let mut req = Req::builder().routing_id(zmtp_testkit::id("asker")).probe_router(true).build();
    req.connect(&endpoint).unwrap();
    req.send(Message::from("q")).await.unwrap();
    let (peer, probe) = soon("the probe", router.recv()).await.unwrap();
    assert_eq!((&peer, probe), (&zmtp_testkit::id("asker"), Message::from("")));
    let (_, request) = soon("the request", router.recv()).await.unwrap();
    assert_eq!(request, Message::from_frames(["", "q"]));
    router.send(&peer, Message::from_frames(["", "a"])).await.unwrap();
    assert_eq!(soon("the reply", req.recv()).await.unwrap(), Message::from("a"));
}
