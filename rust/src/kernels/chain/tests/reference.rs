//! The meaning of programs, one row at a time, one element at a time.

use super::Case;
use crate::dtype::Rounding;
use crate::kernels::chain::{BinaryFn, ChainProgram, Conversion, Dst, Inst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};
use crate::kernels::simd::{self, Generic, Simd};

pub(super) fn run(program: &ChainProgram, case: &mut Case) {
    for row in 0..case.rows {
        let mut slots = vec![0u32; program.slots.into()];
        let mut row_bufs = vec![vec![0u32; case.cols]; program.row_bufs.into()];
        for phase in &program.phases {
            rows(&phase.prologue, case, row, &mut slots);
            let mut temps = vec![vec![0u32; case.cols]; program.temps.into()];
            let mut acc = vec![0u32; case.cols];
            let mut results = Vec::new();
            for inst in &phase.body {
                let read = |src: Src| -> Vec<u32> {
                    let all = |bits: u32| vec![bits; case.cols];
                    match src {
                        Src::Mem(mem) => {
                            (0..case.cols).map(|col| case.operands[usize::from(mem)].get(row, col)).collect()
                        }
                        Src::Temp(temp) => temps[usize::from(temp)].clone(),
                        Src::RowBuf(buf) => row_bufs[usize::from(buf)].clone(),
                        Src::Slot(slot) => all(slots[usize::from(slot)]),
                        Src::Scalar(scalar) => all(case.scalars[usize::from(scalar)]),
                        Src::Const(bits) => all(bits),
                    }
                };
                match *inst {
                    Inst::Load(src) => acc = read(src),
                    Inst::Store(Dst::Mem(mem)) => {
                        for (col, &lane) in acc.iter().enumerate() {
                            case.operands[usize::from(mem)].set(row, col, lane);
                        }
                    }
                    Inst::Store(Dst::Temp(temp)) => temps[usize::from(temp)].clone_from(&acc),
                    Inst::Store(Dst::RowBuf(buf)) => row_bufs[usize::from(buf)].clone_from(&acc),
                    Inst::Unary(f) => acc.iter_mut().for_each(|a| *a = unary(f, *a)),
                    Inst::Binary(f, src) => acc.iter_mut().zip(read(src)).for_each(|(a, b)| *a = binary(f, *a, b)),
                    Inst::BinaryRev(f, src) => acc.iter_mut().zip(read(src)).for_each(|(a, b)| *a = binary(f, b, *a)),
                    Inst::Convert(conversion) => acc.iter_mut().for_each(|a| *a = convert(conversion, *a)),
                    Inst::Reduce(f, slot) => results.push((slot, reduce(f, &acc))),
                }
            }
            for (slot, bits) in results {
                slots[usize::from(slot)] = bits;
            }
            rows(&phase.epilogue, case, row, &mut slots);
        }
    }
}

fn rows(insts: &[RowInst], case: &mut Case, row: usize, slots: &mut [u32]) {
    for inst in insts {
        let value = |src: RowSrc| match src {
            RowSrc::Slot(slot) => slots[usize::from(slot)],
            RowSrc::Scalar(scalar) => case.scalars[usize::from(scalar)],
            RowSrc::Const(bits) => bits,
        };
        match *inst {
            RowInst::Load { slot, mem } => slots[usize::from(slot)] = case.operands[usize::from(mem)].get(row, 0),
            RowInst::Store { mem, src } => {
                let bits = value(src);
                case.operands[usize::from(mem)].set(row, 0, bits);
            }
            RowInst::Unary { slot, f, src } => slots[usize::from(slot)] = unary(f, value(src)),
            RowInst::Binary { slot, f, a, b } => slots[usize::from(slot)] = binary(f, value(a), value(b)),
            RowInst::Convert { slot, conversion, src } => slots[usize::from(slot)] = convert(conversion, value(src)),
        }
    }
}

pub(super) fn unary(f: UnaryFn, a: u32) -> u32 {
    let x = f32::from_bits(a);
    match f {
        UnaryFn::NegF => (-x).to_bits(),
        UnaryFn::AbsF => x.abs().to_bits(),
        // That it is exp is shown by the tests of `simd`; here it is only to be the same everywhere.
        // SAFETY: every processor has the generic instruction set.
        UnaryFn::ExpF => unsafe { Generic::first(simd::exp_f::<Generic>(Generic::splat(a))) },
        UnaryFn::RecipF => (1.0 / x).to_bits(),
        UnaryFn::SqrtF => x.sqrt().to_bits(),
        UnaryFn::NegI => (a as i32).wrapping_neg() as u32,
        UnaryFn::AbsI => (a as i32).wrapping_abs() as u32,
    }
}

