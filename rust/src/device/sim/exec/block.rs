//! Whole-tile steps: their operands become matrices with checked extents, and large ones are cut into parts for the cores.
#![allow(unsafe_code)] // calls the kernels with addresses that `step` and the layout of scratch memory vouch for

use super::frame::{Frame, View};
use super::interpret::{Core, Lane};
use super::script::{Place, Script, StepId, Taken};
use super::step::{Crew, Shared, address, finish, region};
use crate::device::TensorArg;
use crate::device::sim::code::{BlockMem, BlockStep, Mem};
use crate::device::sim::lower::element_bits;
use crate::kernels::block::{Args, MOST, Mat, Whole};

/// Most scalars of a whole-tile operation.
const SCALARS: usize = 8;

/// What a whole-tile step works on.
pub(super) struct Operands {
    region: [u64; 2],
    mats: [Mat; MOST],
    /// Elements that are given as scalars, by the operand whose place they take.
    elements: [u64; MOST],
    scalars: [u64; SCALARS],
    whole: Option<Whole>,
}

impl Operands {
    const NONE: Self =
        Self { region: [0; 2], mats: [Mat::NONE; MOST], elements: [0; MOST], scalars: [0; SCALARS], whole: None };

    /// Evaluates and checks the operands of `step`. Those that are no matrices get dense copies in `lane`.
    fn evaluate(step: &BlockStep, frame: &Frame, lane: &mut Lane) -> Result<Self, String> {
        let mut operands = Self { region: region(step.region, step.bound, frame)?, ..Self::NONE };
        let Lane { bounce, bounced, tiles, .. } = lane;
        bounced.clear();
        for (at, operand) in step.mems.iter().enumerate() {
            match operand {
                BlockMem::Mem { mem, span, bound } => {
                    let [rows, cols] = region(*span, *bound, frame)?;
                    let (data, stride) = address(mem, [rows, cols], frame, *tiles, at, bounce, bounced)?;
                    let [rows, cols] = match &mem.mem {
                        Mem::Tile(tile) => [tile.rows.into(), tile.cols.into()],
                        _ => [rows, cols],
                    };
                    let row = if mem.extent.rows { stride } else { 0 };
                    let col = if mem.extent.cols { mem.dtype.size() as isize } else { 0 };
                    operands.mats[at] = Mat { data, row, col, rows: rows as usize, cols: cols as usize };
                }
                BlockMem::Scalar(scalar) => {
                    operands.elements[at] = element_bits(frame.bits(scalar.value), scalar.dtype);
                }
            }
        }
        for (to, scalar) in operands.scalars.iter_mut().zip(&step.scalars) {
            *to = element_bits(frame.bits(scalar.value), scalar.dtype);
        }
        operands.whole = step.tensor.map(|tensor| {
            let View { data, rank, dims, strides, limits, .. } = frame.tensors[tensor.slot as usize];
            Whole { data, rank, dims, strides, limits }
        });
        Ok(operands)
    }

    /// Writes the operands down: addresses as places, the rest as numbers in the order in which [`Operands::again`] takes
    /// them.
    fn write_down(
        &self,
        script: &mut Script,
        id: StepId,
        step: &BlockStep,
        tiles: *mut u8,
        frame: &Frame,
        tensors: &[TensorArg],
    ) {
        let [rows, cols] = self.region;
        let Some(mut taken) = script.take(id, [rows, cols, 0]) else { return };
        for (at, operand) in step.mems.iter().enumerate() {
            match operand {
                BlockMem::Mem { mem, .. } => {
                    let Mat { data, row, rows, cols, .. } = self.mats[at];
                    taken.operand(Place::of(mem, (data, row), tiles, &frame.tensors, tensors));
                    taken.number(rows as u64);
                    taken.number(cols as u64);
                }
                BlockMem::Scalar(_) => taken.number(self.elements[at]),
            }
        }
        self.scalars[..step.scalars.len()].iter().for_each(|&scalar| taken.number(scalar));
        if let (Some(whole), Some(tensor)) = (&self.whole, step.tensor) {
            let base = frame.tensors[tensor.slot as usize].base;
            taken.operand(Place::in_tensor(base, whole.data, tensors));
            taken.number(whole.rank as u64);
            for axis in 0..whole.rank {
                taken.number(whole.dims[axis]);
                taken.number(whole.strides[axis] as u64);
                taken.number(whole.limits[axis]);
            }
        }
    }

