//! `a2a3sim`: the simulated chip. It computes on the CPU.
//!
//! [`lower`] turns a program into fused steps once; [`exec`] runs them; [`pool`] are the cores.
#![allow(unsafe_code)] // the device contract passes addresses

mod code;
mod exec;
mod lower;
pub mod pool;
#[cfg(test)]
mod tests;

use crate::device::{Device, DeviceError, Executable, Launch};
use crate::kernels::Isa;
use crate::program::{Operand, Program, verify};
use code::{Code, Inst, Step};
use exec::{ScratchPlan, State};
use lower::Lowered;
use pool::CorePool;
use std::sync::Arc;

/// The simulated chip.
pub struct SimDevice {
    isa: Isa,
    pool: Arc<CorePool>,
}

impl SimDevice {
    /// A chip with `cores` cores whose kernels use `isa`.
    pub fn new(cores: usize, isa: Isa) -> Self {
        Self { isa, pool: Arc::new(CorePool::new(cores)) }
    }

    /// The instruction set of the kernels.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

impl Device for SimDevice {
    fn platform(&self) -> &'static str {
        "a2a3sim"
    }

    fn cores(&self) -> usize {
        self.pool.cores()
    }

    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        verify(program)?;
        let lowered = lower::lower(program, self.isa)?;
        let round = |bytes: u64| bytes.next_multiple_of(64);
        let plan = ScratchPlan {
            tiles: round(lowered.kernels.iter().map(|kernel| kernel.tile_bytes).max().unwrap_or(0)),
            per_core: round(
                lowered.kernels.iter().flat_map(|kernel| &kernel.steps).map(step_scratch).max().unwrap_or(0),
            ),
        };
        Ok(Box::new(SimExecutable {
            name: program.name.clone(),
            files: program.files.clone(),
            estimate: estimate(&lowered),
            state: State::new(&lowered, self.pool.cores()),
            lowered,
            plan,
            pool: Arc::clone(&self.pool),
        }))
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) };
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) };
    }
}

/// A program made ready for the simulated chip.
struct SimExecutable {
    name: String,
    files: Vec<String>,
    lowered: Lowered,
    state: State,
    plan: ScratchPlan,
    pool: Arc<CorePool>,
    /// Nanoseconds of a launch, as far as registration can tell.
    estimate: u64,
}

impl Executable for SimExecutable {
    fn scratch_bytes(&self) -> u64 {
        self.plan.tiles + self.plan.per_core * self.pool.cores() as u64
    }

    fn estimated_ns(&self) -> u64 {
        self.estimate
    }

    fn overwrites(&self, tensor: usize) -> bool {
        self.state.overwrites(tensor)
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise; the plan is the one that `scratch_bytes` tells.
        unsafe { exec::launch(&self.lowered, &mut self.state, self.plan, &self.pool, launch, &self.files, &self.name) }
    }
}

/// Bytes that one core needs to run a step.
fn step_scratch(step: &Step) -> u64 {
    match step {
        Step::Chain(chain) => chain.machine.scratch_bytes(chain.bound[1] as usize) as u64,
        Step::MatMul(product) => {
            let [m, n, k] = product.bound.map(|extent| extent as usize);
            product.kernel.scratch_bytes(m, n, k) as u64
        }
    }
}

/// Nanoseconds of a launch at the largest extents. A loop whose bounds are not constants counts as long.
fn estimate(lowered: &Lowered) -> u64 {
    lowered.kernels.iter().map(code_ns).fold(code_ns(&lowered.entry), u64::saturating_add)
}

fn code_ns(code: &Code) -> u64 {
    const LONG: u64 = 1_000_000_000;
    // Rounds of the loops around the instruction, innermost last, each with its end.
    let mut loops: Vec<(usize, u64)> = Vec::new();
    let mut total = 0u64;
    for (pc, inst) in code.insts.iter().enumerate() {
        while loops.last().is_some_and(|&(end, _)| end <= pc) {
            loops.pop();
        }
        let here = match inst {
            Inst::LoopTest { stop, step, exit, .. } => {
                loops.push((*exit as usize, rounds(&code.insts[pc - 1], *stop, *step).unwrap_or(LONG)));
                10
            }
            Inst::Jump(target) if (*target as usize) < pc => LONG,
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
    }
}
