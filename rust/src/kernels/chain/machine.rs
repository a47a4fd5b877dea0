//! The machine: a program resolved for one instruction set, and the loop over rows and passes.

use super::ChainProgram;
use super::code::Op;
use super::compile::{Compiled, compile};
use super::frame::Entry;
use super::isa::{Kernels, Plan};
use super::passes::Ahead;
use crate::kernels::Isa;

/// Columns that the rows of a block have together, at most: four operands of that size stay in the first-level cache.
const BLOCK_COLUMNS: usize = 1024;

/// Rows in a block, at most.
const MAX_BLOCK: usize = 8;

/// Bytes of a row in all its operands and buffers, at most, where the next row may begin before it has ended: three quarters
/// of a usual first-level cache.
const AHEAD_BYTES: usize = 24 << 10;

/// Where a row buffer begins in its page, after the row that is read at the same time. A load waits for an earlier store whose
/// address has the same lowest 12 bits, and up to 64 stores are on their way: a softmax of 1,024 columns takes 276 to 300 ns a
/// row from memory where the buffer begins 256 to 768 bytes after the row, 240 to 242 at 1,024 to 1,792, 246 to 260 elsewhere.
const BUFFER_PHASE: usize = 1280;

/// Addresses that far apart have the same lowest 12 bits.
const PAGE: usize = 4096;

/// A program resolved for one instruction set.
pub struct Machine {
    program: ChainProgram,
    compiled: Compiled,
    kernels: &'static Kernels,
}

/// A memory operand of a run.
#[derive(Clone, Copy, Debug)]
pub struct MemArg {
    /// Column 0 of row 0. Any alignment.
    pub data: *mut u8,
    /// Bytes from one row to the next; 0 makes one row stand for all.
    pub row_stride: isize,
    /// Hint: the data leave the caches, so stores go past them. It pays where operands and results together outgrow the
    /// last-level cache; below, it is slower. Ignored where rows do not begin at 64-byte boundaries. Before another thread reads
    /// the data, this one calls [`settle_streams`](crate::kernels::settle_streams).
    pub stream: bool,
}

/// The region that a program is run on.
#[derive(Clone, Copy, Debug)]
pub struct ChainRun<'a> {
    /// Rows of the region.
    pub rows: usize,
    /// Columns of the region.
    pub cols: usize,
    /// What [`RowSrc::Row`](super::RowSrc::Row) is in the first row and [`Src::Column`](super::Src::Column) in the first
    /// column: not 0 where the region is a part of another.
    pub first: [u32; 2],
    /// One for each memory operand of the program, in its order.
    pub mems: &'a [MemArg],
    /// Values of the run-time scalars, by index.
    pub scalars: &'a [u32],
    /// At least [`Machine::scratch_bytes`] bytes, aligned to 64. Holds nothing between runs.
    pub scratch: *mut u8,
}

impl Machine {
    /// Resolves a well-formed program. What is not well-formed (an index out of range, an element type above 32 bits) is a bug
    /// of the caller and may panic here.
    pub fn new(program: ChainProgram, isa: Isa) -> Self {
        let compiled = compile(&program);
        Machine { program, compiled, kernels: Kernels::of(isa) }
    }

    /// What the machine was made from.
    pub fn program(&self) -> &ChainProgram {
        &self.program
    }

    /// Bytes of scratch for regions of up to `cols` columns.
    pub fn scratch_bytes(&self, cols: usize) -> usize {
        // Shorter rows come in larger blocks: the largest need is at one of the lengths before the block shrinks.
        let room = if self.compiled.beside.is_some() { PAGE } else { 0 };
        let need = |cols: usize| self.block(cols) * self.compiled.layout.bytes(cols) + room;
        let mut most = need(cols);
        let mut shorter = BLOCK_COLUMNS;
        while shorter > BLOCK_COLUMNS / MAX_BLOCK / 2 {
            most = most.max(need(cols.min(shorter - 1)));
            shorter /= 2;
        }
        most
    }

