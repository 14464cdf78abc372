//! [`Publisher`]: which messages are published, without any I/O.

use tracing::{debug, warn};
use zmtp::{Message, RoutingId};

use crate::dispatch::Recent;
use crate::emqp::{Command, Envelope, Publish};

/// Senders whose misbehaviour is remembered, so that it is logged once.
const NOTED: usize = 1024;

/// The logic of the publisher.
#[derive(Debug)]
pub struct Publisher {
    noted: Recent<RoutingId, bool>,
    counters: Counters,
}

impl Default for Publisher {
    fn default() -> Self {
        Self { noted: Recent::new(NOTED), counters: Counters::default() }
    }
}

/// What has happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages published.
    pub published: u64,
    /// Messages that could not be read, or were something else.
    pub dropped: u64,
}

/// What subscribers receive.
pub type Publication = Message;

impl Publisher {
    /// Nothing published yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A client's message: what is to be published for it, if anything.
    pub fn on_message(&mut self, from: &RoutingId, message: &Message) -> Option<Publication> {
        match Envelope::parse(message) {
            Ok(Envelope { command: Command::Publish(Publish { topic, payload, .. }), .. }) => {
                self.counters.published += 1;
                Some(Message::from_frames([topic, payload]))
            }
            // Greetings of a client that takes us for a broker.
            Ok(Envelope { command: Command::Hello | Command::Heartbeat { .. } | Command::Kbye, .. }) => None,
            Ok(other) => {
                self.drop(from, message, &format_args!("{} is not for a publisher", other.command.name().as_str()));
                None
            }
            Err(error) => {
                self.drop(from, message, &error);
                None
            }
        }
    }

    fn drop(&mut self, from: &RoutingId, message: &Message, why: &dyn std::fmt::Display) {
        self.counters.dropped += 1;
        if std::mem::replace(self.noted.entry(from), true) {
            return debug!(%from, %why, "message dropped");
        }
        let frames = message.frame_count();
        warn!(%from, frames, %why, "message dropped; further ones of this peer are logged at debug level");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(publisher: &mut Publisher, frames: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        let from = RoutingId::new("client").unwrap();
        let published = publisher.on_message(&from, &Message::from_frames(frames.iter().copied()))?;
        Some(published.frames().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a25_both_forms_are_published_and_bytes_are_untouched() {
        let mut publisher = Publisher::new();
        let body: &[u8] = b"\xff\x00";
        let expected = Some(vec![b"topic".to_vec(), body.to_vec()]);
        assert_eq!(publish(&mut publisher, &[b"", b"eMQP/1.0", b"PUBLISH", b"1", b"topic", body]), expected);
        assert_eq!(publish(&mut publisher, &[b"", b"eMQP/1.0", b"PUBLISH", b"2", b"topic", b"h:1", body]), expected);
        assert_eq!(publisher.counters(), Counters { published: 2, dropped: 0 });
    }

    #[test]
    fn a25_anything_else_is_dropped_and_counted() {
        let mut publisher = Publisher::new();
        let wrong: [&[&[u8]]; 5] = [
            &[b"", b"eMQP/1.0", b"PUBLISH", b"1", b"topic"],
            &[b"", b"eMQP/1.0", b"PUBLISH", b"1", b"topic", b"", b"x", b"y"],
            &[b"", b"eMQP/1.0"],
            &[b"x"],
            &[b"", b"eMQP/1.0", b"DISCONNECT", b"1"],
        ];
        for frames in wrong {
            assert_eq!(publish(&mut publisher, frames), None);
        }
        assert_eq!(publish(&mut publisher, &[b"", b"eMQP/1.0", b"HELLO", b"1"]), None);
        assert_eq!(publisher.counters(), Counters { published: 0, dropped: 5 });
    }

    #[test]
    fn offenders_are_remembered_within_a_bound() {
        let mut publisher = Publisher::new();
        for n in 0..3000u32 {
            let from = RoutingId::new(n.to_string()).unwrap();
            publisher.on_message(&from, &Message::from_frames(["x"]));
        }
        assert_eq!((publisher.noted.iter().count(), publisher.counters().dropped), (NOTED, 3000));
    }
}
