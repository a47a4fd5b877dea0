//! Functions that are called: too long to be part of the interpreter, of which there is one for each size of a chunk.
//!
//! A chunk goes through memory on the way in and out, which costs a fraction of what these functions take; in turn each is
//! compiled once for an instruction set, with all registers to itself.

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
pub(super) const CALLS: [Call; 15] = [
    Call::Unary(UnaryFn::LogF),
    Call::Unary(UnaryFn::SinF),
    Call::Unary(UnaryFn::CosF),
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
];

/// The functions of [`CALLS`] compiled for an instruction set.
pub(super) trait Calls: Simd {
    const TABLE: [CallFn; CALLS.len()];
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
        macro_rules! lanes {
            ($type:ty, $f:expr) => {{
                let (a, b) = (a.cast::<$type>(), b.cast::<$type>());
                for i in 0..lanes {
                    *a.add(i) = $f(*a.add(i), *b.add(i));
                }
            }};
        }
        match call {
            Call::Unary(UnaryFn::LogF) => vectors!(simd::log_f::<S>),
            Call::Unary(UnaryFn::SinF) => vectors!(simd::sin_f::<S>),
            Call::Unary(UnaryFn::CosF) => vectors!(simd::cos_f::<S>),
            Call::Binary(BinaryFn::FmodF) => lanes!(f32, fmod),
            Call::Binary(BinaryFn::RemF) => lanes!(f32, rem),
            Call::Binary(BinaryFn::FmodI) => lanes!(i32, fmod_i),
            Call::Binary(BinaryFn::RemI) => lanes!(i32, rem_i),
            Call::Binary(BinaryFn::DivU) => lanes!(u32, div_u),
            Call::Binary(BinaryFn::FmodU) => lanes!(u32, fmod_u),
            Call::Convert(Conversion::F32ToU32(rounding)) => vectors!(|x| simd::f32_to_u32::<S>(rounding, x)),
            _ => unreachable!("not in the table"),
        }
    }
}

#[inline(always)]
fn fmod(a: f32, b: f32) -> f32 {
    a % b
}

#[inline(always)]
fn rem(a: f32, b: f32) -> f32 {
    let left = fmod(a, b);
    if left == 0.0 {
        left.copysign(b)
    } else if (left < 0.0) != (b < 0.0) {
        left + b
    } else {
        left
    }
}

#[inline(always)]
fn fmod_i(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

#[inline(always)]
fn rem_i(a: i32, b: i32) -> i32 {
    let left = fmod_i(a, b);
    if left != 0 && (left < 0) != (b < 0) { left.wrapping_add(b) } else { left }
}

#[inline(always)]
fn div_u(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

#[inline(always)]
fn fmod_u(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(0)
}
