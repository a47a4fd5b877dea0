//! The meaning of programs, one row at a time, one element at a time.

use super::Case;
use crate::dtype::Rounding;
use crate::kernels::chain::{BinaryFn, ChainProgram, Conversion, Dst, Inst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};
use crate::kernels::simd::{self, Generic, Simd};

type Vector = <Generic as Simd>::V;

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
                        Src::Column => (0..case.cols as u32).map(|col| case.first[1].wrapping_add(col)).collect(),
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
                    Inst::Select { when, other } => {
                        for ((a, when), other) in acc.iter_mut().zip(read(when)).zip(read(other)) {
                            *a = if when != 0 { *a } else { other };
                        }
                    }
                    Inst::Pick { then, other } => {
                        for ((a, then), other) in acc.iter_mut().zip(read(then)).zip(read(other)) {
                            *a = if *a != 0 { then } else { other };
                        }
                    }
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
            RowSrc::Row => case.first[0] + row as u32,
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
            RowInst::Select { slot, when, then, other } => {
                slots[usize::from(slot)] = if value(when) != 0 { value(then) } else { value(other) };
            }
        }
    }
}

pub(super) fn unary(f: UnaryFn, a: u32) -> u32 {
    let x = f32::from_bits(a);
    match f {
        UnaryFn::NegF => (-x).to_bits(),
        UnaryFn::AbsF => x.abs().to_bits(),
        UnaryFn::SquareF => (x * x).to_bits(),
        UnaryFn::ExpF => generic(a, |x| {
            // SAFETY: every processor has the generic instruction set.
            unsafe { simd::exp_f::<Generic>(x) }
        }),
        UnaryFn::LogF => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::log_f::<Generic>(x) }
        }),
        UnaryFn::SinF => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::sin_f::<Generic>(x) }
        }),
        UnaryFn::CosF => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::cos_f::<Generic>(x) }
        }),
        UnaryFn::ExpH => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::exp_h::<Generic>(x) }
        }),
        UnaryFn::LogH => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::log_h::<Generic>(x) }
        }),
        UnaryFn::SinH => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::sin_h::<Generic>(x) }
        }),
        UnaryFn::CosH => generic(a, |x| {
            // SAFETY: as above.
            unsafe { simd::cos_h::<Generic>(x) }
        }),
        UnaryFn::RecipF => (1.0 / x).to_bits(),
        UnaryFn::SqrtF => x.sqrt().to_bits(),
        UnaryFn::RsqrtF => (1.0 / x.sqrt()).to_bits(),
        UnaryFn::NotI => !a,
        UnaryFn::NegI => (a as i32).wrapping_neg() as u32,
        UnaryFn::AbsI => (a as i32).wrapping_abs() as u32,
    }
}

/// A function whose accuracy other tests show; here it is only to be the same everywhere.
fn generic(a: u32, f: impl Fn(Vector) -> Vector) -> u32 {
    // SAFETY: every processor has the generic instruction set.
    unsafe { Generic::first(f(Generic::splat(a))) }
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
        BinaryFn::FmodF => (x % y).to_bits(),
        BinaryFn::RemF => {
            let left = x % y;
            let other_sign = left != 0.0 && (left < 0.0) != (y < 0.0);
            let result = if other_sign { left + y } else { left };
            if result == 0.0 { 0f32.copysign(y).to_bits() } else { result.to_bits() }
        }
        BinaryFn::FmodI if j == 0 => 0,
        BinaryFn::FmodI => i.wrapping_rem(j) as u32,
        BinaryFn::RemI if j == 0 => 0,
        // In 64 bits there is no overflow.
        BinaryFn::RemI => {
            let (i, j) = (i64::from(i), i64::from(j));
            (i - j * (i as f64 / j as f64).floor() as i64) as u32
        }
        BinaryFn::DivU => a.checked_div(b).unwrap_or(0),
        BinaryFn::FmodU => a.checked_rem(b).unwrap_or(0),
        BinaryFn::MaxU => a.max(b),
        BinaryFn::MinU => a.min(b),
        BinaryFn::AndI => a & b,
        BinaryFn::OrI => a | b,
        BinaryFn::XorI => a ^ b,
        BinaryFn::ShlI => a.checked_shl(b).unwrap_or(0),
        BinaryFn::ShrI => i.checked_shr(b).unwrap_or(if i < 0 { -1 } else { 0 }) as u32,
        BinaryFn::ShrU => a.checked_shr(b).unwrap_or(0),
        BinaryFn::EqF => u32::from(x == y),
        BinaryFn::NeF => u32::from(x != y),
        BinaryFn::LtF => u32::from(x < y),
        BinaryFn::LeF => u32::from(x <= y),
        BinaryFn::GtF => u32::from(x > y),
        BinaryFn::GeF => u32::from(x >= y),
        BinaryFn::EqI => u32::from(a == b),
        BinaryFn::NeI => u32::from(a != b),
        BinaryFn::LtI => u32::from(i < j),
        BinaryFn::LeI => u32::from(i <= j),
        BinaryFn::GtI => u32::from(i > j),
        BinaryFn::GeI => u32::from(i >= j),
        BinaryFn::LtU => u32::from(a < b),
        BinaryFn::LeU => u32::from(a <= b),
        BinaryFn::GtU => u32::from(a > b),
        BinaryFn::GeU => u32::from(a >= b),
    }
}

