//! Reductions of a row: 16 lanes of partial results, and how chunks and then the lanes are put together.

use super::ReduceFn;
use super::compile::Reduction;
use super::frame::Accumulator;
use crate::kernels::simd::Simd;

/// The 16 partial results of a sum or product, in vectors: one of 16 lanes, two of eight, ...
pub(super) struct Partial<S: Simd>([S::V; MOST]);

/// Vectors of the smallest instruction set that 16 lanes are.
const MOST: usize = 4;

impl<S: Simd> Partial<S> {
    /// The vectors that make up 16 lanes.
    const WIDE: usize = 16 / S::LANES;

    /// # Safety
    /// The processor has the instruction set `S`; `lanes` points to 16.
    #[inline(always)]
    pub unsafe fn load(lanes: *const u8) -> Self {
        // SAFETY: the caller vouches for both.
        unsafe {
            let mut partial = [S::splat(0); MOST];
            each!(MOST, i => if i < Self::WIDE { partial[i] = S::load(lanes.add(i * S::LANES * 4)) });
            Partial(partial)
        }
    }

    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    pub unsafe fn store(self, lanes: *mut u8) {
        // SAFETY: the caller vouches for both.
        unsafe { each!(MOST, i => if i < Self::WIDE { S::store(lanes.add(i * S::LANES * 4), self.0[i]) }) }
    }

    /// Adds a chunk (or multiplies, by `f` and its `identity`), in the order that [`super::ReduceFn`] lays down: vectors of 16
    /// lanes in groups of four, of which a missing one counts as the identity.
    ///
    /// # Safety
    /// The processor has the instruction set `S`.
    #[inline(always)]
    pub unsafe fn combine<const N: usize>(&mut self, acc: &[S::V; N], identity: S::V, f: impl Fn(S::V, S::V) -> S::V) {
        let mut values = [identity; 8];
        each!(N, i => values[i] = acc[i]);
        macro_rules! group {
            ($first:expr, $part:expr) => {
                if $part < Self::WIDE && $first + $part < N {
                    let v = |j: usize| {
                        let at = $first + $part + j * Self::WIDE;
                        if at < N { values[at] } else { identity }
                    };
                    self.0[$part] = f(self.0[$part], f(f(v(0), v(1)), f(v(2), v(3))));
                }
            };
        }
        group!(0, 0);
        group!(0, 1);
        if Self::WIDE == 1 {
            // Sixteen lanes each: eight vectors are two groups.
            group!(4, 0);
        }
    }
}

/// One vector of a chunk, in halves: a chain of eight would take the latency of eight.
///
/// # Safety
/// The processor has the instruction set `S`.
#[inline(always)]
pub(super) unsafe fn fold_chunk<S: Simd, const N: usize>(acc: &[S::V; N], f: impl Fn(S::V, S::V) -> S::V) -> S::V {
    let mut v = *acc;
    each!(N, i => if i < 4 && i + 4 < N { v[i] = f(v[i], v[i + 4]) });
    each!(N, i => if i < 2 && i + 2 < N { v[i] = f(v[i], v[i + 2]) });
    each!(N, i => if i < 1 && i + 1 < N { v[i] = f(v[i], v[i + 1]) });
    v[0]
}

/// Whether a chunk has a NaN.
///
/// # Safety
/// The processor has the instruction set `S`.
#[inline(always)]
pub(super) unsafe fn has_nan<S: Simd, const N: usize>(acc: &[S::V; N]) -> bool {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let mut nan = S::unordered_f(acc[0], acc[N - 1]);
        each!(N, i => if i % 2 == 1 && i + 1 < N { nan = S::or_m(nan, S::unordered_f(acc[i], acc[i + 1])) });
        S::any(nan)
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
