//! Runs lowered programs: a loop over flat instructions that looks nothing up and allocates nothing.
#![allow(unsafe_code)] // reads and writes single elements of checked tensors

mod access;
mod coverage;
mod frame;
mod poll;
mod replay;
mod scalar;
mod step;

use super::code::{Code, Inst, Param, Source};
use super::lower::Lowered;
use super::pool::CorePool;
use crate::device::{DeviceError, Launch, TensorArg};
use crate::dtype::DType;
use crate::kernels::chain::MemArg;
use crate::program::{LaunchArg, Loc, Operand};
use crate::shape::Shape;
use crate::trace::{self, Name, Record, Track, names};
use access::{element, read_element, write_element};
use frame::{Frame, View};
use poll::Poller;
use replay::{Replay, StepId};
use step::Bounced;

/// Picoseconds of estimated work until the first look at the clock, from which time counts, and between two looks.
const FIRST_BUDGET_PS: i64 = 500_000_000;
const BUDGET_PS: i64 = 5_000_000_000;
/// Estimated picoseconds of one round of a loop without work.
const ROUND_PS: i64 = 10_000;

/// Stands for the number of a kernel.
const ENTRY: u32 = u32::MAX;

/// What launches of one executable use again and again.
pub(super) struct State {
    entry: Frame,
    kernels: Vec<Frame>,
    buffers: Buffers,
    replay: Replay,
}

/// Operand lists, sized at registration, and dense copies of boxes that are no matrices.
struct Buffers {
    mems: Vec<MemArg>,
    scalars: Vec<u32>,
    bounce: Vec<Vec<u64>>,
    /// Which operands of the step at work have a copy there.
    bounced: Vec<Bounced>,
    cores: Vec<CoreBuffers>,
}

/// What one core needs for a part of a step.
struct CoreBuffers {
    mems: Vec<MemArg>,
    scratch: *mut u8,
}

// SAFETY: the addresses in a state are of the launch that runs, and one launch runs at a time.
unsafe impl Send for State {}

impl State {
    pub fn new(lowered: &Lowered, cores: usize) -> Self {
        let codes = || lowered.kernels.iter();
        let most_mems = codes().map(|code| code.max_mems).max().unwrap_or(0);
        let most_scalars = codes().map(|code| code.max_scalars).max().unwrap_or(0);
        let core = || CoreBuffers { mems: Vec::with_capacity(most_mems), scratch: std::ptr::null_mut() };
        Self {
            entry: Frame::new(&lowered.entry),
            kernels: codes().map(Frame::new).collect(),
            buffers: Buffers {
                mems: Vec::with_capacity(most_mems),
                scalars: Vec::with_capacity(most_scalars),
                bounce: Vec::new(),
                bounced: Vec::new(),
                cores: (0..cores).map(|_| core()).collect(),
            },
            replay: Replay::new(lowered),
        }
    }

    /// See [`crate::device::Executable::overwrites`].
    pub fn overwrites(&self, tensor: usize) -> bool {
        self.replay.overwrites(tensor)
    }
}

/// Why a function stopped early.
enum Stop {
    Interrupted,
    Fault(Loc, String),
    Device(DeviceError),
}

/// Why memory could not be created.
enum Refusal {
    Message(String),
    Device(DeviceError),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Refusal::Message(message)
    }
}

impl Refusal {
    fn at(self, at: Loc) -> Stop {
        match self {
            Refusal::Message(message) => Stop::Fault(at, message),
            Refusal::Device(error) => Stop::Device(error),
        }
    }
}

/// How scratch memory is cut: tiles first, then one piece for the steps of each core.
#[derive(Clone, Copy)]
pub(super) struct ScratchPlan {
    pub tiles: u64,
    pub per_core: u64,
}

/// Runs `launch` once.
///
/// # Safety
/// As for [`crate::device::Executable::launch`]; `scratch` is laid out by `plan`.
pub(super) unsafe fn launch(
    lowered: &Lowered,
    state: &mut State,
    plan: ScratchPlan,
    pool: &CorePool,
    launch: Launch<'_>,
    files: &[String],
    name: &str,
) -> Result<(), DeviceError> {
    let State { entry: frame, kernels, buffers, replay } = state;
    for (core, own) in buffers.cores.iter_mut().enumerate() {
        own.scratch = launch.scratch.wrapping_add((plan.tiles + plan.per_core * core as u64) as usize);
    }
    let again = launch.repeats && replay.is_complete();
    let record = !again && replay.begin(launch.repeats);
    let poller = Poller::new(launch.poll);
    let traced = launch.invocation != 0 && trace::is_enabled();
    let begin = if traced { trace::now() } else { 0 };
    let run = &mut Run {
        lowered,
        kernels,
        buffers,
        pool,
        poller: &poller,
        tensors: launch.tensors,
        tiles: launch.scratch,
        workspace: launch.workspace,
        budget: FIRST_BUDGET_PS,
        invocation: if traced { launch.invocation } else { 0 },
        tasks: None,
        recording: None,
    };
    let result = if again {
        run.again(replay)
    } else {
        bind(&lowered.entry, frame, launch.tensors, launch.scalars);
        run.recording = record.then_some(&mut *replay);
        let result = run.code(ENTRY, &lowered.entry, frame);
        if let (Ok(()), Some(replay)) = (&result, run.recording.take()) {
            replay.complete(lowered, launch.tensors);
        }
        result
    };
    if traced {
        span(names::ORCH, Track::DEVICE, launch.invocation, begin, trace::now(), 0);
        if let Some((first, last)) = run.tasks {
            span(names::SCHED, Track::DEVICE, launch.invocation, first, last, 0);
        }
    }
    result.map_err(|stop| match stop {
        Stop::Interrupted => DeviceError::Interrupted { program: name.to_owned() },
        Stop::Fault(at, message) => DeviceError::Fault {
            program: name.to_owned(),
            file: files.get(at.0 as usize).cloned().unwrap_or_default(),
            at,
            message,
        },
        Stop::Device(error) => error,
    })
}

