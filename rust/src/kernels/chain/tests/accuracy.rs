//! Accuracy of the functions that are not rounded correctly, the same bits on every instruction set, and special values.

use super::*;
use crate::kernels::chain::{Dst, Src, UnaryFn};

/// A function in binary64.
type Exact = fn(f64) -> f64;

/// The functions with what they should be in binary64, whose own error is a 2^-28th of what is measured.
const FUNCTIONS: [(UnaryFn, Exact); 5] = [
    (UnaryFn::ExpF, f64::exp),
    (UnaryFn::LogF, f64::ln),
    (UnaryFn::SinF, f64::sin),
    (UnaryFn::CosF, f64::cos),
    (UnaryFn::RsqrtF, |x| 1.0 / x.sqrt()),
];

/// What the instructions promise. The worst over all numbers: exp 0.99, log 0.94, sin, cos and rsqrt 1.49.
const LIMIT: f64 = 2.0;

/// The function of each of the numbers.
fn apply(f: UnaryFn, inputs: &[f32], isa: Isa) -> Vec<f32> {
    let body = [Inst::Load(Src::Mem(0)), Inst::Unary(f), Inst::Store(Dst::Mem(1))];
    let mut operands = vec![Operand::new(DType::F32, 1, inputs.len(), 0, 0); 2];
    for (col, x) in inputs.iter().enumerate() {
        operands[0].set(0, col, x.to_bits());
    }
    let mut case = Case { rows: 1, cols: inputs.len(), first: [0; 2], operands, scalars: vec![] };
    case.run(&chain(&[DType::F32; 2], &body), isa);
    (0..inputs.len()).map(|col| f32::from_bits(case.operands[1].get(0, col))).collect()
}

