//! One core at work: a loop over flat instructions that looks nothing up and allocates nothing.
//!
//! The loop is the same for the entry, for kernels and for the look ahead at what a kernel will touch; a [`Host`] says what
//! each does with steps, with elements and with launches.
#![allow(unsafe_code)] // reads and writes single elements of checked tensors

use super::access::{element, read_element, write_element};
use super::frame::{Frame, View};
use super::pace::Pace;
use super::packed::Packed;
use super::poll::Poller;
use super::script::{Script, StepId};
use super::step::Bounced;
use super::waiting::Written;
use super::{Refusal, Stop, scalar};
use crate::device::TensorArg;
use crate::device::sim::code::{Code, Inst, Source, Step};
use crate::device::sim::lower::Lowered;
use crate::device::sim::pool::CorePool;
use crate::dtype::DType;
use crate::kernels::chain::MemArg;
use crate::program::{LaunchArg, Loc, Operand};

/// Picoseconds of estimated work until the first look at the clock, from which time counts, and between two looks.
const FIRST_BUDGET_PS: i64 = 500_000_000;
const BUDGET_PS: i64 = 5_000_000_000;
/// Estimated picoseconds of one round of a loop without work.
pub(super) const ROUND_PS: i64 = 10_000;

/// What one core needs, kept from launch to launch: its frames, operand lists that were sized at registration, and dense
/// copies of boxes that are no matrices.
pub(super) struct Lane {
    /// One for each kernel; none where tasks run on core 0 only. A frame that runs is taken out by its box: moving its
    /// fields cost each task 10 ns, since it reads in vectors what was just written in words.
    pub frames: Vec<Option<Box<Frame>>>,
    pub mems: Vec<MemArg>,
    /// The operands of this core's part of a step.
    pub part_mems: Vec<MemArg>,
    pub scalars: Vec<u32>,
    pub bounce: Vec<Vec<u64>>,
    /// Which operands of the step at work have a copy there.
    pub bounced: Vec<Bounced>,
    /// Memory of the tiles of a task.
    pub tiles: *mut u8,
    /// Memory for one step.
    pub scratch: *mut u8,
    /// What this core wrote down of the wave that runs.
    pub written: Written,
}

// SAFETY: the addresses in a lane are of the launch that runs, and one launch runs at a time.
unsafe impl Send for Lane {}

/// What the cores of a launch share.
pub(super) struct Context<'a> {
    pub lowered: &'a Lowered,
    pub pool: &'a CorePool,
    pub poller: &'a Poller<'a>,
    /// How long a block of each kernel takes.
    pub paces: &'a [Pace],
    /// Right operands that were packed before.
    pub packed: &'a [Packed],
    /// The arguments of the launch.
    pub tensors: &'a [TensorArg],
    /// One lane for each core; each core uses its own, and the parts of a step that of the core that runs them.
    pub lanes: *mut Lane,
    /// Number of the launch where its spans are recorded, else 0.
    pub invocation: u32,
}

// SAFETY: `lanes` is used as its documentation says; everything else is shared between threads by its type.
unsafe impl Sync for Context<'_> {}

/// One core of a launch that runs.
pub(super) struct Core<'a> {
    pub context: &'a Context<'a>,
    pub number: usize,
    /// The other cores have nothing to do, so steps may be cut into parts for them.
    pub alone: bool,
    /// Estimated work until the next look at the clock.
    pub budget: i64,
    /// Where the steps are written down.
    pub recording: Option<Script>,
}

/// What becomes of the instructions that do more than arithmetic on scalars.
pub(super) trait Host {
    /// Whether the host asks for the place of each instruction.
    const PLACES: bool = false;

    /// The instruction that comes next stands here; only where [`Host::PLACES`].
    fn at(&mut self, _at: Loc) {}

