//! The Majordomo protocol: broker, client and worker for MDP/0.1 (RFC 7), MDP/0.2 (RFC 18) and MMI (RFC 8).
//!
//! Clients ask *services* by name; a [`Broker`] gives each request to one of the service's workers and passes the reply
//! on. [`Client`] and [`Worker`] talk to any broker of these protocols, [`Broker`] to any of their peers, both versions at
//! once. [`core::Core`] is the broker's logic without I/O, for tests and for transports of one's own.
//!
//! | setting | default |
//! |---|---|
//! | heartbeat interval of broker and workers | 2.5 s |
//! | liveness: silent intervals before a peer counts as dead | 3, so 7.5 s |
//! | pause before a worker tries a dead broker again | 2.5 s |
//! | a client's timeout and attempts | 2.5 s, 3 times |
//! | longest wait of a request for a worker | 7.5 s |
//!
//! A request is given to up to three workers if they are lost while they have it, so workers must bear a request that
//! comes again; never once a part of its reply was passed on.

mod broker;
mod client;
pub mod core;
mod wire;
mod worker;

pub use broker::{Broker, BrokerBuilder, BrokerError, BrokerHandle, Status};
pub use client::{Client, ClientBuilder, RequestError, Response, ResponseError};
pub use wire::{
    ClientReply, ClientRequest, Delimiter, FromWorker, MAX_SERVICE, ParseError, Part, ServiceName, ServiceNameError,
    ToBroker, ToWorker, Version,
};
pub use worker::{ReplyError, Request, Worker, WorkerBuilder, WorkerError, WorkerHandle};
