//! Sorting with indices. A sorted element is a record of 8 bytes: FP32 value and index, or FP16 value, 0, and both halves
//! of the index. Records move as integers, so that no bit of an index is lost.
//!
//! What is sorted are *keys*: the rank of the value in the upper half, so that one comparison of integers orders them.
//! Where each key has one record the records need not move along: they are made of the keys again.

use super::BlockOp;
use super::kernel::{Kernel, Run, plain, resolve as by_isa};
use super::mat::{Args, Mat};
use super::merge::{MergeLists, MergeSort};
use super::network::{self, Lanes};
use super::squares::{self, Plain, Squares, transpose};
use crate::dtype::DType;
use crate::kernels::Isa;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType], isa: Isa) -> Option<Run> {
    match dtypes.first()? {
        DType::F32 => Some(of_type::<Single>(op, isa)),
        DType::F16 => Some(of_type::<Half>(op, isa)),
        _ => None,
    }
}

fn of_type<V: Value>(op: BlockOp, isa: Isa) -> Run {
    match (op, isa) {
        #[cfg(target_arch = "x86_64")]
        (BlockOp::Sort32, Isa::Avx512) => by_isa::<Sort32<V, std::arch::x86_64::__m512i, squares::Avx512>>(isa),
        #[cfg(target_arch = "x86_64")]
        (BlockOp::Sort32, Isa::Avx2) => by_isa::<Sort32<V, std::arch::x86_64::__m256i, squares::Avx2>>(isa),
        (BlockOp::Sort32, _) => plain::<Sort32<V, i64, Plain>>,
        (BlockOp::MergeSort, _) => by_isa::<MergeSort<V>>(isa),
        _ => by_isa::<MergeLists<V>>(isa),
    }
}

/// How a value lies in memory and in a record.
pub(super) trait Value {
    /// Bytes of an element before it is sorted.
    const SIZE: usize;
    /// The bit of the sign.
    const SIGN: u32;
    /// The bits of the largest number, infinity.
    const INFINITE: u32;

    /// The element at `from`.
    ///
    /// # Safety
    /// It exists.
    unsafe fn read(from: *const u8) -> u32;

    /// A number that is larger for what comes first: by value, NaN last and zeros equal.
    #[inline(always)]
    fn rank(bits: u32) -> i32 {
        let size = (bits & (Self::SIGN - 1)) as i32;
        let sign = -i32::from(bits & Self::SIGN != 0);
        if size > Self::INFINITE as i32 { i32::MIN } else { (size ^ sign) - sign }
    }

    /// Whether no other value has this rank: it is neither NaN nor -0, and has no bits beyond its own.
    #[inline(always)]
    fn is_plain(bits: u32) -> bool {
        let size = bits & (Self::SIGN - 1);
        (size <= Self::INFINITE) & (bits != Self::SIGN) & (bits <= Self::SIGN | (Self::SIGN - 1))
    }

    /// The plain value of this rank.
    #[inline(always)]
    fn of_rank(rank: i32) -> u32 {
        rank.unsigned_abs() | if rank < 0 { Self::SIGN } else { 0 }
    }
}

pub(super) struct Single;
pub(super) struct Half;

impl Value for Single {
    const SIZE: usize = 4;
    const SIGN: u32 = 1 << 31;
    const INFINITE: u32 = 0x7f80_0000;

    #[inline(always)]
    unsafe fn read(from: *const u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<u32>().read_unaligned() }
    }
}

impl Value for Half {
    const SIZE: usize = 2;
    const SIGN: u32 = 1 << 15;
    const INFINITE: u32 = 0x7c00;

    #[inline(always)]
    unsafe fn read(from: *const u8) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<u16>().read_unaligned().into() }
    }
}

/// Bytes of a record.
pub(super) const RECORD: usize = 8;

/// Records in so many columns.
pub(super) fn records<V: Value>(cols: usize) -> usize {
    cols * V::SIZE / RECORD
}

/// A group of elements that are sorted together has so many.
const GROUP: usize = 32;

/// The most groups that are sorted beside each other.
const MOST: usize = 8;

/// Where a group comes from and goes to.
#[derive(Clone, Copy)]
struct Place {
    x: *const u8,
    index: *const u8,
    out: *mut u8,
    count: usize,
}

struct Sort32<V, L, S>(PhantomData<(V, L, S)>);

impl<V: Value, L: Lanes, S: Squares<u64>> Kernel for Sort32<V, L, S> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let [out, x, index] = [&args.mats[0], &args.mats[1], &args.mats[2]];
        let cols = args.count(0, x.cols.min(index.cols)).min(records::<V>(args.cols));
        let mut batch = Batch::<V, L, S>::new();
        for row in 0..args.rows.min(x.rows).min(index.rows) {
            for start in (0..cols).step_by(GROUP) {
                let to = out.at::<u8>(row, 0).wrapping_add(start * RECORD);
                let place =
                    Place { x: x.at(row, start), index: index.at(row, start), out: to, count: GROUP.min(cols - start) };
                // SAFETY: the elements exist, and the result has a record for each.
                unsafe { batch.add(place) };
            }
        }
        // SAFETY: as above.
        unsafe { batch.run() };
    }
}

