//! eMQP/1.0: the messages EventMQ's programs exchange.

mod names;

pub use names::{QueueName, QueueWeight};
