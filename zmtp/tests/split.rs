//! Properties of what arrives: any split gives the same, garbage is an error, lengths are checked before they are
//! believed, and what is buffered stays bounded.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Instant;

use proptest::collection::vec;
use proptest::prelude::*;
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{Limits, Message, SocketType};
use zmtp_testkit::{Hand, command, config, frame, greeting, header, long_frame, property, ready};

const LIMITS: Limits = Limits { frame: 1000, message: 3000 };
/// Largest command accepted.
const MAX_COMMAND: u64 = 64 * 1024 + 16;

fn limited() -> ConnectionConfig {
    ConnectionConfig { limits: LIMITS, ..config(SocketType::Router) }
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    (prop_oneof![0..6usize, 250..260usize, Just(900)], any::<u8>()).prop_map(|(len, byte)| vec![byte; len])
}

fn a_command() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..16).prop_map(|context| command("PING", &[&[0, 0], &context[..]].concat())),
        Just(command("PONG", b"whatever")),
        vec(any::<u8>(), 0..300).prop_map(|topic| command("SUBSCRIBE", &topic)),
        Just(command("CANCEL", b"a")),
        Just(command("X-NEW-COMMAND", b"ignored")),
    ]
}

/// A message's bytes: frames in short or needlessly long form, with commands between them.
fn a_message() -> impl Strategy<Value = Vec<u8>> {
    let part = (body(), any::<bool>(), proptest::option::weighted(0.2, a_command()));
    vec(part, 1..4).prop_map(|parts| {
        let last = parts.len() - 1;
        let mut bytes = Vec::new();
        for (i, (body, long, command)) in parts.into_iter().enumerate() {
            bytes.extend(command.into_iter().flatten());
            let more = u8::from(i < last);
            bytes.extend(if long { long_frame(more, &body) } else { frame(more, &body) });
        }
        bytes
    })
}

/// A whole conversation, now and then with something wrong in it.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let wrong = proptest::option::weighted(0.3, vec(any::<u8>(), 1..12));
    (vec(prop_oneof![4 => a_message(), 1 => a_command()], 0..6), wrong).prop_map(|(items, wrong)| {
        [greeting(), ready("DEALER", b"w"), items.concat(), wrong.unwrap_or_default()].concat()
    })
}

/// Feeds bytes in the given pieces, `budget` messages at a time; gives events, error and output.
fn run(bytes: &[u8], cuts: &[usize], budget: usize) -> (Vec<Event>, Option<ConnectionError>, Vec<u8>) {
    let now = Instant::now();
    let mut hand = Hand::new(limited(), now);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let (mut events, mut start, mut error) = (Vec::new(), 0, None);
    'pieces: for cut in cuts {
        hand.input.extend_from_slice(&bytes[start..cut]);
        start = cut;
        loop {
            let before = events.len();
            if let Err(wrong) = hand.connection.receive(&mut hand.input, budget, now, &mut events) {
                error = Some(wrong);
                break 'pieces;
            }
            if events.len() == before {
                break;
            }
        }
    }
    (events, error, hand.take())
}

