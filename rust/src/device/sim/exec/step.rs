//! Steps on tiles: operands become addresses, and large work is cut into parts for the cores.
#![allow(unsafe_code)] // calls the kernels with addresses that `access` and the layout of scratch memory vouch for

use super::Stop;
use super::access::{BoxMem, WindowMem, plain_matrix};
use super::frame::Frame;
use super::grid::Grid;
use super::interpret::{Context, Core, Lane};
use super::packed::Packed;
use super::script::{Cursor, Evaluated, Place, Script, StepId, Taken, Task, product_operands};
use crate::device::TensorArg;
use crate::device::sim::code::{ChainStep, MatMulStep, Mem, MemUse, Step};
use crate::device::sim::lower::lane_bits;
use crate::kernels::chain::{ChainRun, MemArg};
use crate::kernels::matmul::{MatMulArgs, MatMut, MatRef, PackedRef, Rhs};
use crate::program::Operand;

/// Work of one part in picoseconds: well above a hand-off (0.3 us hot, 10-29 us cold), well below the time between two
/// looks at the keyboard.
const PART_PS: u64 = 30_000_000;
/// Work that is cut into parts on one core too, so that it can be interrupted.
const LONG_PS: u64 = 200 * PART_PS;
/// Estimated picoseconds of one multiply-add in a matrix kernel; the slowest instruction set would be 20 times this.
const FMA_PS: u64 = 20;
/// Bytes of a tensor that, with another of its size, fills the last-level cache of most processors. A guess for all of them,
/// since virtual machines report sizes that are wrong by a factor of ten.
const OUTGROWS: u64 = 16 << 20;

/// A box that is no matrix with adjacent columns and was copied to (or will be copied from) a dense buffer.
pub(super) struct Bounced {
    operand: usize,
    mem: Odd,
    size: usize,
    write: bool,
}

/// Memory that is no matrix.
enum Odd {
    Box(BoxMem),
    /// A window that is partly outside its tile.
    Window(WindowMem),
}

impl Odd {
    /// Copies all elements to dense rows at `dense`, or from there.
    ///
    /// # Safety
    /// `dense` is valid for all elements, and the memory is live.
    unsafe fn copy_dense(&self, dense: *mut u8, size: usize, to_dense: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Odd::Box(mem) => mem.copy_dense(dense, size, to_dense),
                Odd::Window(mem) => mem.copy_dense(dense, size, to_dense),
            }
        }
    }
}

impl<'a> Core<'a> {
    pub(super) fn step(&mut self, id: StepId, step: &Step, frame: &Frame) -> Result<(), String> {
        match step {
            Step::Chain(chain) => self.chain(id, chain, frame),
            Step::MatMul(product) => self.matmul(id, product, frame),
            Step::Block(block) => self.block(id, block, frame),
        }
    }

    fn chain(&mut self, id: StepId, step: &ChainStep, frame: &Frame) -> Result<(), String> {
        let [rows, cols] = region(step.region, step.bound, frame)?;
        if rows == 0 {
            return Ok(());
        }
        let crew = self.crew();
        let Lane { mems, scalars, bounce, bounced, tiles, .. } = self.lane();
        mems.clear();
        bounced.clear();
        for operand in &step.mems {
            let span = [if operand.extent.rows { rows } else { 1 }, if operand.extent.cols { cols } else { 1 }];
            let (data, row_stride) = address(operand, span, frame, *tiles, mems.len(), bounce, bounced)?;
            let row_stride = if operand.extent.rows { row_stride } else { 0 };
            let stream = operand.write && outgrows_caches(operand, &step.mems, frame, crew.context.tensors);
            mems.push(MemArg { data, row_stride, stream });
        }
        scalars.clear();
        scalars.extend(step.scalars.iter().map(|scalar| lane_bits(frame.bits(scalar.value), scalar.dtype)));
        let extents = [rows, cols, 0];
        let lane = crew.lane();
        let trans = [false; 2];
        let (args, scalars, is_copied) = (&lane.mems, &lane.scalars, !lane.bounced.is_empty());
        let evaluated = Evaluated { extents, trans, args, scalars, tiles: lane.tiles, is_copied };
        self.write_down(id, step.mems.iter(), evaluated, frame);
        self.budget -= crew.chain(step, extents, &lane.mems, &lane.scalars);
        finish(&lane.bounced, &lane.bounce);
        Ok(())
    }

