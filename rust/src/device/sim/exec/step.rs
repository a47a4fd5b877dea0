//! Steps on tiles: operands become addresses, and large work is cut into parts for the cores.
#![allow(unsafe_code)] // calls the kernels with addresses that `access` and the layout of scratch memory vouch for

use super::access::{BoxMem, plain_matrix};
use super::frame::Frame;
use super::poll::Poller;
use super::replay::{Replay, StepId, Taken, product_operands};
use super::{Buffers, CoreBuffers, Run};
use crate::device::sim::code::{ChainStep, MatMulStep, Mem, MemUse, Step};
use crate::device::sim::lower::lane_bits;
use crate::device::sim::pool::CorePool;
use crate::kernels::chain::{ChainRun, MemArg};
use crate::kernels::matmul::{MatMulArgs, MatMut, MatRef, Rhs};
use crate::program::Operand;

/// Work of one part in picoseconds: well above a hand-off (0.3 us hot, 10-29 us cold), well below the time between two
/// looks at the keyboard.
const PART_PS: u64 = 30_000_000;
/// Work that is cut into parts on one core too, so that it can be interrupted.
const LONG_PS: u64 = 200 * PART_PS;
/// Estimated picoseconds of one multiply-add in a matrix kernel; the slowest instruction set would be 20 times this.
const FMA_PS: u64 = 20;

/// A box that is no matrix with adjacent columns and was copied to (or will be copied from) a dense buffer.
pub(super) struct Bounced {
    operand: usize,
    mem: BoxMem,
    size: usize,
    write: bool,
}

impl Run<'_> {
    pub(super) fn step(&mut self, id: StepId, step: &Step, frame: &Frame) -> Result<(), String> {
        match step {
            Step::Chain(chain) => self.chain(id, chain, frame),
            Step::MatMul(product) => self.matmul(id, product, frame),
        }
    }

    fn chain(&mut self, id: StepId, step: &ChainStep, frame: &Frame) -> Result<(), String> {
        let [rows, cols] = region(step.region, step.bound, frame)?;
        if rows == 0 {
            return Ok(());
        }
        let Buffers { mems, scalars, bounce, bounced, cores } = &mut *self.buffers;
        mems.clear();
        bounced.clear();
        for operand in &step.mems {
            let span = [if operand.extent.rows { rows } else { 1 }, if operand.extent.cols { cols } else { 1 }];
            let mut arg = address(operand, span, frame, self.tiles, mems.len(), bounce, bounced)?;
            if !operand.extent.rows {
                arg.row_stride = 0;
            }
            mems.push(arg);
        }
        scalars.clear();
        scalars.extend(step.scalars.iter().map(|scalar| lane_bits(frame.bits(scalar.value), scalar.dtype)));
        let extents = [rows, cols, 0];
        if let Some(replay) = &mut self.recording {
            let bases = (self.tensors, self.tiles);
            match bounced.is_empty() {
                true => replay.step(id, extents, step.mems.iter(), mems, scalars, &frame.tensors, bases),
                false => replay.give_up(),
            }
        }
        self.budget -= Crew { pool: self.pool, poller: self.poller, cores }.chain(step, extents, mems, scalars);
        finish(bounced, bounce);
        Ok(())
    }

    fn matmul(&mut self, id: StepId, step: &MatMulStep, frame: &Frame) -> Result<(), String> {
        let [bound_m, bound_n, bound_k] = step.bound;
        let [m, n] = region(step.region, [bound_m, bound_n], frame)?;
        let [k, _] = region([step.k, Operand::Int(1)], [bound_k, 1], frame)?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let Buffers { mems, bounce, bounced, cores, .. } = &mut *self.buffers;
        mems.clear();
        bounced.clear();
        for (operand, span) in product_operands(step).zip([[m, k], [k, n], [m, n], [m, n]]) {
            mems.push(address(operand, span, frame, self.tiles, mems.len(), bounce, bounced)?);
        }
        let extents = [m, n, k];
        if let Some(replay) = &mut self.recording {
            let bases = (self.tensors, self.tiles);
            match bounced.is_empty() {
                true => replay.step(id, extents, product_operands(step), mems, &[], &frame.tensors, bases),
                false => replay.give_up(),
            }
        }
        self.budget -= Crew { pool: self.pool, poller: self.poller, cores }.matmul(step, extents, mems);
        finish(bounced, bounce);
        Ok(())
    }

    /// Takes a step that an earlier launch took, whose operands and scalars begin there in the lists of
    /// `replay`.
    #[inline]
    pub(super) fn step_again(&mut self, replay: &Replay, taken: &Taken, operands: usize, scalars: usize) {
        let Buffers { mems, cores, .. } = &mut *self.buffers;
        let places = &replay.operands[operands..taken.operands];
        mems.clear();
        mems.extend(places.iter().map(|place| place.address(self.tensors, self.tiles)));
        let mut crew = Crew { pool: self.pool, poller: self.poller, cores };
        self.budget -= match taken.id.of(self.lowered) {
            Step::Chain(chain) => crew.chain(chain, taken.extents, mems, &replay.scalars[scalars..taken.scalars]),
            Step::MatMul(product) => crew.matmul(product, taken.extents, mems),
        };
    }
}

