//! A peer's session with an eMQP broker: what workers and schedulers have in common.
//!
//! [`Session`] is a pure state machine: it registers (INFORM, repeated until it is acknowledged), keeps heartbeats going
//! both ways, gives a silent broker up and goes to the next address under a new identity, obeys DISCONNECT and says KBYE
//! at the end. [`Wire`] is the DEALER socket it is carried out on. Whatever else the broker sends is delivered to the
//! owner, whose loop has this shape:
//!
//! ```no_run
//! # async fn example(config: eventmq::session::SessionConfig) {
//! use eventmq::clock::Now;
//! use eventmq::session::{Effect, Input, Session, Wire, WireOptions};
//!
//! let mut session = Session::new(config, 42);
//! let mut wire = Wire::new(WireOptions::default());
//! let mut effects = Vec::new();
//! session.step(Now::read(), Input::Start, &mut effects);
//! loop {
//!     for effect in effects.drain(..) {
//!         match effect {
//!             Effect::Open { endpoint, identity } => wire.open(&endpoint, identity),
//!             Effect::Send(message) => wire.send(message),
//!             Effect::Registered => { /* the broker listens: send READYs */ }
//!             Effect::Lost(_) => { /* keep what is to be sent until the next Registered */ }
//!             Effect::Deliver(message) => println!("{message:?}"),
//!             Effect::End => return,
//!         }
//!     }
//!     let deadline = session.deadline();
//!     let input = tokio::select! {
//!         input = wire.next() => input,
//!         () = async { tokio::time::sleep_until(deadline.unwrap().into()).await }, if deadline.is_some() => Input::Tick,
//!     };
//!     session.step(Now::read(), input, &mut effects);
//! }
//! # }
//! ```

mod config;
mod core;
mod events;
mod wire;

pub use self::config::{Heartbeats, OnDisconnect, SessionConfig};
pub use self::core::Session;
pub use self::events::{Effect, Input, Link, LostReason};
pub use self::wire::{Wire, WireOptions};
