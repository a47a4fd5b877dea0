//! From device addresses to buffers, also those that were freed a short time ago.

use super::buffer::{Buffer, BufferState};
use super::{Arena, ArenaError, address};
use crate::id::DeviceAddr;
use std::sync::Arc;

/// How many frees are remembered at least, so that a stale address is told as freed.
const REMEMBERED: u64 = 256;

/// The buffers of one arena by address. Addresses only ascend, so the vector is sorted by appending: O(1) to insert,
/// O(log n) to find an address inside a buffer. A B-tree would do the same at several times the cost of an insertion.
#[derive(Debug, Default)]
pub struct Index {
    entries: Vec<Entry>,
    dead: usize,
    frees: u64,
}

#[derive(Debug)]
struct Entry {
    base: u64,
    /// Number of the free that ended it; 0 while it is live.
    freed: u64,
    buffer: Arc<Buffer>,
}

impl Index {
    /// Number of live buffers.
    pub fn live(&self) -> usize {
        self.entries.len() - self.dead
    }

    /// Adds a buffer whose address is above all others.
    pub fn insert(&mut self, buffer: Arc<Buffer>) {
        debug_assert!(self.entries.last().is_none_or(|last| last.base < buffer.addr().0));
        self.entries.push(Entry { base: buffer.addr().0, freed: 0, buffer });
    }

    /// Notes that a live buffer was freed.
    pub fn remove(&mut self, buffer: &Buffer) {
        let position = self.entries.binary_search_by_key(&buffer.addr().0, |entry| entry.base);
        let position = position.expect("a live buffer is in the index of its arena");
        self.frees += 1;
        self.entries[position].freed = self.frees;
        self.dead += 1;
        // Each compaction is paid for by the frees since the last one.
        if self.dead > self.live() + 2 * REMEMBERED as usize {
            let forgotten = self.frees.saturating_sub(REMEMBERED);
            self.entries.retain(|entry| entry.freed == 0 || entry.freed > forgotten);
            self.dead = self.entries.iter().filter(|entry| entry.freed != 0).count();
        }
    }

    /// The buffer that the address lies in, live or freed.
    pub fn find(&self, addr: DeviceAddr) -> Option<&Arc<Buffer>> {
        let after = self.entries.partition_point(|entry| entry.base <= addr.0);
        let entry = &self.entries[after.checked_sub(1)?];
        (addr.0 - entry.base < entry.buffer.bytes()).then_some(&entry.buffer)
    }

    /// The live buffers, in order of allocation.
    pub fn iter_live(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        self.entries.iter().filter(|entry| entry.buffer.state() == BufferState::Live).map(|entry| &entry.buffer)
    }
}

/// What an address means.
impl Arena {
    /// The live buffer that `addr` lies in, and the distance from its base.
    ///
    /// # Errors
    /// [`ArenaError::FreedAddress`], [`ArenaError::ForeignAddress`], [`ArenaError::UnknownAddress`].
    pub fn find(&self, addr: DeviceAddr) -> Result<(&Arc<Buffer>, u64), ArenaError> {
        match self.index.find(addr) {
            Some(buffer) if buffer.state() == BufferState::Live => Ok((buffer, addr.0 - buffer.addr().0)),
            Some(buffer) => Err(ArenaError::FreedAddress { addr, buffer: buffer.clone() }),
            None => {
                let owner = self.owner.clone();
                Err(match address::owner_of(addr) {
                    Some(other) if other.id() != owner.id() => ArenaError::ForeignAddress { addr, owner, other },
                    _ => ArenaError::UnknownAddress { addr, owner },
                })
            }
        }
    }

    /// The live buffer whose base is `addr`.
    ///
    /// # Errors
    /// [`ArenaError::InteriorPointer`], and those of [`Arena::find`].
    pub fn find_base(&self, addr: DeviceAddr) -> Result<&Arc<Buffer>, ArenaError> {
        match self.find(addr)? {
            (buffer, 0) => Ok(buffer),
            (buffer, offset) => Err(ArenaError::InteriorPointer { addr, offset, buffer: buffer.clone() }),
        }
    }

    /// The live buffer that holds all of `bytes` bytes at `addr`, and the distance from its base.
    ///
    /// # Errors
    /// [`ArenaError::ZeroSize`], [`ArenaError::OutOfRange`], and those of [`Arena::find`].
    pub fn find_range(&self, addr: DeviceAddr, bytes: u64) -> Result<(&Arc<Buffer>, u64), ArenaError> {
        if bytes == 0 {
            return Err(ArenaError::ZeroSize);
        }
        let (buffer, offset) = self.find(addr)?;
        if bytes > buffer.bytes() - offset {
            return Err(ArenaError::OutOfRange { offset, bytes, buffer: buffer.clone() });
        }
        Ok((buffer, offset))
    }
}
