//! Sorting and merging against what the operations mean, said plainly: values of all kinds, lists of any lengths, sorted
//! or not, on all instruction sets.

use super::{Args, Block, BlockOp, Mat};
use crate::dtype::DType;
use crate::kernels::Isa;
use half::f16;
use proptest::prelude::*;

/// A value's bits, and an index.
type Record = (u32, u32);

/// Few different values, so that many are equal, and all kinds of them.
fn single() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => (-4i32..4).prop_map(|at| (at as f32 / 2.0).to_bits()),
        4 => any::<f32>().prop_map(f32::to_bits),
        1 => Just((-0.0f32).to_bits()),
        1 => prop::sample::select(vec![f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-40]).prop_map(f32::to_bits),
        1 => 0x7fc0_0000u32..0x7fc0_0004,
    ]
}

/// The same without NaN and -0, which have a way of their own.
fn plain() -> impl Strategy<Value = u32> {
    prop_oneof![(-4i32..4).prop_map(|at| at as f32 / 2.0), -1e9f32..1e9].prop_map(|value| (value + 0.0).to_bits())
}

/// Negative where `a` comes first by value, 0 where neither does.
fn order(a: u32, b: u32) -> std::cmp::Ordering {
    let (a, b) = (f32::from_bits(a), f32::from_bits(b));
    a.is_nan().cmp(&b.is_nan()).then(b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal))
}

fn words(records: &[Record]) -> Vec<u32> {
    records.iter().flat_map(|&(bits, index)| [bits, index]).collect()
}

fn row(words: &mut [u32]) -> Mat {
    Mat { data: words.as_mut_ptr().cast(), row: 0, col: 4, rows: 1, cols: words.len() }
}

fn run(op: BlockOp, dtypes: &[DType], isa: Isa, mats: &[Mat], scalars: &[u64]) {
    let block = Block::new(op, dtypes, isa).unwrap();
    let bytes = mats[1..].iter().map(|mat| mat.cols * 4).sum();
    let mut room = vec![0u64; block.scratch_bytes(bytes) / 8];
    let cols = mats[0].cols;
    let args = Args { rows: 1, cols, mats, scalars, tensor: None, scratch: room.as_mut_ptr().cast() };
    // SAFETY: the matrices are as large as they say, and apart.
    unsafe { block.run(&args) };
}

