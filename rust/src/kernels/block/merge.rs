//! Merging sorted lists of records.
//!
//! Lists are turned into keys first. A merge of keys takes no branch on what it finds, so all that it waits for is one
//! record after the other; four merges that need nothing of each other run at once: two lists each, from both ends. Where
//! that is not right (NaN and -0, which have no key of their own; lists that are not sorted) records move one by one.

use super::kernel::Kernel;
use super::mat::{Args, Mat};
use super::sort::{RECORD, Value, records};
use std::marker::PhantomData;

/// Bytes of scratch memory of a merge for each byte of its lists.
pub(super) const SCRATCH: usize = 2;

/// Records of one row that are already sorted.
#[derive(Clone, Copy)]
struct List {
    first: *const u8,
    count: usize,
}

impl List {
    const NONE: Self = Self { first: std::ptr::null(), count: 0 };

    /// # Safety
    /// There is such a record.
    #[inline(always)]
    unsafe fn get(&self, at: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.first.cast::<u64>().add(at).read_unaligned() }
    }
}

/// Merges `lists` into `count` records at `to`; of equal ones the earlier list's come first.
///
/// # Safety
/// The lists exist, and so do the records at `to` and [`SCRATCH`] times the bytes of the lists at `scratch`, none of which
/// overlap.
#[inline(always)]
unsafe fn merge<V: Value>(mut lists: [List; 4], to: *mut u8, count: usize, scratch: *mut u8) {
    for list in &mut lists {
        // No more of it can be among the first.
        list.count = list.count.min(count);
    }
    let total: usize = lists.iter().map(|list| list.count).sum();
    // SAFETY: the caller gave room for the records twice.
    unsafe {
        let (keys, room) = (scratch.cast::<i64>(), scratch.cast::<i64>().add(total));
        let mut end = keys;
        for list in lists {
            if !keys_of::<V>(list, end) {
                return merge_records::<V>(lists, to, count);
            }
            end = end.add(list.count);
        }
        let merged = merge_keys(lists.map(|list| list.count), keys, room);
        for at in 0..count.min(total) {
            let key = *merged.add(at);
            let record = u64::from(V::of_rank((key >> 32) as i32)) | u64::from(key as u32) << 32;
            to.add(at * RECORD).cast::<u64>().write_unaligned(record);
        }
    }
}

/// Writes the keys of a list; says whether each has one record, and they fall.
#[inline(always)]
unsafe fn keys_of<V: Value>(list: List, keys: *mut i64) -> bool {
    let mut is_plain = true;
    // SAFETY: the caller's promise.
    unsafe {
        for at in 0..list.count {
            let record = list.get(at);
            is_plain &= V::is_plain(record as u32);
            *keys.add(at) = i64::from(V::rank(record as u32)) << 32 | (record >> 32) as i64;
        }
        for at in 1..list.count {
            is_plain &= leads(*keys.add(at - 1), *keys.add(at));
        }
    }
    is_plain
}

/// Whether the first of two keys does not come after the second by value.
#[inline(always)]
fn leads(first: i64, second: i64) -> bool {
    first | 0xffff_ffff >= second
}

/// Merges four lists that follow each other at `keys`, with `room` for as many; gives the one of both that has the
/// result.
#[inline(always)]
unsafe fn merge_keys([a, b, c, d]: [usize; 4], keys: *mut i64, room: *mut i64) -> *mut i64 {
    // SAFETY: the caller's promise.
    unsafe {
        if a == b && b == c && c == d {
            merge_equal::<2>([keys, keys.add(2 * a)], a, [room, room.add(2 * a)]);
        } else {
            merge_two([(keys, a), (keys.add(a), b)], room);
            merge_two([(keys.add(a + b), c), (keys.add(a + b + c), d)], room.add(a + b));
        }
        if c + d == 0 {
            return room;
        }
        merge_two([(room, a + b), (room.add(a + b), c + d)], keys);
        keys
    }
}