    /// Work on tiles.
    fn step(&mut self, core: &mut Core<'_>, id: StepId, step: &Step, frame: &Frame) -> Result<(), Stop>;

    /// One more round of a loop.
    fn round(&mut self, core: &mut Core<'_>) -> Result<(), Stop> {
        core.budget -= ROUND_PS;
        core.look_around()
    }

    /// An element is about to be read or written by a scalar instruction.
    fn touches(&mut self, core: &mut Core<'_>, element: Element<'_>, frame: &Frame, write: bool) -> Result<(), Stop>;

    /// A scalar instruction is about to access an element that does not exist. `true` lets a write be ignored; what is read
    /// is 0 in any case.
    fn misses(&mut self, _place: Source, _index: &[Operand], _frame: &Frame, _write: bool) -> bool {
        false
    }

    /// A declaration about the order of tasks. Checked entries only.
    fn order(&mut self, _rule: u32, _frame: &Frame) {
        unreachable!("only checked code declares")
    }

    /// Whether elements are really written.
    fn writes(&self) -> bool {
        true
    }

    /// Runs a task. Entry only.
    fn launch(
        &mut self,
        _core: &mut Core<'_>,
        _kernel: u32,
        _args: &[LaunchArg],
        _blocks: Operand,
        _frame: &Frame,
    ) -> Result<(), Stop> {
        unreachable!("verified: kernels launch nothing")
    }

    /// Makes device memory for a tensor slot. Entry only.
    fn create(
        &mut self,
        _slot: u32,
        _dtype: DType,
        _dims: &[Operand],
        _fill: Option<f64>,
        _frame: &Frame,
    ) -> Result<View, Refusal> {
        unreachable!("verified: kernels create no tensors")
    }
}

/// One element of device memory or of a tile.
pub(super) struct Element<'a> {
    pub place: Source,
    pub index: &'a [Operand],
    pub at: *mut u8,
    pub bytes: usize,
}

/// The host of a kernel that runs.
pub(super) struct Kernel;

impl Host for Kernel {
    fn step(&mut self, core: &mut Core<'_>, id: StepId, step: &Step, frame: &Frame) -> Result<(), Stop> {
        core.step(id, step, frame).map_err(Stop::Message)?;
        core.look_around()
    }

    fn touches(&mut self, _: &mut Core<'_>, _: Element<'_>, _: &Frame, _: bool) -> Result<(), Stop> {
        Ok(())
    }
}

impl<'a> Core<'a> {
    pub fn new(context: &'a Context<'a>, number: usize, alone: bool) -> Self {
        Self { context, number, alone, budget: FIRST_BUDGET_PS, recording: None }
    }

    /// Whether steps are written down, and all were.
    pub fn is_recording(&self) -> bool {
        self.recording.as_ref().is_some_and(|script| !script.has_gaps)
    }

    /// The lane of this core.
    pub fn lane(&mut self) -> &mut Lane {
        // SAFETY: lanes are of one core each, and one thread at a time is this core.
        unsafe { &mut *self.context.lanes.add(self.number) }
    }

    /// Takes the frame of a kernel out of the lane.
    pub fn take_frame(&mut self, kernel: u32) -> Box<Frame> {
        self.lane().frames[kernel as usize].take().expect("a kernel runs once at a time on a core")
    }

    /// Puts it back.
    pub fn put_frame(&mut self, kernel: u32, frame: Box<Frame>) {
        self.lane().frames[kernel as usize] = Some(frame);
    }

    /// Runs `code`, which is that of `kernel` or, with [`super::ENTRY`], of the entry.
    pub fn code<H: Host>(&mut self, kernel: u32, code: &Code, frame: &mut Frame, host: &mut H) -> Result<(), Stop> {
        let mut pc = 0;
        while let Some(inst) = code.insts.get(pc) {
            pc += 1;
            let at = || code.at[pc - 1];
            if H::PLACES {
                host.at(at());
            }
            match inst {
                Inst::Step(step) => {
                    let id = StepId { kernel, step: *step };
                    host.step(self, id, &code.steps[*step as usize], frame).map_err(|stop| stop.at(at()))?;
                }
                Inst::Scalar { dst, op, kind, args } => {
                    let (a, b) = (frame.bits(args[0]), frame.bits(args[1]));
                    frame.scalars[*dst as usize] = scalar::apply(*op, *kind, a, b, frame.block);
                }
                Inst::LoopTest { count, var, stop, step, exit } => {
                    let (count, stop, step) = (frame.scalars[*count as usize], frame.int(*stop), frame.int(*step));
                    if step == 0 {
                        return Err(Stop::Fault(at(), "a loop with step 0; use a step of 1 or more".into()));
                    }
                    let goes_on = if step > 0 { (count as i64) < stop } else { (count as i64) > stop };
                    if goes_on {
                        frame.scalars[*var as usize] = count;
                    } else {
                        pc = *exit as usize;
                    }
                }
                Inst::LoopNext { count, step, head, exit } => {
                    host.round(self)?;
                    let next = (frame.scalars[*count as usize] as i64).checked_add(frame.int(*step));
                    pc = next.map_or(*exit, |_| *head) as usize;
                    frame.scalars[*count as usize] = next.unwrap_or(0) as u64;
                }
                Inst::Jump(target) => {
                    host.round(self)?;
                    pc = *target as usize;
                }
                Inst::JumpUnless { cond, target } => {
                    if frame.bits(*cond) == 0 {
                        pc = *target as usize;
                    }
                }
                Inst::Launch { kernel, args, blocks } => {
                    host.launch(self, *kernel, args, *blocks, frame).map_err(|stop| stop.at(at()))?;
                }
                Inst::Order(rule) => host.order(*rule, frame),
                Inst::Create { dst, dims, fill } => {
                    let created = host.create(*dst, code.tensors[*dst as usize], dims, *fill, frame);
                    frame.tensors[*dst as usize] = created.map_err(|refusal| refusal.at(at()))?;
                }
                other => self.memory(other, code, frame, host).map_err(|stop| stop.at(at()))?,
            }
        }
        Ok(())
    }