/// The cores at work on one step.
struct Crew<'a, 'p> {
    pool: &'a CorePool,
    poller: &'a Poller<'p>,
    cores: &'a mut [CoreBuffers],
}

impl Crew<'_, '_> {
    /// Runs a chain over a region whose operands were checked against it; gives its work.
    #[inline]
    fn chain(&mut self, step: &ChainStep, [rows, cols, _]: [u64; 3], mems: &[MemArg], scalars: &[u32]) -> i64 {
        let work = rows * cols.max(1) * u64::from(step.cost);
        let parts = self.parts(work, rows);
        if parts == 1 {
            let scratch = self.cores[0].scratch;
            let run = ChainRun { rows: rows as usize, cols: cols as usize, mems, scalars, scratch };
            // SAFETY: the caller checked every operand against the region; core 0 has its scratch.
            unsafe { step.machine.run(&run) };
        } else {
            self.chain_in_parts(step, [rows, cols], parts, mems, scalars);
        }
        work as i64
    }

    fn chain_in_parts(
        &mut self,
        step: &ChainStep,
        [rows, cols]: [u64; 2],
        parts: u64,
        mems: &[MemArg],
        scalars: &[u32],
    ) {
        let (all, cores) = (&Shared(mems), &Shared(self.cores.as_mut_ptr()));
        let poller = self.poller;
        let part = |part: usize, core: usize| {
            if if core == 0 { poller.poll() } else { poller.stopped() } {
                return;
            }
            let (first, last) = (rows * part as u64 / parts, rows * (part as u64 + 1) / parts);
            // SAFETY: one thread at a time runs as `core`, so its buffers are not shared.
            let own: &mut CoreBuffers = unsafe { &mut *cores.get().add(core) };
            let advanced =
                |mem: &MemArg| MemArg { data: mem.data.wrapping_offset(first as isize * mem.row_stride), ..*mem };
            own.mems.clear();
            own.mems.extend(all.get().iter().map(advanced));
            let run = ChainRun {
                rows: (last - first) as usize,
                cols: cols as usize,
                mems: &own.mems,
                scalars,
                scratch: own.scratch,
            };
            // SAFETY: the part is a range of rows of a checked region; parts write different rows.
            unsafe { step.machine.run(&run) };
        };
        self.pool.run_watched(parts as usize, &part, &mut || {
            poller.poll();
        });
    }

