//! `a2a3sim` and `a5sim`: the simulated chips. They compute on the CPU, both alike.
//!
//! [`lower`] turns a program into fused steps once; [`exec`] runs them; [`pool`] are the cores.
#![allow(unsafe_code)] // the device contract passes addresses

mod account;
mod code;
mod exec;
mod lower;
mod packable;
pub mod pool;
pub mod profile;
pub mod sanitize;
#[cfg(test)]
mod tests;
mod transfer;

use crate::device::{Device, DeviceError, Executable, Launch, Packable, PackedForm, TensorArg};
use crate::kernels::Isa;
use crate::kernels::matmul::MatRef;
use crate::program::{Operand, Program, verify};
use crate::shape::Shape;
use code::{Code, Inst, Step};
use exec::{Pace, Prepared, ScratchPlan, State, Waits};
use lower::{Lowered, Purpose};
use pool::CorePool;
use std::sync::Arc;

/// Which chip is simulated. On-chip buffers, in which the two differ, are the business of who compiles for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chip {
    /// The Ascend 910B.
    A2a3,
    /// The Ascend 950.
    A5,
}

/// The simulated chip.
pub struct SimDevice {
    chip: Chip,
    isa: Isa,
    pool: Arc<CorePool>,
    seed: Option<u64>,
}

impl SimDevice {
    /// A chip with `cores` cores whose kernels use `isa`.
    pub fn new(cores: usize, isa: Isa) -> Self {
        Self { chip: Chip::A2a3, isa, pool: Arc::new(CorePool::new(cores)), seed: None }
    }

    /// A chip with `cores` cores whose kernels use the best instruction set of this processor.
    pub fn native(cores: usize) -> Self {
        Self::new(cores, Isa::detect())
    }

    /// The same chip with a schedule for tests: every task waits for others that can run beside it, however short it is,
    /// and those that wait run in a random order that follows from `seed`.
    pub fn with_schedule_seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// The same under the name of this chip.
    pub fn with_chip(self, chip: Chip) -> Self {
        Self { chip, ..self }
    }

    /// The instruction set of the kernels.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    fn executable(&self, program: &Program) -> Result<SimExecutable, DeviceError> {
        verify(program)?;
        let lowered = lower::lower(program, self.isa, Purpose::Launches)?;
        let paces: Vec<Pace> =
            lowered.kernels.iter().map(|code| Pace::between(code_ns(code, 1), code_ns(code, LONG))).collect();
        let task_cores = if self.seed.is_some() || may_overlap(&lowered.entry) { self.pool.cores() } else { 1 };
        let plan = ScratchPlan::new(&lowered, self.pool.cores(), task_cores);
        Ok(SimExecutable {
            packable: packable::packable(program, &lowered),
            name: program.name.clone(),
            files: program.files.clone(),
            estimate: estimate(&lowered),
            state: State::new(&lowered, self.pool.cores(), task_cores, paces, self.seed),
            waits: match (self.seed, task_cores) {
                (Some(_), _) => Waits::Always,
                (None, 1) => Waits::Never,
                _ => Waits::Worth,
            },
            lowered,
            plan,
            pool: Arc::clone(&self.pool),
        })
    }
}

impl Device for SimDevice {
    fn platform(&self) -> &'static str {
        match self.chip {
            Chip::A2a3 => "a2a3sim",
            Chip::A5 => "a5sim",
        }
    }

    fn cores(&self) -> usize {
        self.pool.cores()
    }

    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        Ok(Box::new(self.executable(program)?))
    }

    fn packed_bytes(&self, form: PackedForm, shape: &Shape) -> u64 {
        let [k, n] = packable::operand_extents(form, shape);
        packable::packer(form, self.isa).map_or(0, |kernels| kernels.packed_bytes(k, n) as u64)
    }

    unsafe fn pack(&self, form: PackedForm, matrix: &TensorArg, dst: *mut u8) {
        let [k, n] = packable::operand_extents(form, &matrix.shape);
        let Some(kernels) = packable::packer(form, self.isa) else { return };
        let row_stride = if form.transposed { k } else { n } * form.dtype.size();
        let b = MatRef { data: matrix.data, row_stride: row_stride as isize };
        // SAFETY: the caller's promise.
        unsafe { kernels.pack_b(b, k, n, dst) };
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { transfer::copy(&self.pool, dst, src, bytes) };
        Ok(())
    }

    unsafe fn equals(&self, memory: *const u8, host: *const u8, bytes: usize) -> bool {
        // SAFETY: the caller vouches for both ranges.
        unsafe { std::slice::from_raw_parts(memory, bytes) == std::slice::from_raw_parts(host, bytes) }
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { transfer::copy(&self.pool, dst, src, bytes) };
        Ok(())
    }
}

