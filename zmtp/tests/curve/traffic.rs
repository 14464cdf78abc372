//! Counters, flags and commands once the handshake is over.

use std::time::{Duration, Instant};

use zmtp::auth::AllowAny;
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{Heartbeat, Message, SecurityFault, Stage};
use zmtp_testkit::curve::frames;
use zmtp_testkit::{Hand, frame, header, long_frame};

use crate::steps::{client_config, fault, joined, open, said, server_config};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn curve_02_b17_counters_go_on_from_the_handshake_and_only_increase() {
    let try_counters = |counters: &[u64]| {
        let (mut hand, client) = open(server_config(AllowAny));
        let results = counters.iter().map(|at| hand.feed(&frame(0, &client.message(*at, 0, b"x")), Instant::now()));
        results.last().unwrap().map(|events| events.len())
    };
    assert_eq!(try_counters(&[3, 4, 5]), Ok(1));
    assert_eq!(try_counters(&[3, 1000, u64::MAX]), Ok(1));
    let replay = fault(Stage::Message, SecurityFault::Counter);
    for counters in [&[0][..], &[1], &[2], &[3, 3], &[1000, 999], &[u64::MAX, u64::MAX]] {
        assert_eq!(try_counters(counters), Err(replay.clone()), "{counters:?}");
    }
    // The server's READY counts too.
    let (hand, server) = joined(client_config());
    assert_eq!(said(hand, &frame(0, &server.message(1, 0, b"x"))), Err(replay));
}

#[test]
fn curve_04_a_clear_frame_after_the_handshake_is_refused_at_its_first_byte() {
    let clear = Err(fault(Stage::Message, SecurityFault::Clear));
    for start in [
        &zmtp_testkit::command("PING", b"\0\0")[..3],
        &frame(0, b"hello")[..3],
        &frame(1, b"hello")[..2],
        &[&header(0, 1 << 20)[..], b"h"].concat(),
    ] {
        assert_eq!(said(open(server_config(AllowAny)).0, start), clear, "{start:?}");
        assert_eq!(said(joined(client_config()).0, start), clear, "{start:?}");
    }
    // An empty one has no first byte.
    let (hand, _) = open(server_config(AllowAny));
    assert_eq!(said(hand, &frame(0, b"")), Err(fault(Stage::Message, SecurityFault::Length)));
}

#[test]
fn curve_04_flags_are_inside_and_only_there() {
    let hello = Ok(vec![Event::Message(Message::from("hello"))]);
    for outer in [0, 4] {
        let (hand, client) = open(server_config(AllowAny));
        assert_eq!(said(hand, &frame(outer, &client.message(3, 0, b"hello"))), hello);
    }
    let (hand, client) = open(server_config(AllowAny));
    assert_eq!(said(hand, &long_frame(0, &client.message(3, 0, b"hello"))), hello, "needlessly long");
    let (hand, client) = open(server_config(AllowAny));
    let more_outside = said(hand, &frame(1, &client.message(3, 0, b"hello")));
    assert_eq!(more_outside, Err(fault(Stage::Message, SecurityFault::Clear)));
    for inner in [3, 4, 8, 0x80, 0xff] {
        let (hand, client) = open(server_config(AllowAny));
        let result = said(hand, &frame(0, &client.message(3, inner, b"hello")));
        assert_eq!(result, Err(fault(Stage::Message, SecurityFault::Flags)), "{inner}");
    }
}

#[test]
fn curve_04_b17_commands_ride_inside_also_between_parts() {
    let (mut hand, client) = open(server_config(AllowAny));
    let sealed: Vec<u8> = [
        client.message(3, 1, b"one"),
        client.message(4, 2, b"\x04PING\0\0abc"),
        client.message(5, 2, b"\x09SUBSCRIBEtopic"),
        client.message(6, 0, b"two"),
        client.message(7, 2, b"\x06CANCEL"),
        client.message(8, 2, b"\x04JOINwhatever"),
    ]
    .iter()
    .flat_map(|body| frame(0, body))
    .collect();
    let expected = [
        Event::Subscribe("topic".into()),
        Event::Message(Message::from_frames(["one", "two"])),
        Event::Cancel("".into()),
    ];
    assert_eq!(hand.feed(&sealed, Instant::now()), Ok(expected.to_vec()));
    let answers = frames(&hand.take());
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].0, client.opened(&answers[0].1)), (0, (2, 2, b"\x04PONGabc".to_vec())));
    for malformed in [&b""[..], b"\x00", b"\x04PIN", b"\x04PING\0", b"\x05READY"] {
        let (hand, client) = open(server_config(AllowAny));
        assert!(said(hand, &frame(0, &client.message(3, 2, malformed))).is_err(), "{malformed:?}");
    }
}

#[test]
fn curve_04_b17_pings_ride_inside() {
    let heartbeat = Some(Heartbeat { interval: SECOND, timeout: SECOND, ttl: 5 * SECOND });
    let (mut hand, client) = open(ConnectionConfig { heartbeat, ..server_config(AllowAny) });
    hand.connection.on_deadline(Instant::now() + 2 * SECOND).unwrap();
    let sent = frames(&hand.take());
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, client.opened(&sent[0].1)), (0, (2, 2, b"\x04PING\x00\x32".to_vec())));
}

/// Two of ours, idle for a long time by the clock: whoever missed an answer would hang up.
#[test]
fn curve_04_b17_heartbeats_keep_an_idle_connection() {
    let heartbeat = Some(Heartbeat { interval: SECOND, timeout: SECOND / 2, ttl: 2 * SECOND });
    let mut now = Instant::now();
    let mut ends = [
        Hand::new(ConnectionConfig { heartbeat, ..client_config() }, now),
        Hand::new(ConnectionConfig { heartbeat, ..server_config(AllowAny) }, now),
    ];
    let mut written = 0;
    for _ in 0..400 {
        for to in 0..2 {
            let bytes = ends[1 - to].take();
            written += bytes.len();
            ends[to].feed(&bytes, now).unwrap();
        }
        now += SECOND / 4;
        ends.iter_mut().for_each(|end| end.connection.on_deadline(now).unwrap());
    }
    assert!(ends.iter().all(|end| end.connection.is_open()));
    assert!(written > 2 * 90 * 2 * 40, "PINGs and PONGs of some 100 seconds");
    // And silence is noticed.
    let silent = (1..10).map(|i| ends[0].connection.on_deadline(now + i * SECOND)).find(Result::is_err);
    assert_eq!(silent, Some(Err(ConnectionError::Silent)));
}

#[test]
fn curve_04_what_we_send_is_sealed_frame_by_frame() {
    let (mut hand, client) = open(server_config(AllowAny));
    let bodies = [vec![], b"one".to_vec(), vec![b'x'; 222], vec![b'x'; 223], vec![b'y'; 20_000]];
    hand.connection.send(&Message::from_frames(&bodies));
    let sent = frames(&hand.take());
    assert_eq!(sent.iter().map(|(flags, _)| *flags).collect::<Vec<_>>(), [0, 0, 0, 2, 2]);
    for (i, (_, body)) in sent.iter().enumerate() {
        let more = u8::from(i < 4);
        assert_eq!(client.opened(body), (2 + i as u64, more, bodies[i].clone()));
    }
}