pub(super) fn convert(conversion: Conversion, a: u32) -> u32 {
    let x = f32::from_bits(a);
    match conversion {
        Conversion::RoundF16 => half::f16::from_f32(x).to_f32().to_bits(),
        Conversion::RoundBF16 => half::bf16::from_f32(x).to_f32().to_bits(),
        Conversion::I32ToF32 => (a as i32 as f32).to_bits(),
        Conversion::U32ToF32 => (a as f32).to_bits(),
        // `as` saturates and makes NaN 0.
        Conversion::F32ToI32(rounding) => round(rounding, x) as i32 as u32,
        Conversion::F32ToU32(rounding) => round(rounding, x) as u32,
        Conversion::WrapI8 => a as i8 as u32,
        Conversion::WrapI16 => a as i16 as u32,
        Conversion::WrapU8 => u32::from(a as u8),
        Conversion::WrapU16 => u32::from(a as u16),
        Conversion::ToBool => u32::from(a != 0),
    }
}

/// Exact in binary64.
fn round(rounding: Rounding, x: f32) -> f64 {
    let x = f64::from(x);
    match rounding {
        Rounding::None | Rounding::Trunc => x.trunc(),
        Rounding::Rint => x.round_ties_even(),
        Rounding::Round => x.round(),
        Rounding::Floor => x.floor(),
        Rounding::Ceil => x.ceil(),
        Rounding::Odd if x.floor() % 2.0 == 0.0 => x.ceil(),
        Rounding::Odd => x.floor(),
    }
}

fn reduce(f: ReduceFn, lanes: &[u32]) -> u32 {
    let all = |f: BinaryFn, first: u32| lanes.iter().fold(first, |a, &b| binary(f, a, b));
    match f {
        ReduceFn::SumF => in_groups(lanes, 0.0, |a, b| a + b),
        ReduceFn::ProdF => in_groups(lanes, 1.0, |a, b| a * b),
        ReduceFn::MaxF => all(BinaryFn::MaxF, f32::NEG_INFINITY.to_bits()),
        ReduceFn::MinF => all(BinaryFn::MinF, f32::INFINITY.to_bits()),
        ReduceFn::SumI => all(BinaryFn::AddI, 0),
        ReduceFn::MaxI => all(BinaryFn::MaxI, i32::MIN as u32),
        ReduceFn::MinI => all(BinaryFn::MinI, i32::MAX as u32),
        ReduceFn::ProdI => all(BinaryFn::MulI, 1),
        ReduceFn::MaxU => all(BinaryFn::MaxU, 0),
        ReduceFn::MinU => all(BinaryFn::MinU, u32::MAX),
    }
}

/// The sum or product in the documented order.
fn in_groups(lanes: &[u32], identity: f32, f: impl Fn(f32, f32) -> f32) -> u32 {
    let mut acc = [identity; 16];
    for group in lanes.chunks(64) {
        let mut padded = [identity; 64];
        for (to, &from) in padded.iter_mut().zip(group) {
            *to = f32::from_bits(from);
        }
        for i in 0..16 {
            acc[i] = f(acc[i], f(f(padded[i], padded[i + 16]), f(padded[i + 32], padded[i + 48])));
        }
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            acc[i] = f(acc[i], acc[i + half]);
        }
    }
    acc[0].to_bits()
}
