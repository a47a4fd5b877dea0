//! Every kernel against one naive loop, bit for bit.
#![allow(unsafe_code)] // runs kernels on addresses

mod harness;
mod parts;

use super::*;
use harness::{Aligned, Case, Random, Values};

const TYPES: [(DType, DType); 10] = [
    (DType::F32, DType::F32),
    (DType::F32, DType::F16),
    (DType::F32, DType::BF16),
    (DType::F16, DType::F32),
    (DType::F16, DType::F16),
    (DType::F16, DType::BF16),
    (DType::BF16, DType::F32),
    (DType::BF16, DType::F16),
    (DType::BF16, DType::BF16),
    (DType::I8, DType::I32),
];

const EXTENTS: [usize; 32] = [
    1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 23, 24, 29, 31, 32, 33, 37, 47, 48, 49, 61, 64, 65, 70,
    128, 257,
];

fn cases(dtype: DType, out: DType, count: usize) -> impl Iterator<Item = Case> {
    let mut random = Random(dtype as u64 * 31 + out as u64);
    std::iter::from_fn(move || {
        loop {
            let [m, n, k] = [0; 3].map(|_| random.pick(&EXTENTS));
            if m * n * k > 150_000 {
                continue;
            }
            let [a_trans, b_trans, acc, bias, at_end] = [0; 5].map(|_| random.next().is_multiple_of(2));
            let spec = MatMulSpec { dtype, a_trans, b_trans, out };
            let values = [random.pick(&[Values::Tame, Values::Tame, Values::Any, Values::Tiny]); 2];
            let pad = random.pick(&[0, 0, 3, 16]);
            let case = Case { spec, m, n, k, acc, bias, pad, at_end, values, seed: u64::from(random.next()) };
            return Some(case);
        }
    })
    .take(count)
}

fn agrees(isa: Isa) {
    for (dtype, out) in TYPES {
        for case in cases(dtype, out, 80) {
            case.check(isa);
        }
    }
}

fn agrees_where_available(isa: Isa) {
    if Isa::available().contains(&isa) {
        agrees(isa);
    }
}

#[test]
fn generic_kernels_agree_with_one_naive_loop() {
    agrees(Isa::Generic);
}

#[test]
fn avx2_kernels_agree_with_one_naive_loop() {
    agrees_where_available(Isa::Avx2);
}

#[test]
fn avx512_kernels_agree_with_one_naive_loop() {
    agrees_where_available(Isa::Avx512);
}

/// Every number of rows and of columns around the tile sizes: each edge kernel runs.
#[test]
fn every_edge_of_a_tile_is_computed() {
    for isa in Isa::available() {
        for (dtype, out) in
            [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::BF16), (DType::I8, DType::I32)]
        {
            for m in 1..=18 {
                for n in [1, 15, 16, 17, 31, 32, 33, 34] {
                    let spec = MatMulSpec { dtype, a_trans: m % 2 == 0, b_trans: n % 2 == 0, out };
                    let case = Case {
                        spec,
                        m,
                        n,
                        k: 5 + m % 4,
                        acc: m % 3 == 0,
                        bias: n % 3 == 0,
                        pad: 0,
                        at_end: true,
                        values: [Values::Tame; 2],
                        seed: (m * 100 + n) as u64,
                    };
                    case.check(isa);
                }
            }
        }
    }
}

fn plain(dtype: DType, out: DType, m: usize, n: usize, k: usize) -> Case {
    let spec = MatMulSpec { dtype, a_trans: false, b_trans: false, out };
    Case { spec, m, n, k, acc: false, bias: false, pad: 0, at_end: true, values: [Values::Tame; 2], seed: 7 }
}

#[test]
fn a_split_of_rows_or_columns_changes_no_bit() {
    for isa in Isa::available() {
        for (dtype, out) in
            [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::F32), (DType::I8, DType::I32)]
        {
            let case = Case { acc: true, bias: true, values: [Values::Any; 2], ..plain(dtype, out, 37, 100, 67) };
            let (rows, columns) = {
                let mm = MatMul::new(case.spec, isa).unwrap();
                (mm.m_step(), mm.n_step())
            };
            case.check_split(isa, (rows, columns), &[false, true]);
            case.check_split(isa, (2 * rows, 2 * columns), &[false, true]);
            case.check_split(isa, (1, 3), &[false]);
        }
    }
}

#[test]
fn sums_longer_than_a_block_stay_one_sum() {
    for isa in Isa::available() {
        for (dtype, out) in
            [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::BF16), (DType::I8, DType::I32)]
        {
            let k = if dtype == DType::I8 { 20_001 } else { 9_001 };
            for m in [3, 19] {
                for b_trans in [false, true] {
                    let mut case = Case { acc: true, ..plain(dtype, out, m, 17, k) };
                    case.spec.b_trans = b_trans;
                    case.check(isa);
                }
            }
        }
    }
}

