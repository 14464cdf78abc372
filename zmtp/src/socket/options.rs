//! Options that only some socket types have: on any other they do not compile.

use super::{Dealer, Pair, Pull, Push, Req, Router, SocketBuilder};
use crate::engine::pipe::Keep;

/// What the pattern of a socket type has to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatternOptions {
    pub(crate) immediate: bool,
    pub(crate) relaxed: bool,
    pub(crate) correlate: bool,
}

mod sealed {
    /// Keeps other crates from adding socket types.
    pub trait Sealed {}
}

impl sealed::Sealed for Dealer {}
impl sealed::Sealed for Pair {}
impl sealed::Sealed for Pull {}
impl sealed::Sealed for Push {}
impl sealed::Sealed for Req {}
impl sealed::Sealed for Router {}

/// Socket types that can keep the newest message only: see [`SocketBuilder::conflate`].
pub trait CanConflate: sealed::Sealed {}

impl CanConflate for Dealer {}
impl CanConflate for Pull {}
impl CanConflate for Push {}

impl<T: CanConflate> SocketBuilder<T> {
    /// Keeps the newest message of each queue only, in place of the high-water marks (CONFLATE). Default: off.
    ///
    /// What a connection is writing already is still written. A message of several frames is kept or dropped whole.
    pub fn conflate(mut self, on: bool) -> Self {
        self.options.keep = if on { Keep::Newest } else { Keep::Queued };
        self
    }
}

/// Socket types that may queue for endpoints not yet connected: see [`SocketBuilder::immediate`].
pub trait Immediate: sealed::Sealed {}

impl Immediate for Dealer {}
impl Immediate for Pair {}
impl Immediate for Push {}
impl Immediate for Req {}

impl<T: Immediate> SocketBuilder<T> {
    /// Queues messages only for peers whose handshake is complete (IMMEDIATE); what is queued for a connected endpoint is
    /// lost with its connection. Default: off, an endpoint takes messages from `connect` on and keeps them.
    pub fn immediate(mut self, on: bool) -> Self {
        self.pattern.immediate = on;
        self
    }
}

/// Socket types that can announce themselves to a ROUTER: see [`SocketBuilder::probe_router`].
pub trait ProbesRouters: sealed::Sealed {}

impl ProbesRouters for Dealer {}
impl ProbesRouters for Req {}
impl ProbesRouters for Router {}

impl<T: ProbesRouters> SocketBuilder<T> {
    /// Sends an empty message first on every connection, so that a ROUTER there learns of it (PROBE_ROUTER). Default: off.
    pub fn probe_router(mut self, on: bool) -> Self {
        self.options.probe_router = on;
        self
    }
}
