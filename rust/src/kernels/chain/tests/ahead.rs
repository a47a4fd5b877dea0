//! Rows whose first pass runs within the second of the row before.

use super::rows::softmax;
use super::*;
use crate::kernels::chain::compile::compile;
use crate::kernels::chain::{BinaryFn, Dst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};

/// Rows of a whole chunk and more, that stay in the caches twice.
const COLUMNS: [usize; 4] = [1024, 1025, 1156, 1999];

/// A first pass with two reductions over three operands, one of them the same row for all and one narrow, and the index
/// of the column; then passes that have reductions of their own, and results in the operands of the first pass.
fn in_place() -> ChainProgram {
    let first = vec![
        Inst::Load(Src::Mem(0)),
        Inst::Binary(BinaryFn::MulF, Src::Mem(1)),
        Inst::Store(Dst::Temp(0)),
        Inst::Reduce(ReduceFn::MaxF, 0),
        Inst::Binary(BinaryFn::SubF, Src::Mem(2)),
        Inst::Select { when: Src::Column, other: Src::Temp(0) },
        Inst::Reduce(ReduceFn::SumF, 1),
    ];
    let second = vec![
        Inst::Load(Src::Mem(0)),
        Inst::Binary(BinaryFn::SubF, Src::Slot(0)),
        Inst::Unary(UnaryFn::ExpF),
        Inst::Store(Dst::Mem(0)),
        Inst::Reduce(ReduceFn::SumF, 2),
        Inst::Reduce(ReduceFn::MinF, 3),
    ];
    let third = vec![
        Inst::Load(Src::Mem(0)),
        Inst::Binary(BinaryFn::MulF, Src::Slot(2)),
        Inst::Binary(BinaryFn::AddF, Src::Slot(1)),
        Inst::Store(Dst::Mem(2)),
        Inst::Reduce(ReduceFn::MaxF, 2),
    ];
    let row = RowInst::Binary { slot: 1, f: BinaryFn::MulF, a: RowSrc::Slot(1), b: RowSrc::Slot(3) };
    let last = RowInst::Store { mem: 3, src: RowSrc::Slot(2) };
    ChainProgram {
        mems: [DType::F32, DType::F32, DType::F16, DType::F32].map(|dtype| MemDecl { dtype }).to_vec(),
        temps: 1,
        slots: 4,
        row_bufs: 0,
        phases: vec![
            Phase {
                body: first,
                epilogue: vec![RowInst::Unary { slot: 3, f: UnaryFn::AbsF, src: RowSrc::Slot(0) }],
                ..Phase::default()
            },
            Phase { body: second, epilogue: vec![row], ..Phase::default() },
            Phase { body: third, epilogue: vec![last], ..Phase::default() },
        ],
    }
}

fn check(program: &ChainProgram, repeated: &[usize]) {
    assert!(compile(program).ahead.is_some());
    for cols in COLUMNS {
        for rows in [1, 2, 3, 5] {
            for values in [Values::Hard, Values::Tame] {
                let operands = program.mems.iter().enumerate().map(|(i, decl)| {
                    let is_repeated = repeated.contains(&i);
                    let mut operand = if is_repeated {
                        Operand::repeated(decl.dtype, cols)
                    } else {
                        Operand::new(decl.dtype, rows, cols, 64 * i, 0)
                    };
                    fill(&mut operand, if is_repeated { 1 } else { rows }, cols, values, 7 * i + rows);
                    operand
                });
                Case { rows, cols, first: [0; 2], operands: operands.collect(), scalars: vec![] }.check(program);
            }
        }
    }
}

#[test]
fn a_softmax_is_the_same_row_by_row_and_ahead() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        check(&softmax(dtype), &[]);
    }
}

#[test]
fn a_row_ahead_has_its_own_operands_and_reductions() {
    check(&in_place(), &[1]);
}

#[test]
fn a_first_pass_that_leaves_or_needs_more_than_reductions_does_not_run_ahead() {
    let mut keeps = in_place();
    keeps.phases[0].body.push(Inst::Store(Dst::Mem(2)));
    assert!(compile(&keeps).ahead.is_none());
    let mut keeps = softmax(DType::F32);
    keeps.phases[0].body.push(Inst::Store(Dst::RowBuf(0)));
    assert!(compile(&keeps).ahead.is_none());
    let mut needs = in_place();
    needs.phases[0].prologue.push(RowInst::Load { slot: 3, mem: 3 });
    assert!(compile(&needs).ahead.is_none());
    let mut needs = in_place();
    needs.phases[0].body.insert(1, Inst::Binary(BinaryFn::AddF, Src::Slot(3)));
    assert!(compile(&needs).ahead.is_none());
}