/// Groups that are sorted beside each other.
struct Batch<V, L, S> {
    keys: [[i64; GROUP]; MOST],
    places: [Place; MOST],
    count: usize,
    of: PhantomData<(V, L, S)>,
}

impl<V: Value, L: Lanes, S: Squares<u64>> Batch<V, L, S> {
    #[inline(always)]
    fn new() -> Self {
        let nowhere = Place { x: std::ptr::null(), index: std::ptr::null(), out: std::ptr::null_mut(), count: 0 };
        Self { keys: [[0; GROUP]; MOST], places: [nowhere; MOST], count: 0, of: PhantomData }
    }

    /// Adds a group, and sorts all once there are enough.
    #[inline(always)]
    unsafe fn add(&mut self, place: Place) {
        let keys = &mut self.keys[self.count];
        // SAFETY: the caller vouches for the place.
        let is_plain = unsafe {
            match place.count {
                GROUP => keys_of::<V>(keys, place, GROUP),
                count => {
                    // What is absent comes last.
                    keys.fill(i64::MIN);
                    keys_of::<V>(keys, place, count)
                }
            }
        };
        if !is_plain {
            // SAFETY: as above.
            return unsafe { sort_stable::<V>(place) };
        }
        self.places[self.count] = place;
        self.count += 1;
        if self.count == L::COUNT {
            // SAFETY: as above.
            unsafe { self.run() };
        }
    }

    /// Sorts what was added.
    #[inline(always)]
    unsafe fn run(&mut self) {
        if self.count == 0 {
            return;
        }
        let size = size_of::<i64>() as isize;
        let wide = size * GROUP as isize;
        let by_group = Mat { data: self.keys.as_mut_ptr().cast(), row: wide, col: size, rows: L::COUNT, cols: GROUP };
        let mut turned = [[0i64; MOST]; GROUP];
        let turned = &mut turned.as_flattened_mut()[..GROUP * L::COUNT];
        let high = size * L::COUNT as isize;
        let by_place = Mat { data: turned.as_mut_ptr().cast(), row: high, col: size, rows: GROUP, cols: L::COUNT };
        // SAFETY: both have all elements and are apart; the keys of absent groups are 0, and stay.
        unsafe {
            transpose::<u64, S>(&by_place, &by_group, GROUP, L::COUNT);
            network::sort::<L>(turned);
            transpose::<u64, S>(&by_group, &by_place, L::COUNT, GROUP);
        }
        for (keys, place) in self.keys.iter().zip(&self.places[..self.count]) {
            // SAFETY: the caller vouches for the places.
            unsafe {
                match place.count {
                    GROUP => write_sorted::<V>(keys, place.out, GROUP),
                    count => write_sorted::<V>(keys, place.out, count),
                }
            }
        }
        self.count = 0;
    }
}

/// Fills `keys` with the first `count` keys of a group, which fall with the rank and rise with the index; says whether all
/// values are plain.
#[inline(always)]
unsafe fn keys_of<V: Value>(keys: &mut [i64; GROUP], place: Place, count: usize) -> bool {
    let mut is_plain = true;
    for (at, key) in keys[..count].iter_mut().enumerate() {
        // SAFETY: the caller vouches for the elements.
        let (bits, index) = unsafe { (V::read(place.x.add(at * V::SIZE)), read_index(place, at)) };
        is_plain &= V::is_plain(bits);
        *key = i64::from(V::rank(bits)) << 32 | i64::from(!index);
    }
    is_plain
}

#[inline(always)]
unsafe fn read_index(place: Place, at: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { place.index.cast::<u32>().add(at).read_unaligned() }
}

#[inline(always)]
unsafe fn write_sorted<V: Value>(keys: &[i64; GROUP], to: *mut u8, count: usize) {
    for (at, &key) in keys[..count].iter().enumerate() {
        let record = u64::from(V::of_rank((key >> 32) as i32)) | u64::from(!(key as u32)) << 32;
        // SAFETY: the caller vouches for the records.
        unsafe { to.add(at * RECORD).cast::<u64>().write_unaligned(record) };
    }
}

/// Sorts a group of any values; equal ones with equal indices keep their order.
#[cold]
#[inline(never)]
unsafe fn sort_stable<V: Value>(place: Place) {
    let mut sorted = [(0i64, 0u64); GROUP];
    let sorted = &mut sorted[..place.count];
    for (at, to) in sorted.iter_mut().enumerate() {
        // SAFETY: the caller vouches for the elements.
        let (bits, index) = unsafe { (V::read(place.x.add(at * V::SIZE)), read_index(place, at)) };
        let key = i64::from(V::rank(bits)) << 32 | i64::from(!index);
        *to = (key, u64::from(bits) | u64::from(index) << 32);
    }
    // Of at most 32 elements it is an insertion sort, which allocates nothing.
    for end in 1..sorted.len() {
        let mut at = end;
        while at > 0 && sorted[at - 1].0 < sorted[at].0 {
            sorted.swap(at - 1, at);
            at -= 1;
        }
    }
    for (at, (_, record)) in sorted.iter().enumerate() {
        // SAFETY: the caller vouches for the records.
        unsafe { place.out.add(at * RECORD).cast::<u64>().write_unaligned(*record) };
    }
}