    fn matmul(&mut self, id: StepId, step: &MatMulStep, frame: &Frame) -> Result<(), String> {
        let [m, n, k] = extents(step, frame)?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let crew = self.crew();
        let Lane { mems, bounce, bounced, tiles, .. } = self.lane();
        mems.clear();
        bounced.clear();
        let mut trans = step.trans;
        for (at, (operand, span)) in product_operands(step).zip([[m, k], [k, n], [m, n], [m, n]]).enumerate() {
            let swapped = trans.get(at).is_some_and(|&trans| trans);
            let span = if swapped { [span[1], span[0]] } else { span };
            let found = match turned(operand, span, frame).filter(|_| at < 2) {
                Some(place) => {
                    trans[at] = !trans[at];
                    place
                }
                None => address(operand, span, frame, *tiles, at, bounce, bounced)?,
            };
            mems.push(MemArg { data: found.0, row_stride: found.1, stream: false });
        }
        let extents = [m, n, k];
        let lane = crew.lane();
        let (args, is_copied) = (&lane.mems, !lane.bounced.is_empty());
        let evaluated = Evaluated { extents, trans, args, scalars: &[], tiles: lane.tiles, is_copied };
        self.write_down(id, product_operands(step), evaluated, frame);
        self.budget -= crew.matmul(step, extents, trans, &lane.mems);
        finish(&lane.bounced, &lane.bounce);
        Ok(())
    }

    /// Writes a step down for later launches, if this one is recorded. A copy of an operand cannot be kept.
    fn write_down<'u>(
        &mut self,
        id: StepId,
        uses: impl Iterator<Item = &'u MemUse>,
        evaluated: Evaluated<'_>,
        frame: &Frame,
    ) {
        let tensors = self.context.tensors;
        match &mut self.recording {
            Some(script) if evaluated.is_copied => script.give_up(),
            Some(script) => script.step(id, uses, evaluated, &frame.tensors, tensors),
            None => {}
        }
    }

    /// Runs tasks that an earlier launch ran, from `at` on; `at.step` says where the last one ended that was not
    /// interrupted.
    #[inline]
    pub(super) fn tasks_again(&mut self, script: &Script, tasks: &[Task], at: &mut Cursor) -> Result<(), Stop> {
        let Cursor { mut operand, mut scalar, .. } = *at;
        for task in tasks {
            for taken in &script.steps[at.step..task.steps] {
                self.step_again(script, taken, operand, scalar);
                (operand, scalar) = (taken.operands, taken.scalars);
                self.look_around()?;
            }
            at.step = task.steps;
        }
        (at.operand, at.scalar) = (operand, scalar);
        Ok(())
    }

    /// Takes a step that an earlier launch took, whose operands and scalars begin there in the lists of
    /// `script`.
    #[inline]
    fn step_again(&mut self, script: &Script, taken: &Taken, operands: usize, scalars: usize) {
        let crew = self.crew();
        let places = &script.operands[operands..taken.operands];
        let words = &script.scalars[scalars..taken.scalars];
        self.budget -= match taken.id.of(crew.context.lowered) {
            Step::Chain(chain) => crew.chain(chain, taken.extents, crew.addresses(places), words),
            Step::MatMul(product) => crew.matmul(product, taken.extents, taken.trans, crew.addresses(places)),
            Step::Block(block) => crew.block_again(block, taken, places, words),
        };
    }

    pub(super) fn crew(&self) -> Crew<'a> {
        Crew { context: self.context, number: self.number, alone: self.alone }
    }
}

