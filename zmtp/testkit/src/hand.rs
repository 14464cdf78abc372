//! Connections fed by hand.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use zmtp::SocketType;
use zmtp::connection::{Connection, ConnectionConfig, ConnectionError, Event};

use crate::{greeting, ready};

/// A configuration with everything at its default.
pub fn config(socket_type: SocketType) -> ConnectionConfig {
    ConnectionConfig::new(socket_type)
}

/// One connection fed by hand.
pub struct Hand {
    /// The connection.
    pub connection: Connection,
    /// What was fed and not decoded.
    pub input: BytesMut,
}

impl Hand {
    /// A connection that has heard nothing.
    pub fn new(config: ConnectionConfig, now: Instant) -> Self {
        Self { connection: Connection::new(Arc::new(config), now), input: BytesMut::new() }
    }

    /// A connection whose handshake with a peer of that type is complete and whose output so far was taken.
    pub fn open(config: ConnectionConfig, peer: &str, now: Instant) -> Self {
        let mut hand = Self::new(config, now);
        let events = hand.feed(&[greeting(), ready(peer, b"")].concat(), now).unwrap();
        assert!(matches!(events[..], [Event::Ready(_)]));
        hand.take();
        hand
    }

    /// Appends bytes and decodes all there is.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Result<Vec<Event>, ConnectionError> {
        self.input.extend_from_slice(bytes);
        let mut events = Vec::new();
        self.connection.receive(&mut self.input, usize::MAX, now, &mut events).map(|()| events)
    }

    /// What it wants to write, as if written.
    pub fn take(&mut self) -> Vec<u8> {
        let transmit = self.connection.transmit();
        let bytes = transmit.copy_to_bytes(transmit.remaining()).to_vec();
        self.connection.on_flushed();
        bytes
    }
}
