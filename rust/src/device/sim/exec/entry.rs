//! The entry of a launch: it runs on the caller, in order, and says which tasks there are.

use super::access::write_element_all;
use super::frame::{Frame, View};
use super::interpret::{Core, Element, Host, Kernel, ROUND_PS};
use super::script::{Script, StepId};
use super::wave::Wave;
use super::{Refusal, Stop};
use crate::device::Workspace;
use crate::device::sim::code::{Code, Param, Step};
use crate::dtype::DType;
use crate::program::{LaunchArg, Operand};
use crate::shape::Shape;
use crate::trace::{self, TaskRow, Track};
use std::ops::Range;

/// The host of the entry.
pub(super) struct Entry<'a> {
    pub workspace: &'a mut dyn Workspace,
    pub wave: &'a mut Wave,
    /// Which tasks wait in the wave.
    pub waits: Waits,
    /// Times the tasks that run one after the other.
    pub tasks: TaskRow,
    /// Where the core's budget falls below this, the entry has gone on for longer than tasks may hide.
    horizon: i64,
}

/// Which tasks wait for others that can run beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::device::sim) enum Waits {
    /// None: there is one block of one task, or one core.
    Never,
    /// Those that are worth it.
    Worth,
    /// All.
    Always,
}

/// Nanoseconds of a task for which it is worth to look for others that can run beside it: the look takes a few hundred.
const WORTH_NS: u64 = 3_000;
/// The same where later launches take over what the look finds. Tasks of this estimate take about 0.4 us: a thousand of them
/// run 1.5 times as fast on two cores as on one, and where each depends on the last, the one launch that looks takes twice
/// as long.
const WORTH_AGAIN_NS: u64 = 100;

/// Nanoseconds of a task from which on its span has ends of its own. Estimates are of steps alone, so a task that is thought
/// to take as long does.
pub(super) const ALONE_NS: u64 = 500;
/// Work of the entry that counts to the task that comes next: two rounds of a loop.
const BETWEEN_PS: i64 = 2 * ROUND_PS;

impl Host for Entry<'_> {
    fn step(&mut self, _: &mut Core<'_>, _: StepId, _: &Step, _: &Frame) -> Result<(), Stop> {
        unreachable!("verified: the entry has no tiles")
    }

    fn round(&mut self, core: &mut Core<'_>) -> Result<(), Stop> {
        core.budget -= ROUND_PS;
        if core.budget < self.horizon {
            self.pause();
        }
        core.look_around()
    }

    fn touches(&mut self, core: &mut Core<'_>, _: Element<'_>, _: &Frame, _: bool) -> Result<(), Stop> {
        self.wave.run(core)
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
        let context = core.context;
        let waits = match self.waits {
            Waits::Never => false,
            Waits::Worth => {
                let worth = if core.is_recording() { WORTH_AGAIN_NS } else { WORTH_NS };
                context.paces[kernel as usize].ns().saturating_mul(blocks) >= worth
            }
            Waits::Always => true,
        };
        if waits {
            // So no group is open while something waits.
            self.pause();
            return self.wave.add(core, kernel, args, blocks, frame);
        }
        self.wave.run(core)?;
        self.now(core, kernel, args, blocks, frame)
    }

    fn create(
        &mut self,
        _: u32,
        dtype: DType,
        dims: &[Operand],
        fill: Option<f64>,
        frame: &Frame,
    ) -> Result<View, Refusal> {
        self.pause();
        create(self.workspace, dtype, dims, fill, frame)
    }
}

/// Makes device memory, with a value in every element or undefined.
pub(super) fn create(
    workspace: &mut dyn Workspace,
    dtype: DType,
    dims: &[Operand],
    fill: Option<f64>,
    frame: &Frame,
) -> Result<View, Refusal> {
    let mut extents = [0u64; crate::shape::MAX_RANK];
    for (to, &dim) in extents.iter_mut().zip(dims) {
        let dim = frame.int(dim);
        *to = u64::try_from(dim)
            .ok()
            .filter(|&dim| dim > 0)
            .ok_or_else(|| format!("create_tensor with an extent of {dim}; every extent must be at least 1"))?;
    }
    let shape = Shape::new(&extents[..dims.len()]).expect("verified: the rank is bounded");
    let bytes = shape.elements().and_then(|elements| elements.checked_mul(dtype.size() as u64));
    let bytes = bytes
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(|| format!("create_tensor of {shape} exceeds the address space"))?;
    let data = workspace.reserve(bytes).map_err(Refusal::Device)?;
    if let Some(value) = fill {
        let bits = if dtype.is_float() { u64::from((value as f32).to_bits()) } else { value as i64 as u64 };
        // SAFETY: the workspace gave `bytes` bytes.
        unsafe { write_element_all(data, dtype, bytes as usize / dtype.size(), bits) };
    }
    Ok(View::whole(data, View::CREATED, &shape))
}

