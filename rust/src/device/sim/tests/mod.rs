//! The chip against a plain interpreter of programs.

mod behaviour;
mod blocks;
mod fusing;
mod mutants;
mod operations;
mod products;
mod profiles;
mod random;
mod reference;
mod replays;
mod run;
mod tasks;

use crate::dtype::DType;
use crate::kernels::Isa;
use proptest::prelude::*;
use random::{COLS, ROWS, TENSORS};
use reference::Matrix;

fn memory() -> Vec<Matrix> {
    TENSORS
        .iter()
        .enumerate()
        .map(|(tensor, &dtype)| {
            let (rows, cols) = (ROWS as usize + 2, COLS as usize);
            let value = |at: usize| (at * 7 + tensor * 3) as i32 % 23 - 9;
            let bits = |value: i32| match dtype {
                dtype if dtype.is_float() => u64::from((value as f32 * 0.5).to_bits()),
                DType::U8 => u64::from(value as u8),
                _ => value as i64 as u64,
            };
            Matrix { dtype, rows, cols, data: (0..rows * cols).map(|at| Some(bits(value(at)))).collect() }
        })
        .collect()
}

/// Equal bits, any NaN equal to any NaN; what the reference leaves undefined may be anything.
fn assert_same(chip: &[Matrix], reference: &[Matrix], context: &str) {
    for (tensor, (chip, reference)) in chip.iter().zip(reference).enumerate() {
        for (at, (got, want)) in chip.data.iter().zip(&reference.data).enumerate() {
            let (Some(got), Some(want)) = (*got, *want) else { continue };
            let nan = |bits: u64| chip.dtype.is_float() && f32::from_bits(bits as u32).is_nan();
            assert!(
                got == want || (nan(got) && nan(want)),
                "{context}: tensor {tensor} ({}) at [{}, {}]: got {} ({got:#x}), want {} ({want:#x})",
                chip.dtype,
                at / chip.cols,
                at % chip.cols,
                show(got, chip.dtype),
                show(want, chip.dtype)
            );
        }
    }
}

fn show(bits: u64, dtype: DType) -> String {
    if dtype.is_float() { f32::from_bits(bits as u32).to_string() } else { (bits as i64).to_string() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_give_what_a_plain_interpreter_gives(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        rows in 0..=u64::from(ROWS),
    ) {
        let program = random::program(&bytes);
        let mut expected = memory();
        if !reference::run(&program, &mut expected, &[rows as i64]) {
            return Ok(());
        }
        for isa in Isa::available() {
            let mut got = memory();
            run::run_on(&program, &mut got, &[rows], isa, 2).unwrap();
            assert_same(&got, &expected, &format!("{isa}\n{}", random::listing(&program.kernels[0].body, 0)));
        }
    }
}
