//! EventMQ: a job broker speaking eMQP/1.0 over ZMTP, in pure Rust.

pub mod admin;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod conf;
pub mod emqp;
pub mod store;
