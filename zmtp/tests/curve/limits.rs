//! What is inside counts, and is counted before it is there.

use std::time::Instant;

use zmtp::Limits;
use zmtp::auth::AllowAny;
use zmtp::connection::{ConnectionConfig, ConnectionError, Event};
use zmtp_testkit::curve::Client;
use zmtp_testkit::{frame, header};

use crate::steps::{open, said, server_config};

/// Largest command accepted.
pub const MAX_COMMAND: usize = 64 * 1024 + 16;

/// Pitfall 17 and B03: the limits are those of frames in clear, and are checked before the bytes are there.
#[test]
fn pitfall_17_b03_limits_count_what_is_inside() {
    let limits = Limits { frame: 100_000, message: 250_000 };
    let limited = || open(ConnectionConfig { limits, ..server_config(AllowAny) });
    let sealed = |client: &Client, counter, flags, len| frame(0, &client.message(counter, flags, &vec![b'x'; len]));

    let (mut hand, client) = limited();
    assert_eq!(hand.feed(&sealed(&client, 3, 0, 100_000), Instant::now()).unwrap().len(), 1);
    let too_large = Err(ConnectionError::FrameTooLarge { size: 100_001, max: 100_000 });
    assert_eq!(hand.feed(&header(0, 100_034), Instant::now()), too_large);

    let (mut hand, client) = limited();
    hand.feed(&sealed(&client, 3, 1, 100_000), Instant::now()).unwrap();
    hand.feed(&sealed(&client, 4, 1, 100_000), Instant::now()).unwrap();
    let result = hand.feed(&header(0, 33 + 70_000), Instant::now());
    assert_eq!(result, Err(ConnectionError::MessageTooLarge { size: 270_027, max: 250_000 }));

    // Small frames add up too, and so do empty ones.
    let (mut hand, client) =
        open(ConnectionConfig { limits: Limits { frame: 100, message: 1000 }, ..server_config(AllowAny) });
    let refused = (3..).map(|counter| hand.feed(&sealed(&client, counter, 1, 0), Instant::now())).find(Result::is_err);
    assert_eq!(refused, Some(Err(ConnectionError::MessageTooLarge { size: 1002, max: 1000 })));
}

#[test]
fn curve_10_commands_have_their_own_limit() {
    let topic = |len: usize| [&b"\x09SUBSCRIBE"[..], &vec![b't'; len - 10]].concat();
    let tight = || open(ConnectionConfig { limits: Limits { frame: 10, message: 20 }, ..server_config(AllowAny) });
    let (hand, client) = tight();
    let events = said(hand, &frame(0, &client.message(3, 2, &topic(MAX_COMMAND)))).unwrap();
    assert!(matches!(&events[..], [Event::Subscribe(topic)] if topic.len() == MAX_COMMAND - 10));
    let (hand, client) = open(server_config(AllowAny));
    let result = said(hand, &frame(0, &client.message(3, 2, &topic(MAX_COMMAND + 1))));
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: MAX_COMMAND as u64 + 1, max: MAX_COMMAND as u64 }));
    let (hand, client) = tight();
    let result = said(hand, &frame(0, &client.message(3, 0, &[0; 11])));
    assert_eq!(result, Err(ConnectionError::FrameTooLarge { size: 11, max: 10 }));
}