/// Always the first of the lists whose head no other head comes before.
fn merged(lists: &[Vec<Record>]) -> Vec<Record> {
    let mut rest: Vec<&[Record]> = lists.iter().map(|list| &list[..]).collect();
    let mut out = Vec::new();
    while let Some(best) = (0..rest.len())
        .filter(|&at| !rest[at].is_empty())
        .reduce(|best, at| if order(rest[at][0].0, rest[best][0].0).is_lt() { at } else { best })
    {
        out.push(rest[best][0]);
        rest[best] = &rest[best][1..];
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn groups_are_sorted_by_value_and_then_by_index(
        values in prop::collection::vec((single(), 0..40u32), 1..330), is_plain in any::<bool>(),
    ) {
        let clean = |bits: u32| match f32::from_bits(bits) {
            value if !is_plain => value.to_bits(),
            value if value.is_nan() => 1,
            value => (value + 0.0).to_bits(),
        };
        let records: Vec<Record> = values.iter().map(|&(bits, index)| (clean(bits), index)).collect();
        let mut wanted = records.clone();
        wanted.chunks_mut(32).for_each(|group| group.sort_by(|a, b| order(a.0, b.0).then(a.1.cmp(&b.1))));
        let mut x: Vec<u32> = records.iter().map(|record| record.0).collect();
        let mut index: Vec<u32> = records.iter().map(|record| record.1).collect();
        for isa in Isa::available() {
            let mut out = vec![0; 2 * x.len()];
            let mats = [row(&mut out), row(&mut x), row(&mut index)];
            run(BlockOp::Sort32, &[DType::F32, DType::F32, DType::U32], isa, &mats, &[records.len() as u64]);
            prop_assert_eq!(&out, &words(&wanted), "{}", isa);
        }
    }

    #[test]
    fn lists_are_merged_with_the_earlier_first_among_equals(
        mut lists in prop::collection::vec(prop::collection::vec(plain(), 0..80), 1..=4),
        special in prop::option::weighted(0.2, single()), is_sorted in prop::bool::weighted(0.8), keep in 0.0..1.3f64,
    ) {
        lists[0].extend(special);
        if is_sorted {
            lists.iter_mut().for_each(|list| list.sort_by(|&a, &b| order(a, b)));
        }
        let number = |list: usize, at: usize| (list << 16 | at) as u32;
        let lists: Vec<Vec<Record>> = lists.iter().enumerate()
            .map(|(list, values)| values.iter().enumerate().map(|(at, &bits)| (bits, number(list, at))).collect())
            .collect();
        let mut wanted = merged(&lists);
        wanted.truncate((wanted.len() as f64 * keep) as usize);
        let mut inputs: Vec<Vec<u32>> = lists.iter().map(|list| words(list)).collect();
        for isa in Isa::available() {
            let mut out = vec![0; 2 * wanted.len()];
            let mut mats = vec![row(&mut out)];
            mats.extend(inputs.iter_mut().map(|input| row(input)));
            let columns: Vec<u64> = mats[1..].iter().map(|mat| mat.cols as u64).collect();
            run(BlockOp::MergeLists, &vec![DType::F32; mats.len()], isa, &mats, &columns);
            prop_assert_eq!(&out, &words(&wanted), "{}", isa);
        }
    }

    #[test]
    fn four_runs_become_one_and_what_is_left_stays(
        run_length in 1usize..50, runs in 1usize..10, values in prop::collection::vec(plain(), 450),
    ) {
        let mut records: Vec<Record> = values.into_iter().zip(0..).take(run_length * runs).collect();
        records.chunks_mut(run_length).for_each(|list| list.sort_by(|a, b| order(a.0, b.0)));
        let mut wanted = Vec::new();
        for group in records.chunks(4 * run_length) {
            match group.len() == 4 * run_length {
                true => wanted.extend(merged(&group.chunks(run_length).map(<[_]>::to_vec).collect::<Vec<_>>())),
                false => wanted.extend_from_slice(group),
            }
        }
        let mut x = words(&records);
        for isa in Isa::available() {
            let mut out = vec![0; x.len()];
            let mats = [row(&mut out), row(&mut x)];
            run(BlockOp::MergeSort, &[DType::F32; 2], isa, &mats, &[2 * run_length as u64, mats[1].cols as u64]);
            prop_assert_eq!(&out, &words(&wanted), "{}", isa);
        }
    }
}

#[test]
fn merged_halves_keep_what_stands_between_value_and_index() {
    // The second half slot is 0 after a sort; whatever it is, it moves with its record.
    let list = |values: &[(f32, u32, u32)]| -> Vec<u32> {
        let record = |&(value, between, index): &(f32, u32, u32)| {
            [u32::from(f16::from_f32(value).to_bits()) | between << 16, index]
        };
        values.iter().flat_map(record).collect()
    };
    for (between, isa) in
        [0, 7].into_iter().flat_map(|between| Isa::available().into_iter().map(move |isa| (between, isa)))
    {
        let mut a = list(&[(2.5, 0, 10), (1.0, between, 11), (-3.0, 0, 12)]);
        let mut b = list(&[(2.5, 0, 20), (2.0, 0, 21), (-4.0, between, 0xffff_0001)]);
        let mut out = vec![0; 12];
        let mut mats = [row(&mut out), row(&mut a), row(&mut b)];
        // Columns of two bytes.
        mats.iter_mut().for_each(|mat| (mat.col, mat.cols) = (2, 2 * mat.cols));
        run(BlockOp::MergeLists, &[DType::F16; 3], isa, &mats, &[12, 12]);
        let wanted = list(&[
            (2.5, 0, 10),
            (2.5, 0, 20),
            (2.0, 0, 21),
            (1.0, between, 11),
            (-3.0, 0, 12),
            (-4.0, between, 0xffff_0001),
        ]);
        assert_eq!(out, wanted, "{isa}, {between}");
    }
}
