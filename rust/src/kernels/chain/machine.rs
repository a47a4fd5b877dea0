//! The machine: a program resolved for one instruction set, and the loop over rows and passes.

use super::ChainProgram;
use super::compile::{Compiled, CompiledPhase, compile};
use super::frame::Entry;
use super::isa::{Kernels, Plan};
use crate::kernels::Isa;

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
    /// last-level cache; below, it is slower. Ignored where rows do not begin at 64-byte boundaries.
    pub stream: bool,
}

/// The region that a program is run on.
#[derive(Clone, Copy, Debug)]
pub struct ChainRun<'a> {
    /// Rows of the region.
    pub rows: usize,
    /// Columns of the region.
    pub cols: usize,
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
        self.compiled.layout.bytes(cols)
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
        // SAFETY: the caller vouches for the region and the scratch memory; offsets lie within `scratch_bytes`.
        unsafe {
            let streams = self.set_up(run, rows, cols);
            let plan = self.kernels.plan(cols);
            for rest in (0..rows).rev() {
                if rest == 0 {
                    self.end_rows(run);
                }
                for phase in &self.compiled.phases {
                    self.phase(phase, run.scratch, &plan);
                }
                if rest > 0 {
                    self.next_row(run);
                }
            }
            if streams {
                fence();
            }
        }
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

    /// Fills the frame; tells whether any operand is streamed.
    #[inline]
    unsafe fn set_up(&self, run: &ChainRun<'_>, rows: usize, cols: usize) -> bool {
        let layout = &self.compiled.layout;
        let frame = run.scratch;
        let mut streams = false;
        // SAFETY: as in `run`.
        unsafe {
            for (i, arg) in run.mems.iter().enumerate() {
                let aligned = arg.data.addr().is_multiple_of(64) && (rows == 1 || arg.row_stride % 64 == 0);
                let stream = arg.stream && aligned;
                streams |= stream;
                let entry = Entry { base: arg.data, row_stride: arg.row_stride, stream };
                frame.add(layout.mem(i as u32) as usize).cast::<Entry>().write(entry);
            }
            for i in 0..layout.temps {
                let entry = Entry { base: frame.add(layout.temp_data(i)), row_stride: 0, stream: false };
                frame.add(layout.temp(i) as usize).cast::<Entry>().write(entry);
            }
            for i in 0..layout.row_bufs {
                let entry = Entry { base: frame.add(layout.row_buf_data(i, cols)), row_stride: 0, stream: false };
                frame.add(layout.row_buf(i) as usize).cast::<Entry>().write(entry);
            }
            for (i, &bits) in self.compiled.consts.iter().enumerate() {
                frame.add(layout.constant(i as u32) as usize).cast::<u32>().write(bits);
            }
            for (i, &bits) in run.scalars.iter().take(layout.scalars as usize).enumerate() {
                frame.add(layout.scalar(i as u32) as usize).cast::<u32>().write(bits);
            }
        }
        streams
    }

    /// There is no row after the last to prefetch.
    unsafe fn end_rows(&self, run: &ChainRun<'_>) {
        if self.compiled.phases.len() == 1 {
            return;
        }
        for i in 0..run.mems.len() {
            // SAFETY: as in `run`.
            unsafe { (*run.scratch.add(self.compiled.layout.mem(i as u32) as usize).cast::<Entry>()).row_stride = 0 };
        }
    }

    #[inline]
    unsafe fn next_row(&self, run: &ChainRun<'_>) {
        for i in 0..run.mems.len() {
            // SAFETY: as in `run`; there is a next row.
            unsafe {
                let entry = &mut *run.scratch.add(self.compiled.layout.mem(i as u32) as usize).cast::<Entry>();
                entry.base = entry.base.offset(entry.row_stride);
            }
        }
    }

    #[inline]
    unsafe fn phase(&self, phase: &CompiledPhase, frame: *mut u8, plan: &Plan) {
        // SAFETY: as in `run`; an `Isa` is the proof that the processor has it.
        unsafe {
            if phase.has_before {
                (self.kernels.before)(phase, frame);
            }
            if plan.split > 0 {
                (plan.whole)(phase.whole.as_ptr(), frame, 0, plan.split);
            }
            if plan.split < plan.cols {
                (plan.tail)(phase.tail.as_ptr(), frame, plan.split, plan.cols);
            }
            if phase.has_after {
                (self.kernels.after)(phase, frame);
            }
        }
    }
}

/// Orders streaming stores before whatever tells others that the data are there.
fn fence() {
    // SAFETY: every processor of the target has SSE.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