#[test]
fn an_empty_sum_gives_acc_plus_bias_and_an_empty_result_touches_nothing() {
    for isa in Isa::available() {
        for (dtype, out) in TYPES {
            for (acc, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                for (m, n, k) in [(9, 33, 0), (0, 5, 5), (5, 0, 5), (0, 0, 0), (1, 1, 0)] {
                    Case { acc, bias, ..plain(dtype, out, m, n, k) }.check(isa);
                }
            }
        }
    }
}

/// Where the dot product instruction would flush subnormal operands, products or sums to 0.
#[test]
fn subnormal_numbers_are_kept() {
    for isa in Isa::available() {
        for dtype in [DType::F32, DType::BF16] {
            for values in [[Values::Edge; 2], [Values::Subnormal, Values::Huge], [Values::Huge, Values::Subnormal]] {
                for (m, k) in [(2, 6), (12, 5), (23, 8)] {
                    Case { values, ..plain(dtype, DType::F32, m, 64, k) }.check(isa);
                }
            }
        }
    }
}

/// More columns than a stream takes at once, fewer rows of B than it takes at once, and every number of rows.
#[test]
fn few_rows_with_many_columns_are_computed() {
    for isa in Isa::available() {
        for (dtype, out) in [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::F32)] {
            for m in 1..=9 {
                let values = [if m % 2 == 0 { Values::Any } else { Values::Tame }; 2];
                let case = Case { acc: m % 3 == 0, bias: m % 4 == 0, values, ..plain(dtype, out, m, 259, 7 + m) };
                case.check(isa);
                Case { bias: true, ..plain(dtype, out, m, 4100 / m + 3, 8) }.check(isa);
            }
        }
    }
}

/// A row stride of 0 repeats a row.
#[test]
fn rows_may_coincide() {
    for isa in Isa::available() {
        let (m, n, k) = (11, 40, 6);
        let case = Case { acc: true, ..plain(DType::F32, DType::F32, m, n, k) };
        let o = case.operands();
        let mm = MatMul::new(case.spec, isa).unwrap();
        let (scratch, c) = (Aligned::new(mm.scratch_bytes(m, n, k)), Aligned::new(m * n * 4));
        let once = |at: MatRef| MatRef { row_stride: 0, ..at };
        let args = MatMulArgs {
            m,
            n,
            k,
            a: once(o.a.as_ref()),
            b: Rhs::Plain(once(o.b.as_ref())),
            c: MatMut { data: c.data, row_stride: (n * 4) as isize },
            acc: Some(once(o.acc.as_ref())),
            bias: None,
            scratch: scratch.data,
        };
        // SAFETY: every operand is valid for these extents.
        unsafe { mm.run(&args) };
        for at in 0..m * n {
            let column = at % n;
            let sum = (0..k).fold(0f32, |s, l| o.a.f32(0, l).mul_add(o.b.f32(0, column), s)) + o.acc.f32(0, column);
            // SAFETY: element `at` of `m * n`.
            let found = unsafe { c.data.cast::<f32>().add(at).read_unaligned() };
            assert_eq!(found.to_bits(), sum.to_bits(), "{isa}, element {at}");
        }
    }
}

#[test]
fn the_accumulators_may_be_the_result_itself() {
    for isa in Isa::available() {
        for m in [1, 5, 16, 40] {
            let case = Case { acc: true, ..plain(DType::F32, DType::F32, m, 50, 9) };
            let o = case.operands();
            let expected: Vec<u32> = (0..m * 50).map(|at| case.expected(&o, at / 50, at % 50)).collect();
            let mm = MatMul::new(case.spec, isa).unwrap();
            let scratch = Aligned::new(mm.scratch_bytes(m, 50, 9));
            let c = o.acc.as_ref();
            let args = MatMulArgs {
                m,
                n: 50,
                k: 9,
                a: o.a.as_ref(),
                b: Rhs::Plain(o.b.as_ref()),
                c: MatMut { data: c.data.cast_mut(), row_stride: c.row_stride },
                acc: Some(c),
                bias: None,
                scratch: scratch.data,
            };
            // SAFETY: every operand is valid for these extents.
            unsafe { mm.run(&args) };
            let found: Vec<u32> = (0..m * 50).map(|at| o.acc.bits(at / 50, at % 50)).collect();
            assert_eq!(expected, found, "{isa}, {m} rows");
        }
    }
}

#[test]
fn types_that_cannot_be_combined_are_refused() {
    let spec = |dtype, out| MatMulSpec { dtype, a_trans: false, b_trans: false, out };
    for isa in Isa::available() {
        for (dtype, out) in TYPES {
            assert!(MatMul::new(spec(dtype, out), isa).is_some());
        }
        for (dtype, out) in
            [(DType::I8, DType::F32), (DType::F32, DType::I32), (DType::I32, DType::I32), (DType::F32, DType::U8)]
        {
            assert!(MatMul::new(spec(dtype, out), isa).is_none());
        }
    }
}
