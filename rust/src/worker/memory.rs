//! The user's memory: allocate, free, copy.
#![allow(unsafe_code)] // It copies from and to addresses of the caller.

use super::bind::check_owner;
use super::error::WorkerError;
use super::{Open, Session};
use crate::arena::{ArenaError, Buffer, BufferSpec, BufferState, Contents, MemoryReport, Scope, Site, Tag, Timeline};
use crate::device::DeviceError;
use crate::error::Result;
use crate::id::DeviceAddr;
use crate::trace::{self, names};
use std::mem;
use std::sync::Arc;

/// What `free` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeOutcome {
    /// The memory was given back.
    Freed,
    /// There was nothing to do: it was freed before, or its worker was closed.
    AlreadyFreed,
}

/// What an interrupted copy is called.
const A_COPY: &str = "the copy";

/// What is copied without asking whether to go on: 15 to 40 ms.
const PIECE: u64 = 128 << 20;

/// Copies one after the other, with a look around after each [`PIECE`] of them.
pub(super) struct Pieces<'a> {
    poll: &'a mut dyn FnMut() -> bool,
    /// Bytes until the next look.
    left: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(poll: &'a mut dyn FnMut() -> bool) -> Self {
        Self { poll, left: PIECE }
    }

    /// Copies `bytes` with `copy`, which is given the distance from the beginning and a number of bytes. `what` is
    /// interrupted where the poll says so.
    ///
    /// # Errors
    /// What `copy` says; [`DeviceError::Interrupted`].
    #[inline]
    pub(super) fn copy(
        &mut self,
        bytes: u64,
        what: impl std::fmt::Display,
        mut copy: impl FnMut(usize, usize) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut done = 0;
        while bytes - done > self.left {
            copy(done as usize, self.left as usize)?;
            done += mem::replace(&mut self.left, PIECE);
            if !(self.poll)() {
                return Err(DeviceError::Interrupted { what: what.to_string() });
            }
        }
        self.left -= bytes - done;
        copy(done as usize, (bytes - done) as usize)
    }
}

