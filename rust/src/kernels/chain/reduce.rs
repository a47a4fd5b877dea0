//! Beginning and end of a reduction; the middle is in the interpreter.

use super::ReduceFn;
use super::frame::Accumulator;
use crate::kernels::simd;

/// What a reduction of nothing is, in every lane at the start.
pub(super) fn identity(f: ReduceFn) -> u32 {
    match f {
        ReduceFn::SumF | ReduceFn::SumI => 0,
        ReduceFn::MaxF => f32::NEG_INFINITY.to_bits(),
        ReduceFn::MinF => f32::INFINITY.to_bits(),
        ReduceFn::MaxI => i32::MIN as u32,
        ReduceFn::MinI => i32::MAX as u32,
    }
}

/// Folds the 16 lanes in halves.
pub(super) fn result(f: ReduceFn, state: &Accumulator) -> u32 {
    if state.nan {
        return f32::NAN.to_bits();
    }
    let lanes = state.lanes;
    match f {
        ReduceFn::SumF => fold(lanes, |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits()),
        ReduceFn::MaxF => fold(lanes, simd::max_num),
        ReduceFn::MinF => fold(lanes, simd::min_num),
        ReduceFn::SumI => fold(lanes, u32::wrapping_add),
        ReduceFn::MaxI => fold(lanes, |a, b| (a as i32).max(b as i32) as u32),
        ReduceFn::MinI => fold(lanes, |a, b| (a as i32).min(b as i32) as u32),
    }
}

#[inline(always)]
fn fold(mut lanes: [u32; 16], f: impl Fn(u32, u32) -> u32) -> u32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = f(lanes[i], lanes[i + half]);
        }
    }
    lanes[0]
}