/// The cores at work on one step.
#[derive(Clone, Copy)]
pub(super) struct Crew<'a> {
    pub context: &'a Context<'a>,
    pub number: usize,
    alone: bool,
}

impl<'a> Crew<'a> {
    /// The lane of the core that takes the step. Parts use what lanes have for parts and nothing else.
    pub fn lane(&self) -> &'a mut Lane {
        // SAFETY: a lane is of one core, and one thread at a time is this core; nobody else holds it across these calls.
        unsafe { &mut *self.context.lanes.add(self.number) }
    }

    /// Where operands that were written down lie now.
    #[inline]
    fn addresses(&self, places: &[Place]) -> &'a [MemArg] {
        let lane = self.lane();
        lane.mems.clear();
        lane.mems.extend(places.iter().map(|place| place.address(self.context.tensors, lane.tiles)));
        &lane.mems
    }

    /// Runs a chain over a region whose operands were checked against it; gives its work.
    #[inline]
    fn chain(&self, step: &ChainStep, [rows, cols, _]: [u64; 3], mems: &[MemArg], scalars: &[u32]) -> i64 {
        let work = rows * cols.max(1) * u64::from(step.cost);
        let parts = self.parts(work, rows);
        if parts == 1 {
            // SAFETY: one thread at a time is this core.
            let scratch = unsafe { (*self.context.lanes.add(self.number)).scratch };
            let run = ChainRun { rows: rows as usize, cols: cols as usize, first: [0; 2], mems, scalars, scratch };
            // SAFETY: the caller checked every operand against the region; the scratch is this core's.
            unsafe { step.machine.run(&run) };
        } else {
            self.chain_in_parts(step, [rows, cols], parts, mems, scalars);
        }
        work as i64
    }

    fn chain_in_parts(&self, step: &ChainStep, [rows, cols]: [u64; 2], parts: u64, mems: &[MemArg], scalars: &[u32]) {
        let (all, context) = (&Shared(mems), self.context);
        let poller = context.poller;
        let part = |part: usize, core: usize| {
            if if core == 0 { poller.poll() } else { poller.stopped() } {
                return;
            }
            let (first, last) = (rows * part as u64 / parts, rows * (part as u64 + 1) / parts);
            // SAFETY: one thread at a time runs as `core`, so what its lane has for parts is not shared.
            let (part_mems, scratch) = unsafe {
                let lane = context.lanes.add(core);
                (&mut (*lane).part_mems, (*lane).scratch)
            };
            let advanced =
                |mem: &MemArg| MemArg { data: mem.data.wrapping_offset(first as isize * mem.row_stride), ..*mem };
            part_mems.clear();
            part_mems.extend(all.get().iter().map(advanced));
            let run = ChainRun {
                rows: (last - first) as usize,
                cols: cols as usize,
                first: [first as u32, 0],
                mems: part_mems,
                scalars,
                scratch,
            };
            // SAFETY: the part is a range of rows of a checked region; parts write different rows.
            unsafe { step.machine.run(&run) };
        };
        context.pool.run_watched(parts as usize, &part, &mut || {
            poller.poll();
        });
    }

    /// Runs a matrix product whose operands were checked against its extents; `trans` says which of the first two lie
    /// transposed. Gives its work.
    #[inline]
    fn matmul(&self, step: &MatMulStep, [m, n, k]: [u64; 3], trans: [bool; 2], mems: &[MemArg]) -> i64 {
        let context = self.context;
        let kernel = &step.kernels[usize::from(trans[0])][usize::from(trans[1])];
        let work = m * n * k.max(1) * FMA_PS;
        let cores = context.pool.cores() as u64;
        let least = if self.alone && cores > 1 { (work / PART_PS).clamp(1, 2 * cores) } else { 1 };
        let steps = [kernel.m_step() as u64, kernel.n_step() as u64];
        let sizes = [&step.a, &step.b, &step.c, step.acc.as_ref().unwrap_or(&step.c)];
        let sizes = sizes.map(|operand| operand.dtype.size() as isize);
        let right = Packed::find(context.packed, kernel, (mems[1].data, mems[1].row_stride), [n, k]);
        let grid = Grid::cut([m, n], steps, right.is_some(), work, least, 2 * LONG_PS);
        let addresses = Shared((mems, right));
        let poller = context.poller;
        let part = |part: usize, core: usize| {
            if if core == 0 { poller.poll() } else { poller.stopped() } {
                return;
            }
            let (mems, right) = *addresses.get();
            let ([row, col], [rows, cols]) = grid.part(part as u64);
            let (row, col) = (row as isize, col as isize);
            let place = |operand: usize, row: isize, col: isize| {
                let MemArg { data, row_stride, .. } = mems[operand];
                let turned = trans.get(operand).is_some_and(|&trans| trans);
                let (row, col) = if turned { (col, row) } else { (row, col) };
                MatRef { data: data.wrapping_offset(row * row_stride + col * sizes[operand]), row_stride }
            };
            let target = place(2, row, col);
            let args = MatMulArgs {
                m: rows as usize,
                n: cols as usize,
                k: k as usize,
                a: place(0, row, 0),
                b: match right {
                    Some(part) => Rhs::Packed(PackedRef { n_start: part.n_start + col as usize, ..part }),
                    None => Rhs::Plain(place(1, 0, col)),
                },
                c: MatMut { data: target.data.cast_mut(), row_stride: target.row_stride },
                acc: step.acc.as_ref().map(|_| place(3, row, col)),
                bias: None,
                // SAFETY: one thread at a time runs as `core`.
                scratch: unsafe { (*context.lanes.add(core)).scratch },
            };
            // SAFETY: the caller checked every operand; parts write different blocks of `c`.
            unsafe { kernel.run(&args) };
        };
        match grid.parts() {
            1 => part(0, self.number),
            parts => context.pool.run_watched(parts as usize, &part, &mut || {
                poller.poll();
            }),
        }
        work as i64
    }

    /// How many parts to make of `work` that can be cut into at most `most`. A part is also what can be interrupted, so
    /// long steps are cut for one core too.
    pub fn parts(&self, work: u64, most: u64) -> u64 {
        let cut = work >= 2 * PART_PS && self.alone && self.context.pool.cores() > 1 || work >= LONG_PS;
        if cut { (work / PART_PS).clamp(1, most.max(1)) } else { 1 }
    }
}

