//! Vectors of 32-bit lanes for each instruction set, behind one trait.
//!
//! A kernel is written once, generic over [`Simd`], as `#[inline(always)]` functions, and instantiated under a
//! `#[target_feature]` function for each instruction set. Lanes carry no type: the operation says whether it reads them as
//! binary32 (`_f`) or as signed integers (`_i`).
//!
//! Every operation gives the same bits on every implementation, except that the sign and payload of a NaN that
//! arithmetic produces are not specified (compilers may commute the operands, which decides whose payload survives).

#![allow(unsafe_code)] // Vector instructions and raw memory are what this module is for.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exp;
mod exp_wide;
mod generic;
mod halves;
mod log;
mod math;
pub(super) mod pair;
pub(super) mod quad;
mod trigonometry;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use exp::{exp_f, exp_near, is_near};
pub(crate) use exp_wide::exp_all_near;
pub(crate) use generic::Generic;
pub(crate) use halves::{cos_h, exp_h, log_h, sin_h};
pub(crate) use log::log_f;
pub(crate) use math::{abs_i, f32_to_i32, f32_to_u32, fmod_i, fmod_u, max_f, min_f, neg_f, neg_i, rem_i};
pub(crate) use trigonometry::{cos_f, sin_f};

/// One implementation of vectors.
///
/// # Safety
/// Every function may be called only where the processor has the instruction set of the implementation; the loads and
/// stores also need `p` to be valid for as many elements as they touch, at any alignment unless they say otherwise.
pub(crate) trait Simd: Copy {
    /// `LANES` lanes of 32 bits.
    type V: Copy;
    /// `LANES` elements of 16 bits.
    type H: Copy;
    /// `LANES` elements of 8 bits.
    type B: Copy;
    /// One truth value per lane.
    type M: Copy;
    /// A prefix of the lanes.
    type Part: Copy;

    /// The same pointer; the compiler takes it for another that is known only after `v`, so that it neither keeps what it points
    /// to in registers nor begins to work on it earlier.
    #[inline(always)]
    unsafe fn after<T>(v: Self::V, p: *const T) -> *const T {
        let _ = v;
        p
    }

    /// Lanes of a vector; divides 16.
    const LANES: usize;
    /// Vectors that the registers hold.
    const REGISTERS: usize;
    /// Whether [`Simd::fma_f`] is an instruction.
    const FUSES: bool = true;
    /// Whether [`Simd::scale_f`] takes any `n`: infinities, which give infinity and 0, and NaN, which gives NaN.
    const SCALES_BY_ANY: bool = false;

    /// The first `n` lanes, `n <= LANES`.
    unsafe fn part(n: usize) -> Self::Part;
    /// `v` in the lanes of `part`, `rest` in the others.
    unsafe fn keep(part: Self::Part, v: Self::V, rest: Self::V) -> Self::V;

    /// The number of each lane: 0, 1, 2, ...
    unsafe fn iota() -> Self::V;
    /// The entry of a table that the low four bits of each lane name.
    unsafe fn pick(table: &[f32; 16], index: Self::V) -> Self::V;
    /// `bits` in every lane.
    unsafe fn splat(bits: u32) -> Self::V;
    /// The lowest lane.
    unsafe fn first(v: Self::V) -> u32;

    /// Lane `i + K` in lane `i`; any value in the lanes from `K` on. `K < LANES` is a power of two.
    unsafe fn down<const K: u32>(v: Self::V) -> Self::V;

    /// Loads `LANES` elements of 32 bits.
    unsafe fn load(p: *const u8) -> Self::V;
    /// Loads the elements of `part` and nothing beyond; the other lanes are 0.
    unsafe fn load_part(p: *const u8, part: Self::Part) -> Self::V;
    /// Stores `LANES` elements of 32 bits.
    unsafe fn store(p: *mut u8, v: Self::V);
    /// Stores the elements of `part` and touches nothing beyond.
    unsafe fn store_part(p: *mut u8, v: Self::V, part: Self::Part);
    /// Stores past the caches; `p` is aligned to the vector.
    unsafe fn stream(p: *mut u8, v: Self::V);

