//! What a launch did, kept for the launches that are like it.
//!
//! Where a program reads no elements, its extents and scalars decide everything that it does: which boxes lie where in
//! the arguments, how often loops go round. So the second launch with the same ones writes down its steps, with operands
//! as distances from the begin of their tensors, and from the third on the steps run from there: no view is set up, no box
//! evaluated, no loop counted. A launch of one addition of 16x16 tensors takes 65 ns where the interpreter takes 155, and each
//! of a thousand dependent ones 41 where it takes 173. Addresses may change from launch to launch, as when one program
//! serves the layers of a model.

use super::coverage::Coverage;
use super::frame::View;
use crate::device::TensorArg;
use crate::device::sim::code::{Code, Inst, MatMulStep, Mem, MemUse, Step};
use crate::device::sim::lower::Lowered;
use crate::kernels::chain::MemArg;
use crate::trace::MOST_TOGETHER;

/// Steps that are kept: their list takes 130 bytes for each, so at most a quarter of a usual second-level cache.
const MAX_STEPS: usize = 2048;

/// The base of operands in scratch memory.
pub(super) const TILES: u32 = View::CREATED - 1;

/// The steps of the last launch, in order.
pub(super) struct Replay {
    /// Whether extents and scalars decide what the program does.
    is_possible: bool,
    progress: Progress,
    pub tasks: Vec<Task>,
    pub steps: Vec<Taken>,
    pub operands: Vec<Place>,
    pub scalars: Vec<u32>,
    coverage: Coverage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing was written down for the present extents and scalars.
    Nothing,
    Recording,
    Complete,
    /// They lead to something that cannot be kept.
    Unfit,
}

/// A kernel that the entry launched.
#[derive(Clone, Copy)]
pub(super) struct Task {
    pub kernel: u32,
    /// The end of its steps.
    pub steps: usize,
    /// It takes long enough to be timed alone.
    pub alone: bool,
    /// How many tasks from this one on can be timed together, and how many of them are of one kernel: 1 to
    /// [`MOST_TOGETHER`].
    pub short: u8,
    pub alike: u8,
}

/// How far a launch has come in the lists.
#[derive(Default)]
pub(super) struct Cursor {
    pub step: usize,
    pub operand: usize,
    pub scalar: usize,
}

/// One step as it was taken.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub id: StepId,
    /// Rows and columns, and the inner extent of a matrix product.
    pub extents: [u64; 3],
    /// Which operands of a matrix product lie transposed.
    pub trans: [bool; 2],
    /// The ends of its operands and scalars.
    pub operands: usize,
    pub scalars: usize,
}

/// The operands of a step about to be taken.
pub(super) struct Evaluated<'a> {
    /// As in [`Taken`].
    pub extents: [u64; 3],
    pub trans: [bool; 2],
    pub args: &'a [MemArg],
    pub scalars: &'a [u32],
    /// Where the tiles lie.
    pub tiles: *mut u8,
    /// Whether one of them is a dense copy of what is meant.
    pub is_copied: bool,
}

/// A step of a kernel. The entry has none.
#[derive(Clone, Copy)]
pub(super) struct StepId {
    pub kernel: u32,
    pub step: u32,
}

impl StepId {
    pub fn of(self, lowered: &Lowered) -> &Step {
        &lowered.kernels[self.kernel as usize].steps[self.step as usize]
    }
}

/// Where an operand lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// A tensor parameter, or [`TILES`].
    pub base: u32,
    pub offset: isize,
    pub row_stride: isize,
    /// Whether results go past the caches.
    pub stream: bool,
}

impl Place {
    /// Of an operand of a step, from its address and row stride.
    pub fn of(
        operand: &MemUse,
        (data, row_stride): (*mut u8, isize),
        tiles: *mut u8,
        views: &[View],
        tensors: &[TensorArg],
    ) -> Self {
        let (base, begin) = match &operand.mem {
            Mem::Tile(_) | Mem::Window(_) => (TILES, tiles),
            Mem::Box(spec) => {
                let base = views[spec.tensor as usize].base;
                (base, tensors[base as usize].data)
            }
        };
        Self { base, offset: (data as isize).wrapping_sub(begin as isize), row_stride, stream: false }
    }

    /// Of an address in the tensor parameter `base`.
    pub fn in_tensor(base: u32, data: *mut u8, tensors: &[TensorArg]) -> Self {
        let offset = (data as isize).wrapping_sub(tensors[base as usize].data as isize);
        Self { base, offset, row_stride: 0, stream: false }
    }

    /// In line, because a result with a `bool` in it that is returned is stored by its fields and loaded by words: 13 cycles
    /// for each operand.
    #[inline(always)]
    pub fn address(&self, tensors: &[TensorArg], tiles: *mut u8) -> MemArg {
        let base = if self.base == TILES { tiles } else { tensors[self.base as usize].data };
        MemArg { data: base.wrapping_offset(self.offset), row_stride: self.row_stride, stream: self.stream }
    }
}

