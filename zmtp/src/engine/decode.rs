//! Messages out of a queue of our own, for a peer in this process: no check of what was encoded here, and no copy.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::Message;
use crate::connection::{Event, Transmit};
use crate::wire::command::Command;
use crate::wire::frame::{COMMAND, MORE, split_checked};

/// Takes everything out of `queued` and appends what it means to `into`.
pub(super) fn decode(queued: &mut Transmit, into: &mut VecDeque<Event>) {
    let mut chunks = queued.take_chunks();
    while let Some(mut chunk) = chunks.pop_front() {
        while !chunk.is_empty() {
            match next(&mut chunk, &mut chunks) {
                Some(Taken::Event(event)) => into.push_back(event),
                Some(Taken::Nothing) => {}
                // Cannot be: the bytes are our own.
                None => break,
            }
        }
    }
}

enum Taken {
    Event(Event),
    /// A command that only matters on a wire.
    Nothing,
}

/// Takes one message or command off the front of `chunk`, and from `behind` what a message has there.
fn next(chunk: &mut Bytes, behind: &mut VecDeque<Bytes>) -> Option<Taken> {
    let (mut at, mut frames) = (0, 0);
    // What is ahead of the chunk in hand, if the message does not lie in one.
    let mut ahead: Option<Bytes> = None;
    loop {
        let flags = *chunk.get(at)?;
        let (header, len) = split_checked(&chunk[at..])?;
        if flags & COMMAND != 0 {
            let frame = take(chunk, header + len)?;
            return Some(command(&frame.slice(header..)));
        }
        frames += 1;
        let more = flags & MORE != 0;
        let body_is_behind = chunk.len() == at + header && len > 0;
        at += header + if body_is_behind { 0 } else { len };
        if body_is_behind || (more && chunk.len() == at) {
            let next = std::mem::replace(chunk, behind.pop_front()?);
            ahead = Some(joined(ahead, next));
            at = if body_is_behind { len } else { 0 };
        }
        if !more {
            let last = take(chunk, at)?;
            let message = match ahead {
                None => Message::from_wire(last, frames),
                Some(ahead) => Message::from_head_and_tail(ahead, last, frames),
            };
            return Some(Taken::Event(Event::Message(message)));
        }
    }
}

/// A message has two halves. One that was queued behind a prefix may lie in three chunks: the first two become one.
fn joined(ahead: Option<Bytes>, next: Bytes) -> Bytes {
    match ahead {
        None => next,
        Some(ahead) => [ahead, next].concat().into(),
    }
}

fn take(chunk: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= chunk.len()).then(|| chunk.split_to(len))
}

fn command(body: &Bytes) -> Taken {
    match Command::parse(body) {
        Ok(Command::Subscribe(topic)) => Taken::Event(Event::Subscribe(body.slice_ref(topic))),
        Ok(Command::Cancel(topic)) => Taken::Event(Event::Cancel(body.slice_ref(topic))),
        _ => Taken::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::BY_REFERENCE;
    use crate::wire::command;

    /// A message in any of the shapes that building and editing give.
    fn message() -> impl Strategy<Value = Message> {
        let len = prop_oneof![4 => 0..20usize, 1 => 250..260usize, 2 => BY_REFERENCE - 12..BY_REFERENCE + 12];
        let bodies = proptest::collection::vec((len, any::<u8>()).prop_map(|(n, b)| Bytes::from(vec![b; n])), 1..6);
        (bodies, 0..6usize, 0..5usize).prop_map(|(bodies, edit, at)| {
            let message = bodies.into_iter().fold(Message::builder(), |built, body| built.bytes(body)).build();
            match edit {
                0 => message.compact(),
                1 => message.prepend([at as u8; 3]),
                2 => message.prepend(vec![at as u8; BY_REFERENCE]),
                3 => message.skip_frames(at).unwrap_or(message),
                4 => message.replace_frame(at, b"replaced"),
                _ => message,
            }
        })
    }

    proptest! {
        #[test]
        fn what_was_queued_comes_out(messages in proptest::collection::vec((message(), any::<bool>()), 1..12)) {
            let (mut queued, mut expected) = (Transmit::new(), Vec::new());
            for (i, (message, subscribe)) in messages.iter().enumerate() {
                // As `Pipe::push_behind` does.
                let prefix = Message::from_frames([[i as u8; 5]]);
                if i % 3 == 0 {
                    let behind_prefix = message.prepend(prefix.frame(0).unwrap()).compact();
                    queued.run_mut().extend_from_slice(&behind_prefix.wire()[0][..7]);
                }
                queued.push(message);
                let message = if i % 3 == 0 { message.prepend(prefix.frame(0).unwrap()) } else { message.clone() };
                expected.push(Event::Message(message));
                if *subscribe {
                    let topic = vec![i as u8; i * 30];
                    command::put(queued.run_mut(), "SUBSCRIBE", &[&topic]);
                    command::put(queued.run_mut(), "PING", &[b"\0\0"]);
                    expected.push(Event::Subscribe(topic.into()));
                }
            }
            let mut decoded = VecDeque::new();
            decode(&mut queued, &mut decoded);
            prop_assert!(queued.is_empty());
            prop_assert_eq!(Vec::from(decoded), expected);
        }
    }
}
