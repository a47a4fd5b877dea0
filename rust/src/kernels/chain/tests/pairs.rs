//! Functions of two lanes on pairs of lanes that are hard together: divisors of zero and -1, counts of shifts, remainders of
//! quotients of every size.

use super::program::{FLOAT_BINARY, FLOAT_TO_INT, INT_BINARY};
use super::*;
use crate::kernels::chain::{BinaryFn, Dst, Src};
use proptest::prelude::*;

/// Each function of each pair against the reference, on every instruction set.
#[track_caller]
fn check(functions: &[BinaryFn], dtype: DType, pairs: &[(u32, u32)]) {
    let mut operands = vec![Operand::new(dtype, 1, pairs.len(), 0, 0); 2];
    for (col, &(a, b)) in pairs.iter().enumerate() {
        operands[0].set(0, col, a);
        operands[1].set(0, col, b);
    }
    for &f in functions {
        let result = if FLOAT_TO_INT.contains(&f) { DType::I32 } else { dtype };
        let body = [Inst::Load(Src::Mem(0)), Inst::Binary(f, Src::Mem(1)), Inst::Store(Dst::Mem(2))];
        let results = Operand::new(result, 1, pairs.len(), 0, 0);
        let operands = operands.iter().cloned().chain([results]).collect();
        let case = Case { rows: 1, cols: pairs.len(), first: [0; 2], operands, scalars: vec![] };
        case.check(&chain(&[dtype, dtype, result], &body));
    }
}

fn all_pairs(lanes: &[u32]) -> Vec<(u32, u32)> {
    lanes.iter().flat_map(|&a| lanes.iter().map(move |&b| (a, b))).collect()
}

#[test]
fn integers_at_the_ends_of_their_ranges_and_counts_of_shifts_are_right_in_every_pair() {
    let more = [3, 30, 31, 32, 33, 63, 64, i32::MAX - 1, i32::MIN + 1, -2];
    let lanes: Vec<_> = INTEGERS.iter().chain(&more).map(|&lane| lane as u32).collect();
    check(&INT_BINARY, DType::I32, &all_pairs(&lanes));
}

#[test]
fn hard_numbers_are_right_in_every_pair() {
    let lanes = FLOATS.map(f32::to_bits);
    check(&FLOAT_BINARY, DType::F32, &all_pairs(&lanes));
    check(&FLOAT_TO_INT, DType::F32, &all_pairs(&lanes));
}

#[test]
fn a_zero_that_a_remainder_leaves_has_a_sign() {
    // The comparison of operands takes zeros of either sign for different.
    let pairs = [(4.0, 2.0), (-4.0, 2.0), (4.0, -2.0), (-4.0, -2.0), (0.0, -1.0), (-0.0, 1.0), (-1.0, f32::INFINITY)];
    let expected =
        [(0.0, 0.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0), (0.0, -0.0), (-0.0, 0.0), (-1.0, f32::INFINITY)];
    for ((a, b), (fmod, rem)) in pairs.into_iter().zip(expected) {
        let (a, b): (f32, f32) = (a, b);
        for (f, expected) in [(BinaryFn::FmodF, fmod), (BinaryFn::RemF, rem)] {
            let result = f32::from_bits(reference::binary(f, a.to_bits(), b.to_bits()));
            assert_eq!(result.to_bits(), f32::to_bits(expected), "{f:?}({a}, {b}) is {result}");
            check(&[f], DType::F32, &[(a.to_bits(), b.to_bits())]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn integers_are_right_in_random_pairs(pairs in prop::collection::vec(any::<(u32, u32)>(), 1..200), shift in 0u32..32) {
        let pairs: Vec<_> = pairs.into_iter().map(|(a, b)| (a, b >> shift)).collect();
        check(&INT_BINARY, DType::I32, &pairs);
    }

    #[test]
    fn remainders_are_exact_whatever_the_quotient(pairs in prop::collection::vec(any::<(u32, u32)>(), 1..200), near in -40i32..40) {
        // The second number is near the first, so that quotients of every size come up; then as random as the first.
        let close = |a: u32, b: u32| (f32::from_bits(a) * 2f32.powi(near) * (1.0 + (b % 97) as f32 / 97.0)).to_bits();
        let near: Vec<_> = pairs.iter().map(|&(a, b)| (a, close(a, b))).collect();
        check(&[BinaryFn::FmodF, BinaryFn::RemF], DType::F32, &near);
        check(&[BinaryFn::FmodF, BinaryFn::RemF], DType::F32, &pairs);
    }
}
