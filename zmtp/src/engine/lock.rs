//! [`Lock`]: a mutex held for a lookup, never across an await.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `std` mutex that ignores poisoning: what is behind it is consistent between any two statements, and a panic in
/// one link must not take the socket down.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