impl Session<'_> {
    fn open(&mut self) -> Result<&mut Open, WorkerError> {
        let owner = &self.worker.owner;
        let open = self.open.as_mut().filter(|_| owner.is_open());
        open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })
    }

    /// Refuses a worker that is closed.
    ///
    /// # Errors
    /// [`WorkerError::Closed`].
    pub fn check_open(&mut self) -> Result<()> {
        self.open()?;
        Ok(())
    }

    /// Allocates a tensor. What nobody writes to it reads as zero (NaN patterns in poison mode).
    ///
    /// # Errors
    /// [`ArenaError::OutOfMemory`] and its neighbours; nothing is changed by them. [`WorkerError::Closed`].
    pub fn allocate(&mut self, spec: BufferSpec) -> Result<Arc<Buffer>> {
        let open = self.open()?;
        let buffer = open.allocate(|arena| arena.allocate(spec.clone(), Contents::Unwritten))?;
        open.device.memory_is_fresh(open.arena.pointer(&buffer), buffer.bytes());
        open.note_live_bytes();
        Ok(buffer)
    }

    /// Allocates a tensor of zeros, in poison mode too.
    ///
    /// # Errors
    /// As for [`Session::allocate`].
    pub fn allocate_zeroed(&mut self, spec: BufferSpec) -> Result<Arc<Buffer>> {
        let open = self.open()?;
        let buffer = open.allocate(|arena| arena.allocate(spec.clone(), Contents::Zeroed))?;
        open.device.memory_is_set(open.arena.pointer(&buffer), buffer.bytes());
        open.note_live_bytes();
        Ok(buffer)
    }

    /// Allocates a tensor and fills it from host memory, without a state in between that anybody could see. Copies of
    /// gigabytes ask `poll` now and then whether to go on.
    ///
    /// # Errors
    /// As for [`Session::allocate`]; [`DeviceError::Transfer`] and [`DeviceError::Interrupted`], and then the tensor does
    /// not exist.
    ///
    /// # Safety
    /// `src` is valid for reads of all bytes of the tensor, and nobody writes them meanwhile.
    pub unsafe fn allocate_from(
        &mut self,
        spec: BufferSpec,
        src: *const u8,
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<Arc<Buffer>> {
        let open = self.open()?;
        let buffer = open.allocate(|arena| arena.allocate(spec.clone(), Contents::Overwritten))?;
        let copy = trace::span(names::COPY_IN, 0, buffer.bytes());
        let target = open.arena.pointer(&buffer);
        let copied = Pieces::new(poll).copy(buffer.bytes(), A_COPY, |at, now| {
            // SAFETY: the caller vouches for the source; the buffer is fresh memory of that size.
            unsafe { open.device.copy_in(target.wrapping_add(at), src.wrapping_add(at), now) }
        });
        drop(copy);
        if let Err(error) = copied {
            // Nobody knows the buffer yet. What a guard of it might say is less than that the copy failed.
            let _ = open.arena.free(&buffer);
            return Err(error.into());
        }
        open.note_live_bytes();
        self.worker.tally.h2d_bytes.add(buffer.bytes());
        Ok(buffer)
    }

    /// Allocates bytes without a type. They are freed with [`Session::free_raw`], or by close.
    ///
    /// # Errors
    /// As for [`Session::allocate`].
    pub fn malloc(&mut self, bytes: u64, site: Option<Site>, scope: Option<Arc<Scope>>) -> Result<DeviceAddr> {
        let open = self.open()?;
        let buffer = open.allocate(|arena| arena.allocate_raw(bytes, site.clone(), scope.clone()))?;
        open.device.memory_is_fresh(open.arena.pointer(&buffer), bytes);
        open.note_live_bytes();
        Ok(buffer.addr())
    }

    /// Frees the allocation whose base is `addr`.
    ///
    /// # Errors
    /// [`ArenaError::InteriorPointer`], [`ArenaError::FreedAddress`] (also for a second free), [`ArenaError::ForeignAddress`],
    /// [`ArenaError::UnknownAddress`]; [`ArenaError::GuardViolated`] in poison mode, where the memory is free nevertheless.
    pub fn free_raw(&mut self, addr: DeviceAddr) -> Result<()> {
        let open = self.open()?;
        let buffer = open.arena.find_base(addr)?;
        let free = trace::span(names::FREE, 0, buffer.bytes());
        open.packed.forget(open.arena.pointer(&buffer), || buffer.bytes(), &mut open.arena);
        let freed = open.arena.free(&buffer);
        drop(free);
        open.note_live_bytes();
        Ok(freed?)
    }

    /// Frees a tensor. A second free, also after close, is no error.
    ///
    /// # Errors
    /// [`WorkerError::ForeignBuffer`]; [`ArenaError::GuardViolated`] in poison mode, where the memory is free nevertheless.
    pub fn free(&mut self, buffer: &Arc<Buffer>) -> Result<FreeOutcome> {
        if buffer.state() != BufferState::Live {
            return Ok(FreeOutcome::AlreadyFreed);
        }
        check_owner(buffer, &self.worker.owner, || "free_tensor()".into())?;
        // Its worker is this one and it is live, so the arena is there, even where close() waits for this call.
        let Some(open) = self.open.as_mut() else { return Ok(FreeOutcome::AlreadyFreed) };
        let free = trace::span(names::FREE, 0, buffer.bytes());
        open.packed.forget(open.arena.pointer(buffer), || buffer.bytes(), &mut open.arena);
        let freed = open.arena.free(buffer);
        drop(free);
        open.note_live_bytes();
        freed?;
        Ok(FreeOutcome::Freed)
    }

    /// Refuses a buffer that this worker may not use. `what` is the use, for the message.
    ///
    /// # Errors
    /// [`WorkerError::FreedBuffer`], [`WorkerError::StaleBuffer`], [`WorkerError::ForeignBuffer`].
    pub fn check_buffer(&self, buffer: &Arc<Buffer>, what: impl Fn() -> String) -> Result<()> {
        Ok(check_owner(buffer, &self.worker.owner, what)?)
    }

    /// Copies host memory to device memory: any part of one live allocation. The data is there on return. Copies of
    /// gigabytes ask `poll` now and then whether to go on.
    ///
    /// # Errors
    /// [`ArenaError::ZeroSize`], [`ArenaError::OutOfRange`], and those of [`Session::find`]; [`DeviceError::Transfer`], and
    /// then the target holds anything but what an earlier allocation left; [`DeviceError::Interrupted`], and then a first
    /// part was copied and the rest is as it was.
    ///
    /// # Safety
    /// `src` is valid for reads of `bytes` bytes, and nobody writes them meanwhile.
    pub unsafe fn copy_to(
        &mut self,
        dst: DeviceAddr,
        src: *const u8,
        bytes: u64,
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let open = self.open()?;
        let (buffer, offset) = open.arena.find_range(dst, bytes)?;
        let target = open.arena.pointer(&buffer).wrapping_add(offset as usize);
        open.packed.forget(target, || bytes, &mut open.arena);
        open.arena.prepare_write(&buffer, offset, bytes);
        let copy = trace::span(names::COPY_IN, 0, bytes);
        let mut done = 0;
        let copied = Pieces::new(poll).copy(bytes, A_COPY, |at, now| {
            // SAFETY: the caller vouches for the source; the target lies in a live buffer.
            unsafe { open.device.copy_in(target.wrapping_add(at), src.wrapping_add(at), now) }?;
            done = at + now;
            Ok(())
        });
        drop(copy);
        // Where it did not begin at the first byte, nothing was left to clear.
        open.arena.finish_write(&buffer, done as u64);
        copied?;
        self.worker.tally.h2d_bytes.add(bytes);
        Ok(())
    }

    /// Copies device memory to host memory: any part of one live allocation. The data is there on return.
    ///
    /// # Errors
    /// As for [`Session::copy_to`].
    ///
    /// # Safety
    /// `dst` is valid for writes of `bytes` bytes, and nobody accesses them meanwhile.
    pub unsafe fn copy_from(
        &mut self,
        dst: *mut u8,
        src: DeviceAddr,
        bytes: u64,
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let open = self.open()?;
        let (buffer, offset) = open.arena.find_range(src, bytes)?;
        open.arena.clear_stale(&buffer);
        let source = open.arena.pointer(&buffer).wrapping_add(offset as usize);
        let copy = trace::span(names::COPY_OUT, 0, bytes);
        let copied = Pieces::new(poll).copy(bytes, A_COPY, |at, now| {
            // SAFETY: the caller vouches for the target; the source lies in a live buffer.
            unsafe { open.device.copy_out(dst.wrapping_add(at), source.wrapping_add(at), now) }
        });
        drop(copy);
        copied?;
        self.worker.tally.d2h_bytes.add(bytes);
        Ok(())
    }

    /// The live allocation that `addr` lies in, and the distance from its base.
    ///
    /// # Errors
    /// Those of [`crate::arena::Arena::find`].
    pub fn find(&mut self, addr: DeviceAddr) -> Result<(Arc<Buffer>, u64)> {
        Ok(self.open()?.arena.find(addr)?)
    }

    /// The tag of this name, made the first time.
    ///
    /// # Errors
    /// [`WorkerError::Closed`].
    pub fn tag(&mut self, name: &str) -> Result<Arc<Tag>> {
        Ok(self.open()?.arena.tag(name))
    }

    /// The past of the memory, as far as it is kept.
    ///
    /// # Errors
    /// [`WorkerError::Closed`].
    pub fn timeline(&mut self) -> Result<Timeline> {
        Ok(self.open()?.arena.timeline())
    }

    /// The memory now; of a closed worker, that it has none.
    pub fn memory_report(&self) -> MemoryReport {
        let empty = || MemoryReport::empty(self.worker.owner.clone());
        self.open.as_ref().map_or_else(empty, |open| open.arena.report())
    }
}