impl Replay {
    pub fn new(lowered: &Lowered) -> Self {
        let decided = |code: &Code| {
            !code.insts.iter().any(|inst| matches!(inst, Inst::Read { .. } | Inst::Write { .. } | Inst::Create { .. }))
        };
        Self {
            is_possible: decided(&lowered.entry) && lowered.kernels.iter().all(decided),
            progress: Progress::Nothing,
            tasks: Vec::new(),
            steps: Vec::new(),
            operands: Vec::new(),
            scalars: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    /// Whether a launch that repeats the last one can run from here.
    pub fn is_complete(&self) -> bool {
        self.progress == Progress::Complete
    }

    /// See [`crate::device::Executable::overwrites`].
    pub fn overwrites(&self, tensor: usize) -> bool {
        self.is_complete() && self.coverage.is_whole(tensor)
    }

    /// Prepares for a launch that does not run from here; says whether to write it down. `repeats`: as for the launch.
    pub fn begin(&mut self, repeats: bool) -> bool {
        if !self.is_possible {
            return false;
        }
        match (repeats, self.progress) {
            (false, _) => self.progress = Progress::Nothing,
            (true, Progress::Unfit) => {}
            (true, _) => {
                self.progress = Progress::Recording;
                self.tasks.clear();
                self.steps.clear();
                self.operands.clear();
                self.scalars.clear();
            }
        }
        self.progress == Progress::Recording
    }

    /// What is being written down cannot be kept.
    pub fn give_up(&mut self) {
        self.progress = Progress::Unfit;
    }

    /// The steps since the end of the last task were those of `kernel`. `alone`: as in [`Task`].
    pub fn task_ends(&mut self, kernel: u32, alone: bool) {
        if self.tasks.len() == MAX_STEPS {
            return self.give_up();
        }
        self.tasks.push(Task { kernel, steps: self.steps.len(), alone, short: 1, alike: 1 });
    }

    /// Adds a step, whose operands and numbers then follow; `None` where nothing is written down.
    pub fn take(&mut self, id: StepId, extents: [u64; 3]) -> Option<Writing<'_>> {
        if self.progress != Progress::Recording || self.steps.len() == MAX_STEPS {
            self.give_up();
            return None;
        }
        let (operands, scalars) = (self.operands.len(), self.scalars.len());
        self.steps.push(Taken { id, extents, trans: [false; 2], operands, scalars });
        Some(Writing(self))
    }

    /// Adds a step with its operands. `views` are those of the function that takes it.
    pub fn step<'u>(
        &mut self,
        id: StepId,
        uses: impl Iterator<Item = &'u MemUse>,
        evaluated: Evaluated<'_>,
        views: &[View],
        tensors: &[TensorArg],
    ) {
        let Evaluated { extents, trans, args, scalars, tiles, .. } = evaluated;
        let Some(mut writing) = self.take(id, extents) else { return };
        for (operand, arg) in uses.zip(args) {
            let place = Place::of(operand, (arg.data, arg.row_stride), tiles, views, tensors);
            writing.operand(Place { stream: arg.stream, ..place });
        }
        scalars.iter().for_each(|&bits| writing.word(bits));
        writing.last().trans = trans;
    }

    /// The launch has ended well.
    pub fn complete(&mut self, lowered: &Lowered, tensors: &[TensorArg]) {
        if self.progress != Progress::Recording {
            return;
        }
        self.progress = Progress::Complete;
        self.find_rows();
        self.coverage.begin(tensors);
        let mut first = 0;
        for taken in &self.steps {
            let places = &self.operands[first..taken.operands];
            let step = taken.id.of(lowered);
            for (operand, place) in step.mems().zip(places) {
                match step {
                    // A whole-tile operation leaves alone what its arguments do not reach.
                    Step::Block(block) if !block.fills => self.coverage.touch(place.base),
                    Step::Block(_) if !operand.write => self.coverage.touch(place.base),
                    _ => self.coverage.add(operand, place, taken.extents, tensors),
                }
            }
            if let (Some(_), Some(place)) = (step.tensor(), places.last()) {
                self.coverage.touch(place.base);
            }
            first = taken.operands;
        }
    }
}

/// The step that was added last, to which operands and numbers are added.
pub(super) struct Writing<'a>(&'a mut Replay);

impl Writing<'_> {
    /// Adds an operand.
    pub fn operand(&mut self, place: Place) {
        self.0.operands.push(place);
        self.last().operands += 1;
    }

    /// Adds a word of 32 bits.
    pub fn word(&mut self, word: u32) {
        self.0.scalars.push(word);
        self.last().scalars += 1;
    }

    /// Adds a number as two words, the low one first.
    pub fn number(&mut self, number: u64) {
        self.word(number as u32);
        self.word((number >> 32) as u32);
    }

    fn last(&mut self) -> &mut Taken {
        self.0.steps.last_mut().expect("it was just added")
    }
}

impl Replay {
    /// Finds which tasks can be timed together.
    fn find_rows(&mut self) {
        let mut next: Option<Task> = None;
        for task in self.tasks.iter_mut().rev() {
            let more = |count: u8| (count + 1).min(MOST_TOGETHER as u8);
            if let Some(next) = next.filter(|next| !next.alone && !task.alone) {
                task.short = more(next.short);
                task.alike = if next.kernel == task.kernel { more(next.alike) } else { 1 };
            }
            next = Some(*task);
        }
    }
}

/// The operands of a matrix product: left, right, result, accumulator.
pub(super) fn product_operands(step: &MatMulStep) -> impl Iterator<Item = &MemUse> {
    [&step.a, &step.b, &step.c].into_iter().chain(&step.acc)
}
