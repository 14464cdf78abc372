//! The only two times a core ever sees, and waiting for one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use tokio::time::Sleep;

/// A moment, read once by the shell and handed to a core: cores own no clock.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Monotonic time: for every timer and age.
    pub mono: Instant,
    /// Wall-clock time: for what people and other programs read (heartbeats, records).
    pub wall: SystemTime,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        Self { mono: Instant::now(), wall: SystemTime::now() }
    }
}

/// Wakes a shell at its core's deadline.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<(Pin<Box<Sleep>>, Instant)>);

impl Alarm {
    /// Ready once `due` has passed; never without one. One that moved away leaves the timer alone: it goes off early, and
    /// a Tick too many does nothing.
    pub fn poll(&mut self, due: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        let (sleep, at) = self.0.get_or_insert_with(|| (Box::pin(tokio::time::sleep_until(due.into())), due));
        if due < *at {
            sleep.as_mut().reset(due.into());
            *at = due;
        }
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.0 = None;
        Poll::Ready(())
    }
}

/// Until a deadline; for ever without one.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