/// Merges two lists into `to`.
#[inline(always)]
unsafe fn merge_two([(a, a_count), (b, b_count)]: [(*const i64, usize); 2], to: *mut i64) {
    // SAFETY: the caller's promise; the lists of equal length follow each other.
    unsafe {
        if a_count == b_count {
            return merge_equal::<1>([a], a_count, [to]);
        }
        let (mut i, mut j) = (0, 0);
        // As long as neither can run out.
        loop {
            let sure = (a_count - i).min(b_count - j);
            if sure == 0 {
                break;
            }
            for _ in 0..sure {
                let (first, second) = (*a.add(i), *b.add(j));
                let leads = leads(first, second);
                *to.add(i + j) = if leads { first } else { second };
                i += usize::from(leads);
                j += usize::from(!leads);
            }
        }
        to.add(i + j).copy_from_nonoverlapping(a.add(i), a_count - i);
        to.add(a_count + j).copy_from_nonoverlapping(b.add(j), b_count - j);
    }
}

/// Merges `N` pairs of lists of `count` keys at once; the lists of a pair follow each other. From both ends, which meet after
/// `count` keys each: the lists are sorted, so the two never take the same key, nor one outside its list.
#[inline(always)]
unsafe fn merge_equal<const N: usize>(from: [*const i64; N], count: usize, to: [*mut i64; N]) {
    // What was taken of the first list of each pair, from the front and from the back.
    let (mut front, mut back) = ([0usize; N], [0usize; N]);
    for taken in 0..count {
        for pair in 0..N {
            let (from, to) = (from[pair], to[pair]);
            // SAFETY: fewer than `count` keys were taken from each end.
            unsafe {
                let (first, second) = (*from.add(front[pair]), *from.add(count + taken - front[pair]));
                let is_first = leads(first, second);
                *to.add(taken) = if is_first { first } else { second };
                front[pair] += usize::from(is_first);
                let last = count - 1;
                let (first, second) = (*from.add(last - back[pair]), *from.add(count + last - (taken - back[pair])));
                let is_second = leads(first, second);
                *to.add(count + last - taken) = if is_second { second } else { first };
                back[pair] += usize::from(!is_second);
            }
        }
    }
}

/// Merges lists as they are, record by record.
#[cold]
#[inline(never)]
unsafe fn merge_records<V: Value>(mut lists: [List; 4], to: *mut u8, count: usize) {
    for at in 0..count {
        let mut best: Option<(usize, u64)> = None;
        for (list, from) in lists.iter().enumerate().filter(|(_, from)| from.count > 0) {
            // SAFETY: the list is not empty.
            let record = unsafe { from.get(0) };
            if best.is_none_or(|(_, first)| value_rank::<V>(record) > value_rank::<V>(first)) {
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

/// The rank of the value of a record.
fn value_rank<V: Value>(record: u64) -> i32 {
    V::rank(record as u32 & (V::SIGN | (V::SIGN - 1)))
}

pub(super) struct MergeSort<V>(PhantomData<V>);

impl<V: Value> Kernel for MergeSort<V> {
    #[inline(always)]
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
            let to = out.at::<u8>(0, 0).wrapping_add(start * RECORD);
            // SAFETY: four whole runs exist in the argument, and in the result; the scratch memory is for all of it.
            unsafe { merge::<V>([0, 1, 2, 3].map(list), to, 4 * run, args.scratch) };
        }
        let done = groups * 4 * run * RECORD;
        let all = args.cols.min(x.cols) * V::SIZE;
        // SAFETY: both have the region; the rest of the argument is copied as it is.
        unsafe { std::ptr::copy_nonoverlapping(x.at::<u8>(0, 0).add(done), out.at::<u8>(0, 0).add(done), all - done) };
    }
}

pub(super) struct MergeLists<V>(PhantomData<V>);

impl<V: Value> Kernel for MergeLists<V> {
    #[inline(always)]
    unsafe fn run(args: &Args<'_>) {
        let out = args.mats[0];
        let mut lists = [List::NONE; 4];
        for (at, (list, mat)) in lists.iter_mut().zip(&args.mats[1..]).enumerate() {
            let exists = |mat: &Mat| if mat.rows > 0 { mat.cols } else { 0 };
            *list = List { first: mat.at(0, 0), count: records::<V>(args.count(at, exists(mat))) };
        }
        let count = if args.rows > 0 { records::<V>(args.cols) } else { 0 };
        // SAFETY: the lists are no longer than their matrices, the result is the region; the scratch memory is for all lists.
        unsafe { merge::<V>(lists, out.at(0, 0), count, args.scratch) };
    }
}