    /// The operands that were written down, for arguments that lie elsewhere now.
    fn again(
        step: &BlockStep,
        region: [u64; 2],
        places: &[Place],
        words: &[u32],
        tiles: *mut u8,
        tensors: &[TensorArg],
    ) -> Self {
        let mut operands = Self { region, ..Self::NONE };
        let mut places = places.iter().map(|place| place.address(tensors, tiles));
        let mut place = || places.next().expect("one was written down for each operand");
        let mut words = words.chunks_exact(2);
        let mut number = || {
            let word = words.next().expect("as many were written down");
            u64::from(word[0]) | u64::from(word[1]) << 32
        };
        for (at, operand) in step.mems.iter().enumerate() {
            match operand {
                BlockMem::Mem { mem, .. } => {
                    let found = place();
                    let (rows, cols) = (number() as usize, number() as usize);
                    let col = if mem.extent.cols { mem.dtype.size() as isize } else { 0 };
                    operands.mats[at] = Mat { data: found.data, row: found.row_stride, col, rows, cols };
                }
                BlockMem::Scalar(_) => operands.elements[at] = number(),
            }
        }
        operands.scalars[..step.scalars.len()].iter_mut().for_each(|scalar| *scalar = number());
        operands.whole = step.tensor.map(|_| {
            let rank = number() as usize;
            let mut whole = Whole { data: place().data, rank, ..Whole::NONE };
            for axis in 0..rank {
                whole.dims[axis] = number();
                whole.strides[axis] = number() as i64;
                whole.limits[axis] = number();
            }
            whole
        });
        operands
    }
}

impl Core<'_> {
    pub(super) fn block(&mut self, id: StepId, step: &BlockStep, frame: &Frame) -> Result<(), String> {
        let crew = self.crew();
        let lane = crew.lane();
        let mut operands = Operands::evaluate(step, frame, lane)?;
        let tensors = self.context.tensors;
        match &mut self.recording {
            Some(script) if !lane.bounced.is_empty() => script.give_up(),
            Some(script) => operands.write_down(script, id, step, lane.tiles, frame, tensors),
            None => {}
        }
        self.budget -= crew.block(step, &mut operands);
        finish(&lane.bounced, &lane.bounce);
        Ok(())
    }
}

impl Crew<'_> {
    /// Takes a whole-tile step that was written down; gives its work.
    pub(super) fn block_again(&self, step: &BlockStep, taken: &Taken, places: &[Place], words: &[u32]) -> i64 {
        let [rows, cols, _] = taken.extents;
        let mut operands = Operands::again(step, [rows, cols], places, words, self.lane().tiles, self.context.tensors);
        self.block(step, &mut operands)
    }

    /// Runs a whole-tile step whose operands were checked; gives its work.
    fn block(&self, step: &BlockStep, operands: &mut Operands) -> i64 {
        let Operands { region: [rows, cols], mats, elements, scalars, whole } = operands;
        let (rows, cols) = (*rows, *cols);
        for (at, operand) in step.mems.iter().enumerate() {
            if let BlockMem::Scalar(_) = operand {
                let data = (&raw mut elements[at]).cast();
                mats[at] = Mat { data, row: 0, col: 0, rows: usize::MAX, cols: usize::MAX };
            }
        }
        let context = self.context;
        // SAFETY: one thread at a time runs as this core.
        let scratch = unsafe { (*context.lanes.add(self.number)).scratch };
        let args = Args {
            rows: rows as usize,
            cols: cols as usize,
            mats: &mats[..step.mems.len()],
            scalars: &scalars[..step.scalars.len()],
            tensor: whole.as_ref(),
            scratch,
        };
        let argument = args.mats.get(1).map_or(0, |mat| (mat.rows as u64).saturating_mul(mat.cols as u64));
        let block = &step.block;
        let work = block.work(rows * cols, argument);
        let parts = self.parts(work, block.most_parts(rows, cols));
        if parts == 1 {
            // SAFETY: every operand was checked for its extents; results are in memory of their own, or are the first
            // argument of an operation that may change it. The scratch is this core's.
            unsafe { block.run(&args) };
            return work as i64;
        }
        let (args, poller) = (&Shared(args), context.poller);
        let part = |part: usize, core: usize| {
            if if core == 0 { poller.poll() } else { poller.stopped() } {
                return;
            }
            // SAFETY: one thread at a time runs as `core`.
            let scratch = unsafe { (*context.lanes.add(core)).scratch };
            let mut room = [Mat::NONE; MOST];
            let range = block.range(part as u64, parts, rows, cols);
            // SAFETY: as above; parts write rows or columns of their own.
            unsafe { block.run(&block.part(&Args { scratch, ..*args.get() }, &range, &mut room)) };
        };
        context.pool.run_watched(parts as usize, &part, &mut || {
            poller.poll();
        });
        work as i64
    }
}