    /// Asks whether to go on, if enough work was done since the last time.
    pub fn look_around(&mut self) -> Result<(), Stop> {
        let poller = self.context.poller;
        if self.budget >= 0 && !poller.stopped() {
            return Ok(());
        }
        self.budget = BUDGET_PS;
        let stop = if self.number == 0 { poller.poll() } else { poller.stopped() };
        if stop { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Instructions on views and elements.
    fn memory<H: Host>(&mut self, inst: &Inst, code: &Code, frame: &mut Frame, host: &mut H) -> Result<(), Stop> {
        match inst {
            Inst::Dim { dst, tensor, axis } => {
                frame.scalars[*dst as usize] = frame.tensors[*tensor as usize].dims[*axis as usize];
            }
            Inst::Read { dst, src, index } => {
                let (from, dtype) = self.element(*src, index, code, frame);
                let bits = match from {
                    Some(from) => {
                        let element = Element { place: *src, index, at: from, bytes: dtype.size() };
                        host.touches(self, element, frame, false)?;
                        // SAFETY: the address is an element of a live tensor or tile.
                        unsafe { read_element(from, dtype) }
                    }
                    None => {
                        host.misses(*src, index, frame, false);
                        0
                    }
                };
                frame.scalars[*dst as usize] = bits;
            }
            Inst::Write { dst, index, value } => {
                let (to, dtype) = self.element(*dst, index, code, frame);
                let Some(to) = to else {
                    if host.misses(*dst, index, frame, true) {
                        return Ok(());
                    }
                    let index: Vec<i64> = index.iter().map(|&at| frame.int(at)).collect();
                    return Err(Stop::Message(format!("write of element {index:?} outside the tensor")));
                };
                let element = Element { place: *dst, index, at: to, bytes: dtype.size() };
                host.touches(self, element, frame, true)?;
                if host.writes() {
                    // SAFETY: the address is an element of a live tensor or tile; tasks that run at once touch
                    // different elements.
                    unsafe { write_element(to, dtype, frame.bits(*value)) };
                }
            }
            Inst::View { dst, src, kind } => {
                let source = frame.tensors[*src as usize];
                let sizes = [*src, *dst].map(|slot| code.tensors[slot as usize].size());
                let view = source.derive(kind, sizes, |operand| frame.int(operand));
                frame.tensors[*dst as usize] = view.map_err(Stop::Message)?;
            }
            _ => unreachable!("handled by the caller"),
        }
        Ok(())
    }

    fn element(&mut self, place: Source, index: &[Operand], code: &Code, frame: &Frame) -> (Option<*mut u8>, DType) {
        match place {
            Source::Tensor(slot) => {
                let dtype = code.tensors[slot as usize];
                (element(&frame.tensors[slot as usize], index, frame, dtype.size()), dtype)
            }
            Source::Tile { tile, dtype, .. } => {
                let (row, col) = (frame.int(index[0]), frame.int(index[1]));
                let inside = (0..i64::from(tile.rows)).contains(&row) && (0..i64::from(tile.cols)).contains(&col);
                let at = || tile.home as i64 + row * i64::from(tile.row_stride) + col * dtype.size() as i64;
                (inside.then(|| self.lane().tiles.wrapping_add(at() as usize)), dtype)
            }
        }
    }
}
