//! Memory for what programs create while they run. It is kept between launches, so that a steady launch allocates nothing
//! and touches no fresh page. One workspace serves all programs of a worker, because its launches take turns.

use crate::arena::{Arena, Chunk, FILL, GRANULE, Purpose};
use crate::device::{self, DeviceError};
use crate::trace::{self, names};

/// The chunks that were needed so far.
#[derive(Default, Debug)]
pub(super) struct WorkspacePool {
    chunks: Vec<Chunk>,
    /// Bytes of the last chunk that are taken; the chunks before it are full.
    used: u64,
}

impl WorkspacePool {
    /// Lends everything to a new launch. Where the last launch had to add chunks, they become one.
    pub fn lend<'a>(&'a mut self, arena: &'a mut Arena) -> Lent<'a> {
        if self.chunks.len() > 1 {
            let total = self.chunks.iter().map(Chunk::bytes).sum();
            let _reserve = trace::span(names::RESERVE, 0, total);
            self.release(arena);
            // No hole that large: the launch adds chunks again as it needs them.
            self.chunks.extend(arena.reserve(total, Purpose::Scratch).ok());
        }
        self.used = 0;
        Lent { pool: self, arena }
    }

    /// Gives all memory back.
    pub fn release(&mut self, arena: &mut Arena) {
        self.chunks.drain(..).for_each(|chunk| arena.release(chunk));
        self.used = 0;
    }
}

/// A workspace for the time of one launch.
pub(super) struct Lent<'a> {
    pool: &'a mut WorkspacePool,
    arena: &'a mut Arena,
}

impl device::Workspace for Lent<'_> {
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, DeviceError> {
        let too_large = || DeviceError::OutOfMemory(format!("a program cannot create a tensor of {bytes} bytes"));
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or_else(too_large)?;
        let left = self.pool.chunks.last().map_or(0, |chunk| chunk.bytes() - self.pool.used);
        if left < bytes {
            let _reserve = trace::span(names::RESERVE, 0, bytes);
            let chunk = self.arena.reserve(bytes, Purpose::Scratch);
            self.pool.chunks.push(chunk.map_err(|error| DeviceError::OutOfMemory(error.to_string()))?);
            self.pool.used = 0;
        }
        let chunk = self.pool.chunks.last().expect("one was added if there was none");
        let offset = self.pool.used;
        self.pool.used += bytes;
        if self.arena.is_poisoned() {
            self.arena.fill_chunk(chunk, offset, bytes, FILL);
        }
        Ok(self.arena.chunk_pointer(chunk).wrapping_add(offset as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Owner;
    use crate::device::Workspace;
    use std::sync::Arc;

    #[test]
    fn the_second_launch_like_the_first_gets_the_same_memory_in_one_chunk() {
        let mut arena = Arena::new(Arc::new(Owner::new(None)), 1 << 20, false).unwrap();
        let mut pool = WorkspacePool::default();
        let sizes = [300, 1, 4096];
        let launch = |pool: &mut WorkspacePool, arena: &mut Arena| {
            let mut lent = pool.lend(arena);
            sizes.map(|bytes| lent.reserve(bytes).unwrap())
        };
        launch(&mut pool, &mut arena);
        let second = launch(&mut pool, &mut arena);
        assert_eq!(pool.chunks.len(), 1);
        assert_eq!(launch(&mut pool, &mut arena), second);
        assert_eq!(second[1] as usize - second[0] as usize, 512);
        assert_eq!(arena.report().scratch, 512 + 256 + 4096);
        pool.release(&mut arena);
        assert_eq!(arena.report().largest_free, 1 << 20);
    }

    #[test]
    fn exhaustion_is_a_memory_error_and_leaves_the_pool_usable() {
        let mut arena = Arena::new(Arc::new(Owner::new(None)), 4096, false).unwrap();
        let mut pool = WorkspacePool::default();
        let mut lent = pool.lend(&mut arena);
        for bytes in [8192, u64::MAX] {
            assert!(matches!(lent.reserve(bytes), Err(DeviceError::OutOfMemory(_))));
        }
        assert!(lent.reserve(4096).is_ok());
    }
}
