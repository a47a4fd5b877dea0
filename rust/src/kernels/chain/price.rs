//! What instructions cost alone, data in the first-level cache: profiles share the time of a chain among its operations by it. A table would
//! be one for each instruction set and processor, so it is measured, in about 200 us for each instruction.

use super::{ChainProgram, ChainRun, Dst, Inst, Machine, MemArg, MemDecl, Phase, RowInst, RowSrc, Src};
use crate::dtype::DType;
use crate::kernels::Isa;
use std::time::Instant;

/// Copies of the instruction in the program that is timed.
const COPIES: usize = 8;
/// Numbers that it works on: two operands of them stay in the first-level cache.
const COLUMNS: usize = 2048;
/// Rows and columns for instructions on row scalars.
const ROWS: usize = 128;
const ROW: usize = COLUMNS / ROWS;
/// Runs of each program; the quickest counts.
const RUNS: usize = 60;
/// 1.0, also a harmless integer.
const ONE: u32 = 0x3f80_0000;

/// Prices that were asked for, each measured once.
pub struct Prices {
    isa: Isa,
    body: Vec<(Inst, f64)>,
    rows: Vec<(RowInst, f64)>,
}

impl Prices {
    /// No price yet.
    pub fn new(isa: Isa) -> Self {
        Self { isa, body: Vec::new(), rows: Vec::new() }
    }

    /// Picoseconds for each element that the instruction adds to a chain whose operands are in the first-level cache.
    pub fn element(&mut self, inst: Inst) -> f64 {
        let inst = alone(inst);
        if let Some(&(_, price)) = self.body.iter().find(|(known, _)| *known == inst) {
            return price;
        }
        let (load, store) = (Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(1)));
        let ns = |body: Vec<Inst>| {
            let phases = vec![Phase { body, ..Phase::default() }];
            self.ns(ChainProgram { phases, ..memory(1) }, 1, COLUMNS)
        };
        let copies = || [load, store].repeat(COPIES);
        let ns = match inst {
            // What comes from elsewhere than memory is in a register.
            Inst::Load(Src::Const(_)) => 0.0,
            Inst::Load(_) | Inst::Store(_) => ns(copies()) / 2.0,
            // Functions of one argument have a fresh one each time: one of its own result may be out of its range, where it
            // is quicker or slower.
            Inst::Unary(_) | Inst::Reduce(..) => ns([load, inst, store].repeat(COPIES)) - ns(copies()),
            // One after the other in registers, as chains have them: beside loads and stores they would hide.
            _ => ns([vec![load], vec![inst; COPIES], vec![store]].concat()) - ns(vec![load, store]),
        };
        let price = (ns * 1e3 / (COPIES * COLUMNS) as f64).max(0.0);
        self.body.push((inst, price));
        price
    }

    /// Picoseconds for each row.
    pub fn row(&mut self, inst: RowInst) -> f64 {
        let Some(inst) = alone_in_a_row(inst) else { return 0.0 };
        if let Some(&(_, price)) = self.rows.iter().find(|(known, _)| *known == inst) {
            return price;
        }
        let program = |copies: usize| ChainProgram {
            phases: vec![Phase {
                prologue: vec![inst; copies],
                body: vec![Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(1))],
                ..Phase::default()
            }],
            ..memory(1)
        };
        let ns = self.ns(program(COPIES + 1), ROWS, ROW) - self.ns(program(1), ROWS, ROW);
        let price = (ns * 1e3 / (COPIES * ROWS) as f64).max(0.0);
        self.rows.push((inst, price));
        price
    }

    /// Nanoseconds of the quickest run.
    fn ns(&self, program: ChainProgram, rows: usize, cols: usize) -> f64 {
        let machine = Machine::new(program, self.isa);
        let mut operands = [vec![1.5f32; COLUMNS], vec![0f32; COLUMNS]];
        let mems = operands.each_mut().map(|operand| MemArg {
            data: operand.as_mut_ptr().cast(),
            row_stride: (cols * size_of::<f32>()) as isize,
            stream: false,
        });
        let mut scratch = vec![[0u64; 8]; machine.scratch_bytes(cols).div_ceil(64) + 1];
        let scratch = scratch.as_mut_ptr().cast::<u8>();
        let scratch = scratch.wrapping_add(scratch.align_offset(64));
        let run = ChainRun { rows, cols, first: [0; 2], mems: &mems, scalars: &[], scratch };
        let once = || {
            let begin = Instant::now();
            // SAFETY: both operands have `rows * cols` numbers, the scratch memory is aligned and long enough.
            unsafe { machine.run(&run) };
            begin.elapsed().as_nanos() as f64
        };
        std::iter::repeat_with(once).take(RUNS).fold(f64::INFINITY, f64::min)
    }
}

