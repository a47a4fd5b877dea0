//! A launch of which each step is timed: in order, the steps on all cores.
#![allow(unsafe_code)] // the device contract passes addresses

use super::frame::{Frame, View};
use super::interpret::{Context, Core, Element, Host};
use super::packed::Packed;
use super::poll::Poller;
use super::script::StepId;
use super::step::{extents, region};
use super::{ENTRY, Prepared, Refusal, State, Stop, entry};
use crate::device::sim::account::Account;
use crate::device::sim::code::{BlockMem, Mem, Step};
use crate::device::sim::lower::Lowered;
use crate::device::{DeviceError, Launch, Workspace};
use crate::dtype::DType;
use crate::kernels::settle_streams;
use crate::program::{LaunchArg, Operand};
use crate::trace::{now, ticks_to_ns};

/// What was counted and timed in some launches.
pub(in crate::device::sim) struct Tally {
    pub launches: u64,
    /// By kernel and step.
    pub kernels: Vec<Vec<StepTally>>,
    /// Ticks that two looks at the clock take.
    clock: u64,
}

/// Of one step.
#[derive(Default)]
pub(in crate::device::sim) struct StepTally {
    pub runs: u64,
    ticks: u64,
    /// By part of its account.
    pub parts: Vec<PartTally>,
}

/// Of one operation of it.
#[derive(Clone, Default)]
pub(in crate::device::sim) struct PartTally {
    /// Elements that it worked on; multiply-adds of a product.
    pub elements: u64,
    pub rows: u64,
    pub device_bytes: u64,
    pub tile_bytes: u64,
}

impl Tally {
    /// Nothing was counted yet.
    pub fn new(lowered: &Lowered) -> Self {
        let step = |account: &Account| StepTally {
            parts: vec![PartTally::default(); account.parts.len()],
            ..StepTally::default()
        };
        let kernels = lowered.kernels.iter().map(|code| code.accounts.iter().map(step).collect());
        let look = || {
            let begin = now();
            now().saturating_sub(begin)
        };
        let clock = std::iter::repeat_with(look).take(64).min().unwrap_or(0);
        Self { launches: 0, kernels: kernels.collect(), clock }
    }
}

impl StepTally {
    pub fn ns(&self) -> f64 {
        ticks_to_ns(self.ticks) as f64
    }

    /// Counts a run that took `ticks`.
    fn add(&mut self, step: &Step, account: &Account, frame: &Frame, ticks: u64) -> Result<(), String> {
        self.runs += 1;
        self.ticks += ticks;
        let [rows, elements] = extent(step, frame)?;
        for (part, counted) in account.parts.iter().zip(&mut self.parts) {
            counted.elements += if part.column { rows } else { elements };
            counted.rows += rows;
        }
        let mut owners = account.owners.iter();
        let mut bytes = |operand: &Mem, bytes: u64| {
            let counted = &mut self.parts[*owners.next().expect("one for each operand")];
            match operand {
                Mem::Box(_) => counted.device_bytes += bytes,
                Mem::Tile(_) | Mem::Window(_) => counted.tile_bytes += bytes,
            }
        };
        match step {
            Step::Chain(chain) => {
                let cols = elements.checked_div(rows).unwrap_or(0);
                for operand in &chain.mems {
                    let spanned = |spans: bool, extent: u64| if spans { extent } else { 1 };
                    let count = spanned(operand.extent.rows, rows) * spanned(operand.extent.cols, cols);
                    bytes(&operand.mem, count * operand.dtype.size() as u64);
                }
            }
            Step::MatMul(product) => {
                let [m, n, k] = extents(product, frame)?;
                for (operand, count) in step.mems().zip([m * k, k * n, m * n, m * n]) {
                    bytes(&operand.mem, count * operand.dtype.size() as u64);
                }
            }
            Step::Block(block) => {
                for operand in &block.mems {
                    let BlockMem::Mem { mem, span, bound } = operand else { continue };
                    let [rows, cols] = region(*span, *bound, frame)?;
                    bytes(&mem.mem, rows * cols * mem.dtype.size() as u64);
                }
                if let Some(tensor) = block.tensor {
                    self.parts[0].device_bytes += elements * tensor.dtype.size() as u64;
                }
            }
        }
        Ok(())
    }
}