    /// Begins nothing more before what was begun is done, on processors that run far ahead: loops that do little else than load
    /// and stream reach more of the bandwidth of memory.
    #[inline(always)]
    unsafe fn pace() {}

    /// Asks for the cache line of `p`, which need not be valid, in the second-level cache.
    unsafe fn prefetch(p: *const u8);

    /// As `load`, for 16-bit elements.
    unsafe fn load_h(p: *const u8) -> Self::H;
    /// As `load_part`, for 16-bit elements.
    unsafe fn load_h_part(p: *const u8, part: Self::Part) -> Self::H;
    /// As `store`, for 16-bit elements.
    unsafe fn store_h(p: *mut u8, v: Self::H);
    /// As `store_part`, for 16-bit elements.
    unsafe fn store_h_part(p: *mut u8, v: Self::H, part: Self::Part);
    /// As `stream`, for 16-bit elements.
    unsafe fn stream_h(p: *mut u8, v: Self::H);
    /// As `load`, for 8-bit elements.
    unsafe fn load_b(p: *const u8) -> Self::B;
    /// As `load_part`, for 8-bit elements.
    unsafe fn load_b_part(p: *const u8, part: Self::Part) -> Self::B;
    /// As `store`, for 8-bit elements.
    unsafe fn store_b(p: *mut u8, v: Self::B);
    /// As `store_part`, for 8-bit elements.
    unsafe fn store_b_part(p: *mut u8, v: Self::B, part: Self::Part);

    /// binary16 to binary32: exact; a NaN keeps its sign and payload and becomes quiet.
    unsafe fn widen_f16(h: Self::H) -> Self::V;
    /// bfloat16 to binary32: the bits move to the upper half.
    unsafe fn widen_bf16(h: Self::H) -> Self::V;
    /// Sign-extends 16 bits.
    unsafe fn widen_i16(h: Self::H) -> Self::V;
    /// Zero-extends 16 bits.
    unsafe fn widen_u16(h: Self::H) -> Self::V;
    /// Sign-extends 8 bits.
    unsafe fn widen_i8(b: Self::B) -> Self::V;
    /// Zero-extends 8 bits.
    unsafe fn widen_u8(b: Self::B) -> Self::V;
    /// binary32 to binary16, nearest even; a NaN keeps its sign and the upper 10 bits of its payload and becomes quiet.
    unsafe fn narrow_f16(v: Self::V) -> Self::H;
    /// binary32 to bfloat16, nearest even; a NaN keeps its sign and the upper 7 bits of its payload and becomes quiet.
    unsafe fn narrow_bf16(v: Self::V) -> Self::H;
    /// The low 16 bits.
    unsafe fn narrow_16(v: Self::V) -> Self::H;
    /// The low 8 bits.
    unsafe fn narrow_8(v: Self::V) -> Self::B;

