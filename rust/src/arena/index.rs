//! From device addresses to buffers, also those that were freed a short time ago.

use super::buffer::{Buffer, BufferState};
use super::{Arena, ArenaError, address};
use crate::id::DeviceAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many frees are remembered at least, so that a stale address is told as freed.
const REMEMBERED: u64 = 256;

/// The buffers of one arena by address.
///
/// It has a lock of its own (10 ns for each allocation and each free), because an error on another worker asks it: an
/// address alone is how programs pass memory to copies, and the message shall name the tensor behind it.
#[derive(Debug, Default)]
pub struct Index(Mutex<Entries>);

/// Addresses only ascend, so the vector is sorted by appending: O(1) to insert, O(log n) to find an address inside a
/// buffer. A B-tree would do the same at several times the cost of an insertion.
#[derive(Debug, Default)]
struct Entries {
    all: Vec<Entry>,
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

/// What lies at an address.
#[derive(Debug)]
pub enum Found {
    /// A buffer, live or freed, and the distance from its base.
    In(Arc<Buffer>, u64),
    /// The gap behind a buffer, live or freed, and the distance from its end.
    Behind(Arc<Buffer>, u64),
    /// Nothing that is still known.
    Nothing,
}

impl Index {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a buffer whose address is above all others.
    pub fn insert(&self, buffer: Arc<Buffer>) {
        let mut entries = self.entries();
        debug_assert!(entries.all.last().is_none_or(|last| last.base < buffer.addr().0));
        entries.all.push(Entry { base: buffer.addr().0, freed: 0, buffer });
    }

    /// Notes that a live buffer was freed.
    pub fn remove(&self, buffer: &Buffer) -> Arc<Buffer> {
        self.entries().remove(buffer)
    }

    /// What lies at the address.
    pub fn look(&self, addr: DeviceAddr) -> Found {
        let entries = self.entries();
        let after = entries.all.partition_point(|entry| entry.base <= addr.0);
        let Some(entry) = after.checked_sub(1).map(|before| &entries.all[before]) else { return Found::Nothing };
        let (offset, bytes) = (addr.0 - entry.base, entry.buffer.bytes());
        if offset < bytes {
            Found::In(entry.buffer.clone(), offset)
        } else if address::span_of(bytes).is_some_and(|span| offset < span) {
            Found::Behind(entry.buffer.clone(), offset - bytes)
        } else {
            Found::Nothing
        }
    }

    /// The live buffers, in order of allocation.
    pub fn live(&self) -> Vec<Arc<Buffer>> {
        let entries = self.entries();
        let live = entries.all.iter().filter(|entry| entry.buffer.state() == BufferState::Live);
        live.map(|entry| entry.buffer.clone()).collect()
    }

    /// Forgets everything, because the worker closes.
    pub fn clear(&self) {
        *self.entries() = Entries::default();
    }
}

impl Entries {
    fn remove(&mut self, buffer: &Buffer) -> Arc<Buffer> {
        let position = self.all.binary_search_by_key(&buffer.addr().0, |entry| entry.base);
        let position = position.expect("a live buffer is in the index of its arena");
        self.frees += 1;
        self.all[position].freed = self.frees;
        let known = self.all[position].buffer.clone();
        self.dead += 1;
        // Each compaction is paid for by the frees since the last one.
        if self.dead > self.all.len() - self.dead + 2 * REMEMBERED as usize {
            let forgotten = self.frees.saturating_sub(REMEMBERED);
            self.all.retain(|entry| entry.freed == 0 || entry.freed > forgotten);
            self.dead = self.all.iter().filter(|entry| entry.freed != 0).count();
        }
        known
    }
}

/// What an address means.
impl Arena {
    /// The live buffer that `addr` lies in, and the distance from its base.
    ///
    /// # Errors
    /// [`ArenaError::FreedAddress`], [`ArenaError::ForgottenAddress`], [`ArenaError::ForeignAddress`],
    /// [`ArenaError::UnknownAddress`].
    pub fn find(&self, addr: DeviceAddr) -> Result<(Arc<Buffer>, u64), ArenaError> {
        match self.index.look(addr) {
            Found::In(buffer, offset) if buffer.state() == BufferState::Live => Ok((buffer, offset)),
            Found::In(buffer, _) => Err(ArenaError::FreedAddress { addr, buffer }),
            Found::Behind(buffer, distance) => {
                let owner = self.owner.clone();
                Err(ArenaError::UnknownAddress { addr, owner, behind: Some((buffer, distance)) })
            }
            Found::Nothing => Err(self.not_known(addr)),
        }
    }

    #[cold]
    fn not_known(&self, addr: DeviceAddr) -> ArenaError {
        let owner = self.owner.clone();
        match address::holder_of(addr) {
            Some(other) if other.owner.id() != owner.id() => {
                let found = other.index.upgrade().map(|index| index.look(addr));
                let buffer = match found {
                    Some(Found::In(buffer, _)) => Some(buffer),
                    _ => None,
                };
                ArenaError::ForeignAddress { addr, owner, other: other.owner, buffer }
            }
            Some(_) if self.lease.has_handed_out(addr) => ArenaError::ForgottenAddress { addr, owner },
            _ => ArenaError::UnknownAddress { addr, owner, behind: None },
        }
    }

    /// The live buffer whose base is `addr`.
    ///
    /// # Errors
    /// [`ArenaError::InteriorPointer`], and those of [`Arena::find`].
    pub fn find_base(&self, addr: DeviceAddr) -> Result<Arc<Buffer>, ArenaError> {
        match self.find(addr)? {
            (buffer, 0) => Ok(buffer),
            (buffer, offset) => Err(ArenaError::InteriorPointer { addr, offset, buffer }),
        }
    }

    /// The live buffer that holds all of `bytes` bytes at `addr`, and the distance from its base.
    ///
    /// # Errors
    /// [`ArenaError::ZeroSize`], [`ArenaError::OutOfRange`], and those of [`Arena::find`].
    pub fn find_range(&self, addr: DeviceAddr, bytes: u64) -> Result<(Arc<Buffer>, u64), ArenaError> {
        if bytes == 0 {
            return Err(ArenaError::ZeroSize);
        }
        let (buffer, offset) = self.find(addr)?;
        if bytes > buffer.bytes() - offset {
            return Err(ArenaError::OutOfRange { offset, bytes, buffer });
        }
        Ok((buffer, offset))
    }
}