/// Distance from the exact result in units in the last place of a binary32 of its size; 0 where both are NaN, the same
/// infinity or zero.
fn error(exact: f64, result: f32) -> f64 {
    if exact.is_nan() || result.is_nan() {
        return if exact.is_nan() && result.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if exact.abs() > f64::from(f32::MAX) {
        // Rounds to infinity from half a unit above the largest number on.
        let infinite = exact.abs() >= f64::from(f32::MAX) + 2f64.powi(103);
        let same = result.is_infinite() && (result > 0.0) == (exact > 0.0);
        return if same && infinite { 0.0 } else { (f64::from(result) - exact).abs() / 2f64.powi(104) };
    }
    let exponent = (exact.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    (f64::from(result) - exact).abs() / 2f64.powi(exponent.max(-126) - 23)
}

/// The largest error over these numbers, and where it is.
fn largest_error(results: &[f32], inputs: &[f32], exact: Exact) -> (f64, f32) {
    let errors = inputs.iter().zip(results).map(|(&x, &y)| (error(exact(f64::from(x)), y), x));
    errors.fold((0.0, 0.0), |worst, other| if other.0 > worst.0 { other } else { worst })
}

/// Every 10,007th number, and all around the places where something changes.
fn sample() -> Vec<f32> {
    let ends = [
        // exp: results become subnormal, zero, infinite.
        88.722_84,
        -87.336_54,
        -103.278_93,
        -103.972_08,
        1e-30,
        -1e-30,
        // log: the range of the polynomial ends, 1, the smallest normal number.
        0.75,
        1.5,
        1.0,
        f32::MIN_POSITIVE,
        // sin and cos: multiples of pi/2, the end of the vectors' reach, numbers very close to a multiple.
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::PI,
        355.0,
        32_768.0,
        103_993.0,
        16_367_173.0 * 4_722_366_482_869_645_213_696.0,
        f32::MAX,
    ];
    let all = (0..u32::MAX).step_by(10_007).map(f32::from_bits);
    let near = ends.into_iter().flat_map(|end: f32| (end.to_bits() - 2000..end.to_bits() + 2000).map(f32::from_bits));
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(1), f32::MIN];
    all.chain(near).chain(special).collect()
}

#[test]
fn functions_are_within_two_units_in_the_last_place_and_the_same_everywhere_on_a_sample() {
    let inputs = sample();
    for (f, exact) in FUNCTIONS {
        let generic = apply(f, &inputs, Isa::Generic);
        let (error, at) = largest_error(&generic, &inputs, exact);
        assert!(error < LIMIT, "{f:?}: {error} at {at:?}");
        for isa in Isa::available() {
            let results = apply(f, &inputs, isa);
            for ((x, a), b) in inputs.iter().zip(&generic).zip(results) {
                assert!(
                    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                    "{f:?}({x:?}) is {a:?}, {b:?} on {isa}"
                );
            }
        }
    }
}

#[test]
#[ignore = "looks at every binary32: minutes"]
fn functions_are_within_two_units_in_the_last_place_everywhere() {
    for (f, exact) in FUNCTIONS {
        let mut worst = (0.0, 0.0);
        for high in 0..=u32::MAX >> 16 {
            let inputs: Vec<_> = (high << 16..=(high << 16 | 0xffff)).map(f32::from_bits).collect();
            let results = apply(f, &inputs, Isa::detect());
            let here = largest_error(&results, &inputs, exact);
            worst = if here.0 > worst.0 { here } else { worst };
        }
        assert!(worst.0 < LIMIT, "{f:?}: {} at {:?}", worst.0, worst.1);
    }
}

/// Bits, so that the signs of zeros count.
#[track_caller]
fn gives(f: UnaryFn, cases: &[(f32, f32)]) {
    let inputs: Vec<_> = cases.iter().map(|case| case.0).collect();
    for isa in Isa::available() {
        for (result, (x, expected)) in apply(f, &inputs, isa).into_iter().zip(cases) {
            let same = result.to_bits() == expected.to_bits() || result.is_nan() && expected.is_nan();
            assert!(same, "{f:?}({x:?}) is {result:?} on {isa}, not {expected:?}");
        }
    }
}

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

#[test]
fn exp_knows_its_special_values() {
    let ends = [(INF, INF), (-INF, 0.0), (NAN, NAN), (89.0, INF), (1e30, INF), (-104.0, 0.0), (-1e30, 0.0)];
    gives(UnaryFn::ExpF, &[(0.0, 1.0), (-0.0, 1.0), (-103.0, 1e-45)]);
    gives(UnaryFn::ExpF, &ends);
    for isa in Isa::available() {
        let large = apply(UnaryFn::ExpF, &[88.722_83], isa)[0];
        assert!(large.is_finite() && large > 3.4e38, "{isa}: {large}");
    }
}

#[test]
fn exponentials_near_0_do_not_depend_on_what_stands_beside_them() {
    // 640 numbers are several chunks; in some of them all are small, in others one is not.
    let near: Vec<f32> = (0..640).map(|i| (i as f32 - 320.0) * (87.0 / 320.0)).collect();
    for isa in Isa::available() {
        let alone: Vec<_> = near.iter().map(|&x| apply(UnaryFn::ExpF, &[x], isa)[0].to_bits()).collect();
        for far in [87.0, -87.0, 87.000_01, -87.000_01, 1e9, -INF, INF, NAN] {
            for place in [0, 63, 64, 200, 639] {
                let mut mixed = near.clone();
                mixed[place] = far;
                let beside = apply(UnaryFn::ExpF, &mixed, isa);
                let differs = (0..640).find(|&i| i != place && beside[i].to_bits() != alone[i]);
                assert_eq!(differs, None, "{far} at {place} on {isa}");
                let (a, b) = (beside[place], apply(UnaryFn::ExpF, &[far], isa)[0]);
                assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{far} on {isa}: {a}, alone {b}");
            }
        }
    }
}

#[test]
fn log_and_the_reciprocal_root_know_their_special_values() {
    let outside = [(-1.0, NAN), (-1e-45, NAN), (f32::MIN, NAN), (-INF, NAN), (NAN, NAN)];
    gives(UnaryFn::LogF, &outside);
    gives(UnaryFn::RsqrtF, &outside);
    gives(UnaryFn::LogF, &[(0.0, -INF), (-0.0, -INF), (INF, INF), (1.0, 0.0), (1e-45, -103.278_93)]);
    gives(UnaryFn::RsqrtF, &[(0.0, INF), (-0.0, -INF), (INF, 0.0), (1.0, 1.0), (0.25, 2.0)]);
}

#[test]
fn sine_and_cosine_know_their_special_values() {
    let outside = [(INF, NAN), (-INF, NAN), (NAN, NAN)];
    gives(UnaryFn::SinF, &outside);
    gives(UnaryFn::CosF, &outside);
    gives(UnaryFn::SinF, &[(0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45), (-1e-45, -1e-45), (1e-20, 1e-20)]);
    gives(UnaryFn::CosF, &[(0.0, 1.0), (-0.0, 1.0), (1e-45, 1.0), (-1e-20, 1.0)]);
}

#[test]
fn a_large_lane_leaves_its_neighbours_alone() {
    for f in [UnaryFn::SinF, UnaryFn::CosF] {
        let small: Vec<f32> = (0..200).map(|i| i as f32 * 0.37 - 30.0).collect();
        let mut mixed = small.clone();
        mixed.iter_mut().step_by(7).for_each(|x| *x *= 1e30);
        for isa in Isa::available() {
            let (alone, beside) = (apply(f, &small, isa), apply(f, &mixed, isa));
            let same = (0..200).filter(|i| i % 7 != 0).all(|i| alone[i].to_bits() == beside[i].to_bits());
            assert!(same, "{f:?} on {isa}");
        }
    }
}
