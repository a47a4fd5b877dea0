//! Rows whose first pass runs within the second of the row before.

use super::rows::softmax;
use super::*;
use crate::kernels::chain::code::Code;
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

/// Whether a pass is all that a row does between its ends: then the last of the row before is in it.
fn waits(program: &ChainProgram) -> bool {
    let row = compile(program).ahead.expect("it runs ahead").row;
    row.iter().filter(|op| op.code == Code::Pass).count() == 1
}

#[test]
fn the_last_pass_waits_for_the_next_row_unless_that_changes_what_it_needs() {
    assert!(waits(&softmax(DType::F32)));
    let with = |change: &dyn Fn(&mut ChainProgram)| {
        let mut program = softmax(DType::F32);
        program.slots = 3;
        change(&mut program);
        program
    };
    let add = |slot| Inst::Binary(BinaryFn::AddF, Src::Slot(slot));
    let copy = |slot| RowInst::Unary { slot, f: UnaryFn::NegF, src: RowSrc::Slot(0) };
    // It needs what the next row has already: the maximum, a slot that is set behind the first pass, or before the second.
    let needs: [&dyn Fn(&mut ChainProgram); 3] = [
        &|program| program.phases[2].body.insert(1, add(0)),
        &|program| {
            program.phases[0].epilogue.push(copy(2));
            program.phases[2].body.insert(1, add(2));
        },
        &|program| {
            program.phases[1].prologue.push(copy(2));
            program.phases[2].body.insert(1, add(2));
        },
    ];
    // It leaves something, takes long, or is not the last.
    let leaves: [&dyn Fn(&mut ChainProgram); 5] = [
        &|program| program.phases[2].body.push(Inst::Reduce(ReduceFn::MaxF, 2)),
        &|program| program.phases[2].body.push(Inst::Store(Dst::RowBuf(0))),
        &|program| program.phases[2].epilogue.push(copy(2)),
        &|program| program.phases[2].body.insert(1, Inst::Unary(UnaryFn::ExpF)),
        &|program| program.phases.push(program.phases[2].clone()),
    ];
    for change in needs.into_iter().chain(leaves) {
        let program = with(change);
        assert!(!waits(&program));
        check(&program, &[]);
    }
    // What is set behind the second pass, or before the last, is still there.
    let keeps: [&dyn Fn(&mut ChainProgram); 2] = [
        &|program| {
            program.phases[1].epilogue.push(copy(2));
            program.phases[2].body.insert(1, add(2));
        },
        &|program| {
            program.phases[2].prologue.push(copy(2));
            program.phases[2].body.insert(1, add(2));
        },
    ];
    for change in keeps {
        let program = with(change);
        assert!(waits(&program));
        check(&program, &[]);
    }
}

/// It reads the row before once more, and one row for all; its result is where the next row, and the one after, are read from.
#[test]
fn the_last_pass_of_the_row_before_has_its_own_operands() {
    let mut program = softmax(DType::F32);
    program.mems = [DType::F32, DType::F32, DType::F16].map(|dtype| MemDecl { dtype }).to_vec();
    program.phases[2].body = vec![
        Inst::Load(Src::RowBuf(0)),
        Inst::Binary(BinaryFn::MulF, Src::Slot(1)),
        Inst::Binary(BinaryFn::AddF, Src::Mem(0)),
        Inst::Binary(BinaryFn::MulF, Src::Mem(1)),
        Inst::Store(Dst::Mem(2)),
        Inst::Store(Dst::Mem(0)),
    ];
    assert!(waits(&program));
    check(&program, &[1]);
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