fn span(name: Name, track: Track, invocation: u32, begin: u64, end: u64, arg: u64) {
    trace::record(Record { begin, end, arg, invocation, name, track });
}

fn bind(code: &Code, frame: &mut Frame, tensors: &[TensorArg], scalars: &[u64]) {
    // A scalar that is read before it is assigned is 0, not what the last launch left.
    frame.scalars.fill(0);
    let (mut tensors, mut scalars) = ((0..).zip(tensors), scalars.iter());
    for param in &code.params {
        match *param {
            Param::Tensor(slot) => {
                let (base, arg) = tensors.next().expect("the caller passes every tensor");
                frame.tensors[slot as usize].set_whole(arg.data, base, &arg.shape);
            }
            Param::Scalar(slot) => {
                frame.scalars[slot as usize] = *scalars.next().expect("the caller passes every scalar");
            }
        }
    }
}

/// A launch that runs.
struct Run<'a> {
    lowered: &'a Lowered,
    kernels: &'a mut [Frame],
    buffers: &'a mut Buffers,
    pool: &'a CorePool,
    poller: &'a Poller<'a>,
    tensors: &'a [TensorArg],
    tiles: *mut u8,
    workspace: &'a mut dyn crate::device::Workspace,
    /// Estimated work until the next look at the clock.
    budget: i64,
    /// Number of the launch where its spans are recorded, else 0.
    invocation: u32,
    /// Begin of the first task and end of the last, in ticks.
    tasks: Option<(u64, u64)>,
    /// Where the steps are written down.
    recording: Option<&'a mut Replay>,
}