pub(super) fn binary(f: BinaryFn, a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let (i, j) = (a as i32, b as i32);
    match f {
        BinaryFn::AddF => (x + y).to_bits(),
        BinaryFn::SubF => (x - y).to_bits(),
        BinaryFn::MulF => (x * y).to_bits(),
        BinaryFn::DivF => (x / y).to_bits(),
        BinaryFn::MaxF if x.is_nan() || y.is_nan() => f32::NAN.to_bits(),
        BinaryFn::MaxF => {
            if x.total_cmp(&y).is_lt() {
                b
            } else {
                a
            }
        }
        BinaryFn::MinF if x.is_nan() || y.is_nan() => f32::NAN.to_bits(),
        BinaryFn::MinF => {
            if y.total_cmp(&x).is_lt() {
                b
            } else {
                a
            }
        }
        BinaryFn::AddI => a.wrapping_add(b),
        BinaryFn::SubI => a.wrapping_sub(b),
        BinaryFn::MulI => a.wrapping_mul(b),
        BinaryFn::DivI => {
            if j == 0 {
                0
            } else {
                i.wrapping_div(j) as u32
            }
        }
        BinaryFn::MaxI => i.max(j) as u32,
        BinaryFn::MinI => i.min(j) as u32,
    }
}

pub(super) fn convert(conversion: Conversion, a: u32) -> u32 {
    let x = f32::from_bits(a);
    match conversion {
        Conversion::RoundF16 => half::f16::from_f32(x).to_f32().to_bits(),
        Conversion::RoundBF16 => half::bf16::from_f32(x).to_f32().to_bits(),
        Conversion::I32ToF32 => (a as i32 as f32).to_bits(),
        Conversion::F32ToI32(rounding) => {
            // Exact in binary64; `as` saturates and makes NaN 0.
            let x = f64::from(x);
            let rounded = match rounding {
                Rounding::None | Rounding::Trunc => x.trunc(),
                Rounding::Rint => x.round_ties_even(),
                Rounding::Round => x.round(),
                Rounding::Floor => x.floor(),
                Rounding::Ceil => x.ceil(),
                Rounding::Odd if x.floor() % 2.0 == 0.0 => x.ceil(),
                Rounding::Odd => x.floor(),
            };
            rounded as i32 as u32
        }
        Conversion::WrapI8 => a as i8 as u32,
        Conversion::WrapI16 => a as i16 as u32,
        Conversion::WrapU8 => u32::from(a as u8),
        Conversion::WrapU16 => u32::from(a as u16),
        Conversion::ToBool => u32::from(a != 0),
    }
}

fn reduce(f: ReduceFn, lanes: &[u32]) -> u32 {
    let all = |f: BinaryFn, first: u32| lanes.iter().fold(first, |a, &b| binary(f, a, b));
    match f {
        ReduceFn::SumF => sum(lanes),
        ReduceFn::MaxF => all(BinaryFn::MaxF, f32::NEG_INFINITY.to_bits()),
        ReduceFn::MinF => all(BinaryFn::MinF, f32::INFINITY.to_bits()),
        ReduceFn::SumI => all(BinaryFn::AddI, 0),
        ReduceFn::MaxI => all(BinaryFn::MaxI, i32::MIN as u32),
        ReduceFn::MinI => all(BinaryFn::MinI, i32::MAX as u32),
    }
}

/// The sum in the documented order.
fn sum(lanes: &[u32]) -> u32 {
    let mut acc = [0f32; 16];
    for group in lanes.chunks(64) {
        let mut padded = [0f32; 64];
        for (to, &from) in padded.iter_mut().zip(group) {
            *to = f32::from_bits(from);
        }
        for i in 0..16 {
            acc[i] += (padded[i] + padded[i + 16]) + (padded[i + 32] + padded[i + 48]);
        }
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            acc[i] += acc[i + half];
        }
    }
    acc[0].to_bits()
}