/// Whether what a step writes to a tensor has left the caches before anybody comes back to it: the tensor does not fit beside
/// one of its size, and the step does not read it (then its lines are in the cache already).
fn outgrows_caches(operand: &MemUse, all: &[MemUse], frame: &Frame, tensors: &[TensorArg]) -> bool {
    let base = |operand: &MemUse| match &operand.mem {
        Mem::Box(spec) => Some(frame.tensors[spec.tensor as usize].base),
        _ => None,
    };
    let Some(tensor) = base(operand) else { return false };
    let elements = tensors.get(tensor as usize).and_then(|tensor| tensor.shape.elements()).unwrap_or(0);
    elements.saturating_mul(operand.dtype.size() as u64) >= OUTGROWS
        && all.iter().all(|other| other.write || base(other) != Some(tensor))
}

/// The address and the row stride of the transpose of a box, where that is a matrix with adjacent columns and the box is not.
fn turned(operand: &MemUse, span: [u64; 2], frame: &Frame) -> Option<(*mut u8, isize)> {
    let Mem::Box(spec) = &operand.mem else { return None };
    if plain_matrix(spec, frame, span[0], span[1]).is_some() || span[0] <= 1 || span[1] <= 1 {
        return None;
    }
    let mem = BoxMem::evaluate(spec, frame, span[0], span[1]).ok()?;
    mem.turned(operand.dtype.size()).map(|stride| (mem.data, stride))
}

/// Lets the parts of one step see its addresses.
pub(super) struct Shared<T>(pub T);

// SAFETY: the parts use the addresses for different rows, columns or cores, as each use says.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn get(&self) -> &T {
        &self.0
    }
}

