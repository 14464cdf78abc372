//! [`BufferPool`]: read buffers shared by the links of a socket.

use bytes::BytesMut;

use super::lock::Lock;

/// Size of a fresh read buffer, in bytes.
const FRESH: usize = 128 * 1024;
/// Most idle buffers kept.
const KEEP: usize = 8;

/// A few read buffers for all links of a socket: an idle connection holds none, and busy ones take turns with buffers
/// that are still in the cache.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Lock<Vec<BytesMut>>);

impl BufferPool {
    /// Buffers that have been larger are not for the pool, in bytes.
    pub(crate) const LARGEST: usize = 4 * FRESH;

    /// An empty buffer.
    pub(crate) fn take(&self) -> BytesMut {
        self.0.lock().pop().unwrap_or_else(|| BytesMut::with_capacity(FRESH))
    }

    /// Takes an empty buffer back.
    pub(crate) fn put(&self, buffer: BytesMut) {
        let mut pool = self.0.lock();
        if pool.len() < KEEP && buffer.capacity() <= Self::LARGEST {
            pool.push(buffer);
        }
    }
}
