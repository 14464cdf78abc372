//! REQ and REP turns: whose it is, and the envelope that leads a reply back.

use std::sync::Arc;

use crate::Message;
use crate::engine::pipe::Pipe;
use crate::wire::frame::{self, MORE};

/// Length of a request id on the wire, in bytes.
const ID: usize = 4;

/// A REQ's side: one request at a time, and the reply only from who was asked.
#[derive(Debug)]
pub(crate) struct Asking {
    asked: Option<Arc<Pipe>>,
    /// A new request may take the place of one that has no reply.
    relaxed: bool,
    /// The id of the last request, if requests carry one.
    id: Option<u32>,
}

impl Asking {
    /// `start` comes before the first request's id, if there are to be ids; it should be random.
    pub(crate) fn new(relaxed: bool, start: Option<u32>) -> Self {
        Self { asked: None, relaxed, id: start }
    }

    /// Whether it is our turn to ask.
    pub(crate) fn may_ask(&self) -> bool {
        self.relaxed || self.asked.is_none()
    }

    /// Whether a reply is awaited.
    pub(crate) fn is_waiting(&self) -> bool {
        self.asked.is_some()
    }

    /// What goes before the next request on the wire: its id, if it has one, and the delimiter.
    pub(crate) fn envelope(&self) -> Vec<u8> {
        let mut wire = Vec::with_capacity(ID + 4);
        if let Some(id) = self.id {
            frame::put(&mut wire, MORE, &id.wrapping_add(1).to_le_bytes());
        }
        frame::put(&mut wire, MORE, b"");
        wire
    }

    /// The request went out, to that peer.
    pub(crate) fn on_asked(&mut self, pipe: Arc<Pipe>) {
        self.asked = Some(pipe);
        self.id = self.id.map(|id| id.wrapping_add(1));
    }

    /// The reply without its envelope, if this message is what is awaited.
    pub(crate) fn on_message(&mut self, from: &Arc<Pipe>, message: &Message) -> Option<Message> {
        self.asked.as_ref().filter(|asked| Arc::ptr_eq(asked, from))?;
        let mut frames = message.frames();
        if let Some(id) = self.id {
            frames.next().filter(|frame| *frame == id.to_le_bytes())?;
        }
        frames.next().filter(|frame| frame.is_empty())?;
        let reply = message.skip_frames(if self.id.is_some() { 2 } else { 1 })?;
        self.asked = None;
        Some(reply)
    }
}

/// A REP's side: whom the next reply goes to.
#[derive(Debug, Default)]
pub(crate) struct Answering {
    asker: Option<Arc<Pipe>>,
    /// The wire form of everything up to the delimiter; empty frames behind it belong to the request.
    envelope: Vec<u8>,
}

impl Answering {
    /// Whether a request awaits its reply.
    pub(crate) fn is_asked(&self) -> bool {
        self.asker.is_some()
    }

    /// The request without its envelope, which is kept; `None` for a message that has none or nothing behind it.
    pub(crate) fn on_message(&mut self, from: Arc<Pipe>, message: &Message) -> Option<Message> {
        let delimiter = message.frames().position(<[u8]>::is_empty)?;
        let request = message.skip_frames(delimiter + 1)?;
        let mut left = message.wire_len() - request.wire_len();
        self.envelope.clear();
        for chunk in message.wire() {
            let count = left.min(chunk.len());
            self.envelope.extend_from_slice(&chunk[..count]);
            left -= count;
        }
        self.asker = Some(from);
        Some(request)
    }

    /// Queues the reply where the request came from. If there is nobody or no room any more, it is lost.
    pub(crate) fn reply(&mut self, message: &Message) {
        if let Some(asker) = self.asker.take() {
            // As libzmq: a REP never waits, and an asker that is gone has nothing to expect.
            let _ = asker.push_behind(&self.envelope, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;
    use crate::connection::Transmit;
    use crate::engine::pipe::PipeLimits;

    fn pipe() -> Arc<Pipe> {
        Arc::new(Pipe::new(PipeLimits { send: 10, receive: 10 }))
    }

    fn sent(pipe: &Pipe) -> Vec<u8> {
        let mut out = Transmit::new();
        pipe.take(&mut out);
        out.copy_to_bytes(out.remaining()).to_vec()
    }

    #[test]
    fn a_request_as_libzmq_writes_it() {
        assert_eq!(Asking::new(false, None).envelope(), b"\x01\0");
        let mut asking = Asking::new(true, Some(0xaeb1_41f2));
        assert_eq!(asking.envelope(), b"\x01\x04\xf3\x41\xb1\xae\x01\0");
        asking.on_asked(pipe());
        assert_eq!(asking.envelope(), b"\x01\x04\xf4\x41\xb1\xae\x01\0");
    }

    #[test]
    fn a_reply_comes_from_who_was_asked_and_behind_the_delimiter() {
        let (asked, other) = (pipe(), pipe());
        let reply = Message::from_frames(["", "yes", ""]);
        let mut asking = Asking::new(false, None);
        assert_eq!(asking.on_message(&asked, &reply), None);
        asking.on_asked(asked.clone());
        assert!(!asking.may_ask());
        assert_eq!(asking.on_message(&other, &reply), None);
        for malformed in [Message::from("yes"), Message::from_frames(["yes", ""]), Message::from("")] {
            assert_eq!(asking.on_message(&asked, &malformed), None);
        }
        assert!(asking.is_waiting());
        assert_eq!(asking.on_message(&asked, &reply), Some(Message::from_frames(["yes", ""])));
        assert!(asking.may_ask() && !asking.is_waiting());
        assert_eq!(asking.on_message(&asked, &reply), None);
    }

    #[test]
    fn a_correlated_reply_carries_the_id() {
        let asked = pipe();
        let mut asking = Asking::new(true, Some(u32::MAX));
        asking.on_asked(asked.clone());
        asking.on_asked(asked.clone());
        let reply = |id: u32| Message::from_frames([&id.to_le_bytes()[..], b"", b"yes"]);
        assert_eq!(asking.on_message(&asked, &reply(0)), None, "the abandoned one's");
        assert_eq!(asking.on_message(&asked, &Message::from_frames(["", "yes"])), None);
        assert_eq!(asking.on_message(&asked, &reply(1)), Some(Message::from("yes")));
    }

    /// Pitfall 7: the envelope is everything up to the first empty frame, and goes back as it came.
    #[test]
    fn an_envelope_of_any_length_is_put_back() {
        for ids in [&[][..], &["env1", "env2"], &["a", "b", "c", "d"]] {
            let asker = pipe();
            let mut answering = Answering::default();
            let frames = |body: &[&'static str]| Message::from_frames([ids, &[""], body].concat());
            let request = answering.on_message(asker.clone(), &frames(&["q", "", "r"])).unwrap();
            assert_eq!(request, Message::from_frames(["q", "", "r"]));
            answering.reply(&Message::from_frames(["R", "S"]));
            let mut expected = Vec::new();
            frames(&["R", "S"]).wire().into_iter().for_each(|chunk| expected.extend_from_slice(chunk));
            assert_eq!(sent(&asker), expected);
            answering.reply(&Message::from("nobody asked"));
            assert_eq!(sent(&asker), b"");
        }
    }

    #[test]
    fn no_delimiter_no_request() {
        let mut answering = Answering::default();
        for message in [Message::from("q"), Message::from_frames(["a", "q"]), Message::from_frames(["a", ""])] {
            assert_eq!(answering.on_message(pipe(), &message), None);
            assert!(!answering.is_asked());
        }
    }
}