impl Run<'_> {
    /// Takes the steps of an earlier launch.
    fn again(&mut self, replay: &Replay) -> Result<(), Stop> {
        let (mut step, mut operands, mut scalars) = (0, 0, 0);
        for task in &replay.tasks {
            let begin = self.task_begins();
            for taken in &replay.steps[step..task.steps] {
                self.step_again(replay, taken, operands, scalars);
                (operands, scalars) = (taken.operands, taken.scalars);
                self.look_around()?;
            }
            step = task.steps;
            self.task_ends(task.kernel, begin);
        }
        Ok(())
    }

    /// Runs `code`, which is that of `kernel` or, with [`ENTRY`], of the entry.
    fn code(&mut self, kernel: u32, code: &Code, frame: &mut Frame) -> Result<(), Stop> {
        let mut pc = 0;
        while let Some(inst) = code.insts.get(pc) {
            pc += 1;
            match inst {
                Inst::Step(step) => {
                    let result = self.step(StepId { kernel, step: *step }, &code.steps[*step as usize], frame);
                    result.map_err(|message| Stop::Fault(code.at[pc - 1], message))?;
                    self.look_around()?;
                }
                Inst::Scalar { dst, op, kind, args } => {
                    let (a, b) = (frame.bits(args[0]), frame.bits(args[1]));
                    frame.scalars[*dst as usize] = scalar::apply(*op, *kind, a, b, frame.block);
                }
                Inst::LoopTest { count, var, stop, step, exit } => {
                    let (at, stop, step) = (frame.scalars[*count as usize], frame.int(*stop), frame.int(*step));
                    if step == 0 {
                        return Err(Stop::Fault(code.at[pc - 1], "a loop with step 0; use a step of 1 or more".into()));
                    }
                    let goes_on = if step > 0 { (at as i64) < stop } else { (at as i64) > stop };
                    if goes_on {
                        frame.scalars[*var as usize] = at;
                    } else {
                        pc = *exit as usize;
                    }
                }
                Inst::LoopNext { count, step, head, exit } => {
                    self.budget -= ROUND_PS;
                    self.look_around()?;
                    let next = (frame.scalars[*count as usize] as i64).checked_add(frame.int(*step));
                    pc = next.map_or(*exit, |_| *head) as usize;
                    frame.scalars[*count as usize] = next.unwrap_or(0) as u64;
                }
                Inst::Jump(target) => {
                    self.budget -= ROUND_PS;
                    self.look_around()?;
                    pc = *target as usize;
                }
                Inst::JumpUnless { cond, target } => {
                    if frame.bits(*cond) == 0 {
                        pc = *target as usize;
                    }
                }
                Inst::Launch { kernel, args, blocks } => self.kernel(*kernel, args, *blocks, frame)?,
                Inst::Create { dst, dims, fill } => {
                    let dtype = code.tensors[*dst as usize];
                    let created = self.create(dtype, dims, *fill, frame);
                    frame.tensors[*dst as usize] = created.map_err(|refusal| refusal.at(code.at[pc - 1]))?;
                }
                other => {
                    self.memory(other, code, frame).map_err(|message| Stop::Fault(code.at[pc - 1], message))?;
                }
            }
        }
        Ok(())
    }

    /// Asks whether to go on, if enough work was done since the last time.
    fn look_around(&mut self) -> Result<(), Stop> {
        if self.budget >= 0 && !self.poller.stopped() {
            return Ok(());
        }
        self.budget = BUDGET_PS;
        if self.poller.poll() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Instructions on views and elements.
    fn memory(&mut self, inst: &Inst, code: &Code, frame: &mut Frame) -> Result<(), String> {
        match inst {
            Inst::Dim { dst, tensor, axis } => {
                frame.scalars[*dst as usize] = frame.tensors[*tensor as usize].dims[*axis as usize];
            }
            Inst::Read { dst, src, index } => {
                let (from, dtype) = self.element(*src, index, code, frame);
                // SAFETY: the address is an element of a live tensor or tile.
                let bits = from.map_or(0, |from| unsafe { read_element(from, dtype) });
                frame.scalars[*dst as usize] = bits;
            }
            Inst::Write { dst, index, value } => {
                let (to, dtype) = self.element(*dst, index, code, frame);
                let Some(to) = to else {
                    let index: Vec<i64> = index.iter().map(|&at| frame.int(at)).collect();
                    return Err(format!("write of element {index:?} outside the tensor"));
                };
                // SAFETY: the address is an element of a live tensor or tile; one task runs at a time.
                unsafe { write_element(to, dtype, frame.bits(*value)) };
            }
            Inst::View { dst, src, kind } => {
                let source = frame.tensors[*src as usize];
                let size = code.tensors[*src as usize].size();
                frame.tensors[*dst as usize] = source.derive(kind, size, |operand| frame.int(operand))?;
            }
            _ => unreachable!("handled by the caller"),
        }
        Ok(())
    }

    fn element(&self, place: Source, index: &[Operand], code: &Code, frame: &Frame) -> (Option<*mut u8>, DType) {
        match place {
            Source::Tensor(slot) => {
                let dtype = code.tensors[slot as usize];
                (element(&frame.tensors[slot as usize], index, frame, dtype.size()), dtype)
            }
            Source::Tile(tile, dtype) => {
                let (row, col) = (frame.int(index[0]), frame.int(index[1]));
                let inside = (0..i64::from(tile.rows)).contains(&row) && (0..i64::from(tile.cols)).contains(&col);
                let at = || tile.home as i64 + row * i64::from(tile.row_stride) + col * dtype.size() as i64;
                (inside.then(|| self.tiles.wrapping_add(at() as usize)), dtype)
            }
        }
    }

    fn create(&mut self, dtype: DType, dims: &[Operand], fill: Option<f64>, frame: &Frame) -> Result<View, Refusal> {
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
        let data = self.workspace.reserve(bytes).map_err(Refusal::Device)?;
        if let Some(value) = fill {
            let bits = if dtype.is_float() { u64::from((value as f32).to_bits()) } else { value as i64 as u64 };
            for at in 0..(bytes as usize / dtype.size()) {
                // SAFETY: the workspace gave `bytes` bytes.
                unsafe { write_element(data.add(at * dtype.size()), dtype, bits) };
            }
        }
        Ok(View::whole(data, View::CREATED, &shape))
    }

    /// Runs the blocks of one task in order.
    fn kernel(&mut self, kernel: u32, args: &[LaunchArg], blocks: Operand, caller: &Frame) -> Result<(), Stop> {
        let lowered = self.lowered;
        let code = &lowered.kernels[kernel as usize];
        let blocks = caller.int(blocks).max(0) as u64;
        let mut frame = std::mem::replace(
            &mut self.kernels[kernel as usize],
            Frame { scalars: Vec::new(), tensors: Vec::new(), block: [0, 1] },
        );
        let mut result = Ok(());
        let begin = self.task_begins();
        for block in 0..blocks {
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
            frame.block = [block, blocks];
            result = self.code(kernel, code, &mut frame);
            if result.is_err() {
                break;
            }
        }
        self.kernels[kernel as usize] = frame;
        self.task_ends(kernel, begin);
        if let Some(replay) = &mut self.recording {
            replay.task_ends(kernel);
        }
        result
    }

    fn task_begins(&self) -> u64 {
        if self.invocation == 0 { 0 } else { trace::now() }
    }

    fn task_ends(&mut self, kernel: u32, begin: u64) {
        if self.invocation != 0 {
            let end = trace::now();
            self.tasks = Some((self.tasks.map_or(begin, |(first, _)| first), end));
            span(names::TASK, Track::core(0), self.invocation, begin, end, kernel.into());
        }
    }
}
