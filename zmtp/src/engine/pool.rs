//! [`BufferPool`]: read buffers shared by the links of a socket.

use bytes::BytesMut;

use super::lock::Lock;

/// Size of a fresh read buffer, in bytes.
const FRESH: usize = 64 * 1024;
/// Most buffers kept.
const KEEP: usize = 16;

/// A few read buffers for all links of a socket: an idle connection holds none, and busy ones take turns with buffers
/// that are still in the cache.
///
/// A buffer may come back while messages are slices of it. It is handed out again when the last of them is gone: sooner
/// than the allocator, which returns large pieces to the system, only to have them filled with zeros page by page.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Lock<Vec<BytesMut>>);

impl BufferPool {
    /// Buffers that have been larger are not for the pool, in bytes.
    pub(crate) const LARGEST: usize = 4 * FRESH;

    /// An empty buffer with room for at least `room` bytes.
    pub(crate) fn take(&self, room: usize) -> BytesMut {
        let mut pool = self.0.lock();
        // The one that came last is the warmest.
        match pool.iter_mut().rposition(|buffer| buffer.try_reclaim(FRESH.max(room))) {
            Some(at) => pool.remove(at),
            None => BytesMut::with_capacity(FRESH.max(room)),
        }
    }

    /// Takes a buffer back; what it holds is thrown away.
    pub(crate) fn put(&self, mut buffer: BytesMut) {
        buffer.clear();
        let mut pool = self.0.lock();
        if pool.len() == KEEP {
            pool.remove(0);
        }
        pool.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(buffer: &BytesMut) -> *const u8 {
        buffer.as_ptr()
    }

    #[test]
    fn a_buffer_comes_out_again_when_nothing_is_left_of_its_messages() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(0);
        let first = place(&buffer);
        buffer.extend_from_slice(&[1; 1000]);
        let message = buffer.split_to(500).freeze();
        pool.put(buffer);

        let other = pool.take(0);
        assert_ne!(place(&other), first);
        drop(message);
        let again = pool.take(0);
        assert_eq!((place(&again), again.len()), (first, 0));
        assert!(again.capacity() >= FRESH);
    }

    #[test]
    fn a_few_are_kept() {
        let pool = BufferPool::default();
        for _ in 0..2 * KEEP {
            pool.put(BytesMut::with_capacity(FRESH));
        }
        assert_eq!(pool.0.lock().len(), KEEP);
        assert!(pool.take(2 * FRESH).capacity() >= 2 * FRESH);
    }
}