    /// Runs the program on a region.
    ///
    /// A memory operand may be read and written in one run (same address and stride: in place); other overlap between what is
    /// written and anything else is not allowed, and rows of an operand that is written do not overlap each other.
    ///
    /// # Safety
    /// Every memory operand that the program reads or writes is valid for the region (that is all that is touched), every row scalar that
    /// it reads or writes is valid in column 0 of each row, and `scratch` is as [`ChainRun::scratch`] says. Nobody else
    /// writes any of it during the run, or reads what it writes.
    pub unsafe fn run(&self, run: &ChainRun<'_>) {
        debug_assert_eq!(run.mems.len(), self.program.mems.len());
        debug_assert!(run.scalars.len() >= self.compiled.layout.scalars as usize);
        debug_assert!(run.scratch.addr().is_multiple_of(64));
        let (rows, cols) = if self.flattens(run) { (1, run.rows * run.cols) } else { (run.rows, run.cols) };
        if rows == 0 {
            return;
        }
        let streams = run.mems.iter().any(|mem| mem.stream);
        let plan = self.kernels.plan(cols, streams, self.compiled.any_chunk);
        let block = self.block(cols).min(rows);
        // SAFETY: the caller vouches for the region and the scratch memory; offsets lie within `scratch_bytes`.
        unsafe { if rows == 1 { self.one_row(run, &plan) } else { self.rows(run, rows, block, &plan) } }
    }

    /// Runs a region of one row.
    unsafe fn one_row(&self, run: &ChainRun<'_>, plan: &Plan) {
        // SAFETY: as in `run`.
        unsafe {
            self.set_up(run, run.scratch, 0, 0, plan.cols);
            self.execute(&self.compiled.row, run.scratch, plan);
        }
    }

    /// Runs a region of several rows.
    unsafe fn rows(&self, run: &ChainRun<'_>, rows: usize, block: usize, plan: &Plan) {
        let frame_bytes = self.compiled.layout.bytes(plan.cols);
        let frame = |index: usize| run.scratch.wrapping_add(index * frame_bytes);
        // SAFETY: as in `run`.
        unsafe {
            for index in 0..block {
                self.set_up(run, frame(index), index, block, plan.cols);
            }
            if let Some(ahead) = self.ahead(rows, block, plan.cols) {
                self.execute(&ahead.first, run.scratch, plan);
                for row in 1..rows {
                    self.execute(if row == 1 { &ahead.opening } else { &ahead.row }, run.scratch, plan);
                    self.next_row(run.scratch, 1);
                }
                self.execute(&ahead.last, run.scratch, plan);
                return;
            }
            let mut rest = rows;
            loop {
                let now = block.min(rest);
                rest -= now;
                if block == 1 {
                    self.execute(&self.compiled.row, run.scratch, plan);
                } else {
                    for phase in &self.compiled.phases {
                        for index in 0..now {
                            self.execute(phase, frame(index), plan);
                        }
                    }
                }
                if rest == 0 {
                    return;
                }
                for index in 0..block.min(rest) {
                    self.next_row(frame(index), block);
                }
            }
        }
    }

    /// Rows that go through the phases together, each with a frame of its own: the reductions of a short row are chains of
    /// latencies that only other rows can fill. A program of one phase needs no help, since its next row follows at once.
    fn block(&self, cols: usize) -> usize {
        if self.compiled.phases.len() < 2 { 1 } else { (BLOCK_COLUMNS >> cols.max(1).ilog2()).clamp(1, MAX_BLOCK) }
    }

    /// The code for rows whose first pass runs within the second of the row before: that one waits for arithmetic, this one for
    /// loads. Where two rows do not stay in the first-level cache it is slower.
    fn ahead(&self, rows: usize, block: usize, cols: usize) -> Option<&Ahead> {
        let layout = &self.compiled.layout;
        let bytes = (layout.mems + layout.row_bufs) as usize * cols * 4;
        self.compiled.ahead.as_ref().filter(|_| rows > 1 && block == 1 && bytes <= AHEAD_BYTES)
    }

    fn flattens(&self, run: &ChainRun<'_>) -> bool {
        self.compiled.flattens
            && self
                .program
                .mems
                .iter()
                .zip(run.mems)
                .all(|(decl, arg)| run.rows == 1 || arg.row_stride == (run.cols * decl.dtype.size()) as isize)
    }

