//! 16-bit floats to and from binary32, bit by bit: the meaning that every instruction set has to match.
//!
//! The functions are branch-free where it matters, so loops over them vectorise. Rounding is to nearest even, with
//! subnormal results and inputs exact. A NaN keeps its sign and the upper bits of its payload and becomes quiet.

/// binary16 to binary32; exact.
#[inline(always)]
pub const fn f16_to_f32(bits: u16) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    let sign = ((bits & 0x8000) as u32) << 16;
    let shifted = ((bits & 0x7fff) as u32) << 13;
    let exponent = shifted & 0x0f80_0000;
    let magnitude = if exponent == 0x0f80_0000 {
        // Infinity, or a NaN that gets its quiet bit.
        let quiet = if shifted & 0x007f_ffff == 0 { 0 } else { 0x0040_0000 };
        (shifted + 2 * REBIAS) | quiet
    } else if exponent == 0 {
        // A subnormal: put it below the leading one of 2^-14 and take that away; the difference is exact.
        const TINY: u32 = REBIAS + (1 << 23);
        (f32::from_bits(shifted + TINY) - f32::from_bits(TINY)).to_bits()
    } else {
        shifted + REBIAS
    };
    f32::from_bits(magnitude | sign)
}

/// binary32 to binary16, rounded to nearest even.
#[inline(always)]
pub const fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00 | ((magnitude >> 13) & 0x3ff)
    } else if magnitude >= 0x477f_f000 {
        // 65520 and above: half a unit past the largest finite number, the tie goes to infinity.
        0x7c00
    } else if magnitude < 0x3880_0000 {
        // Below 2^-14: the last place of [0.5, 1) is 2^-24, which is the unit of the subnormals, so the addition rounds.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        // A carry out of the mantissa moves into the exponent, as it should.
        (magnitude + 0xfff + ((magnitude >> 13) & 1) - ((127 - 15) << 23)) >> 13
    };
    (half | sign) as u16
}

/// bfloat16 to binary32; exact, bits of a NaN included.
#[inline(always)]
pub const fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// binary32 to bfloat16, rounded to nearest even.
#[inline(always)]
pub const fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = if x.is_nan() { bits | 0x0040_0000 } else { bits + 0x7fff + ((bits >> 16) & 1) };
    (rounded >> 16) as u16
}