/// Rows, columns and inner extent of a product now.
pub(super) fn extents(step: &MatMulStep, frame: &Frame) -> Result<[u64; 3], String> {
    let [bound_m, bound_n, bound_k] = step.bound;
    let [m, n] = region(step.region, [bound_m, bound_n], frame)?;
    let [k, _] = region([step.k, Operand::Int(1)], [bound_k, 1], frame)?;
    Ok([m, n, k])
}

/// The extents of a region now, checked against what the tiles have room for.
pub(super) fn region(region: [Operand; 2], bound: [u32; 2], frame: &Frame) -> Result<[u64; 2], String> {
    let rows = frame.int(region[0]);
    let cols = frame.int(region[1]);
    if rows < 0 || cols < 0 || rows > bound[0].into() || cols > bound[1].into() {
        let [most_rows, most_cols] = bound;
        return Err(format!(
            "a valid shape of [{rows}, {cols}] for a tile of [{most_rows}, {most_cols}]; it must be at least 0 and no larger \
             than the tile"
        ));
    }
    Ok([rows as u64, cols as u64])
}

/// The first element and the bytes from row to row of an operand that spans `span`.
pub(super) fn address(
    operand: &MemUse,
    span: [u64; 2],
    frame: &Frame,
    tiles: *mut u8,
    at: usize,
    bounce: &mut Vec<Vec<u64>>,
    bounced: &mut Vec<Bounced>,
) -> Result<(*mut u8, isize), String> {
    match &operand.mem {
        Mem::Tile(tile) => Ok((tiles.wrapping_add(tile.home as usize), tile.row_stride as isize)),
        Mem::Window(window) => {
            let size = operand.dtype.size();
            let mem = WindowMem::evaluate(window, frame, span, size, tiles);
            if let Some(first) = mem.inside() {
                return Ok((first, window.tile.row_stride as isize));
            }
            let dense = dense(bounce, at, span, size);
            if !operand.write {
                // SAFETY: the buffer has room for the window.
                unsafe { mem.copy_dense(dense, size, true) };
            }
            bounced.push(Bounced { operand: at, mem: Odd::Window(mem), size, write: operand.write });
            Ok((dense, (span[1] as usize * size) as isize))
        }
        Mem::Box(spec) => {
            if let Some(found) = plain_matrix(spec, frame, span[0], span[1]) {
                return Ok(found);
            }
            let size = operand.dtype.size();
            let mem = BoxMem::evaluate(spec, frame, span[0], span[1])?;
            if let Some(stride) = mem.row_stride(size) {
                return Ok((mem.data, stride));
            }
            let dense = dense(bounce, at, span, size);
            if !operand.write {
                // SAFETY: the buffer has room for the box, which was checked.
                unsafe { mem.copy_dense(dense, size, true) };
            }
            bounced.push(Bounced { operand: at, mem: Odd::Box(mem), size, write: operand.write });
            Ok((dense, (span[1] as usize * size) as isize))
        }
    }
}

/// Room for dense rows of the operand `at`.
fn dense(bounce: &mut Vec<Vec<u64>>, at: usize, span: [u64; 2], size: usize) -> *mut u8 {
    let words = (span[0] as usize * span[1] as usize * size).div_ceil(8);
    if bounce.len() <= at {
        bounce.resize_with(at + 1, Vec::new);
    }
    let buffer = &mut bounce[at];
    buffer.resize(words.max(buffer.len()), 0);
    buffer.as_mut_ptr().cast()
}

/// Copies results that went to a dense buffer to where they belong.
pub(super) fn finish(bounced: &[Bounced], bounce: &[Vec<u64>]) {
    for copy in bounced.iter().filter(|copy| copy.write) {
        let dense = bounce[copy.operand].as_ptr().cast::<u8>().cast_mut();
        // SAFETY: as when the box was checked; the kernel has filled the buffer.
        unsafe { copy.mem.copy_dense(dense, copy.size, false) };
    }
}