    unsafe fn add_f(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub_f(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul_f(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div_f(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt_f(a: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    unsafe fn fma_f(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger, +0 above -0; any value where one is NaN.
    unsafe fn max_num(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller, -0 below +0; any value where one is NaN.
    unsafe fn min_num(a: Self::V, b: Self::V) -> Self::V;
    /// The larger; `x` where it is NaN or the two are equal. `low` is not NaN.
    unsafe fn at_least_f(x: Self::V, low: Self::V) -> Self::V;
    /// The smaller; `x` where it is NaN or the two are equal. `high` is not NaN.
    unsafe fn at_most_f(x: Self::V, high: Self::V) -> Self::V;
    /// `x`, or a number of its sign and the magnitude of `limit` where that is nearer to zero; `limit` where `x` is NaN.
    #[inline(always)]
    unsafe fn nearer_zero_f(x: Self::V, limit: Self::V) -> Self::V {
        // SAFETY: the caller vouches for the instruction set.
        unsafe {
            let bounded = Self::at_least_f(Self::at_most_f(x, limit), neg_f::<Self>(limit));
            Self::select(Self::unordered_f(x, x), limit, bounded)
        }
    }
    /// `x` where it is positive or NaN, +0 elsewhere.
    unsafe fn relu_f(x: Self::V) -> Self::V;
    /// `(m, e)` with `x = m * 2^e` and `m` in [0.75, 1.5), subnormal numbers included. `e` is -inf for zeros and inf for inf,
    /// with any finite `m`; `m` is NaN for NaN and numbers below 0.
    unsafe fn split_f(x: Self::V) -> (Self::V, Self::V);
    /// `x * 2^floor(n)`, rounded once; `x` is within [0.5, 4), `n` a multiple of 1/16 and within -151..=129, or either is NaN.
    unsafe fn scale_f(x: Self::V, n: Self::V) -> Self::V;
    unsafe fn trunc_f(x: Self::V) -> Self::V;
    unsafe fn floor_f(x: Self::V) -> Self::V;
    unsafe fn ceil_f(x: Self::V) -> Self::V;
    unsafe fn round_even_f(x: Self::V) -> Self::V;

    /// `a < b`.
    unsafe fn lt_f(a: Self::V, b: Self::V) -> Self::M;
    /// `a <= b`.
    unsafe fn le_f(a: Self::V, b: Self::V) -> Self::M;
    /// `a == b`.
    unsafe fn eq_f(a: Self::V, b: Self::V) -> Self::M;
    /// Whether `a` or `b` is NaN.
    unsafe fn unordered_f(a: Self::V, b: Self::V) -> Self::M;
    /// `a == b` of integers.
    unsafe fn eq_i(a: Self::V, b: Self::V) -> Self::M;
    /// `a > b` of signed integers.
    unsafe fn gt_i(a: Self::V, b: Self::V) -> Self::M;
    /// `a > b` of unsigned integers.
    unsafe fn gt_u(a: Self::V, b: Self::V) -> Self::M;
    /// The integer 1 where true, 0 elsewhere.
    unsafe fn truth(m: Self::M) -> Self::V;
    /// The integer 0 where true, 1 elsewhere.
    unsafe fn falsehood(m: Self::M) -> Self::V;
    /// `a` where true, `b` elsewhere.
    unsafe fn select(m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Whether any lane is true.
    unsafe fn any(m: Self::M) -> bool;
    /// Lane-wise or.
    unsafe fn or_m(a: Self::M, b: Self::M) -> Self::M;

    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;

    unsafe fn add_i(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub_i(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul_i(a: Self::V, b: Self::V) -> Self::V;
    /// Toward zero; 0 where `b` is 0; the one quotient that overflows wraps.
    unsafe fn div_i(a: Self::V, b: Self::V) -> Self::V;
    /// As `div_i`, for unsigned integers.
    unsafe fn div_u(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_i(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_i(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max_u(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min_u(a: Self::V, b: Self::V) -> Self::V;
    /// Logical shift left by each lane of `n`, unsigned: 0 from 32 on.
    unsafe fn shl_v(a: Self::V, n: Self::V) -> Self::V;
    /// Logical shift right by each lane of `n`, unsigned: 0 from 32 on.
    unsafe fn shr_v(a: Self::V, n: Self::V) -> Self::V;
    /// Arithmetic shift right by each lane of `n`, unsigned: the sign from 32 on.
    unsafe fn sra_v(a: Self::V, n: Self::V) -> Self::V;
    /// Logical shift left.
    unsafe fn shl<const K: i32>(a: Self::V) -> Self::V;
    /// Arithmetic shift right.
    unsafe fn sra<const K: i32>(a: Self::V) -> Self::V;
    /// Signed integer to binary32, nearest even.
    unsafe fn i32_to_f32(a: Self::V) -> Self::V;
    /// Unsigned integer to binary32, nearest even.
    unsafe fn u32_to_f32(a: Self::V) -> Self::V;
    /// Integral binary32, at least +0, to unsigned integer; `u32::MAX` where it does not fit, anything for NaN.
    unsafe fn f32_to_u32_raw(a: Self::V) -> Self::V;
    /// Integral binary32 to signed integer; `i32::MIN` where it does not fit and for NaN.
    unsafe fn f32_to_i32_raw(a: Self::V) -> Self::V;
}