impl Open {
    /// Tells recordings how much memory is live now.
    fn note_live_bytes(&self) {
        self.live_bytes.set(self.arena.live_bytes());
    }

    /// Takes memory for a program that asks; see [`Open::with_reclaim`].
    fn allocate(
        &mut self,
        take: impl FnMut(&mut crate::arena::Arena) -> Result<Arc<Buffer>, ArenaError>,
    ) -> Result<Arc<Buffer>, ArenaError> {
        let mut span = trace::span(names::ALLOC, 0, 0);
        let buffer = self.with_reclaim(take)?;
        span.set_arg(buffer.bytes());
        Ok(buffer)
    }

    /// Takes memory; where there is none, first gives up what launches keep only to be quick, then tries once more.
    pub(super) fn with_reclaim<T>(
        &mut self,
        mut take: impl FnMut(&mut crate::arena::Arena) -> Result<T, ArenaError>,
    ) -> Result<T, ArenaError> {
        match take(&mut self.arena) {
            Err(ArenaError::OutOfMemory { requested, free, kept, .. })
                if requested <= free + kept && self.reclaim() =>
            {
                take(&mut self.arena)
            }
            outcome => outcome,
        }
    }

    /// Gives up staging memory, workspace and packed forms. Says whether there was any.
    pub(super) fn reclaim(&mut self) -> bool {
        let before = self.arena.kept();
        self.registry.entries.iter_mut().for_each(|entry| entry.loaded.release_staging(&mut self.arena));
        self.workspace.release(&mut self.arena);
        if let Some(residency) = &mut self.residency {
            residency.release(&mut self.arena, &mut self.packed);
        }
        self.packed.forget_all(&mut self.arena);
        self.arena.kept() < before
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Pieces};
    use crate::device::DeviceError;
    use std::cell::RefCell;