/// Sizes that overflow something somewhere, or are just over the edge.
fn hostile_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(u64::MAX),
        Just(u64::MAX - 8),
        Just(1 << 63),
        Just((1 << 63) - 1),
        Just(1 << 44),
        Just(1 << 40),
        Just(1 << 32),
        Just(MAX_COMMAND + 1),
        (MAX_COMMAND + 1..=u64::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_split_gives_the_same(
        bytes in conversation(),
        cuts in vec(any::<usize>(), 0..12),
        budget in prop_oneof![Just(1usize), Just(2), Just(usize::MAX)],
    ) {
        let whole = run(&bytes, &[], usize::MAX);
        prop_assert_eq!(run(&bytes, &cuts, budget), whole);
    }

    #[test]
    fn messages_round_trip(
        messages in vec(vec(prop_oneof![4 => body(), 1 => Just(vec![7; 20_000])], 1..5), 1..8),
        step in prop_oneof![1..40usize, 100..20_000usize],
    ) {
        let now = Instant::now();
        let mut from = Hand::open(config(SocketType::Dealer), "ROUTER", now);
        let mut to = Hand::open(config(SocketType::Router), "DEALER", now);
        let messages: Vec<Message> = messages.iter().map(Message::from_frames).collect();
        messages.iter().for_each(|message| from.connection.send(message));
        let bytes = from.take();
        let mut events = Vec::new();
        for piece in bytes.chunks(step) {
            events.extend(to.feed(piece, now).unwrap());
        }
        prop_assert_eq!(events, messages.into_iter().map(Event::Message).collect::<Vec<_>>());
        prop_assert!(to.input.is_empty());
    }

    /// B02, B05: whatever it is, it is an error or it waits for more.
    #[test]
    fn b05_garbage_never_panics(
        start in 0..4usize,
        garbage in vec(prop_oneof![2 => 0..8u8, 1 => any::<u8>(), 1 => Just(0xff)], 0..300),
        cuts in vec(any::<usize>(), 0..6),
    ) {
        let prefix = [vec![], greeting(), [greeting(), vec![4]].concat(), [greeting(), ready("DEALER", b"")].concat()];
        run(&[&prefix[start][..], &garbage].concat(), &cuts, 3);
    }

    /// B02: properties cut anywhere, with any lie about a length.
    #[test]
    fn b02_lying_properties_never_panic(
        name_len in any::<u8>(),
        value_len in prop_oneof![Just(u32::MAX), Just(200), Just(1 << 31), any::<u32>()],
        rest in vec(any::<u8>(), 0..40),
        cut in any::<usize>(),
    ) {
        let mut list = [property("Socket-Type", b"DEALER"), vec![name_len], b"Identity".to_vec()].concat();
        list.extend_from_slice(&value_len.to_be_bytes());
        list.extend_from_slice(&rest);
        list.truncate(cut % (list.len() + 1));
        let mut hand = Hand::new(limited(), Instant::now());
        let _ = hand.feed(&[greeting(), command("READY", &list)].concat(), Instant::now());
    }

    /// B03: refused by the header alone, before anything is reserved.
    #[test]
    fn b03_hostile_lengths_are_refused_by_their_header(
        size in hostile_size(),
        flags in prop_oneof![Just(0u8), Just(1), Just(4)],
        open in any::<bool>(),
        before in vec(body(), 0..2),
    ) {
        let now = Instant::now();
        let mut hand = Hand::new(limited(), now);
        hand.feed(&greeting(), now).unwrap();
        if open {
            hand.feed(&ready("DEALER", b""), now).unwrap();
            for body in &before {
                hand.feed(&frame(1, body), now).unwrap();
            }
        }
        let before = hand.input.capacity();
        let result = hand.feed(&header(flags, size), now);
        prop_assert!(result.is_err(), "{:?}", result);
        prop_assert!(hand.input.capacity() <= 2 * before + 4096);
        // And nothing revives it.
        prop_assert_eq!(hand.feed(&frame(0, b"more"), now), Ok(vec![]));
        prop_assert_eq!(hand.connection.deadline(), None);
    }

    /// B03: the largest frame passes, one byte more does not; the same for whole messages.
    #[test]
    fn b03_the_limits_are_exact(over in any::<bool>(), in_frames in any::<bool>()) {
        let now = Instant::now();
        let mut hand = Hand::open(limited(), "DEALER", now);
        let extra = usize::from(over);
        let (bytes, error) = if in_frames {
            // Three frames of 9 + n bytes: 2 x (9 + 991) + 9 + 991 = 3000.
            let bytes = [frame(1, &[7; 991]), frame(1, &[7; 991]), frame(0, &vec![7; 991 + extra])].concat();
            (bytes, ConnectionError::MessageTooLarge { size: 3001, max: 3000 })
        } else {
            (frame(0, &vec![7; 1000 + extra]), ConnectionError::FrameTooLarge { size: 1001, max: 1000 })
        };
        let result = hand.feed(&bytes, now);
        match over {
            true => prop_assert_eq!(result, Err(error)),
            false => prop_assert!(matches!(result.as_deref(), Ok([Event::Message(_)])), "{:?}", result),
        }
    }

    /// What waits in the input is never more than one message and what came last.
    #[test]
    fn buffered_bytes_stay_bounded(items in vec(a_message(), 1..30), step in 1..2000usize) {
        let now = Instant::now();
        let mut hand = Hand::open(limited(), "DEALER", now);
        for piece in items.concat().chunks(step) {
            if hand.feed(piece, now).is_err() {
                break;
            }
            prop_assert!(hand.input.len() as u64 <= LIMITS.message + 9);
            prop_assert!(hand.connection.wanted() as u64 <= LIMITS.frame);
        }
    }
}

/// B03: a million empty frames with MORE, in constant work per frame.
#[test]
fn b03_endless_empty_frames_meet_the_message_limit() {
    let now = Instant::now();
    let mut hand = Hand::open(limited(), "DEALER", now);
    let mut fed = 0;
    let error = loop {
        fed += 100;
        match hand.feed(&[1, 0].repeat(100), now) {
            Ok(events) => assert_eq!(events, []),
            Err(error) => break error,
        }
    };
    assert_eq!(error, ConnectionError::MessageTooLarge { size: 3002, max: 3000 });
    assert!(fed < 2000);
}

/// B02: the list of the case, each closed.
#[test]
fn b02_malformed_ready_commands_are_refused() {
    let kind = property("Socket-Type", b"DEALER");
    let name_too_long = [&kind[..], b"\xffabc"].concat();
    let value_200 = [&kind[..], b"\x01a\x00\x00\x00\xc8abc"].concat();
    let value_max = [&kind[..], b"\x01a\xff\xff\xff\xffabc"].concat();
    let stray = [&kind[..], b"\x00"].concat();
    let many = property("a", b"b").repeat(10_000);
    let cases = [
        command("READY", &name_too_long),
        command("READY", &value_200),
        command("READY", &value_max),
        command("READY", &stray),
        command("READY", &many),
        frame(4, b""),
        frame(4, b"\xffREADY"),
        frame(4, b"\x05READ"),
        frame(0, b"\x05READY"),
        command("HELLO", b""),
        command("READY", &property("Identity", &[b'x'; 256])),
        command("READY", &property("Identity", b"\x00abc")),
        [command("READY", &kind), command("READY", &kind)].concat(),
        [command("READY", &kind), command("ERROR", b"\x03400")].concat(),
        [command("READY", &kind), command("PING", b"\x00")].concat(),
        [command("READY", &kind), frame(4, b"")].concat(),
    ];
    for case in cases {
        let mut hand = Hand::new(limited(), Instant::now());
        let result = hand.feed(&[greeting(), case.clone()].concat(), Instant::now());
        assert!(result.is_err(), "{:?}: {result:?}", &case[..case.len().min(40)]);
    }
}
