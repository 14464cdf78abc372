//! Options that only some socket types have: on any other they do not compile.

use super::{Dealer, Pair, Pub, Pull, Push, Req, Router, SocketBuilder, Sub, Verbosity, XPub};
use crate::engine::pipe::Keep;
use crate::pattern::PublishOptions;

/// What the pattern of a socket type has to know.
#[derive(Debug, Clone)]
pub(crate) struct PatternOptions {
    pub(crate) immediate: bool,
    pub(crate) relaxed: bool,
    pub(crate) correlate: bool,
    pub(crate) publish: PublishOptions,
}

/// Most memory for the topics of one subscriber unless set, in bytes.
const MAX_TOPICS: usize = 64 << 20;

impl Default for PatternOptions {
    fn default() -> Self {
        let publish = PublishOptions {
            listens: false,
            verbosity: Verbosity::Changes,
            manual: false,
            nodrop: false,
            invert: false,
            welcome: None,
            max_topics: MAX_TOPICS,
        };
        Self { immediate: false, relaxed: false, correlate: false, publish }
    }
}

mod sealed {
    /// Keeps other crates from adding socket types.
    pub trait Sealed {}
}

impl sealed::Sealed for Dealer {}
impl sealed::Sealed for Pair {}
impl sealed::Sealed for Pub {}
impl sealed::Sealed for Pull {}
impl sealed::Sealed for Push {}
impl sealed::Sealed for Req {}
impl sealed::Sealed for Router {}
impl sealed::Sealed for Sub {}
impl sealed::Sealed for XPub {}

/// Socket types that can keep the newest message only: see [`SocketBuilder::conflate`].
pub trait CanConflate: sealed::Sealed {}

impl CanConflate for Dealer {}
impl CanConflate for Pub {}
impl CanConflate for Pull {}
impl CanConflate for Push {}
impl CanConflate for Sub {}

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

/// Socket types that can turn topics round: see [`SocketBuilder::invert_matching`].
pub trait CanInvert: sealed::Sealed {}

impl CanInvert for Pub {}
impl CanInvert for Sub {}
impl CanInvert for XPub {}

impl<T: CanInvert> SocketBuilder<T> {
    /// Messages are for those who do *not* subscribe to what they begin with (INVERT_MATCHING). Publisher and SUBs must
    /// agree on it. Default: off.
    pub fn invert_matching(mut self, on: bool) -> Self {
        self.pattern.publish.invert = on;
        self
    }
}

/// Socket types that keep a table of topics for others: see [`SocketBuilder::max_topics`].
pub trait LimitsTopics: sealed::Sealed {}

impl LimitsTopics for Pub {}
impl LimitsTopics for XPub {}

impl<T: LimitsTopics> SocketBuilder<T> {
    /// Most memory for the topics of one subscriber, each counting its length and 64 bytes more; past it, its connection
    /// is closed. Default 64 MiB.
    pub fn max_topics(mut self, bytes: usize) -> Self {
        self.pattern.publish.max_topics = bytes;
        self
    }
}
