//! Passes that are loops of their own.

use super::rows::softmax;
use super::*;
use crate::kernels::chain::code::{Code, Op};
use crate::kernels::chain::compile::compile;
use crate::kernels::chain::loops::LOOPS;
use crate::kernels::chain::passes::Asked;
use crate::kernels::chain::{BinaryFn, Dst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};

/// Rows that are too short for a loop, that are one, and that leave a tail.
const COLUMNS: [usize; 7] = [40, 64, 127, 128, 129, 256, 1300];

/// The instruction that is compiled to this one.
fn inst(code: Code) -> Inst {
    match code {
        Code::LoadVec => Inst::Load(Src::Mem(0)),
        Code::AddFVec => Inst::Binary(BinaryFn::AddF, Src::Mem(1)),
        Code::SubFVec => Inst::Binary(BinaryFn::SubF, Src::Mem(1)),
        Code::MulFVec => Inst::Binary(BinaryFn::MulF, Src::Mem(2)),
        Code::SubFWord => Inst::Binary(BinaryFn::SubF, Src::Scalar(0)),
        Code::MulFWord => Inst::Binary(BinaryFn::MulF, Src::Scalar(1)),
        Code::DivFWord => Inst::Binary(BinaryFn::DivF, Src::Scalar(1)),
        Code::SquareF => Inst::Unary(UnaryFn::SquareF),
        Code::ExpF => Inst::Unary(UnaryFn::ExpF),
        Code::StoreTemp => Inst::Store(Dst::RowBuf(0)),
        Code::StoreMem => Inst::Store(Dst::Mem(3)),
        Code::ReduceSumF => Inst::Reduce(ReduceFn::SumF, 0),
        Code::ReduceMaxF => Inst::Reduce(ReduceFn::MaxF, 1),
        _ => unreachable!("no loop has it: {code:?}"),
    }
}

/// A program with this pass, the second one if there is a first: then it asks for the next row. What it leaves in slots and in
/// the row buffer gets to memory.
fn program(codes: &[Code], has_first: bool) -> ChainProgram {
    let slots = [ReduceFn::SumF, ReduceFn::MaxF].map(|f| codes.contains(&Code::reduce(f)));
    let results = (0..2).filter(|&slot| slots[usize::from(slot)]);
    let epilogue = results.map(|slot| RowInst::Store { mem: 4 + slot, src: RowSrc::Slot(slot) }).collect();
    let mut phases = vec![Phase { body: codes.iter().map(|&code| inst(code)).collect(), epilogue, ..Phase::default() }];
    if has_first {
        // It stores too, so that no row runs ahead.
        let body = vec![Inst::Load(Src::Mem(1)), Inst::Store(Dst::Mem(6))];
        phases.insert(0, Phase { body, ..Phase::default() });
    }
    if codes.contains(&Code::StoreTemp) {
        let body = vec![Inst::Load(Src::RowBuf(0)), Inst::Store(Dst::Mem(3))];
        phases.push(Phase { body, ..Phase::default() });
    }
    ChainProgram { phases, mems: vec![MemDecl { dtype: DType::F32 }; 7], temps: 0, row_bufs: 1, slots: 2 }
}

fn loops(code: &[Op]) -> Vec<usize> {
    code.iter().filter(|op| op.code == Code::Loop).map(|op| usize::from(op.step_b)).collect()
}

#[test]
fn each_loop_does_what_its_instructions_do() {
    for (number, codes) in LOOPS.iter().enumerate() {
        for has_first in [false, true] {
            let program = program(codes, has_first);
            assert!(loops(&compile(&program).row).contains(&number), "{codes:?} is another loop");
            for cols in COLUMNS {
                for (rows, values) in [(1, Values::Tame), (3, Values::Tame), (3, Values::Hard)] {
                    let operands = (0..7).map(|i| {
                        // The third operand is one row for all.
                        let mut operand = match i {
                            2 => Operand::repeated(DType::F32, cols),
                            _ => Operand::new(DType::F32, rows, cols, 64 * i, 0),
                        };
                        fill(&mut operand, if i == 2 { 1 } else { rows }, cols, values, 7 * i + rows);
                        operand
                    });
                    let scalars = vec![0.75f32.to_bits(), (-1.25f32).to_bits()];
                    let case = Case { rows, cols, first: [0; 2], operands: operands.collect(), scalars };
                    case.check(&program);
                }
            }
        }
    }
}

