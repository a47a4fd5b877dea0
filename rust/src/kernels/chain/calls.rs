//! Functions that are called: too long to be part of the interpreter, of which there is one for each size of a chunk.
//!
//! A chunk goes through memory on the way in and out, which costs a fraction of what these functions take; in turn each is
//! compiled once for an instruction set, with all registers to itself.

use super::compile::RowOp;
use super::loops::{self, LoopFn};
use super::{BinaryFn, Conversion, UnaryFn};
use crate::dtype::Rounding;
use crate::kernels::simd::{self, Simd};

/// A function that is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    Unary(UnaryFn),
    Binary(BinaryFn),
    Convert(Conversion),
}

/// Replaces `vectors` vectors at `a` by the function of them (and of those at `b`, if it has two arguments).
pub(super) type CallFn = unsafe fn(a: *mut u8, b: *const u8, vectors: usize);

/// All functions that are called, in the order of [`Calls::TABLE`].
pub(super) const CALLS: [Call; 23] = [
    Call::Unary(UnaryFn::LogF),
    Call::Unary(UnaryFn::SinF),
    Call::Unary(UnaryFn::CosF),
    Call::Unary(UnaryFn::ExpH),
    Call::Unary(UnaryFn::LogH),
    Call::Unary(UnaryFn::SinH),
    Call::Unary(UnaryFn::CosH),
    Call::Binary(BinaryFn::FmodF),
    Call::Binary(BinaryFn::RemF),
    Call::Binary(BinaryFn::FmodI),
    Call::Binary(BinaryFn::RemI),
    Call::Binary(BinaryFn::DivU),
    Call::Binary(BinaryFn::FmodU),
    Call::Convert(Conversion::F32ToU32(Rounding::Trunc)),
    Call::Convert(Conversion::F32ToU32(Rounding::Rint)),
    Call::Convert(Conversion::F32ToU32(Rounding::Round)),
    Call::Convert(Conversion::F32ToU32(Rounding::Floor)),
    Call::Convert(Conversion::F32ToU32(Rounding::Ceil)),
    Call::Convert(Conversion::F32ToU32(Rounding::Odd)),
    Call::Unary(UnaryFn::ExpF),
    Call::Binary(BinaryFn::DivI),
    Call::Convert(Conversion::F32ToI32(Rounding::Round)),
    Call::Convert(Conversion::F32ToI32(Rounding::Odd)),
];

/// The place of the exponential in [`CALLS`].
const EXP: u32 = {
    let mut at = 0;
    while !matches!(CALLS[at], Call::Unary(UnaryFn::ExpF)) {
        at += 1;
    }
    at as u32
};

/// What the interpreter calls, compiled for an instruction set.
pub(super) trait Calls: Simd {
    /// The functions of [`CALLS`].
    const TABLE: [CallFn; CALLS.len()];
    /// The loops of [`super::loops`].
    const LOOPS: [LoopFn; loops::COUNT];
    /// See [`row::row`](super::row::row).
    const ROW: unsafe fn(op: &RowOp, frame: *mut u8);
}

impl Call {
    /// The place in the tables; `None` for functions that are instructions.
    pub fn index(self) -> Option<u32> {
        let same = match self {
            Call::Convert(Conversion::F32ToU32(Rounding::None)) => Call::Convert(Conversion::F32ToU32(Rounding::Trunc)),
            other => other,
        };
        CALLS.iter().position(|&call| call == same).map(|index| index as u32)
    }

    /// The function of one vector.
    ///
    /// # Safety
    /// The processor has the instruction set `S`; the function is one of [`CALLS`].
    pub unsafe fn one<S: Calls>(self, a: S::V, b: S::V) -> S::V {
        let mut vectors = [[0u32; 16]; 2];
        let [x, y] = vectors.each_mut().map(|lanes| lanes.as_mut_ptr().cast::<u8>());
        let index = self.index().expect("a function that is called");
        // SAFETY: the caller vouches for the instruction set; a vector has at most 16 lanes.
        unsafe {
            S::store(x, a);
            S::store(y, b);
            S::TABLE[index as usize](x, y, 1);
            S::load(x)
        }
    }
}

/// The exponentials of a chunk: by a call where registers are few and not all numbers near 0.
///
/// # Safety
/// The processor has the instruction set `S`.
#[inline(always)]
pub(super) unsafe fn exp<S: Calls, const N: usize, const TAIL: bool>(acc: &mut [S::V; N]) {
    // SAFETY: the caller vouches for the instruction set; a call replaces as many vectors as it gets.
    unsafe {
        let is_roomy = S::REGISTERS >= 32;
        let mut largest = S::splat(0);
        if !is_roomy && S::FUSES && !TAIL {
            each!(N, i => largest = S::max_i(largest, S::and(acc[i], S::splat(0x7fff_ffff))));
        }
        if is_roomy {
            each!(N, i => acc[i] = simd::exp_f::<S>(acc[i]));
        } else if S::FUSES && !TAIL && simd::is_near::<S>(largest) {
            each!(N, i => acc[i] = simd::exp_near::<S>(acc[i], acc[usize::saturating_sub(i, 1)]));
        } else {
            // The accumulator itself stays in registers: only a copy of it has an address.
            let mut x = *acc;
            let place = x.as_mut_ptr().cast();
            S::TABLE[EXP as usize](place, place, N);
            *acc = x;
        }
    }
}

