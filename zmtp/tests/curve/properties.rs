//! Properties: any split, any garbage, any length.

use std::time::Instant;

use proptest::prelude::*;
use zmtp::auth::AllowAny;
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp::{Limits, Message};
use zmtp_testkit::curve::{command, frames};
use zmtp_testkit::{Hand, frame, header};

use crate::limits::MAX_COMMAND;
use crate::steps::{called, client_config, greeted, joined, open, said, server_config, welcomed};

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let len = prop_oneof![4 => 0..4usize, 2 => 220..258usize, 1 => 8190..8195usize, 1 => Just(40_000)];
    proptest::collection::vec((len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]), 1..5)
}

/// Feeds bytes in the given pieces, `budget` messages at a time.
fn feed_in_pieces(
    hand: &mut Hand,
    bytes: &[u8],
    cuts: &[usize],
    budget: usize,
) -> (Vec<Event>, Option<ConnectionError>) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let (mut events, mut start) = (Vec::new(), 0);
    for cut in cuts {
        hand.input.extend_from_slice(&bytes[start..cut]);
        start = cut;
        loop {
            let before = events.len();
            match hand.connection.receive(&mut hand.input, budget, Instant::now(), &mut events) {
                Err(error) => return (events, Some(error)),
                Ok(()) if events.len() == before => break,
                Ok(()) => {}
            }
        }
    }
    (events, None)
}

fn hostile_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(u64::MAX),
        Just(1 << 63),
        Just((1 << 63) - 1),
        Just((1 << 63) - 34),
        Just(1 << 44),
        Just(1 << 32),
        8193..=u64::MAX
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Two connections of ours, whatever the pieces their bytes come in: handshake and messages both ways.
    #[test]
    fn any_split_gives_the_same_events(
        messages in proptest::collection::vec(bodies(), 1..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        budget in 1..5usize,
    ) {
        let now = Instant::now();
        let mut ends = [Hand::new(client_config(), now), Hand::new(server_config(AllowAny), now)];
        let mut told = [Vec::new(), Vec::new()];
        for round in 0..8 {
            if round == 5 {
                for end in &mut ends {
                    messages.iter().for_each(|bodies| end.connection.send(&Message::from_frames(bodies)));
                }
            }
            for to in 0..2 {
                let bytes = ends[1 - to].take();
                let (events, error) = feed_in_pieces(&mut ends[to], &bytes, &cuts, budget);
                prop_assert_eq!(error, None);
                told[to].extend(events);
            }
        }
        let expected: Vec<_> = messages.iter().map(|bodies| Event::Message(Message::from_frames(bodies))).collect();
        for events in told {
            prop_assert!(matches!(events[0], Event::Ready(_)));
            prop_assert_eq!(&events[1..], &expected[..]);
        }
    }

    /// Batches encoded beforehand come out the same as messages sent one by one.
    #[test]
    fn batches_are_sealed_like_messages(messages in proptest::collection::vec(bodies(), 1..20)) {
        let (mut hand, client) = open(server_config(AllowAny));
        let mut batch = zmtp::connection::Transmit::new();
        messages.iter().for_each(|bodies| batch.push(&Message::from_frames(bodies)));
        hand.connection.send_batch(&mut batch);
        prop_assert!(batch.is_empty());
        let mut sent = Vec::new();
        loop {
            let more = hand.take();
            if more.is_empty() { break }
            sent.extend(frames(&more));
        }
        let opened = sent.iter().map(|(_, body)| client.opened(body));
        let parts = messages.iter().flat_map(|bodies| {
            bodies.iter().enumerate().map(|(i, body)| (u8::from(i + 1 < bodies.len()), body.clone()))
        });
        prop_assert!(opened.eq(parts.enumerate().map(|(i, (more, body))| (2 + i as u64, more, body))));
    }

    #[test]
    fn garbage_at_any_stage_is_refused_or_waited_on(stage in 0..5usize, bytes: Vec<u8>, as_body: bool) {
        let bytes = if as_body { frame(if stage < 4 { 4 } else { 0 }, &bytes) } else { bytes };
        let hand = match stage {
            0 => greeted(server_config(AllowAny)).0,
            1 => welcomed(server_config(AllowAny)).0,
            2 => called(client_config()).0,
            3 => joined(client_config()).0,
            _ => open(server_config(AllowAny)).0,
        };
        prop_assert!(said(hand, &bytes).is_ok_and(|events| events.is_empty()) || !as_body || !bytes.is_empty());
    }

    /// Commands that begin rightly and go on as they like.
    #[test]
    fn garbage_behind_a_name_is_refused(stage in 0..4usize, tail in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (hand, name) = match stage {
            0 => (greeted(server_config(AllowAny)).0, &b"\x05HELLO"[..]),
            1 => (welcomed(server_config(AllowAny)).0, &b"\x08INITIATE"[..]),
            2 => (called(client_config()).0, &b"\x07WELCOME"[..]),
            _ => (open(server_config(AllowAny)).0, &b"\x07MESSAGE"[..]),
        };
        prop_assert!(said(hand, &command(&[name, &tail].concat())).is_err());
    }

    #[test]
    fn hostile_lengths_are_refused_by_their_header(stage in 0..4usize, size in hostile_size()) {
        let limits = Limits { frame: 8000, message: 8000 };
        let server = || ConnectionConfig { limits, ..server_config(AllowAny) };
        let client = || ConnectionConfig { limits, ..client_config() };
        let (hand, flags) = match stage {
            0 => (greeted(server()).0, 4),
            1 => (welcomed(server()).0, 4),
            2 => (called(client()).0, 4),
            _ => (open(server()).0, 0),
        };
        // In traffic anything up to the largest command may still be one.
        prop_assume!(stage < 3 || size > MAX_COMMAND as u64 + 33);
        prop_assert!(said(hand, &header(flags, size)).is_err());
    }
}
