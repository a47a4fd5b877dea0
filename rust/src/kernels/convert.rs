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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Bits of binary32 numbers at which a conversion to either half type may turn: each half, the midpoints between
    /// neighbours, and the binary32 numbers beside them; NaNs of all kinds.
    pub(crate) fn turning_points() -> impl Iterator<Item = u32> {
        let around = |bits: u32| [bits.wrapping_sub(1), bits, bits.wrapping_add(1)];
        let f16 = (0..=0xffff_u16).flat_map(move |half| {
            let low = f16_to_f32(half);
            let high = f16_to_f32(half.wrapping_add(1));
            // The largest number and infinity meet where the next number would have been.
            let high = if high.is_infinite() { 65_536f32.copysign(high) } else { high };
            [around(low.to_bits()), around(((low + high) / 2.0).to_bits())]
        });
        let bf16 = (0..=0xffff_u32).flat_map(move |half| [around(half << 16), around(half << 16 | 0x8000)]);
        f16.chain(bf16).flatten().chain([0x7f80_0001, 0xff80_1fff, 0x7fff_ffff, 0xffff_ffff])
    }

    /// Rounds by integers: the magnitude as a multiple of 2^-149 (exact), in units of the half type's spacing there.
    fn by_integers(x: f32, mantissa_bits: u32, max_exponent: i32) -> u16 {
        let bits = x.to_bits();
        let exponent_bits = 15 - mantissa_bits;
        let infinity = ((1u32 << exponent_bits) - 1) << mantissa_bits;
        let sign = (bits >> 31) << 15;
        let (exponent, mantissa) = ((bits >> 23 & 0xff) as i32, u128::from(bits & 0x7f_ffff));
        let magnitude = if exponent == 0xff {
            let quiet = (1 << (mantissa_bits - 1)) | (mantissa as u32 >> (23 - mantissa_bits));
            infinity | if mantissa == 0 { 0 } else { quiet }
        } else {
            // value = significand * 2^(power - 149)
            let (significand, power) = if exponent == 0 { (mantissa, 0) } else { (mantissa | 1 << 23, exponent - 1) };
            // 2^unit is the spacing of the half type: by the exponent of the number, but no finer than its subnormals'.
            let top = if significand == 0 { 0 } else { significand.ilog2() as i32 } + power - 149;
            let unit = top.max(1 - max_exponent) - mantissa_bits as i32;
            let shift = unit + 149 - power;
            let count = if shift <= 0 {
                (significand << -shift) as u32
            } else {
                let (whole, rest) = (significand >> shift, significand & ((1 << shift) - 1));
                let half = 1 << (shift - 1);
                (whole + u128::from(rest > half || (rest == half && whole & 1 == 1))) as u32
            };
            // Counting in units from the start of the binade: a carry into the next one is right by itself.
            let binade = (unit + mantissa_bits as i32 - (1 - max_exponent)) as u32;
            (count + (binade << mantissa_bits)).min(infinity)
        };
        (magnitude | sign) as u16
    }

    #[test]
    fn every_half_widens_to_its_value() {
        for bits in 0..=0xffff {
            assert_eq!(f16_to_f32(bits).to_bits(), half::f16::from_bits(bits).to_f32().to_bits(), "f16 {bits:#06x}");
            assert_eq!(bf16_to_f32(bits).to_bits(), u32::from(bits) << 16, "bf16 {bits:#06x}");
        }
    }

    #[test]
    fn every_half_comes_back_from_binary32() {
        for bits in 0..=0xffff {
            let quiet = |nan: bool, bit: u16| if nan { bits | bit } else { bits };
            let wide = f16_to_f32(bits);
            assert_eq!(f32_to_f16(wide), quiet(wide.is_nan(), 0x0200), "f16 {bits:#06x}");
            let wide = bf16_to_f32(bits);
            assert_eq!(f32_to_bf16(wide), quiet(wide.is_nan(), 0x0040), "bf16 {bits:#06x}");
        }
    }

    #[test]
    fn numbers_around_every_half_and_every_midpoint_round_to_nearest_even() {
        for bits in turning_points() {
            let x = f32::from_bits(bits);
            assert_eq!(f32_to_f16(x), by_integers(x, 10, 15), "f16 of {x:?} ({bits:#010x})");
            assert_eq!(f32_to_f16(x), half::f16::from_f32(x).to_bits(), "f16 of {x:?} ({bits:#010x}), crate half");
            assert_eq!(f32_to_bf16(x), by_integers(x, 7, 127), "bf16 of {x:?} ({bits:#010x})");
            assert_eq!(f32_to_bf16(x), half::bf16::from_f32(x).to_bits(), "bf16 of {x:?} ({bits:#010x}), crate half");
        }
    }

    #[test]
    fn carries_out_of_the_mantissa_reach_the_exponent() {
        let cases = [
            (-0.031_243_186, 0xa800),
            (0.124_992_706, 0x3000),
            (-0.124_975_39, 0xb000),
            (0.9998, 0x3c00),
            (0.99976, 0x3c00),
            (1.999_511_8, 0x4000),
            (0.499_877_93, 0x3800),
            (65_519.0, 0x7bff),
            (5.96e-8, 0x0001),
            (2.98e-8, 0x0000),
        ];
        for (x, half) in cases {
            assert_eq!(f32_to_f16(x), half, "{x}");
        }
    }
}