impl<'a> Entry<'a> {
    /// For a launch of which no task has run. `invocation`: as in [`super::interpret::Context`].
    pub fn new(workspace: &'a mut dyn Workspace, wave: &'a mut Wave, waits: Waits, invocation: u32) -> Self {
        let tasks = TaskRow::new(invocation, Track::core(0));
        Self { workspace, wave, waits, tasks, horizon: i64::MIN }
    }

    /// Takes the steps of an earlier launch.
    pub fn again(&mut self, core: &mut Core<'_>, script: &Script) -> Result<(), Stop> {
        let mut first = 0;
        for wave in &script.waves {
            self.row_again(core, script, first..wave.tasks.start)?;
            // So no group is open while the cores run tasks.
            self.pause();
            self.wave.again(core, script, wave)?;
            first = wave.tasks.end;
        }
        self.row_again(core, script, first..script.tasks.len())
    }

    /// Runs tasks of an earlier launch one after the other.
    fn row_again(&mut self, core: &mut Core<'_>, script: &Script, tasks: Range<usize>) -> Result<(), Stop> {
        let mut at = script.begin_of(tasks.start);
        let mut left = &script.tasks[tasks];
        if !self.tasks.is_on() {
            return core.tasks_again(script, left, &mut at);
        }
        self.tasks.begins();
        while let Some(first) = left.first() {
            let count = usize::from(first.short).min(self.tasks.size());
            let (group, rest) = left.split_at(count);
            let result = core.tasks_again(script, group, &mut at);
            let ended = if result.is_ok() { count } else { group.iter().filter(|task| task.steps <= at.step).count() };
            if ended != 0 {
                self.tasks.ended_together(ended, usize::from(first.alike) >= ended, |at| group[at].kernel);
            }
            result?;
            left = rest;
        }
        Ok(())
    }

    /// What the core does next is no part of a task.
    fn pause(&mut self) {
        self.tasks.pause();
        self.horizon = i64::MIN;
    }

    /// Runs the blocks of one task in order, with all cores for the steps of each.
    fn now(
        &mut self,
        core: &mut Core<'_>,
        kernel: u32,
        args: &[LaunchArg],
        blocks: u64,
        caller: &Frame,
    ) -> Result<(), Stop> {
        let code = &core.context.lowered.kernels[kernel as usize];
        let pace = &core.context.paces[kernel as usize];
        let (measured, traced) = (pace.varies(), self.tasks.is_on());
        let mut alone = pace.ns().saturating_mul(blocks) >= ALONE_NS;
        let begin = if measured { trace::now() } else { 0 };
        match traced {
            true if measured => self.tasks.begins_at(begin),
            true if alone => self.tasks.begins_alone(),
            true => self.tasks.begins(),
            false => {}
        }
        let mut frame = core.take_frame(kernel);
        let mut result = Ok(());
        for block in 0..blocks {
            bind(code, &mut frame, args, caller);
            frame.block = [block, blocks];
            result = core.code(kernel, code, &mut frame, &mut Kernel);
            if result.is_err() {
                break;
            }
        }
        core.put_frame(kernel, frame);
        let mut end = 0;
        if measured {
            end = trace::now();
            pace.took(end.saturating_sub(begin), blocks);
            alone = pace.ns().saturating_mul(blocks) >= ALONE_NS;
        }
        if let Some(script) = &mut core.recording {
            script.task_ends(kernel, alone);
        }
        match traced {
            true if measured => self.tasks.ended_at(kernel, end),
            true if alone => self.tasks.ended_alone(kernel),
            true => self.tasks.ended(kernel),
            false => return result,
        }
        self.horizon = (core.budget - BETWEEN_PS).max(0);
        result
    }
}

/// Gives the parameters of a kernel what the entry passes.
pub(super) fn bind(code: &Code, frame: &mut Frame, args: &[LaunchArg], caller: &Frame) {
    frame.scalars.fill(0);
    for (param, arg) in code.params.iter().zip(args) {
        match (*param, *arg) {
            (Param::Tensor(slot), LaunchArg::Tensor(from)) => {
                frame.tensors[slot as usize].set(&caller.tensors[from as usize]);
            }
            (Param::Scalar(slot), LaunchArg::Scalar(value)) => {
                frame.scalars[slot as usize] = caller.bits(value);
            }
            _ => unreachable!("verified: arguments match parameters"),
        }
    }
}