/// The rows of a step now, and the elements that it works on; of a product its multiply-adds.
fn extent(step: &Step, frame: &Frame) -> Result<[u64; 2], String> {
    Ok(match step {
        Step::Chain(chain) => {
            let [rows, cols] = region(chain.region, chain.bound, frame)?;
            [rows, rows * cols]
        }
        Step::MatMul(product) => {
            let [m, n, k] = extents(product, frame)?;
            [m, m * n * k]
        }
        Step::Block(block) => {
            let [rows, cols] = region(block.region, block.bound, frame)?;
            let mut most = rows * cols;
            for operand in &block.mems {
                // A reduction works on its argument, of which the result is a row or a column.
                if let BlockMem::Mem { span, bound, .. } = operand {
                    let [rows, cols] = region(*span, *bound, frame)?;
                    most = most.max(rows * cols);
                }
            }
            [rows, most]
        }
    })
}

/// Runs `launch` once, in order, and adds to `tally` what each step took.
///
/// # Safety
/// As for [`super::launch`].
pub(in crate::device::sim) unsafe fn launch_profiled(
    prepared: &Prepared<'_>,
    state: &mut State,
    launch: Launch<'_>,
    tally: &mut Tally,
) -> Result<(), DeviceError> {
    let &Prepared { lowered, packable, plan, pool, .. } = prepared;
    let State { entry: frame, lanes, paces, packed, .. } = state;
    Packed::list(packed, packable, launch.tensors, launch.packed);
    plan.lay_out(lanes, launch.scratch);
    let poller = Poller::new(launch.poll);
    let context = Context {
        lowered,
        pool,
        poller: &poller,
        paces,
        packed,
        tensors: launch.tensors,
        lanes: lanes.as_mut_ptr(),
        invocation: 0,
    };
    super::bind(&lowered.entry, frame, launch.tensors, launch.scalars);
    tally.launches += 1;
    let mut profiler = Profiler { workspace: launch.workspace, tally };
    let core = &mut Core::new(&context, 0, true);
    let result = core.code(ENTRY, &lowered.entry, frame, &mut profiler);
    settle_streams();
    result.map_err(|stop| prepared.error(stop))
}

/// The host of a profiled entry and of its kernels.
struct Profiler<'a> {
    workspace: &'a mut dyn Workspace,
    tally: &'a mut Tally,
}

impl Host for Profiler<'_> {
    fn step(&mut self, core: &mut Core<'_>, id: StepId, step: &Step, frame: &Frame) -> Result<(), Stop> {
        let begin = now();
        core.step(id, step, frame).map_err(Stop::Message)?;
        let ticks = now().saturating_sub(begin + self.tally.clock);
        let account = &core.context.lowered.kernels[id.kernel as usize].accounts[id.step as usize];
        let counted = &mut self.tally.kernels[id.kernel as usize][id.step as usize];
        counted.add(step, account, frame, ticks).map_err(Stop::Message)?;
        core.look_around()
    }

    fn touches(&mut self, _: &mut Core<'_>, _: Element<'_>, _: &Frame, _: bool) -> Result<(), Stop> {
        Ok(())
    }

    fn launch(
        &mut self,
        core: &mut Core<'_>,
        kernel: u32,
        args: &[LaunchArg],
        blocks: Operand,
        frame: &Frame,
    ) -> Result<(), Stop> {
        let blocks = frame.int(blocks).max(0) as u64;
        let code = &core.context.lowered.kernels[kernel as usize];
        let mut inner = core.take_frame(kernel);
        let mut result = Ok(());
        for block in 0..blocks {
            entry::bind(code, &mut inner, args, frame);
            inner.block = [block, blocks];
            result = core.code(kernel, code, &mut inner, self);
            if result.is_err() {
                break;
            }
        }
        core.put_frame(kernel, inner);
        result
    }

    fn create(
        &mut self,
        _: u32,
        dtype: DType,
        dims: &[Operand],
        fill: Option<f64>,
        frame: &Frame,
    ) -> Result<View, Refusal> {
        entry::create(self.workspace, dtype, dims, fill, frame)
    }
}
