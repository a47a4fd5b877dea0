//! The entry of a launch: it runs on the caller, in order, and says which tasks there are.

use super::access::write_element_all;
use super::frame::{Frame, View};
use super::interpret::{Core, Element, Host, Kernel};
use super::replay::{Replay, StepId};
use super::wave::Wave;
use super::{Refusal, Stop, span};
use crate::device::Workspace;
use crate::device::sim::code::{Code, Param, Step};
use crate::dtype::DType;
use crate::program::{LaunchArg, Operand};
use crate::shape::Shape;
use crate::trace::{self, Track, names};

/// The host of the entry.
pub(super) struct Entry<'a> {
    pub workspace: &'a mut dyn Workspace,
    pub wave: &'a mut Wave,
    /// Which tasks wait in the wave.
    pub waits: Waits,
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

impl Host for Entry<'_> {
    fn step(&mut self, _: &mut Core<'_>, _: StepId, _: &Step, _: &Frame) -> Result<(), Stop> {
        unreachable!("verified: the entry has no tiles")
    }

    fn touches(&mut self, core: &mut Core<'_>, _: Element, _: bool) -> Result<(), Stop> {
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
            Waits::Worth => context.paces[kernel as usize].ns().saturating_mul(blocks) >= WORTH_NS,
            Waits::Always => true,
        };
        if waits {
            core.stop_recording();
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

impl Entry<'_> {
    /// Takes the steps of an earlier launch.
    pub fn again(&mut self, core: &mut Core<'_>, replay: &Replay) -> Result<(), Stop> {
        let (mut step, mut operands, mut scalars) = (0, 0, 0);
        let invocation = core.context.invocation;
        // A task begins when the one before it ends: one look at the clock for each.
        let mut begin = if invocation == 0 { 0 } else { trace::now() };
        for task in &replay.tasks {
            for taken in &replay.steps[step..task.steps] {
                core.step_again(replay, taken, operands, scalars);
                (operands, scalars) = (taken.operands, taken.scalars);
                core.look_around()?;
            }
            step = task.steps;
            begin = self.task_ended(task.kernel, begin, invocation);
        }
        Ok(())
    }

    /// Records the span of a task that began at `begin` and ends now, where the launch is traced; gives its end.
    fn task_ended(&mut self, kernel: u32, begin: u64, invocation: u32) -> u64 {
        if invocation == 0 {
            return 0;
        }
        let end = trace::now();
        self.wave.tasks = Some((self.wave.tasks.map_or(begin, |(first, _)| first), end));
        span(names::TASK, Track::core(0), invocation, begin, end, kernel.into());
        end
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
        let invocation = core.context.invocation;
        let pace = &core.context.paces[kernel as usize];
        let measured = pace.varies();
        let begin = if invocation != 0 || measured { trace::now() } else { 0 };
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
        if let Some(replay) = &mut core.recording {
            replay.task_ends(kernel);
        }
        if measured {
            pace.took(trace::now().saturating_sub(begin), blocks);
        }
        self.task_ended(kernel, begin, invocation);
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
