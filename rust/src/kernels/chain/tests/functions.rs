//! Each instruction by itself, at lengths around vectors and chunks.

use super::*;
use crate::dtype::Rounding;
use crate::kernels::chain::{BinaryFn, Conversion, Dst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};

use super::program::{FLOAT_BINARY, FLOAT_TO_INT, FLOAT_UNARY, INT_BINARY, INT_UNARY};

const CONVERSIONS: [Conversion; 23] = [
    Conversion::RoundF16,
    Conversion::RoundBF16,
    Conversion::I32ToF32,
    Conversion::F32ToI32(Rounding::None),
    Conversion::F32ToI32(Rounding::Rint),
    Conversion::F32ToI32(Rounding::Round),
    Conversion::F32ToI32(Rounding::Floor),
    Conversion::F32ToI32(Rounding::Ceil),
    Conversion::F32ToI32(Rounding::Trunc),
    Conversion::F32ToI32(Rounding::Odd),
    Conversion::U32ToF32,
    Conversion::F32ToU32(Rounding::None),
    Conversion::F32ToU32(Rounding::Rint),
    Conversion::F32ToU32(Rounding::Round),
    Conversion::F32ToU32(Rounding::Floor),
    Conversion::F32ToU32(Rounding::Ceil),
    Conversion::F32ToU32(Rounding::Trunc),
    Conversion::F32ToU32(Rounding::Odd),
    Conversion::WrapI8,
    Conversion::WrapI16,
    Conversion::WrapU8,
    Conversion::WrapU16,
    Conversion::ToBool,
];

const REDUCTIONS: [(ReduceFn, DType); 10] = [
    (ReduceFn::SumF, DType::F32),
    (ReduceFn::MaxF, DType::F32),
    (ReduceFn::MinF, DType::F32),
    (ReduceFn::SumI, DType::I32),
    (ReduceFn::MaxI, DType::I32),
    (ReduceFn::MinI, DType::I32),
    (ReduceFn::ProdF, DType::F32),
    (ReduceFn::ProdI, DType::I32),
    (ReduceFn::MaxU, DType::U32),
    (ReduceFn::MinU, DType::U32),
];

const DTYPES: [DType; 10] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::Bool,
];

/// Two rows with gaps, filled; the last operand is the result.
fn case(dtypes: &[DType], cols: usize, gap: usize) -> Case {
    let mut operands: Vec<_> = dtypes.iter().map(|&dtype| Operand::new(dtype, 2, cols, gap, gap)).collect();
    let last = operands.len() - 1;
    for (seed, operand) in operands[..last].iter_mut().enumerate() {
        fill(operand, 2, cols, Values::Hard, seed * 37);
    }
    Case { rows: 2, cols, first: [7, 3], operands, scalars: vec![3.25f32.to_bits(), 7] }
}

#[test]
fn every_unary_function_does_what_it_says() {
    let floats = FLOAT_UNARY.iter().map(|&f| (f, DType::F32));
    for (f, dtype) in floats.chain(INT_UNARY.iter().map(|&f| (f, DType::I32))) {
        let program = chain(&[dtype; 2], &[Inst::Load(Src::Mem(0)), Inst::Unary(f), Inst::Store(Dst::Mem(1))]);
        for cols in SIZES {
            case(&[dtype; 2], cols, 0).check(&program);
            case(&[dtype; 2], cols, 4).check(&program);
        }
    }
}