/// A program with two memory operands.
fn memory(slots: u16) -> ChainProgram {
    ChainProgram { mems: vec![MemDecl { dtype: DType::F32 }; 2], slots, ..ChainProgram::default() }
}

/// The instruction with operands that need no others: chunks of memory, whatever chunk it is, or a constant.
fn alone(inst: Inst) -> Inst {
    let operand = |src: Src| match src {
        Src::Mem(_) | Src::Temp(_) | Src::RowBuf(_) => Src::Mem(0),
        Src::Slot(_) | Src::Scalar(_) | Src::Const(_) | Src::Column => Src::Const(ONE),
    };
    match inst {
        Inst::Load(src) => Inst::Load(operand(src)),
        Inst::Store(_) => Inst::Store(Dst::Mem(1)),
        Inst::Unary(_) | Inst::Convert(_) => inst,
        Inst::Binary(f, src) => Inst::Binary(f, operand(src)),
        Inst::BinaryRev(f, src) => Inst::BinaryRev(f, operand(src)),
        Inst::Select { when, other } => Inst::Select { when: operand(when), other: operand(other) },
        Inst::Pick { then, other } => Inst::Pick { then: operand(then), other: operand(other) },
        Inst::Reduce(f, _) => Inst::Reduce(f, 0),
    }
}

/// The same of an instruction on row scalars.
fn alone_in_a_row(inst: RowInst) -> Option<RowInst> {
    let (one, slot) = (RowSrc::Const(ONE), 0);
    Some(match inst {
        RowInst::Load { .. } | RowInst::Store { .. } => return None,
        RowInst::Unary { f, .. } => RowInst::Unary { slot, f, src: one },
        RowInst::Binary { f, .. } => RowInst::Binary { slot, f, a: one, b: one },
        RowInst::Convert { conversion, .. } => RowInst::Convert { slot, conversion, src: one },
        RowInst::Select { .. } => RowInst::Select { slot, when: one, then: one, other: one },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::chain::{BinaryFn, UnaryFn};

    #[test]
    fn a_logarithm_costs_more_than_an_addition_and_a_constant_nothing() {
        for isa in Isa::available() {
            let mut prices = Prices::new(isa);
            let add = prices.element(Inst::Binary(BinaryFn::AddF, Src::Scalar(3)));
            let log = prices.element(Inst::Unary(UnaryFn::LogF));
            assert!(log > 2.0 * add, "{isa}: {log} ps against {add} ps");
            assert_eq!(prices.element(Inst::Load(Src::Scalar(0))), 0.0);
            let [load, store] =
                [Inst::Load(Src::Temp(1)), Inst::Store(Dst::RowBuf(2))].map(|inst| prices.element(inst));
            // How they compare with a function is not for a test: AddressSanitizer makes each access dear.
            assert!(load > 0.0 && store > 0.0, "{isa}: {load} ps and {store} ps");
            let row = prices.row(RowInst::Unary { slot: 7, f: UnaryFn::LogF, src: RowSrc::Slot(3) });
            assert!(row > log, "{isa}: a row scalar takes {row} ps, an element {log} ps");
        }
    }
}