/// A program made ready for the simulated chip.
struct SimExecutable {
    name: String,
    files: Vec<String>,
    lowered: Lowered,
    state: State,
    packable: Vec<Packable>,
    plan: ScratchPlan,
    waits: Waits,
    pool: Arc<CorePool>,
    /// Nanoseconds of a launch, as far as registration can tell.
    estimate: u64,
}

impl Executable for SimExecutable {
    fn scratch_bytes(&self) -> u64 {
        self.plan.bytes()
    }

    fn estimated_ns(&self) -> u64 {
        self.estimate
    }

    fn packable(&self) -> &[Packable] {
        &self.packable
    }

    fn overwrites(&self, tensor: usize) -> bool {
        self.state.overwrites(tensor)
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        let Self { lowered, state, packable, plan, pool, waits, files, name, .. } = self;
        let prepared = Prepared { lowered, packable, plan: *plan, pool, waits: *waits, files, name };
        // SAFETY: the caller's promise; the plan is the one that `scratch_bytes` tells.
        unsafe { exec::launch(&prepared, state, launch) }
    }
}

/// Nanoseconds of a launch at the largest extents. A loop whose bounds are not constants counts as long.
fn estimate(lowered: &Lowered) -> u64 {
    let ns = |code| code_ns(code, LONG);
    lowered.kernels.iter().map(ns).fold(ns(&lowered.entry), u64::saturating_add)
}

/// Rounds of a loop that may be long.
const LONG: u64 = 1_000_000_000;

/// Whether the entry may have two blocks of tasks to run at once.
fn may_overlap(entry: &Code) -> bool {
    let launches = || {
        entry.insts.iter().filter_map(|inst| match inst {
            Inst::Launch { blocks, .. } => Some(*blocks),
            _ => None,
        })
    };
    let loops = entry.insts.iter().any(|inst| matches!(inst, Inst::LoopNext { .. } | Inst::Jump(_)));
    let single = |blocks| matches!(blocks, Operand::Int(..=1));
    launches().count() > 1 || !launches().all(single) || (loops && launches().count() > 0)
}

/// Nanoseconds of a run, where loops whose bounds are not constants have `unknown` rounds.
fn code_ns(code: &Code, unknown: u64) -> u64 {
    // Rounds of the loops around the instruction, innermost last, each with its end.
    let mut loops: Vec<(usize, u64)> = Vec::new();
    let mut total = 0u64;
    for (pc, inst) in code.insts.iter().enumerate() {
        while loops.last().is_some_and(|&(end, _)| end <= pc) {
            loops.pop();
        }
        let here = match inst {
            Inst::LoopTest { stop, step, exit, .. } => {
                loops.push((*exit as usize, rounds(&code.insts[pc - 1], *stop, *step).unwrap_or(unknown)));
                10
            }
            Inst::Jump(target) if (*target as usize) < pc => unknown,
            Inst::Step(step) => step_ns(&code.steps[*step as usize]),
            _ => 10,
        };
        total = total.saturating_add(loops.iter().fold(here, |product, &(_, rounds)| product.saturating_mul(rounds)));
    }
    total
}

/// How often a loop runs, where `before`, which sets its count, and its bounds are constants.
fn rounds(before: &Inst, stop: Operand, step: Operand) -> Option<u64> {
    let (Inst::Scalar { args: [Operand::Int(start), _], .. }, Operand::Int(stop), Operand::Int(step)) =
        (before, stop, step)
    else {
        return None;
    };
    let (distance, step) = (i128::from(stop) - i128::from(*start), i128::from(step));
    if step == 0 || (distance > 0) != (step > 0) {
        return Some(0);
    }
    u64::try_from((distance.abs() + step.abs() - 1) / step.abs()).ok()
}

fn step_ns(step: &Step) -> u64 {
    match step {
        Step::Chain(chain) => u64::from(chain.bound[0]) * u64::from(chain.bound[1]) * u64::from(chain.cost) / 1000 + 10,
        Step::MatMul(product) => product.bound.iter().map(|&extent| u64::from(extent)).product::<u64>() / 50 + 50,
        Step::Block(block) => block.most_work() / 1000 + 20,
    }
}