#[test]
fn the_passes_of_a_softmax_are_loops() {
    let compiled = compile(&softmax(DType::F32));
    let passes = |code: &[Op]| code.iter().filter(|op| op.code == Code::Pass).count();
    let ahead = compiled.ahead.expect("a softmax runs ahead");
    for code in [&compiled.row, &ahead.first, &ahead.opening, &ahead.row, &ahead.last] {
        assert_eq!(loops(code).len(), passes(code));
    }
}

/// Where it computes more, or loads from the caches, waiting would only cost time.
#[test]
fn what_moves_data_and_does_little_else_is_paced() {
    let paced = |code: &[Op]| -> Vec<bool> {
        code.iter().filter(|op| op.code == Code::Loop).map(|op| op.step_a != 0).collect()
    };
    let compiled = compile(&softmax(DType::F32));
    assert_eq!(paced(&compiled.row), [false; 3]);
    let ahead = compiled.ahead.expect("a softmax runs ahead");
    assert_eq!([paced(&ahead.opening), paced(&ahead.row)], [[false], [false]]);
    let add = LOOPS[0];
    assert_eq!(paced(&compile(&program(add, false)).row), [true]);
    let square = LOOPS.iter().find(|codes| codes.contains(&Code::SquareF)).expect("there is one");
    assert_eq!(paced(&compile(&program(square, true)).row), [true]);
}

/// Each pass of a row, by which parts of the next row it asks for: the operand that changes from row to row, and one for all.
#[test]
fn two_passes_share_the_requests_for_the_next_row_where_there_are_three() {
    let requests = |program: &ChainProgram| -> Vec<Vec<u8>> {
        let phases = compile(program).phases;
        let asked = |phase: &Vec<Op>| {
            let body = phase.iter().skip_while(|op| op.code != Code::Pass);
            body.filter(|op| op.code == Code::Prefetch).map(|op| op.step_b).collect()
        };
        phases.iter().map(asked).collect()
    };
    let [all, first, second] = [Asked::All, Asked::FirstHalf, Asked::SecondHalf].map(|part| part as u8);
    let square = LOOPS.iter().find(|codes| codes.contains(&Code::SquareF)).expect("there is one");
    let two = program(square, true);
    assert_eq!(requests(&two), [vec![], vec![all; 2]]);
    let mut three = two.clone();
    three.phases.push(Phase { body: vec![Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(3))], ..Phase::default() });
    assert_eq!(requests(&three), [vec![first; 2], vec![second; 2], vec![]]);
    assert_eq!(requests(&softmax(DType::F32)), [vec![], vec![all], vec![]]);
}

#[test]
fn a_pass_is_no_loop_where_an_operand_is_no_row_of_32_bit_lanes() {
    let with = |code: Code| LOOPS.iter().find(|codes| codes.contains(&code)).expect("there is one");
    let mut temporary = program(with(Code::StoreTemp), false);
    temporary.temps = 1;
    temporary.phases.truncate(1);
    for inst in &mut temporary.phases[0].body {
        if *inst == Inst::Store(Dst::RowBuf(0)) {
            *inst = Inst::Store(Dst::Temp(0));
        }
    }
    assert!(loops(&compile(&temporary).row).is_empty());
    // Of this one the second pass asks for the next row.
    let mut narrow = program(with(Code::SquareF), true);
    narrow.mems[1].dtype = DType::F16;
    assert!(loops(&compile(&narrow).row).is_empty());
}