    /// Runs a matrix product whose operands were checked against its extents; gives its work.
    #[inline]
    fn matmul(&mut self, step: &MatMulStep, [m, n, k]: [u64; 3], mems: &[MemArg]) -> i64 {
        let work = m * n * k.max(1) * FMA_PS;
        // Columns are cut first: each part then reads its own part of the right operand, which is the large one.
        let (m_step, n_step) = (step.kernel.m_step() as u64, step.kernel.n_step() as u64);
        let by_rows = m / m_step > n / n_step;
        let (length, grain) = if by_rows { (m, m_step) } else { (n, n_step) };
        let blocks = length.div_ceil(grain);
        // Each part packs its operands anew, so short products come in few parts.
        let few = if work < LONG_PS { 2 * self.pool.cores() as u64 } else { blocks };
        let parts = self.parts(work, blocks.min(few));
        let sizes = [&step.a, &step.b, &step.c, step.acc.as_ref().unwrap_or(&step.c)];
        let sizes = sizes.map(|operand| operand.dtype.size() as isize);
        let addresses = Shared((mems, self.cores.as_ptr()));
        let poller = self.poller;
        let part = |part: usize, core: usize| {
            if if core == 0 { poller.poll() } else { poller.stopped() } {
                return;
            }
            let (mems, cores) = *addresses.get();
            let first = (blocks * part as u64 / parts * grain).min(length) as isize;
            let last = (blocks * (part as u64 + 1) / parts * grain).min(length) as isize;
            let (row, col) = if by_rows { (first, 0) } else { (0, first) };
            let place = |operand: usize, row: isize, col: isize| {
                let MemArg { data, row_stride, .. } = mems[operand];
                MatRef { data: data.wrapping_offset(row * row_stride + col * sizes[operand]), row_stride }
            };
            let target = place(2, row, col);
            let args = MatMulArgs {
                m: if by_rows { (last - first) as usize } else { m as usize },
                n: if by_rows { n as usize } else { (last - first) as usize },
                k: k as usize,
                a: place(0, row, 0),
                b: Rhs::Plain(place(1, 0, col)),
                c: MatMut { data: target.data.cast_mut(), row_stride: target.row_stride },
                acc: step.acc.as_ref().map(|_| place(3, row, col)),
                bias: None,
                // SAFETY: `core` is below the number of cores.
                scratch: unsafe { (*cores.add(core)).scratch },
            };
            // SAFETY: the caller checked every operand; parts write different blocks of `c`.
            unsafe { step.kernel.run(&args) };
        };
        if parts == 1 {
            part(0, 0);
        } else {
            self.pool.run_watched(parts as usize, &part, &mut || {
                poller.poll();
            });
        }
        work as i64
    }

    /// How many parts to make of `work` that can be cut into at most `most`. On one core only so that it can be
    /// interrupted.
    fn parts(&self, work: u64, most: u64) -> u64 {
        if work < 2 * PART_PS || self.pool.cores() == 1 && work < LONG_PS {
            return 1;
        }
        (work / PART_PS).clamp(1, most.max(1))
    }
}

/// Lets the parts of one step see its addresses.
struct Shared<T>(T);

// SAFETY: the parts use the addresses for different rows, columns or cores, as each use says.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

/// The extents of a region now, checked against what the tiles have room for.
fn region(region: [Operand; 2], bound: [u32; 2], frame: &Frame) -> Result<[u64; 2], String> {
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
fn address(
    operand: &MemUse,
    span: [u64; 2],
    frame: &Frame,
    tiles: *mut u8,
    at: usize,
    bounce: &mut Vec<Vec<u64>>,
    bounced: &mut Vec<Bounced>,
) -> Result<MemArg, String> {
    let arg = |(data, row_stride)| MemArg { data, row_stride, stream: false };
    match &operand.mem {
        Mem::Tile(tile) => Ok(arg((tiles.wrapping_add(tile.home as usize), tile.row_stride as isize))),
        Mem::Box(spec) => {
            if let Some(found) = plain_matrix(spec, frame, span[0], span[1]) {
                return Ok(arg(found));
            }
            let size = operand.dtype.size();
            let mem = BoxMem::evaluate(spec, frame, span[0], span[1])?;
            if let Some(stride) = mem.row_stride(size) {
                return Ok(arg((mem.data, stride)));
            }
            let row = span[1] as usize * size;
            let words = (span[0] as usize * row).div_ceil(8);
            if bounce.len() <= at {
                bounce.resize_with(at + 1, Vec::new);
            }
            let buffer = &mut bounce[at];
            buffer.resize(words.max(buffer.len()), 0);
            let dense: *mut u8 = buffer.as_mut_ptr().cast();
            if !operand.write {
                // SAFETY: the buffer has room for the box, which was checked.
                unsafe { mem.copy_dense(dense, size, true) };
            }
            bounced.push(Bounced { operand: at, mem, size, write: operand.write });
            Ok(arg((dense, row as isize)))
        }
    }
}

/// Copies results that went to a dense buffer to where they belong.
fn finish(bounced: &[Bounced], bounce: &[Vec<u64>]) {
    for copy in bounced.iter().filter(|copy| copy.write) {
        let dense = bounce[copy.operand].as_ptr().cast::<u8>().cast_mut();
        // SAFETY: as when the box was checked; the kernel has filled the buffer.
        unsafe { copy.mem.copy_dense(dense, copy.size, false) };
    }
}
