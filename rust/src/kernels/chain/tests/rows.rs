//! Programs of several passes: row scalars, row buffers, broadcasts, regions in place.

use super::*;
use crate::kernels::chain::{BinaryFn, Conversion, Dst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};

/// Softmax of each row: maximum; exp of the distance and its sum; product with the reciprocal of the sum.
pub(super) fn softmax(dtype: DType) -> ChainProgram {
    ChainProgram {
        mems: vec![MemDecl { dtype }; 2],
        slots: 2,
        row_bufs: 1,
        temps: 0,
        phases: vec![
            Phase { body: vec![Inst::Load(Src::Mem(0)), Inst::Reduce(ReduceFn::MaxF, 0)], ..Phase::default() },
            Phase {
                body: vec![
                    Inst::Load(Src::Mem(0)),
                    Inst::Binary(BinaryFn::SubF, Src::Slot(0)),
                    Inst::Unary(UnaryFn::ExpF),
                    Inst::Store(Dst::RowBuf(0)),
                    Inst::Reduce(ReduceFn::SumF, 1),
                ],
                epilogue: vec![RowInst::Unary { slot: 1, f: UnaryFn::RecipF, src: RowSrc::Slot(1) }],
                ..Phase::default()
            },
            Phase {
                body: vec![
                    Inst::Load(Src::RowBuf(0)),
                    Inst::Binary(BinaryFn::MulF, Src::Slot(1)),
                    Inst::Store(Dst::Mem(1)),
                ],
                ..Phase::default()
            },
        ],
    }
}

fn case(program: &ChainProgram, rows: usize, cols: usize, gap: usize) -> Case {
    case_of(program, rows, cols, gap, Values::Hard)
}

fn case_of(program: &ChainProgram, rows: usize, cols: usize, gap: usize, values: Values) -> Case {
    let mut operands: Vec<_> = program.mems.iter().map(|decl| Operand::new(decl.dtype, rows, cols, gap, gap)).collect();
    fill(&mut operands[0], rows, cols, values, 5);
    Case { rows, cols, first: [0; 2], operands, scalars: vec![] }
}

#[test]
fn softmax_is_the_same_everywhere() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for cols in SIZES {
            for values in [Values::Hard, Values::Tame] {
                case_of(&softmax(dtype), 3, cols, 0, values).check(&softmax(dtype));
                case_of(&softmax(dtype), 3, cols, 12, values).check(&softmax(dtype));
            }
        }
    }
}

#[test]
fn softmax_rows_add_up_to_one() {
    let program = softmax(DType::F32);
    for isa in Isa::available() {
        let (rows, cols) = (2, 300);
        let mut case = case(&program, rows, cols, 0);
        for col in 0..cols {
            case.operands[0].set(0, col, (col as f32 * 0.01).to_bits());
            case.operands[0].set(1, col, (1000.0 - col as f32).to_bits());
        }
        case.run(&program, isa);
        for row in 0..rows {
            let sum: f64 = (0..cols).map(|col| f64::from(f32::from_bits(case.operands[1].get(row, col)))).sum();
            // Each of the 300 terms is within a few units of 2^-24 of itself.
            assert!((sum - 1.0).abs() < 1e-6, "{isa} row {row}: {sum}");
        }
    }
}

#[test]
fn a_region_may_be_its_own_result() {
    let body = [
        Inst::Load(Src::Mem(0)),
        Inst::Binary(BinaryFn::MulF, Src::Const(2f32.to_bits())),
        Inst::Binary(BinaryFn::AddF, Src::Mem(0)),
        Inst::Store(Dst::Mem(0)),
    ];
    for dtype in [DType::F32, DType::F16] {
        let program = chain(&[dtype], &body);
        for cols in SIZES {
            case(&program, 3, cols, 0).check(&program);
            case(&program, 3, cols, 20).check(&program);
        }
    }
}

