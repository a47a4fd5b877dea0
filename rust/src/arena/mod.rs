//! Device memory of one worker.
//!
//! An [`Arena`] reserves its capacity as address space once and hands out parts of it: *buffers* to the user, who knows
//! them by device addresses, and *chunks* to launches, which have none. What is taken is known outside the memory itself,
//! so that a kernel that writes where it should not cannot corrupt the allocator.
//!
//! | file           | what it holds                                                          |
//! |----------------|------------------------------------------------------------------------|
//! | `storage`      | the bytes: reserved address space, committed by touch                  |
//! | `suballocator` | which granules of it are taken                                         |
//! | `address`      | device addresses, never reused in the process; which worker has which  |
//! | `index`        | from an address to its buffer                                          |
//! | `buffer`       | what is known about one allocation; `owner` is the worker it belongs to |
//! | `poison`       | NaN patterns and guards                                                |
//! | `report`       | the state of the memory as data and as text                            |
//! | `history`      | its past: who took what, and when                                      |
//! | `tag`          | what it is for: budgets and high-water marks                           |
//!
//! An arena is not synchronised; its worker's lock does that. Bytes of a buffer are defined from the start: memory that was
//! never used reads as zero, and what an earlier allocation left is cleared before the first use (not at allocation:
//! most buffers are filled completely by an upload, and clearing 1 MiB costs more than everything else in an allocation).

mod address;
mod buffer;
mod error;
mod history;
mod index;
mod owner;
mod poison;
mod report;
mod storage;
mod suballocator;
mod tag;

pub use address::is_device_address;
pub use buffer::{Buffer, BufferKind, BufferSpec, BufferState, Site};
pub use error::ArenaError;
pub use history::{Event, Holder, KEPT_EVENTS, Memory, Timeline};
pub use owner::Owner;
pub use poison::{FILL, GUARD};
pub use report::{Bytes, MemoryReport};
pub use suballocator::GRANULE;
pub use tag::{Holders, Scope, Tag, TagUse};

use crate::dtype::DType;
use crate::shape::Shape;
use address::Lease;
use history::History;
use index::Index;
use std::sync::Arc;
use storage::Storage;
use suballocator::{Block, Suballocator};

/// The memory of one worker. See the module for how its parts fit together.
#[derive(Debug)]
pub struct Arena {
    owner: Arc<Owner>,
    storage: Storage,
    blocks: Suballocator,
    index: Arc<Index>,
    lease: Lease,
    poison: bool,
    capacity: u64,
    /// Bytes from the start that were handed out at some time: what lies behind them still reads as zero.
    touched: u64,
    live: u64,
    peak: u64,
    kept: [u64; 3],
    frees: u64,
    history: History,
    tags: Vec<Arc<Tag>>,
}

/// What a chunk is for; they are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Host arguments on their way.
    Staging = 0,
    /// Scratch memory of executables and what programs create.
    Scratch = 1,
    /// Packed forms of resident buffers.
    Packed = 2,
}

/// Device memory without an address, for launches. It must be given back to its arena with [`Arena::release`].
#[derive(Debug)]
#[must_use = "a chunk that is not released is lost until its worker is closed"]
pub struct Chunk {
    block: Block,
    purpose: Purpose,
}

impl Chunk {
    /// Its size in bytes: what was asked for, rounded up to a multiple of [`GRANULE`].
    pub fn bytes(&self) -> u64 {
        self.block.size * GRANULE
    }
}

/// What a new buffer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Whatever the mode says for memory that nobody wrote: zero, or NaN patterns in poison mode.
    Unwritten,
    /// Zeros, whatever the mode says.
    Zeroed,
    /// The caller is about to write every byte.
    Overwritten,
}

impl Arena {
    /// Reserves `capacity` bytes (rounded up to a multiple of [`GRANULE`]).
    ///
    /// # Errors
    /// [`ArenaError::InvalidCapacity`] for 0, [`ArenaError::Reserve`] where the machine refuses.
    pub fn new(owner: Arc<Owner>, capacity: u64, poison: bool) -> Result<Self, ArenaError> {
        if capacity == 0 {
            return Err(ArenaError::InvalidCapacity(capacity));
        }
        let capacity = capacity.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let index = Arc::<Index>::default();
        Ok(Self {
            storage: Storage::reserve(capacity)?,
            blocks: Suballocator::new(capacity / GRANULE),
            lease: Lease::new(owner.clone(), &index),
            owner,
            index,
            poison,
            capacity,
            touched: 0,
            live: 0,
            peak: 0,
            kept: [0; 3],
            frees: 0,
            history: History::default(),
            tags: Vec::new(),
        })
    }

    /// Whether new memory is filled with NaN patterns and buffers are guarded.
    pub fn is_poisoned(&self) -> bool {
        self.poison
    }