/// What the functions of the tables do; `call` is constant in each of them.
///
/// # Safety
/// The processor has the instruction set `S`; `a`, and `b` for functions of two arguments, hold so many vectors.
#[inline(always)]
pub(super) unsafe fn run<S: Simd>(call: Call, a: *mut u8, b: *const u8, vectors: usize) {
    let lanes = vectors * S::LANES;
    // SAFETY: the caller vouches for instruction set and memory.
    unsafe {
        macro_rules! vectors {
            ($f:expr) => {
                for at in (0..lanes * 4).step_by(S::LANES * 4) {
                    S::store(a.add(at), $f(S::load(a.add(at))));
                }
            };
        }
        macro_rules! two_vectors {
            ($f:expr) => {
                for at in (0..lanes * 4).step_by(S::LANES * 4) {
                    S::store(a.add(at), $f(S::load(a.add(at)), S::load(b.add(at))));
                }
            };
        }
        macro_rules! floats {
            ($f:expr) => {{
                let a = std::slice::from_raw_parts_mut(a.cast::<f32>(), lanes);
                let b = std::slice::from_raw_parts(b.cast::<f32>(), lanes);
                let (a, b) = (a.as_chunks_mut::<8>().0, b.as_chunks::<8>().0);
                a.iter_mut().zip(b).for_each(|(a, b)| $f(a, b));
            }};
        }
        match call {
            Call::Unary(UnaryFn::ExpF) => {
                let done = !S::FUSES && simd::exp_all_near(std::slice::from_raw_parts_mut(a.cast::<f32>(), lanes));
                if !done {
                    vectors!(simd::exp_f::<S>);
                }
            }
            Call::Unary(UnaryFn::LogF) => vectors!(simd::log_f::<S>),
            Call::Unary(UnaryFn::SinF) => vectors!(simd::sin_f::<S>),
            Call::Unary(UnaryFn::CosF) => vectors!(simd::cos_f::<S>),
            Call::Unary(UnaryFn::ExpH) => vectors!(simd::exp_h::<S>),
            Call::Unary(UnaryFn::LogH) => vectors!(simd::log_h::<S>),
            Call::Unary(UnaryFn::SinH) => vectors!(simd::sin_h::<S>),
            Call::Unary(UnaryFn::CosH) => vectors!(simd::cos_h::<S>),
            Call::Binary(BinaryFn::FmodF) => floats!(fmod),
            Call::Binary(BinaryFn::RemF) => floats!(rem),
            Call::Binary(BinaryFn::DivI) => two_vectors!(S::div_i),
            Call::Binary(BinaryFn::FmodI) => two_vectors!(simd::fmod_i::<S>),
            Call::Binary(BinaryFn::RemI) => two_vectors!(simd::rem_i::<S>),
            Call::Binary(BinaryFn::DivU) => two_vectors!(S::div_u),
            Call::Binary(BinaryFn::FmodU) => two_vectors!(simd::fmod_u::<S>),
            Call::Convert(Conversion::F32ToU32(rounding)) => vectors!(|x| simd::f32_to_u32::<S>(rounding, x)),
            Call::Convert(Conversion::F32ToI32(rounding)) => vectors!(|x| simd::f32_to_i32::<S>(rounding, x)),
            _ => unreachable!("not in the table"),
        }
    }
}

/// Lanes that [`fmod`] works on together: at least one vector of every instruction set in binary64.
type Floats = [f32; 8];

/// `a % b`, exact.
///
/// In binary64 a quotient below 2^28 has bits to spare: its nearest integer times `b` is exact, and so is what is left of
/// `a`, but for one `b` where that is negative. Lanes with larger quotients, zeros, infinities and NaN are done by themselves.
#[inline(always)]
fn fmod(a: &mut Floats, b: &Floats) {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52: adding it leaves an integer in the low bits
    let mut left = [0f32; 8];
    let mut ordinary = true;
    for i in 0..8 {
        let (x, y) = (f64::from(a[i].abs()), f64::from(b[i].abs()));
        let quotient = x / y;
        ordinary &= (quotient < 268_435_456.0) & (y < f64::INFINITY);
        let rest = x - (quotient + MAGIC - MAGIC) * y;
        let rest = if rest < 0.0 { rest + y } else { rest };
        left[i] = (rest as f32).copysign(a[i]);
    }
    if ordinary {
        *a = left;
    } else {
        fmod_one_by_one(a, b);
    }
}

#[cold]
#[inline(never)]
fn fmod_one_by_one(a: &mut Floats, b: &Floats) {
    for (a, b) in a.iter_mut().zip(b) {
        *a %= b;
    }
}

/// `a % b` as in Python.
#[inline(always)]
fn rem(a: &mut Floats, b: &Floats) {
    fmod(a, b);
    for (left, b) in a.iter_mut().zip(b) {
        let other_sign = (*left < 0.0) != (*b < 0.0);
        let sum = *left + if other_sign { *b } else { 0.0 };
        *left = if *left == 0.0 { left.copysign(*b) } else { sum };
    }
}