#[test]
fn one_row_stands_for_all_with_a_stride_of_zero() {
    let body = [Inst::Load(Src::Mem(0)), Inst::Binary(BinaryFn::AddF, Src::Mem(1)), Inst::Store(Dst::Mem(2))];
    let program = chain(&[DType::F32, DType::BF16, DType::F32], &body);
    for cols in SIZES {
        let mut case = case(&program, 4, cols, 0);
        case.operands[1] = Operand::repeated(DType::BF16, cols);
        fill(&mut case.operands[1], 1, cols, Values::Hard, 91);
        case.check(&program);
    }
}

#[test]
fn row_scalars_come_from_memory_are_computed_with_and_go_back() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I16, DType::U16, DType::I32] {
        let (add, unary) =
            if dtype.is_float() { (BinaryFn::AddF, UnaryFn::AbsF) } else { (BinaryFn::AddI, UnaryFn::NegI) };
        let convert = if dtype.is_float() { Conversion::RoundBF16 } else { Conversion::WrapI8 };
        let program = ChainProgram {
            mems: vec![MemDecl { dtype }; 2],
            slots: 2,
            phases: vec![Phase {
                prologue: vec![
                    RowInst::Load { slot: 0, mem: 0 },
                    RowInst::Unary { slot: 1, f: unary, src: RowSrc::Slot(0) },
                    RowInst::Binary { slot: 1, f: add, a: RowSrc::Slot(1), b: RowSrc::Const(1.5f32.to_bits()) },
                    RowInst::Convert { slot: 1, conversion: convert, src: RowSrc::Slot(1) },
                    RowInst::Store { mem: 1, src: RowSrc::Slot(1) },
                ],
                ..Phase::default()
            }],
            ..ChainProgram::default()
        };
        let program = ChainProgram {
            phases: vec![Phase { body: vec![Inst::Load(Src::Slot(1))], ..program.phases[0].clone() }],
            ..program
        };
        case(&program, 40, 1, 0).check(&program);
    }
}

#[test]
fn a_region_without_rows_or_columns_is_left_alone() {
    let program = chain(&[DType::F32; 2], &[Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(1))]);
    for (rows, cols) in [(0, 5), (5, 0), (0, 0)] {
        case(&program, rows, cols, 0).check(&program);
    }
}

#[test]
fn a_copy_keeps_every_bit_of_a_nan() {
    let program = chain(&[DType::F32; 2], &[Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(1))]);
    for isa in Isa::available() {
        let mut case = case(&program, 1, 130, 0);
        for col in 0..130 {
            case.operands[0].set(0, col, 0x7f80_0001 + col as u32 * 0x0001_0001);
        }
        case.run(&program, isa);
        assert_eq!(case.operands[0].bytes, case.operands[1].bytes, "{isa}");
    }
}

#[test]
fn lanes_beyond_the_row_do_not_reach_a_reduction() {
    // Where nothing is loaded, lanes hold 0, and 0 / 0 is NaN.
    for f in [ReduceFn::MaxF, ReduceFn::MinF, ReduceFn::SumF] {
        let body = [Inst::Load(Src::Mem(0)), Inst::Binary(BinaryFn::DivF, Src::Mem(0)), Inst::Reduce(f, 0)];
        let mut program = chain(&[DType::F32; 2], &body);
        program.slots = 1;
        program.phases[0].epilogue = vec![RowInst::Store { mem: 1, src: RowSrc::Slot(0) }];
        for cols in SIZES {
            let mut case = case(&program, 2, cols, 0);
            for row in 0..2 {
                (0..cols).for_each(|col| case.operands[0].set(row, col, 3f32.to_bits()));
            }
            case.check_columns(&program, 1);
        }
    }
}

#[test]
fn many_short_rows_are_the_same_as_one_at_a_time() {
    for rows in [1, 2, 7, 8, 9, 16, 17, 25] {
        for cols in [1, 16, 60, 128, 129, 300, 513] {
            case_of(&softmax(DType::F32), rows, cols, 4, Values::Tame).check(&softmax(DType::F32));
        }
    }
}
