//! Reductions of a row: 16 lanes of partial results, and how chunks and then the lanes are put together.

use super::ReduceFn;
use super::compile::Reduction;
use super::frame::Accumulator;
use crate::kernels::simd::Simd;

/// Adds a chunk to the 16 partial sums of a row (or multiplies, by `f` and its `identity`), in the order that
/// [`super::ReduceFn`] lays down: vectors of 16 lanes in groups of four, of which a missing one counts as the identity.
///
/// # Safety
/// The processor has the instruction set `S`; `partial` points to 16 lanes.
#[inline(always)]
pub(super) unsafe fn combine<S: Simd, const N: usize, const TAIL: bool>(
    partial: *mut u8,
    acc: &[S::V; N],
    parts: &[S::Part; N],
    identity: S::V,
    f: impl Fn(S::V, S::V) -> S::V,
) {
    // SAFETY: the caller vouches for the instruction set and the partial results.
    unsafe {
        // The vectors that make up 16 lanes.
        let wide = 16 / S::LANES;
        let mut values = [identity; 8];
        each!(N, i => values[i] = if TAIL { S::keep(parts[i], acc[i], identity) } else { acc[i] });
        macro_rules! group {
            ($first:expr, $part:expr) => {
                if $part < wide && $first + $part < N {
                    let v = |j: usize| {
                        if $first + $part + j * wide < N { values[$first + $part + j * wide] } else { identity }
                    };
                    let group = f(f(v(0), v(1)), f(v(2), v(3)));
                    let place = partial.add($part * S::LANES * 4);
                    S::store(place, f(S::load(place), group));
                }
            };
        }
        group!(0, 0);
        group!(0, 1);
        if wide == 1 {
            // Sixteen lanes each: eight vectors are two groups.
            group!(4, 0);
        }
    }
}

/// Puts a reduction at its start: `identity` in every lane, and no NaN.
///
/// # Safety
/// The processor has the instruction set `S`; the accumulator is valid.
#[inline(always)]
pub(super) unsafe fn begin<S: Simd>(state: *mut Accumulator, identity: u32) {
    // SAFETY: the caller vouches for both; vectors are stored within the lanes.
    unsafe {
        let lanes = (&raw mut (*state).lanes).cast::<u8>();
        S::store(lanes, S::splat(identity));
        if S::LANES < 16 {
            S::store(lanes.add(32), S::splat(identity));
        }
        (*state).nan = false;
    }
}

/// Puts the result of a reduction into its slot.
///
/// # Safety
/// The processor has the instruction set `S`; the frame is valid.
#[inline(always)]
pub(super) unsafe fn finish<S: Simd>(reduction: &Reduction, frame: *mut u8) {
    // SAFETY: the caller vouches for instruction set and frame; offsets were made for this frame.
    unsafe {
        let state = frame.add(reduction.accumulator as usize).cast::<Accumulator>();
        let result =
            if (*state).nan { f32::NAN.to_bits() } else { fold::<S>(reduction.f, (&raw const (*state).lanes).cast()) };
        *frame.add(reduction.slot as usize).cast::<u32>() = result;
    }
}

/// Folds 16 lanes in halves.
///
/// # Safety
/// The processor has the instruction set `S`; `lanes` points to 16.
#[inline(always)]
unsafe fn fold<S: Simd>(f: ReduceFn, lanes: *const u8) -> u32 {
    // SAFETY: the caller vouches for the instruction set and the lanes.
    unsafe {
        macro_rules! by {
            ($f:expr) => {{
                let low = S::load(lanes);
                let high = if S::LANES == 16 { S::down::<8>(low) } else { S::load(lanes.add(32)) };
                let v = $f(low, high);
                let v = $f(v, S::down::<4>(v));
                let v = $f(v, S::down::<2>(v));
                S::first($f(v, S::down::<1>(v)))
            }};
        }
        match f {
            ReduceFn::SumF => by!(S::add_f),
            ReduceFn::MaxF => by!(S::max_num),
            ReduceFn::MinF => by!(S::min_num),
            ReduceFn::SumI => by!(S::add_i),
            ReduceFn::MaxI => by!(S::max_i),
            ReduceFn::MinI => by!(S::min_i),
            ReduceFn::ProdF => by!(S::mul_f),
            ReduceFn::ProdI => by!(S::mul_i),
            ReduceFn::MaxU => by!(S::max_u),
            ReduceFn::MinU => by!(S::min_u),
        }
    }
}