#[test]
fn every_binary_function_takes_every_source_on_either_side() {
    let floats = FLOAT_BINARY.iter().chain(&FLOAT_TO_INT).map(|&f| (f, DType::F32));
    for (f, dtype) in floats.chain(INT_BINARY.iter().map(|&f| (f, DType::I32))) {
        let result = if dtype.is_float() && !FLOAT_TO_INT.contains(&f) { DType::F32 } else { DType::I32 };
        let dtypes = [dtype, dtype, result];
        let scalar = if dtype.is_float() { 0 } else { 1 };
        let constant = if dtype.is_float() { (-0.75f32).to_bits() } else { -3i32 as u32 };
        let sources = [
            Src::Mem(1),
            Src::Temp(0),
            Src::RowBuf(0),
            Src::Slot(0),
            Src::Scalar(scalar),
            Src::Const(constant),
            Src::Column,
        ];
        for src in sources {
            for op in [Inst::Binary(f, src), Inst::BinaryRev(f, src)] {
                let body = [
                    Inst::Load(Src::Mem(1)),
                    Inst::Store(Dst::Temp(0)),
                    Inst::Store(Dst::RowBuf(0)),
                    Inst::Load(Src::Mem(0)),
                    op,
                    Inst::Store(Dst::Mem(2)),
                ];
                let mut program = chain(&dtypes, &body);
                (program.temps, program.row_bufs, program.slots) = (1, 1, 1);
                program.phases[0].prologue = vec![RowInst::Load { slot: 0, mem: 1 }];
                for cols in [1, 16, 33, 129] {
                    case(&dtypes, cols, 8).check(&program);
                }
                // Without anything that belongs to rows, so that the region is one long row.
                if let Src::Mem(_) | Src::Scalar(_) | Src::Const(_) = src {
                    let program = chain(&dtypes, &[Inst::Load(Src::Mem(0)), op, Inst::Store(Dst::Mem(2))]);
                    for cols in SIZES {
                        case(&dtypes, cols, 0).check(&program);
                    }
                }
            }
        }
    }
}

#[test]
fn narrow_operands_of_binary_functions_are_widened() {
    for dtype in DTYPES {
        let f = if dtype.is_float() { BinaryFn::SubF } else { BinaryFn::SubI };
        let wide = if dtype.is_float() { DType::F32 } else { DType::I32 };
        for op in [Inst::Binary(f, Src::Mem(1)), Inst::BinaryRev(f, Src::Mem(1))] {
            let dtypes = [dtype, dtype, wide];
            let program = chain(&dtypes, &[Inst::Load(Src::Mem(0)), op, Inst::Store(Dst::Mem(2))]);
            for cols in SIZES {
                case(&dtypes, cols, 0).check(&program);
                case(&dtypes, cols, 2).check(&program);
            }
        }
    }
}

#[test]
fn every_conversion_does_what_it_says() {
    for conversion in CONVERSIONS {
        let (from, to) = match conversion {
            Conversion::RoundF16 | Conversion::RoundBF16 => (DType::F32, DType::F32),
            Conversion::I32ToF32 | Conversion::U32ToF32 => (DType::I32, DType::F32),
            Conversion::F32ToI32(_) | Conversion::F32ToU32(_) => (DType::F32, DType::I32),
            _ => (DType::I32, DType::I32),
        };
        let body = [Inst::Load(Src::Mem(0)), Inst::Convert(conversion), Inst::Store(Dst::Mem(1))];
        for cols in SIZES {
            case(&[from, to], cols, 0).check(&chain(&[from, to], &body));
        }
    }
}

#[test]
fn every_element_type_is_read_and_written() {
    for from in DTYPES {
        for to in DTYPES {
            if from.is_float() != to.is_float() {
                continue;
            }
            let program = chain(&[from, to], &[Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(1))]);
            for cols in SIZES {
                case(&[from, to], cols, 0).check(&program);
                case(&[from, to], cols, 3).check(&program);
            }
        }
    }
}

#[test]
fn every_reduction_follows_its_order() {
    for (f, dtype) in REDUCTIONS {
        let mut program = chain(&[dtype; 2], &[Inst::Load(Src::Mem(0)), Inst::Reduce(f, 0)]);
        program.slots = 1;
        program.phases[0].epilogue = vec![RowInst::Store { mem: 1, src: RowSrc::Slot(0) }];
        for cols in SIZES.into_iter().chain([0, 256, 1000]) {
            let mut case = case(&[dtype; 2], cols, 4);
            case.operands[1] = Operand::new(dtype, 2, 1, 0, 0);
            for values in [Values::Hard, Values::Tame] {
                fill(&mut case.operands[0], 2, cols, values, 0);
                case.check_columns(&program, 1);
            }
        }
    }
}

