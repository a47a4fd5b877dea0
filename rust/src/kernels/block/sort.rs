//! Sorting with indices. A sorted element is a record of 8 bytes: FP32 value and index, or FP16 value, 0, and both halves
//! of the index. Records move as integers, so that no bit of an index is lost.

use super::BlockOp;
use super::kernel::{Kernel, Run, plain, resolve as by_isa};
use super::mat::{Args, Mat};
use crate::dtype::DType;
use crate::kernels::Isa;
use crate::kernels::convert::f16_to_f32;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType], isa: Isa) -> Option<Run> {
    match dtypes.first()? {
        DType::F32 => Some(of_type::<Single>(op, isa)),
        DType::F16 => Some(of_type::<Half>(op, isa)),
        _ => None,
    }
}

fn of_type<V: Value>(op: BlockOp, isa: Isa) -> Run {
    match op {
        BlockOp::Sort32 => by_isa::<Sort32<V>>(isa),
        BlockOp::MergeSort => plain::<MergeSort<V>>,
        _ => plain::<MergeLists<V>>,
    }
}

/// How a value lies in memory and in a record.
trait Value {
    /// Bytes of an element before it is sorted.
    const SIZE: usize;
    /// The value in the low bits of a record.
    fn of(record: u64) -> f32;
    /// The record of these bits and this index.
    fn record(bits: u32, index: u32) -> u64 {
        u64::from(bits) | u64::from(index) << 32
    }
}

struct Single;
struct Half;

impl Value for Single {
    const SIZE: usize = 4;
    #[inline(always)]
    fn of(record: u64) -> f32 {
        f32::from_bits(record as u32)
    }
}

impl Value for Half {
    const SIZE: usize = 2;
    #[inline(always)]
    fn of(record: u64) -> f32 {
        f16_to_f32(record as u16)
    }
}

/// Bytes of a record.
const RECORD: usize = 8;

/// A number that is larger for what comes first: by value, NaN last and zeros equal, then by smaller index.
#[inline(always)]
fn rank_key<V: Value>(record: u64) -> u64 {
    let value = V::of(record) + 0.0;
    let bits = value.to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    let ordered = if value.is_nan() { 0 } else { ordered };
    u64::from(ordered) << 32 | u64::from(!(record >> 32) as u32)
}

/// The place of each key is the number of those before it: a thousand comparisons in vectors and without a branch are faster
/// than a sort. Keys that are absent are 0 and come last.
#[inline(always)]
fn places(keys: &[u64; 32]) -> [u64; 32] {
    let mut places = [0u64; 32];
    for (at, &key) in keys.iter().enumerate() {
        for (other, place) in places.iter_mut().enumerate() {
            // Equal keys keep their order.
            let first = key > keys[other] || (key == keys[other] && at < other);
            *place += u64::from(first);
        }
    }
    places
}

struct Sort32<V>(PhantomData<V>);

impl<V: Value> Kernel for Sort32<V> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x, index] = [args.mats[0], args.mats[1], args.mats[2]];
        let cols = args.count(0, x.cols.min(index.cols)).min(args.cols * V::SIZE / RECORD);
        for row in 0..args.rows.min(x.rows).min(index.rows) {
            for start in (0..cols).step_by(32) {
                let count = 32.min(cols - start);
                let (mut records, mut keys) = ([0u64; 32], [0u64; 32]);
                for at in 0..count {
                    // SAFETY: the elements exist.
                    let (bits, index) = unsafe {
                        let from = x.at::<u8>(row, start + at);
                        let bits = if V::SIZE == 4 {
                            from.cast::<u32>().read_unaligned()
                        } else {
                            from.cast::<u16>().read_unaligned().into()
                        };
                        (bits, index.get::<u32>(row, start + at))
                    };
                    records[at] = V::record(bits, index);
                    keys[at] = rank_key::<V>(records[at]);
                }
                let places = places(&keys);
                for (&record, &place) in records[..count].iter().zip(&places) {
                    let place = start + place as usize;
                    // SAFETY: the result has a record for each element.
                    unsafe { out.at::<u8>(row, 0).add(place * RECORD).cast::<u64>().write_unaligned(record) };
                }
            }
        }
    }
}

