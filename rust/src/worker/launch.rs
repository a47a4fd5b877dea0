//! One launch: bind, copies in, the device's work, copies out. In the steady state it allocates nothing and takes no lock
//! but the worker's.
#![allow(unsafe_code)] // It hands addresses to the device.

use super::bind::{Bound, NO_MEMORY, Staged, staging_size};
use super::counters::Tally;
use super::error::WorkerError;
use super::memory::Pieces;
use super::packed::PackedForms;
use super::register::{Loaded, Registered, Registration, check_registration};
use super::residency::Times;
use super::value::Value;
use super::{Notes, Open, Session, Worker};
use crate::arena::{Arena, FILL, GUARD};
use crate::device::{self, Device, TensorArg};
use crate::error::Result;
use crate::program::Direction;
use crate::trace::{self, Span, names};
use std::fmt;
use std::time::Instant;

impl Session<'_> {
    /// Gives the next launch numbers to record: settings that steer nothing here and that a reader of the trace wants.
    #[inline]
    pub fn note(&mut self, notes: Option<Box<Notes>>) {
        self.notes = notes;
    }

    /// Runs a program once and returns when its results are there.
    ///
    /// Where every result would be empty, because a batch has no rows, nothing is copied or run.
    ///
    /// A host tensor is copied as the direction of its parameter says: `In` before, `Out` after, `InOut` both. What a
    /// program does not write of an `Out` host tensor comes back as zero (NaN patterns in poison mode). A resident tensor
    /// is never copied. `poll` is asked at least every 50 ms on this thread; where it returns `false`, the launch stops.
    ///
    /// # Errors
    /// [`WorkerError`] for the arguments (then nothing was copied or run), [`device::DeviceError`] for the work,
    /// [`crate::arena::ArenaError`] for staging memory, and for overwritten guards in poison mode (after the copies out).
    /// The worker stays usable after each of them; after an error of the device's work nothing is copied out, and after one
    /// of a copy out some of the results.
    ///
    /// # Safety
    /// Host tensors are valid for their shapes (for writes too where `writable`), and nobody else writes them, or reads
    /// those that the program writes, until the launch returns.
    pub unsafe fn launch(
        &mut self,
        registration: &Registration,
        args: &[Value<'_>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let notes = self.notes.take();
        let (open, worker) = self.launching(registration)?;
        let begun = Begun::new(registration, notes, open);
        let bind = trace::span(names::BIND, begun.invocation, 0);
        let bind_args = trace::span(names::BIND_ARGS, begun.invocation, args.len() as u64);
        let Registered { loaded, bound } = &mut open.registry.entries[registration.cid() as usize];
        bound.bind(registration.program(), args, &open.arena, &worker.owner, &mut loaded.versions)?;
        drop(bind_args);
        // SAFETY: the caller vouches for the host tensors, and they were bound just now.
        unsafe { open.launch_bound(registration, None, &worker.tally, poll, begun, bind) }
    }

    /// What a launch works with, if the registration may launch here now.
    #[inline]
    pub(super) fn launching(&mut self, registration: &Registration) -> Result<(&mut Open, &Worker), WorkerError> {
        check_registration(registration, &self.worker.owner)?;
        let owner = &self.worker.owner;
        let open = self.open.as_mut().filter(|_| owner.is_open());
        let open = open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })?;
        Ok((open, self.worker))
    }
}

/// A launch that is recorded from here on.
pub(super) struct Begun {
    pub invocation: u32,
    /// When, where that is wanted.
    pub began: Option<Instant>,
    _run: Span,
}

impl Begun {
    #[inline(always)]
    pub fn new(registration: &Registration, notes: Option<Box<Notes>>, open: &Open) -> Self {
        let counts = trace::is_enabled() && !open.device.is_observing();
        let invocation = if counts { trace::next_invocation() } else { 0 };
        let run = trace::span(names::CHIP_RUN, invocation, registration.content_id());
        let began = open.residency.is_some().then(Instant::now);
        if let Some(notes) = notes {
            record_notes(*notes, invocation);
        }
        Self { invocation, began, _run: run }
    }
}

#[cold]
fn record_notes(notes: Notes, invocation: u32) {
    let _config = trace::span(names::CONFIG, invocation, notes.len() as u64);
    for (name, value) in notes {
        drop(trace::span(name, invocation, value));
    }
}