    /// Fills the frame of a row of the first block of `block` rows (0: this is the only row).
    #[inline(always)]
    unsafe fn set_up(&self, run: &ChainRun<'_>, frame: *mut u8, row: usize, block: usize, cols: usize) {
        let layout = &self.compiled.layout;
        // SAFETY: as in `run`.
        unsafe {
            for (i, arg) in run.mems.iter().enumerate() {
                let advance = arg.row_stride * block.max(1) as isize;
                let aligned = arg.data.addr().is_multiple_of(64) && (block == 0 || arg.row_stride % 64 == 0);
                let stream = arg.stream && aligned;
                let base = arg.data.offset(arg.row_stride * row as isize);
                let entry = Entry { base, advance, stream };
                frame.add(layout.mem(i as u32) as usize).cast::<Entry>().write(entry);
            }
            for (i, arg) in run.mems.iter().enumerate().take(layout.ahead as usize) {
                let base = arg.data.wrapping_offset(arg.row_stride);
                let entry = Entry { base, advance: arg.row_stride, stream: false };
                frame.add(layout.ahead(i as u32) as usize).cast::<Entry>().write(entry);
            }
            for (i, arg) in run.mems.iter().enumerate().take(layout.behind as usize) {
                let entry = *frame.add(layout.mem(i as u32) as usize).cast::<Entry>();
                let entry = Entry { base: entry.base.wrapping_offset(-arg.row_stride), ..entry };
                frame.add(layout.behind(i as u32) as usize).cast::<Entry>().write(entry);
            }
            for i in 0..layout.temps {
                let entry = Entry { base: frame.add(layout.temp_data(i)), advance: 0, stream: false };
                frame.add(layout.temp(i) as usize).cast::<Entry>().write(entry);
            }
            let apart = if block > 1 { 0 } else { self.apart(run, frame, cols) };
            for i in 0..layout.row_bufs {
                let base = frame.add(layout.row_buf_data(i, cols) + apart);
                let entry = Entry { base, advance: 0, stream: false };
                frame.add(layout.row_buf(i) as usize).cast::<Entry>().write(entry);
            }
            frame.add(layout.first_col() as usize).cast::<u32>().write(run.first[1]);
            frame.add(layout.row() as usize).cast::<u32>().write(run.first[0].wrapping_add(row as u32));
            for (i, &bits) in self.compiled.consts.iter().enumerate() {
                frame.add(layout.constant(i as u32) as usize).cast::<u32>().write(bits);
            }
            for (i, &bits) in run.scalars.iter().take(layout.scalars as usize).enumerate() {
                frame.add(layout.scalar(i as u32) as usize).cast::<u32>().write(bits);
            }
        }
    }

    /// By how much row buffers begin later, so that they lie in their page where [`BUFFER_PHASE`] says.
    fn apart(&self, run: &ChainRun<'_>, frame: *mut u8, cols: usize) -> usize {
        let Some(mem) = self.compiled.beside else { return 0 };
        let row = run.mems[usize::from(mem)].data.addr() + BUFFER_PHASE;
        row.wrapping_sub(frame.addr() + self.compiled.layout.row_buf_data(0, cols)) % PAGE / 64 * 64
    }

    unsafe fn next_row(&self, frame: *mut u8, block: usize) {
        // SAFETY: as in `run`.
        unsafe { *frame.add(self.compiled.layout.row() as usize).cast::<u32>() += block as u32 };
        for i in 0..self.compiled.layout.rows() {
            // SAFETY: as in `run`; entries of memory operands come first.
            unsafe {
                let entry = &mut *frame.cast::<Entry>().add(i as usize);
                entry.base = entry.base.wrapping_offset(entry.advance);
            }
        }
    }

    /// Runs code of the program for the row of a frame.
    #[inline]
    unsafe fn execute(&self, code: &[Op], frame: *mut u8, plan: &Plan) {
        // SAFETY: as in `run`; an `Isa` is the proof that the processor has it.
        unsafe { (plan.whole)(code.as_ptr(), &self.compiled.tables, frame, plan) }
    }
}