/// Records of one row that are already sorted.
#[derive(Clone, Copy)]
struct List {
    first: *const u8,
    count: usize,
}

impl List {
    const NONE: Self = Self { first: std::ptr::null(), count: 0 };

    /// # Safety
    /// There is a record.
    unsafe fn head(&self) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.first.cast::<u64>().read_unaligned() }
    }
}

/// Merges `lists` into `count` records at `to`; of equal ones the earlier list's come first.
///
/// # Safety
/// The lists exist, and so do the records at `to`, which overlap none of them.
unsafe fn merge<V: Value>(mut lists: [List; 4], to: *mut u8, count: usize) {
    let above = |a: f32, b: f32| a > b || (b.is_nan() && !a.is_nan());
    for at in 0..count {
        let mut best: Option<(usize, u64)> = None;
        for (list, from) in lists.iter().enumerate().filter(|(_, from)| from.count > 0) {
            // SAFETY: the list is not empty.
            let record = unsafe { from.head() };
            if best.is_none_or(|(_, first)| above(V::of(record), V::of(first))) {
                best = Some((list, record));
            }
        }
        let Some((list, record)) = best else { return };
        let from = &mut lists[list];
        *from = List { first: from.first.wrapping_add(RECORD), count: from.count - 1 };
        // SAFETY: the caller has `count` records there.
        unsafe { to.add(at * RECORD).cast::<u64>().write_unaligned(record) };
    }
}

/// Records in so many columns.
fn records<V: Value>(cols: usize) -> usize {
    cols * V::SIZE / RECORD
}

struct MergeSort<V>(PhantomData<V>);

impl<V: Value> Kernel for MergeSort<V> {
    unsafe fn run(args: &Args<'_>) {
        let [out, x] = [args.mats[0], args.mats[1]];
        if args.rows == 0 || x.rows == 0 {
            return;
        }
        let cols = args.count(1, x.cols.min(args.cols));
        let run = records::<V>(args.count(0, cols));
        let groups = if run == 0 { 0 } else { records::<V>(cols) / (4 * run) };
        for group in 0..groups {
            let start = group * 4 * run;
            let list =
                |at: usize| List { first: x.at::<u8>(0, 0).wrapping_add((start + at * run) * RECORD), count: run };
            // SAFETY: four whole runs exist in the argument, and in the result.
            unsafe { merge::<V>([0, 1, 2, 3].map(list), out.at::<u8>(0, 0).add(start * RECORD), 4 * run) };
        }
        let done = groups * 4 * run * RECORD;
        let all = args.cols.min(x.cols) * V::SIZE;
        // SAFETY: both have the region; the rest of the argument is copied as it is.
        unsafe { std::ptr::copy_nonoverlapping(x.at::<u8>(0, 0).add(done), out.at::<u8>(0, 0).add(done), all - done) };
    }
}

struct MergeLists<V>(PhantomData<V>);

impl<V: Value> Kernel for MergeLists<V> {
    unsafe fn run(args: &Args<'_>) {
        let out = args.mats[0];
        let mut lists = [List::NONE; 4];
        for (at, (list, mat)) in lists.iter_mut().zip(&args.mats[1..]).enumerate() {
            let exists = |mat: &Mat| if mat.rows > 0 { mat.cols } else { 0 };
            *list = List { first: mat.at(0, 0), count: records::<V>(args.count(at, exists(mat))) };
        }
        // SAFETY: the lists are no longer than their matrices, the result is the region.
        unsafe { merge::<V>(lists, out.at(0, 0), if args.rows > 0 { records::<V>(args.cols) } else { 0 }) };
    }
}
