//! The steps that a launch took, written down.

use super::frame::View;
use crate::device::TensorArg;
use crate::device::sim::code::{MatMulStep, Mem, MemUse, Step};
use crate::device::sim::lower::Lowered;
use crate::kernels::chain::MemArg;
use crate::trace::MOST_TOGETHER;
use std::ops::Range;

/// Steps that are kept: their list takes 130 bytes for each, so at most a quarter of a usual second-level cache.
pub(super) const MAX_STEPS: usize = 2048;

/// The base of operands in scratch memory.
pub(super) const TILES: u32 = View::CREATED - 1;

/// Steps in the order in which they were taken, with operands as distances from the begin of their tensors.
#[derive(Default)]
pub(super) struct Script {
    pub tasks: Vec<Task>,
    pub steps: Vec<Taken>,
    pub operands: Vec<Place>,
    pub scalars: Vec<u32>,
    /// In order.
    pub waves: Vec<Together>,
    /// Something was left out: it cannot be kept, or there was too much.
    pub has_gaps: bool,
}

/// Tasks that touch nothing of each other and are worth more than one core.
///
/// What they touch was found for the addresses of one launch, and holds for others: a tensor that is written overlaps no
/// other, so tasks touch the same bytes only within one tensor, at distances that stay.
pub(super) struct Together {
    pub tasks: Range<usize>,
    /// How many of them a core takes at a time.
    pub piece: usize,
}

/// A kernel that the entry launched, or one block of it.
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

impl Script {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.tasks.clear();
        self.steps.clear();
        self.operands.clear();
        self.scalars.clear();
        self.waves.clear();
        self.has_gaps = false;
    }

    /// What is being written down cannot be kept.
    pub fn give_up(&mut self) {
        self.has_gaps = true;
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
        if self.has_gaps || self.steps.len() == MAX_STEPS {
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

    /// Where the steps of the task `at` begin.
    pub fn begin_of(&self, at: usize) -> Cursor {
        let step = at.checked_sub(1).map_or(0, |before| self.tasks[before].steps);
        let (operand, scalar) =
            step.checked_sub(1).map_or((0, 0), |before| (self.steps[before].operands, self.steps[before].scalars));
        Cursor { step, operand, scalar }
    }

    /// Adds the task `at` of another script.
    pub fn add(&mut self, other: &Script, at: usize) {
        let (Cursor { step, operand, scalar }, task) = (other.begin_of(at), other.tasks[at]);
        self.has_gaps |= self.steps.len() + (task.steps - step) > MAX_STEPS;
        if self.has_gaps {
            return;
        }
        let (operands, scalars) = (self.operands.len(), self.scalars.len());
        let moved = |taken: &Taken| Taken {
            operands: taken.operands - operand + operands,
            scalars: taken.scalars - scalar + scalars,
            ..*taken
        };
        let steps = &other.steps[step..task.steps];
        self.steps.extend(steps.iter().map(moved));
        if let Some(last) = steps.last() {
            self.operands.extend_from_slice(&other.operands[operand..last.operands]);
            self.scalars.extend_from_slice(&other.scalars[scalar..last.scalars]);
        }
        self.task_ends(task.kernel, task.alone);
    }

    /// Finds which tasks can be timed together.
    pub fn find_rows(&mut self) {
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

/// The step that was added last, to which operands and numbers are added.
pub(super) struct Writing<'a>(&'a mut Script);

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

/// The operands of a matrix product: left, right, result, accumulator.
pub(super) fn product_operands(step: &MatMulStep) -> impl Iterator<Item = &MemUse> {
    [&step.a, &step.b, &step.c].into_iter().chain(&step.acc)
}