impl Open {
    /// Launches with bound arguments: those of `prepared`, or else the last ones of the registration. `bind` is the span
    /// of binding them.
    ///
    /// # Safety
    /// As for [`Session::launch`]; the arguments were bound in this session and with its arena.
    pub(super) unsafe fn launch_bound(
        &mut self,
        registration: &Registration,
        prepared: Option<&mut Bound>,
        tally: &Tally,
        poll: &mut dyn FnMut() -> bool,
        begun: Begun,
        bind: Span,
    ) -> Result<()> {
        let cid = registration.cid() as usize;
        let invocation = begun.invocation;
        let bound = prepared.as_deref().unwrap_or(&self.registry.entries[cid].bound);
        if bound.is_noop() {
            drop(bind);
            let _runner_run = trace::span(names::RUNNER_RUN, invocation, 0);
            if trace::is_enabled() {
                device_wall(trace::now(), invocation);
            }
            tally.launches.add(1);
            return Ok(());
        }
        let staging = bound.staging_bytes;
        self.grow_staging(cid, staging)?;
        drop(bind);
        let Open { device, arena, registry, workspace, packed, residency, .. } = self;
        let Registered { loaded, bound } = &mut registry.entries[cid];
        let bound = prepared.unwrap_or(bound);
        let repeats = loaded.seen == bound.version;
        if let Some(residency) = residency {
            // SAFETY: the caller vouches for the host tensors.
            unsafe { residency.before(cid as u64, bound, device.as_ref(), arena, packed) };
        }
        let mut times = begun.began.map(|began| Times { began, upload_ns: 0, download_ns: 0 });
        let clock = || residency.as_ref().map(|_| Instant::now());
        let begin = clock();
        // SAFETY: as above.
        let copied = unsafe { loaded.copy_in(bound, device.as_ref(), arena, poll, repeats, invocation) }?;
        tally.h2d_bytes.add(copied);
        times.iter_mut().for_each(|times| times.upload_ns = since(begin));
        bound.stale.clear(&bound.tensors, arena, |tensor| repeats && loaded.executable.overwrites(tensor));
        loaded.find_packed(bound, packed, device.as_ref(), arena, invocation);

        loaded.seen = bound.version;
        let scratch = loaded.scratch.as_ref().map_or(NO_MEMORY, |chunk| arena.chunk_pointer(chunk));
        let launch = device::Launch {
            tensors: &bound.tensors,
            scalars: &bound.scalars,
            repeats,
            packed: packed.of_launch(),
            scratch,
            workspace: &mut workspace.lend(arena),
            poll: &mut *poll,
            invocation,
        };
        let runner_run = trace::span(names::RUNNER_RUN, invocation, 0);
        let begin = if trace::is_enabled() { trace::now() } else { 0 };
        // SAFETY: `bind` checked number, rank, types, extents and overlap; the addresses are live memory of this arena of
        // that size; the scratch memory is what the executable asked for.
        let outcome = unsafe { loaded.executable.launch(launch) };
        if begin != 0 {
            device_wall(begin, invocation);
        }
        drop(runner_run);
        outcome?;
        bound.stale.overwritten(arena);

        let begin = clock();
        // SAFETY: the caller vouches for the host tensors.
        unsafe { loaded.copy_out(bound, device.as_ref(), tally, poll, invocation) }?;
        times.iter_mut().for_each(|times| times.download_ns = since(begin));
        if let (Some(residency), Some(times)) = (residency, times) {
            // SAFETY: as above.
            unsafe { residency.after(cid as u64, bound, &times) };
        }
        tally.launches.add(1);
        if arena.is_poisoned() {
            let _validate = trace::span(names::VALIDATE, invocation, 0);
            loaded.check_staging_guards(bound, arena)?;
            let name = &registration.program().name;
            arena.check_guards(|| format!("found after a launch of '{name}'"))?;
        }
        Ok(())
    }
}