    /// Allocates a tensor of the user.
    ///
    /// # Errors
    /// [`ArenaError::ZeroSize`], [`ArenaError::TooLarge`], [`ArenaError::OutOfMemory`]. Nothing is changed by them.
    pub fn allocate(&mut self, spec: BufferSpec, contents: Contents) -> Result<Arc<Buffer>, ArenaError> {
        let size = spec.dtype.size() as u64;
        let bytes = spec.shape.elements().and_then(|elements| elements.checked_mul(size));
        let bytes = bytes.ok_or(ArenaError::TooLarge { shape: spec.shape, dtype: spec.dtype })?;
        self.allocate_bytes(BufferKind::Tensor, bytes, spec, contents)
    }

    /// Allocates bytes without a type, for a user who holds them by address.
    ///
    /// # Errors
    /// As for [`Arena::allocate`].
    pub fn allocate_raw(
        &mut self,
        bytes: u64,
        site: Option<Site>,
        scope: Option<Arc<Scope>>,
    ) -> Result<Arc<Buffer>, ArenaError> {
        let shape = Shape::new(&[bytes]).expect("one extent is a shape");
        let spec = BufferSpec { shape, dtype: DType::U8, site, scope };
        self.allocate_bytes(BufferKind::Raw, bytes, spec, Contents::Unwritten)
    }

    fn allocate_bytes(
        &mut self,
        kind: BufferKind,
        bytes: u64,
        spec: BufferSpec,
        contents: Contents,
    ) -> Result<Arc<Buffer>, ArenaError> {
        if bytes == 0 {
            return Err(ArenaError::ZeroSize);
        }
        if let Some((scope, budget)) = spec.scope.as_ref().and_then(|scope| scope.without_room(bytes)) {
            return Err(self.over_budget(&scope.tag, budget, bytes));
        }
        // In poison mode the rest of the last granule and one more are the guard.
        let granules = bytes.div_ceil(GRANULE) + u64::from(self.poison);
        let block = self.blocks.allocate(granules).ok_or_else(|| self.out_of_memory(bytes))?;
        let addr = match self.lease.hand_out(bytes) {
            Ok(addr) => addr,
            Err(error) => {
                self.blocks.free(block);
                return Err(error);
            }
        };
        let start = block.offset * GRANULE;
        let mut stale = self.touched.saturating_sub(start).min(bytes);
        self.touched = self.touched.max(start + block.size * GRANULE);
        if self.poison {
            match contents {
                Contents::Unwritten => self.storage.fill(start, bytes, FILL),
                Contents::Zeroed => self.storage.fill(start, bytes, 0),
                Contents::Overwritten => {}
            }
            self.storage.fill(start + bytes, block.size * GRANULE - bytes, GUARD);
            stale = 0;
        }
        if contents == Contents::Overwritten {
            stale = 0;
        }
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        let buffer = Arc::new(Buffer::new(self.owner.clone(), addr, bytes, kind, spec, block, stale));
        if let Some(scope) = buffer.scope() {
            scope.add(bytes);
        }
        self.history.allocated(&buffer);
        self.index.insert(buffer.clone());
        Ok(buffer)
    }

    /// Frees a live buffer of this arena.
    ///
    /// # Errors
    /// [`ArenaError::GuardViolated`] in poison mode; the memory is free nevertheless.
    pub fn free(&mut self, buffer: &Buffer) -> Result<(), ArenaError> {
        let intact = self.check_guard(buffer);
        buffer.set_state(BufferState::Freed);
        self.frees += 1;
        let known = self.index.remove(buffer);
        self.blocks.free(buffer.block());
        self.live -= buffer.bytes();
        if let Some(scope) = buffer.scope() {
            scope.remove(buffer.bytes());
        }
        self.history.freed(known);
        intact.map_err(|damage| damage.found("found at free"))
    }

    /// Takes a chunk of `bytes` bytes (at least 1), 256-byte aligned. Its contents are undefined; in poison mode, NaN
    /// patterns.
    ///
    /// # Errors
    /// [`ArenaError::OutOfMemory`].
    pub fn reserve(&mut self, bytes: u64, purpose: Purpose) -> Result<Chunk, ArenaError> {
        let granules = bytes.div_ceil(GRANULE).max(1);
        let block = self.blocks.allocate(granules).ok_or_else(|| self.out_of_memory(bytes))?;
        let (start, bytes) = (block.offset * GRANULE, block.size * GRANULE);
        self.touched = self.touched.max(start + bytes);
        self.kept[purpose as usize] += bytes;
        if self.poison {
            self.storage.fill(start, bytes, FILL);
        }
        self.history.reserved(block, purpose);
        Ok(Chunk { block, purpose })
    }

    /// Gives a chunk back.
    pub fn release(&mut self, chunk: Chunk) {
        self.kept[chunk.purpose as usize] -= chunk.bytes();
        self.history.released(chunk.block, chunk.purpose);
        self.blocks.free(chunk.block);
    }

    /// Bytes that are taken by chunks.
    pub fn kept(&self) -> u64 {
        self.kept.iter().sum()
    }

    /// First byte of a chunk of this arena.
    pub fn chunk_pointer(&self, chunk: &Chunk) -> *mut u8 {
        self.storage.base().wrapping_add((chunk.block.offset * GRANULE) as usize)
    }

