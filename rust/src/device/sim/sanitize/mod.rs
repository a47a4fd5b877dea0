//! The simulated chip that checks what programs do.
//!
//! It is a device of its own, so that the chip that does not check pays nothing. A program is lowered statement by
//! statement, and runs in order on one core with a host that looks at each access before it happens ([`super::exec`]).
//!
//! | sanitizer | keeps | lives as long as |
//! |---|---|---|
//! | `uninit` | [`shadow`]: which bytes of device memory were written | the worker |
//! | `race` | [`tasks`] and what they wait for, [`log`] of accesses | a launch |
//! | `bounds` | valid regions of tiles | a block |
//!
//! Without a sanitizer it still follows the tasks, which `pypto inspect` draws.
#![allow(unsafe_code)] // the device contract passes addresses

pub(super) mod area;
pub(super) mod log;
pub(super) mod shadow;
pub(super) mod tasks;

use super::SimDevice;
use super::exec::{self, Prepared, ScratchPlan, State, Waits};
use super::lower::{self, Lowered, Purpose};
use super::pool::CorePool;
use crate::device::profile::TaskOf;
use crate::device::{Device, DeviceError, Executable, Launch};
use crate::program::{Program, verify};
use shadow::Shadow;
use std::sync::{Arc, Mutex, PoisonError};

/// Which sanitizers are on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sanitizers {
    /// Tasks that touch the same bytes in no declared order.
    pub race: bool,
    /// Reads of what nothing wrote.
    pub uninit: bool,
    /// Accesses outside what there is.
    pub bounds: bool,
}

impl Sanitizers {
    /// Whether one is on.
    pub fn any(self) -> bool {
        self.race || self.uninit || self.bounds
    }
}

/// A simulated chip that checks what programs do.
pub struct CheckingDevice {
    sim: SimDevice,
    sanitizers: Sanitizers,
    shadow: Arc<Mutex<Shadow>>,
}

impl CheckingDevice {
    /// `sim` with these sanitizers.
    pub fn new(sim: SimDevice, sanitizers: Sanitizers) -> Self {
        Self { sim, sanitizers, shadow: Arc::default() }
    }
}

impl Device for CheckingDevice {
    fn platform(&self) -> &'static str {
        self.sim.platform()
    }

    fn cores(&self) -> usize {
        self.sim.cores()
    }

    fn is_observing(&self) -> bool {
        !self.sanitizers.any()
    }

    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        verify(program)?;
        let lowered = lower::lower(program, self.sim.isa, Purpose::Checks)?;
        let cores = self.sim.pool.cores();
        let plan = ScratchPlan::new(&lowered, cores, 1);
        let paces = lowered.kernels.iter().map(|_| exec::Pace::between(0, 0)).collect();
        Ok(Box::new(CheckingExecutable {
            state: State::new(&lowered, cores, 1, paces, None),
            lowered,
            plan,
            pool: Arc::clone(&self.sim.pool),
            program: program.clone(),
            sanitizers: self.sanitizers,
            shadow: Arc::clone(&self.shadow),
            tasks: Vec::new(),
        }))
    }

    fn memory_is_fresh(&self, data: *const u8, bytes: u64) {
        self.shadow().forget(data as usize, bytes as usize);
    }

    fn memory_is_set(&self, data: *const u8, bytes: u64) {
        self.shadow().written(data as usize, bytes as usize);
    }

    unsafe fn equals(&self, memory: *const u8, host: *const u8, bytes: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.sim.equals(memory, host, bytes) }
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        self.shadow().written(dst as usize, bytes);
        // SAFETY: the caller's promise.
        unsafe { self.sim.copy_in(dst, src, bytes) }
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.copy_out(dst, src, bytes) }
    }
}

impl CheckingDevice {
    fn shadow(&self) -> std::sync::MutexGuard<'_, Shadow> {
        self.shadow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct CheckingExecutable {
    program: Program,
    lowered: Lowered,
    state: State,
    plan: ScratchPlan,
    pool: Arc<CorePool>,
    sanitizers: Sanitizers,
    shadow: Arc<Mutex<Shadow>>,
    /// Of the last launch.
    tasks: Vec<TaskOf>,
}

impl Executable for CheckingExecutable {
    fn scratch_bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Long: a launch that checks is.
    fn estimated_ns(&self) -> u64 {
        u64::MAX
    }

    fn take_tasks(&mut self) -> Option<Vec<TaskOf>> {
        Some(std::mem::take(&mut self.tasks))
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        let Self { program, lowered, state, plan, pool, sanitizers, shadow, tasks } = self;
        let mut shadow = shadow.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, name) = (&program.files[..], &program.name[..]);
        let prepared = Prepared { lowered, packable: &[], plan: *plan, pool, waits: Waits::Never, files, name };
        let rules = exec::Rules { program, sanitizers: *sanitizers, shadow: &mut shadow, tasks };
        // SAFETY: the caller's promise; the plan is the one that `scratch_bytes` tells.
        unsafe { exec::launch_checked(&prepared, state, launch, rules) }
    }
}
