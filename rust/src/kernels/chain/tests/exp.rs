//! Accuracy of `exp`, and its special values.

use super::*;
use crate::kernels::chain::{Dst, Src, UnaryFn};

/// `exp` of each of the numbers.
fn exp(inputs: &[f32], isa: Isa) -> Vec<f32> {
    let body = [Inst::Load(Src::Mem(0)), Inst::Unary(UnaryFn::ExpF), Inst::Store(Dst::Mem(1))];
    let mut operands = vec![Operand::new(DType::F32, 1, inputs.len(), 0, 0); 2];
    for (col, x) in inputs.iter().enumerate() {
        operands[0].set(0, col, x.to_bits());
    }
    let mut case = Case { rows: 1, cols: inputs.len(), first: [0; 2], operands, scalars: vec![] };
    case.run(&chain(&[DType::F32; 2], &body), isa);
    (0..inputs.len()).map(|col| f32::from_bits(case.operands[1].get(0, col))).collect()
}

/// Distance from the exact result in units in the last place of a binary32 of its size.
fn error(x: f32, result: f32) -> f64 {
    let exact = f64::from(x).exp();
    if exact > f64::from(f32::MAX) {
        // Rounds to infinity from half a unit above the largest number on.
        let infinite = exact >= f64::from(f32::MAX) + 2f64.powi(103);
        return if result.is_infinite() && infinite { 0.0 } else { (f64::from(result) - exact).abs() / 2f64.powi(104) };
    }
    let exponent = (exact.to_bits() >> 52) as i32 - 1023;
    (f64::from(result) - exact).abs() / 2f64.powi(exponent.max(-126) - 23)
}

/// The largest error over the binary32 numbers with these bits.
fn largest_error(bits: impl Iterator<Item = u32>, isa: Isa) -> f64 {
    let inputs: Vec<_> = bits.map(f32::from_bits).filter(|x| !x.is_nan()).collect();
    let results = exp(&inputs, isa);
    inputs.iter().zip(results).map(|(&x, y)| error(x, y)).fold(0.0, f64::max)
}

/// What the instruction promises; the worst over all numbers is 1.02.
const LIMIT: f64 = 2.0;

#[test]
fn exp_is_within_two_units_in_the_last_place_on_a_sample() {
    for isa in Isa::available() {
        let error = largest_error((0..u32::MAX).step_by(10_007), isa);
        assert!(error < LIMIT, "{isa}: {error}");
        // The ends, where results become subnormal, zero and infinite.
        for end in [88.722_84f32, -87.336_54, -103.278_93, -103.972_08, 1e-30, -1e-30] {
            let error = largest_error(end.to_bits() - 2000..end.to_bits() + 2000, isa);
            assert!(error < LIMIT, "{isa}, around {end}: {error}");
        }
    }
}

#[test]
#[ignore = "looks at every binary32: minutes"]
fn exp_is_within_two_units_in_the_last_place_everywhere() {
    // The instruction sets are shown to agree elsewhere.
    let isa = Isa::detect();
    let worst =
        (0..=u32::MAX >> 16).map(|high| largest_error((high << 16)..=(high << 16 | 0xffff), isa)).fold(0.0, f64::max);
    assert!(worst < LIMIT, "{worst}");
}

#[test]
fn exp_knows_its_special_values() {
    let inputs = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 89.0, 1e30, -104.0, -1e30, 88.722_83, -103.0];
    for isa in Isa::available() {
        let results = exp(&inputs, isa);
        assert_eq!(results[..4], [1.0, 1.0, f32::INFINITY, 0.0], "{isa}");
        assert!(results[4].is_nan(), "{isa}");
        assert_eq!(results[5..9], [f32::INFINITY, f32::INFINITY, 0.0, 0.0], "{isa}");
        assert!(results[9].is_finite() && results[9] > 3.4e38, "{isa}");
        assert_eq!(results[10], 1e-45, "{isa}");
    }
}
