//! Frames to messages and commands, on an open connection.

use bytes::{Buf, Bytes, BytesMut};

use super::{ConnectionError, Limits};
use crate::Message;
use crate::wire::frame::{self, COMMAND, FrameHeader, LONG, MORE};

/// Largest command accepted, in bytes: the longest topic and what goes before it in a SUBSCRIBE.
pub(super) const MAX_COMMAND: u64 = 64 * 1024 + 16;

/// What comes out of the frames.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Message),
    /// The body of a command frame.
    Command(Bytes),
}

/// The message being received.
///
/// Its frames usually lie behind each other at the front of the input and become one slice of it. When a command
/// comes between them, or a frame header is longer than it need be, what was there so far moves to `parts`.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// Bytes at the front of the input that are checked frames of this message.
    scanned: usize,
    /// Frames of this message so far, in both places.
    frames: u32,
    /// The message's beginning, if it had to be copied.
    parts: BytesMut,
    /// Missing bytes of the frame that is arriving.
    wanted: usize,
}

impl Inbound {
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// The next message or command, once all of it is in `input`.
    pub(super) fn next(&mut self, input: &mut BytesMut, limits: Limits) -> Result<Option<Incoming>, ConnectionError> {
        self.wanted = 0;
        loop {
            let Some(header) = FrameHeader::parse(&input[self.scanned..])? else { return Ok(None) };
            let is_command = header.flags & COMMAND != 0;
            let max = if is_command { MAX_COMMAND } else { limits.frame };
            if header.size > max {
                return Err(ConnectionError::FrameTooLarge { size: header.size, max });
            }
            // Neither sum can overflow: sizes are below 2^63, lengths in memory far below.
            let so_far = (self.parts.len() + self.scanned + header.header) as u64;
            if !is_command && header.size + so_far > limits.message {
                return Err(ConnectionError::MessageTooLarge { size: header.size + so_far, max: limits.message });
            }
            let frame_len = header.header + header.size as usize;
            let missing = (self.scanned + frame_len).saturating_sub(input.len());
            if missing > 0 {
                self.wanted = missing;
                return Ok(None);
            }
            if is_command {
                self.set_aside(input);
                let mut frame = input.split_to(frame_len).freeze();
                frame.advance(header.header);
                return Ok(Some(Incoming::Command(frame)));
            }
            if header.is_canonical() {
                self.scanned += frame_len;
            } else {
                self.set_aside(input);
                let body = input.split_to(frame_len);
                frame::put(&mut self.parts, header.flags & !LONG, &body[header.header..]);
            }
            self.frames += 1;
            if header.flags & MORE == 0 {
                return Ok(Some(Incoming::Message(self.finish(input))));
            }
        }
    }

    /// Moves the frames scanned so far out of the input, so that what follows them can be taken off its front.
    fn set_aside(&mut self, input: &mut BytesMut) {
        if self.scanned > 0 {
            self.parts.extend_from_slice(&input.split_to(self.scanned));
            self.scanned = 0;
        }
    }

    fn finish(&mut self, input: &mut BytesMut) -> Message {
        let (scanned, frames) = (std::mem::take(&mut self.scanned), std::mem::take(&mut self.frames));
        if self.parts.is_empty() {
            return Message::split_from(input, scanned, frames);
        }
        self.parts.extend_from_slice(&input.split_to(scanned));
        Message::from_wire(std::mem::take(&mut self.parts).freeze(), frames)
    }
}
