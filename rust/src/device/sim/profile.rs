//! The simulated chip that times each step of what it runs.
//!
//! It is a device of its own, so that the chip that does not profile pays nothing. The plan is the one of ordinary launches;
//! tasks run one after the other and the steps of each on all cores, as launches do whose tasks cannot overlap. What is
//! timed is what is executed: a chain of fused operations is one step, since its operations do not exist apart.
#![allow(unsafe_code)] // the device contract passes addresses

use super::code::Step;
use super::exec::{self, Prepared, ScratchPlan, State, Tally, Waits};
use super::lower::{self, Lowered, Purpose};
use super::pool::CorePool;
use super::{SimDevice, packable};
use crate::device::profile::{OperationProfile, Profile, StepKind, StepProfile};
use crate::device::{Device, DeviceError, Executable, Launch, Packable, PackedForm, TensorArg};
use crate::kernels::chain::Prices;
use crate::program::{Program, verify};
use crate::shape::Shape;
use std::sync::Arc;

/// A simulated chip that times each step.
pub struct ProfilingDevice {
    sim: SimDevice,
}

impl ProfilingDevice {
    /// `sim`, timed.
    pub fn new(sim: SimDevice) -> Self {
        Self { sim }
    }
}

impl Device for ProfilingDevice {
    fn platform(&self) -> &'static str {
        self.sim.platform()
    }

    fn cores(&self) -> usize {
        self.sim.cores()
    }

    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        verify(program)?;
        let lowered = lower::lower(program, self.sim.isa, Purpose::Profiles)?;
        let cores = self.sim.pool.cores();
        let plan = ScratchPlan::new(&lowered, cores, 1);
        let paces = lowered.kernels.iter().map(|_| exec::Pace::between(0, 0)).collect();
        Ok(Box::new(ProfilingExecutable {
            packable: packable::packable(program, &lowered),
            state: State::new(&lowered, cores, 1, paces, None),
            tally: Tally::new(&lowered),
            prices: Prices::new(self.sim.isa),
            lowered,
            plan,
            pool: Arc::clone(&self.sim.pool),
            files: program.files.clone(),
            name: program.name.clone(),
        }))
    }

    fn packed_bytes(&self, form: PackedForm, shape: &Shape) -> u64 {
        self.sim.packed_bytes(form, shape)
    }

    unsafe fn pack(&self, form: PackedForm, matrix: &TensorArg, dst: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.sim.pack(form, matrix, dst) };
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.copy_in(dst, src, bytes) }
    }

    unsafe fn equals(&self, memory: *const u8, host: *const u8, bytes: usize) -> bool {
        // SAFETY: the caller vouches for both ranges.
        unsafe { self.sim.equals(memory, host, bytes) }
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.sim.copy_out(dst, src, bytes) }
    }
}

struct ProfilingExecutable {
    name: String,
    files: Vec<String>,
    lowered: Lowered,
    packable: Vec<Packable>,
    state: State,
    plan: ScratchPlan,
    pool: Arc<CorePool>,
    tally: Tally,
    prices: Prices,
}

impl Executable for ProfilingExecutable {
    fn scratch_bytes(&self) -> u64 {
        self.plan.bytes()
    }

    /// Long: nobody waits for a profile with the Python lock held.
    fn estimated_ns(&self) -> u64 {
        u64::MAX
    }

    fn packable(&self) -> &[Packable] {
        &self.packable
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        let Self { lowered, packable, state, plan, pool, files, name, tally, .. } = self;
        let prepared = Prepared { lowered, packable, plan: *plan, pool, waits: Waits::Never, files, name };
        // SAFETY: the caller's promise; the plan is the one that `scratch_bytes` tells.
        unsafe { exec::launch_profiled(&prepared, state, launch, tally) }
    }

    fn take_profile(&mut self) -> Option<Profile> {
        let Self { lowered, tally, prices, .. } = self;
        let taken = std::mem::replace(tally, Tally::new(lowered));
        let mut steps = Vec::new();
        for (kernel, (code, tallies)) in (0..).zip(lowered.kernels.iter().zip(&taken.kernels)) {
            // Each step stands at one instruction.
            let places = code.insts.iter().zip(&code.at).filter_map(|(inst, &at)| inst.step().map(|step| (step, at)));
            for (step, at) in places {
                let (counted, account) = (&tallies[step as usize], &code.accounts[step as usize]);
                let operations = account.parts.iter().zip(&counted.parts).map(|(part, counted)| {
                    let ps = part.body.iter().map(|&inst| prices.element(inst) * counted.elements as f64).sum::<f64>()
                        + part.rows.iter().map(|&inst| prices.row(inst) * counted.rows as f64).sum::<f64>();
                    // A sum of nothing is -0.
                    OperationProfile {
                        name: part.name,
                        at: part.at,
                        dtype: part.dtype,
                        operations: counted.elements * part.operations,
                        device_bytes: counted.device_bytes,
                        tile_bytes: counted.tile_bytes,
                        alone_ns: ps.abs() / 1e3,
                    }
                });
                let operations = operations.collect();
                let kind = match code.steps[step as usize] {
                    Step::Chain(_) => StepKind::Chain,
                    Step::MatMul(_) => StepKind::Product,
                    Step::Block(_) => StepKind::Tile,
                };
                let (runs, ns) = (counted.runs, counted.ns());
                steps.push(StepProfile { kernel, kind, at, runs, ns, operations });
            }
        }
        Some(Profile { launches: taken.launches, steps })
    }
}