/// Nanoseconds since a moment, if there was one.
fn since(begin: Option<Instant>) -> u64 {
    begin.map_or(0, |begin| u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Records the device's share of a launch, which began at `begin` and ends now.
fn device_wall(begin: u64, invocation: u32) {
    let (end, name, track) = (trace::now(), names::DEVICE_WALL, trace::Track::DEVICE);
    trace::record(trace::Record { begin, end, arg: 0, invocation, name, track });
}

impl Loaded {
    /// Gives each host tensor its place in the staging memory, and fills that with what the program may see there. Gives
    /// the bytes that were copied.
    ///
    /// # Safety
    /// The bound host tensors are valid for reads.
    unsafe fn copy_in(
        &self,
        bound: &mut Bound,
        device: &dyn Device,
        arena: &mut Arena,
        poll: &mut dyn FnMut() -> bool,
        repeats: bool,
        invocation: u32,
    ) -> Result<u64> {
        let Some(staging) = &self.staging else { return Ok(0) };
        let copies = bound.copied(Direction::Out);
        let _copies = copies.map(|bytes| trace::span(names::H2D, invocation, bytes));
        let mut pieces = Pieces::new(poll);
        for staged in &bound.staged {
            let own = arena.chunk_pointer(staging).wrapping_add(staged.offset as usize);
            let target = if staged.kept.is_null() { own } else { staged.kept };
            bound.tensors[staged.tensor as usize].data = target;
            if staged.is_fresh {
                continue;
            }
            if staged.direction == Direction::Out {
                device.memory_is_fresh(target, staged.bytes);
                // The memory holds results of earlier launches, which must not come back in what this one leaves alone.
                if arena.is_poisoned() {
                    arena.fill_chunk(staging, staged.offset, staged.bytes, FILL);
                } else if !(repeats && self.executable.overwrites(staged.tensor as usize)) {
                    arena.fill_chunk(staging, staged.offset, staged.bytes, 0);
                }
            } else {
                let _copy = trace::span(self.spans[staged.param as usize].0, invocation, staged.bytes);
                pieces.copy(staged.bytes, self.what(), |at, now| {
                    // SAFETY: the caller vouches for the host side; the device side is memory of the registration, and as
                    // large as the tensor. Staging memory is no host tensor of anybody, so they do not overlap.
                    unsafe { device.copy_in(target.wrapping_add(at), staged.host.wrapping_add(at), now) }
                })?;
            }
            if arena.is_poisoned() {
                let (offset, bytes) = guard_of(staged);
                arena.fill_chunk(staging, offset, bytes, GUARD);
            }
        }
        Ok(copies.unwrap_or(0))
    }

    /// Drops the packed forms of what the launch writes and finds those of what it multiplies by.
    fn find_packed(
        &self,
        bound: &Bound,
        forms: &mut PackedForms,
        device: &dyn Device,
        arena: &mut Arena,
        invocation: u32,
    ) {
        if !forms.is_empty() {
            for &(tensor, item) in &self.written {
                let TensorArg { data, shape } = &bound.tensors[tensor];
                forms.forget(*data, || shape.elements().unwrap_or(0).saturating_mul(item), arena);
            }
        }
        forms.begin_launch();
        for packable in self.executable.packable() {
            let is_passing = |staged: &Staged| staged.tensor as usize == packable.tensor && staged.kept.is_null();
            let staged = bound.staged.iter().any(is_passing);
            let resident = (!staged).then(|| &bound.tensors[packable.tensor]);
            forms.add(packable, resident, device, arena, invocation);
        }
    }

    /// Copies what the program wrote back to the host tensors.
    ///
    /// # Safety
    /// The bound host tensors that the program writes are valid for writes.
    unsafe fn copy_out(
        &self,
        bound: &Bound,
        device: &dyn Device,
        tally: &Tally,
        poll: &mut dyn FnMut() -> bool,
        invocation: u32,
    ) -> Result<()> {
        let Some(bytes) = bound.copied(Direction::In) else { return Ok(()) };
        let _copies = trace::span(names::D2H, invocation, bytes);
        let mut pieces = Pieces::new(poll);
        for staged in bound.staged.iter().filter(|staged| staged.direction != Direction::In) {
            let _copy = trace::span(self.spans[staged.param as usize].1, invocation, staged.bytes);
            let source = bound.tensors[staged.tensor as usize].data;
            pieces.copy(staged.bytes, self.what(), |at, now| {
                // SAFETY: as for the copy in; the tensor was checked to be writable.
                unsafe { device.copy_out(staged.host.wrapping_add(at), source.wrapping_add(at), now) }
            })?;
        }
        tally.d2h_bytes.add(bytes);
        Ok(())
    }

    /// What an interrupted launch is called.
    fn what(&self) -> impl fmt::Display {
        fmt::from_fn(|f| write!(f, "the launch of {:?}", self.registration.program().name))
    }

    /// Poison mode: whether the program wrote behind the end of a staged tensor.
    fn check_staging_guards(&self, bound: &Bound, arena: &Arena) -> Result<(), WorkerError> {
        let Some(staging) = &self.staging else { return Ok(()) };
        for staged in &bound.staged {
            let (offset, bytes) = guard_of(staged);
            if let Some(behind) = arena.chunk_damage(staging, offset, bytes) {
                let program = self.registration.program();
                let param = program.params[staged.param as usize].name.clone();
                return Err(WorkerError::StagingGuard {
                    program: program.name.clone(),
                    param,
                    bytes: staged.bytes,
                    behind,
                });
            }
        }
        Ok(())
    }
}

/// Start and size of the guard of a staged tensor, within the staging memory.
fn guard_of(staged: &Staged) -> (u64, u64) {
    (staged.offset + staged.bytes, staging_size(staged.bytes, true) - staged.bytes)
}
