//! Random programs on random regions: every instruction set gives what the reference gives.

use super::program::{Choices, generate};
use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_give_the_same_bits_as_the_reference(
        choices in prop::collection::vec(any::<u32>(), 0..160),
        rows in 1usize..5,
        cols in prop::sample::select(SIZES.to_vec()),
        gap in prop::sample::select(vec![0usize, 0, 4, 64]),
        first in prop::sample::select(vec![[0, 0], [5, 1000]]),
        seed in 0usize..1000,
        values in prop::sample::select(vec![Values::Hard, Values::Tame]),
    ) {
        let (program, repeated) = generate(Choices(choices.iter()));
        let operands = program.mems.iter().zip(&repeated).enumerate().map(|(i, (decl, &repeated))| {
            let mut operand = if repeated {
                Operand::repeated(decl.dtype, cols)
            } else {
                Operand::new(decl.dtype, rows, cols, gap, gap / 4)
            };
            fill(&mut operand, if repeated { 1 } else { rows }, cols, values, seed + i * 101);
            operand
        });
        let case = Case { rows, cols, first, operands: operands.collect(), scalars: vec![lane(DType::F32, values, seed), lane(DType::I32, values, seed)] };
        case.check(&program);
    }
}