#[test]
fn pairs_of_cheap_functions_are_still_two_operations() {
    let functions = [BinaryFn::AddF, BinaryFn::SubF, BinaryFn::MulF, BinaryFn::MaxF, BinaryFn::MinF];
    let sources = [Src::Mem(1), Src::Const(0.3f32.to_bits())];
    for f in functions {
        for g in functions {
            for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let body = [
                    Inst::Load(Src::Mem(0)),
                    // Keeps the load from being the first of a pair.
                    Inst::Unary(UnaryFn::AbsF),
                    Inst::Binary(f, sources[a]),
                    Inst::Binary(g, sources[b]),
                    Inst::Store(Dst::Mem(2)),
                ];
                for cols in [8, 16, 64, 200] {
                    let program = chain(&[DType::F32; 3], &body);
                    case(&[DType::F32; 3], cols, 4).check(&program);
                }
            }
        }
        for src in sources {
            let body = [Inst::Load(Src::Mem(0)), Inst::Binary(f, src), Inst::Store(Dst::Mem(2))];
            case(&[DType::F32; 3], 128, 0).check(&chain(&[DType::F32; 3], &body));
        }
    }
}

#[test]
fn a_bound_beside_a_cheap_function_is_still_an_operation_of_its_own() {
    let bounds = [(BinaryFn::MaxF, 0.0), (BinaryFn::MaxF, -0.75), (BinaryFn::MinF, 1.25)];
    for f in [BinaryFn::AddF, BinaryFn::SubF, BinaryFn::MulF] {
        for (g, limit) in bounds {
            let (f, g) = (Inst::Binary(f, Src::Scalar(0)), Inst::Binary(g, Src::Const(f32::to_bits(limit))));
            for [first, second] in [[f, g], [g, f]] {
                let body = [
                    Inst::Load(Src::Mem(0)),
                    // Keeps the load from being the first of a pair.
                    Inst::Unary(UnaryFn::NegF),
                    first,
                    second,
                    Inst::Unary(UnaryFn::NegF),
                    Inst::Store(Dst::Mem(1)),
                ];
                for cols in [8, 16, 64, 200] {
                    case(&[DType::F32; 2], cols, 4).check(&chain(&[DType::F32; 2], &body));
                }
            }
        }
    }
}

/// The maximum of the two zeros is +0. Where an instruction cannot leave -0 it is compiled to one that does not look.
#[test]
fn a_maximum_with_zero_is_never_minus_zero() {
    let constants = [0.0, -0.0, 0.5, f32::NAN].map(|x| Src::Const(x.to_bits()));
    let with_constants = [BinaryFn::AddF, BinaryFn::SubF, BinaryFn::MulF, BinaryFn::MinF]
        .into_iter()
        .flat_map(|f| constants.map(|src| [Inst::Binary(f, src), Inst::BinaryRev(f, src)]).into_iter().flatten());
    let before: Vec<Inst> = FLOAT_UNARY.iter().map(|&f| Inst::Unary(f)).chain(with_constants).collect();
    for first in before {
        let body = [
            Inst::Load(Src::Mem(0)),
            // Keeps the load from being the first of a pair.
            Inst::Unary(UnaryFn::NegF),
            first,
            Inst::Binary(BinaryFn::MaxF, Src::Const(0)),
            Inst::Store(Dst::Mem(1)),
        ];
        let program = chain(&[DType::F32; 2], &body);
        for cols in [8, 16, 64, 200] {
            case(&[DType::F32; 2], cols, 4).check(&program);
        }
    }
}