    /// Sets a part of a chunk that nobody else accesses meanwhile.
    pub fn fill_chunk(&mut self, chunk: &Chunk, offset: u64, bytes: u64, value: u8) {
        self.storage.fill(chunk.block.offset * GRANULE + offset, bytes, value);
    }

    /// Distance of the first byte that is not [`GUARD`] from the start of this part of a chunk.
    pub fn chunk_damage(&self, chunk: &Chunk, offset: u64, bytes: u64) -> Option<u64> {
        let guard = self.storage.slice(chunk.block.offset * GRANULE + offset, bytes);
        poison::first_damage(guard).map(|position| position as u64)
    }

    /// First byte of a live buffer of this arena.
    pub fn pointer(&self, buffer: &Buffer) -> *mut u8 {
        self.storage.base().wrapping_add((buffer.block().offset * GRANULE) as usize)
    }

    /// How many buffers were freed so far. Where it did not change, a buffer that was live still is.
    pub fn frees(&self) -> u64 {
        self.frees
    }

    /// Makes sure that no byte of a live buffer is what an earlier allocation left. Costs one load where there is nothing
    /// to clear.
    pub fn clear_stale(&mut self, buffer: &Buffer) {
        let stale = buffer.stale();
        if stale != 0 {
            self.storage.fill(buffer.block().offset * GRANULE, stale, 0);
            buffer.mark_written();
        }
    }

    /// Prepares a live buffer for a write of `bytes` bytes at `offset`.
    pub fn prepare_write(&mut self, buffer: &Buffer, offset: u64, bytes: u64) {
        if offset > 0 || bytes < buffer.stale() {
            self.clear_stale(buffer);
        }
    }

    /// A write that was prepared, and began at the first byte, reached `end`: behind it nothing may show of an earlier
    /// allocation. Until then the write counts as none.
    pub fn finish_write(&mut self, buffer: &Buffer, end: u64) {
        let stale = buffer.stale();
        if stale > end {
            self.storage.fill(buffer.block().offset * GRANULE + end, stale - end, 0);
        }
        buffer.mark_written();
    }

    /// Ends all live buffers, because their worker closes, and returns them in order of allocation.
    pub fn close_buffers(&mut self) -> Vec<Arc<Buffer>> {
        let live = self.index.live();
        for buffer in &live {
            buffer.set_state(BufferState::WorkerClosed);
            if let Some(scope) = buffer.scope() {
                scope.remove(buffer.bytes());
            }
            self.blocks.free(buffer.block());
        }
        self.index.clear();
        self.live = 0;
        live
    }

    /// Which requests for memory a test lets fail, and how many did.
    #[cfg(test)]
    pub fn refusals(&mut self) -> &mut suballocator::Refusals {
        &mut self.blocks.refusals
    }

    /// Bytes of live buffers.
    pub fn live_bytes(&self) -> u64 {
        self.live
    }

    /// The memory now. Walks the page table and sorts the buffers: not for a hot path.
    pub fn report(&self) -> MemoryReport {
        let mut live_buffers = self.index.live();
        live_buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.bytes()));
        MemoryReport {
            owner: self.owner.clone(),
            capacity: self.capacity,
            reserved: self.storage.reserved(),
            committed: self.storage.committed(self.touched),
            live: self.live,
            peak: self.peak,
            staging: self.kept[Purpose::Staging as usize],
            scratch: self.kept[Purpose::Scratch as usize],
            packed: self.kept[Purpose::Packed as usize],
            free: self.blocks.free_granules() * GRANULE,
            largest_free: self.largest_free(),
            tags: self.tags.iter().map(|tag| tag.now()).collect(),
            live_buffers,
        }
    }

    fn largest_free(&self) -> u64 {
        self.blocks.largest_free().saturating_sub(u64::from(self.poison)) * GRANULE
    }

    /// The tag of this name, made the first time.
    pub fn tag(&mut self, name: &str) -> Arc<Tag> {
        if let Some(known) = self.tags.iter().find(|tag| tag.name() == name) {
            return known.clone();
        }
        let tag = Arc::new(Tag::new(name.to_owned()));
        self.tags.push(tag.clone());
        tag
    }

    #[cold]
    fn over_budget(&self, tag: &Arc<Tag>, budget: u64, requested: u64) -> ArenaError {
        let mut holders = self.index.live();
        holders.retain(|buffer| buffer.scope().is_some_and(|scope| scope.counts_for(tag)));
        holders.sort_by_key(|buffer| std::cmp::Reverse(buffer.bytes()));
        ArenaError::OverBudget { tag: tag.clone(), budget, requested, holders: Holders(holders) }
    }

    fn out_of_memory(&self, requested: u64) -> ArenaError {
        ArenaError::OutOfMemory {
            requested,
            live: self.live,
            kept: self.kept(),
            free: self.blocks.free_granules() * GRANULE,
            largest_free: self.largest_free(),
            capacity: self.capacity,
            owner: self.owner.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
