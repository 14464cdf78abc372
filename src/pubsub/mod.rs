//! The publisher: what clients PUBLISH goes to the subscribers of its topic.
//!
//! Both forms are understood: topic and message, as Python sends them, and topic, headers and message, as the specification
//! has them. Subscribers, any SUB sockets, receive two frames: the topic and the message, byte for byte.

mod core;
mod device;

pub use self::core::{Counters, Publication, Publisher};
pub use device::{Device, DeviceConf, DeviceError, DeviceHandle};