    /// Copies of these sizes one after the other; each look is told how many bytes were copied until then, and says
    /// whether to go on.
    fn copied(sizes: &[u64], go_on: impl Fn(u64) -> bool) -> (Vec<(usize, usize)>, Result<(), DeviceError>) {
        let copies = RefCell::new(Vec::new());
        let mut poll = || go_on(copies.borrow().iter().map(|&(_, now): &(usize, usize)| now as u64).sum());
        let mut pieces = Pieces::new(&mut poll);
        let result = sizes.iter().try_for_each(|&bytes| {
            pieces.copy(bytes, "the copy", |at, now| {
                copies.borrow_mut().push((at, now));
                Ok(())
            })
        });
        (copies.into_inner(), result)
    }

    #[test]
    fn a_copy_of_one_piece_is_one_and_asks_nobody() {
        let (copies, result) = copied(&[PIECE], |_| panic!("it is short"));
        assert!(result.is_ok());
        assert_eq!(copies, [(0, PIECE as usize)]);
    }

    #[test]
    fn pieces_cover_each_copy_and_the_look_comes_after_each_piece_of_all_together() {
        let (piece, half) = (PIECE as usize, PIECE as usize / 2);
        let (copies, result) = copied(&[PIECE / 2, 2 * PIECE + 5, 3], |bytes| bytes % PIECE == 0);
        assert!(result.is_ok(), "each look came after a whole number of pieces");
        assert_eq!(copies, [(0, half), (0, half), (half, piece), (half + piece, half + 5), (0, 3)]);
    }

    #[test]
    fn a_look_that_says_so_ends_the_copy() {
        let (copies, result) = copied(&[4 * PIECE], |bytes| bytes < 2 * PIECE);
        assert_eq!(result.unwrap_err().to_string(), "the copy was interrupted");
        assert_eq!(copies.len(), 2);
    }
}
