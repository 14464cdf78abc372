//! EventMQ: a job broker speaking eMQP/1.0 over ZMTP, in pure Rust.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod admin;
pub mod broker;
pub mod cli;
pub mod client;
pub mod clock;
pub mod conf;
pub mod dispatch;
pub mod emqp;
pub mod jobmanager;
pub mod mdp;
pub mod session;
pub mod store;
pub mod worker;
