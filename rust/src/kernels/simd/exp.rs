//! The exponential function.

use super::Simd;

const LOW: f32 = -104.0; // exp is below half the smallest subnormal
const HIGH: f32 = 89.0; // exp is beyond the largest finite number

/// More than ln(2)/32, which `|r|` is at most for every `x` whose exponential is neither 0 nor infinite.
const LIMIT: f32 = 0.03;

/// 1.5 * 2^19: adding it leaves a multiple of 1/16, with the sixteenths in the low four bits.
const MAGIC: f32 = 786_432.0;

pub(super) const LN2_HIGH: f32 = std::f32::consts::LN_2;
pub(super) const LN2_LOW: f32 = -1.904_654_3e-9;

/// `(exp(r) - 1 - r) / r^2` for `|r|` up to ln(2)/32: the minimax of `exp`. Its error is 2^-29.
pub(super) const COEFFICIENTS: [f32; 2] = [0.500_016_15, 0.166_666_67];

/// `2^(i/16)`.
pub(super) const ROOTS: [f32; 16] = {
    let bits = [
        0x3f80_0000,
        0x3f85_aac3,
        0x3f8b_95c2,
        0x3f91_c3d3,
        0x3f98_37f0,
        0x3f9e_f532,
        0x3fa5_fed7,
        0x3fad_583f,
        0x3fb5_04f3,
        0x3fbd_08a4,
        0x3fc5_672a,
        0x3fce_248c,
        0x3fd7_44fd,
        0x3fe0_ccdf,
        0x3fea_c0c7,
        0x3ff5_257d,
    ];
    let mut roots = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        roots[i] = f32::from_bits(bits[i]);
        i += 1;
    }
    roots
};

/// `exp(x)`: `x = n ln 2 + r` with `n` in sixteenths, a short polynomial in `r`, times `2^n` by a table and a scaling. Without the
/// table the polynomial has three more terms, which take a sixth longer.
///
/// Far from 0, `r` is anything. Where scaling by any number gives 0, infinity and NaN, a bound on `r` is enough: one
/// instruction instead of the two that bound `x`.
#[inline(always)]
pub(crate) unsafe fn exp_f<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let c = |value: f32| S::splat(value.to_bits());
        let x = if S::SCALES_BY_ANY { x } else { S::at_least_f(S::at_most_f(x, c(HIGH)), c(LOW)) };
        let sixteenths = S::fma_f(x, c(std::f32::consts::LOG2_E), c(MAGIC));
        let n = S::sub_f(sixteenths, c(MAGIC));
        let r = S::fma_f(n, c(-LN2_HIGH), x);
        let r = S::fma_f(n, c(-LN2_LOW), r);
        let r = if S::SCALES_BY_ANY { S::nearer_zero_f(r, c(LIMIT)) } else { r };
        let root = S::pick(&ROOTS, sixteenths);
        let [c2, c3] = COEFFICIENTS;
        let p = S::fma_f(S::fma_f(c(c3), r, c(c2)), S::mul_f(r, r), r);
        S::scale_f(S::fma_f(root, p, root), n)
    }
}

/// The exponential of every number of at most this magnitude is normal.
pub(super) const NEAR_ZERO: f32 = 87.0;

/// Where the exponent of binary32 begins, less the four bits of sixteenths.
const SIXTEENTHS_TO_EXPONENT: i32 = 23 - 4;

/// What [`exp_near`] loads.
#[repr(C, align(32))]
struct Near {
    log2_e: [f32; 8],
    magic: [f32; 8],
    ln2: [[f32; 8]; 2],
    coefficients: [[f32; 8]; 2],
    /// [`ROOTS`] without what their own index, shifted to the exponent, adds to it.
    roots: [f32; 16],
}

static NEAR: Near = {
    let mut roots = ROOTS;
    let mut i = 0;
    while i < 16 {
        roots[i] = f32::from_bits(ROOTS[i].to_bits() - ((i as u32) << SIXTEENTHS_TO_EXPONENT));
        i += 1;
    }
    let [c2, c3] = COEFFICIENTS;
    Near {
        log2_e: [std::f32::consts::LOG2_E; 8],
        magic: [MAGIC; 8],
        ln2: [[-LN2_HIGH; 8], [-LN2_LOW; 8]],
        coefficients: [[c2; 8], [c3; 8]],
        roots,
    }
};

/// Whether all of the numbers whose largest magnitude, lane by lane and as an integer, this is may go through [`exp_near`].
#[inline(always)]
pub(crate) unsafe fn is_near<S: Simd>(largest: S::V) -> bool {
    // SAFETY: the caller vouches for the instruction set.
    // As an integer, NaN is larger than any number.
    unsafe { !S::any(S::gt_i(largest, S::splat(NEAR_ZERO.to_bits()))) }
}

/// The same number as [`exp_f`] gives, for numbers near 0 and vectors of eight lanes. Scaling is an addition to the exponent of
/// the root: two instructions instead of twelve, and no bounds.
///
/// The constants are loaded for each vector, and only once `before` is done. With a register for each, and vectors begun
/// together, a chunk does not fit the sixteen registers of AVX2: an exponential took 69 cycles a chunk instead of 42.
#[inline(always)]
pub(crate) unsafe fn exp_near<S: Simd>(x: S::V, before: S::V) -> S::V {
    debug_assert_eq!(S::LANES, 8);
    // SAFETY: the caller vouches for the instruction set; the loads are from the table.
    unsafe {
        let near = &*S::after(before, &NEAR);
        let c = |lanes: &[f32; 8]| S::load(lanes.as_ptr().cast());
        let sixteenths = S::fma_f(x, c(&near.log2_e), c(&near.magic));
        let n = S::sub_f(sixteenths, c(&near.magic));
        let r = S::fma_f(n, c(&near.ln2[0]), x);
        let r = S::fma_f(n, c(&near.ln2[1]), r);
        let p = S::fma_f(c(&near.coefficients[1]), r, c(&near.coefficients[0]));
        let p = S::fma_f(p, S::mul_f(r, r), r);
        // Nothing is left of the bits of `MAGIC` itself.
        let exponent = S::shl::<SIXTEENTHS_TO_EXPONENT>(sixteenths);
        let power = S::add_i(S::pick(&near.roots, sixteenths), exponent);
        S::fma_f(power, p, power)
    }
}
