//! Scratch memory of a launch.

use super::interpret::Lane;
use crate::device::sim::code::Step;
use crate::device::sim::lower::Lowered;

/// How scratch memory is cut: tiles for each core that runs tasks, then a piece for the steps of each core.
#[derive(Clone, Copy)]
pub(in crate::device::sim) struct ScratchPlan {
    tiles: u64,
    task_cores: usize,
    per_core: u64,
    cores: usize,
}

impl ScratchPlan {
    /// For `cores` cores, of which `task_cores` run tasks.
    pub fn new(lowered: &Lowered, cores: usize, task_cores: usize) -> Self {
        let tiles = lowered.kernels.iter().map(|kernel| kernel.tile_bytes).max().unwrap_or(0);
        let step = lowered.kernels.iter().flat_map(|kernel| &kernel.steps).map(step_scratch).max().unwrap_or(0);
        Self { tiles: round(tiles), task_cores, per_core: round(step), cores }
    }

    pub fn bytes(&self) -> u64 {
        self.tiles * self.task_cores as u64 + self.per_core * self.cores as u64
    }

    /// Gives each lane its part of `scratch`. Cores that run no tasks use no tiles.
    pub(super) fn lay_out(&self, lanes: &mut [Lane], scratch: *mut u8) {
        for (core, lane) in lanes.iter_mut().enumerate() {
            lane.tiles = scratch.wrapping_add(self.tiles as usize * core.min(self.task_cores - 1));
            let steps = self.tiles * self.task_cores as u64 + self.per_core * core as u64;
            lane.scratch = scratch.wrapping_add(steps as usize);
        }
    }
}

/// Up to whole cache lines.
fn round(bytes: u64) -> u64 {
    bytes.next_multiple_of(64)
}

/// Bytes that one core needs to run a step.
fn step_scratch(step: &Step) -> u64 {
    match step {
        Step::Chain(chain) => chain.machine.scratch_bytes(chain.bound[1] as usize) as u64,
        Step::MatMul(product) => {
            let [m, n, k] = product.bound.map(|extent| extent as usize);
            let kernels = product.kernels.iter().flatten();
            kernels.map(|kernel| kernel.scratch_bytes(m, n, k) as u64).max().unwrap_or(0)
        }
        Step::Block(block) => block.scratch_bytes() as u64,
    }
}
