//! A bounded queue of records from one thread to whoever drains. Neither end ever waits for the other.
//!
//! A full ring refuses the newest record and counts it. Overwriting the oldest instead would let the writer race with
//! the reader over a slot, and would lose the beginning of a launch rather than its end.
#![allow(unsafe_code)] // the slots are written by one half and read by the other

use super::Record;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;

/// The two halves share this. `head` and `dropped` are written by the producer alone, `tail` by the consumer alone, so
/// each is a plain load and store for its writer.
struct Shared {
    slots: Box<[UnsafeCell<MaybeUninit<Record>>]>,
    /// How many records were ever written. Slots `tail..head` (modulo the capacity) belong to the consumer.
    head: CachePadded<AtomicUsize>,
    /// How many records were ever taken.
    tail: CachePadded<AtomicUsize>,
    /// How many spans found the ring full.
    dropped: AtomicU64,
    /// The producer is gone. The count of `Arc` would say so too, but reading it synchronises with nothing.
    ended: AtomicBool,
}

// SAFETY: a slot is written by the one producer before `head` is released past it, and read by the one consumer after
// `head` was acquired and before `tail` is released past it; the two never touch one slot at once. Records are plain data.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Shared {}

/// The end that writes.
pub struct Producer {
    shared: Arc<Shared>,
    /// The value of `tail` when last read: the consumer's cache line is fetched once per turn of the ring rather than
    /// once per record.
    known_tail: usize,
}

/// The end that reads.
pub struct Consumer {
    shared: Arc<Shared>,
    /// How many dropped spans were already reported.
    reported: u64,
}

/// A ring of `capacity` records, a power of two. Its memory is touched only as far as it is used.
pub fn ring(capacity: usize) -> (Producer, Consumer) {
    assert!(capacity.is_power_of_two(), "a ring holds a power of two of records, not {capacity}");
    let shared = Arc::new(Shared {
        slots: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        head: CachePadded::new(AtomicUsize::new(0)),
        tail: CachePadded::new(AtomicUsize::new(0)),
        dropped: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    });
    (Producer { shared: shared.clone(), known_tail: 0 }, Consumer { shared, reported: 0 })
}

impl Producer {
    /// Writes all of `records`, or none and counts their `spans` as dropped where the ring has no room for them. They become
    /// visible together.
    #[inline]
    pub fn push(&mut self, records: impl ExactSizeIterator<Item = Record>, spans: u64) {
        let shared = &*self.shared;
        let head = shared.head.load(Ordering::Relaxed);
        let room = |tail: usize| shared.slots.len() - head.wrapping_sub(tail);
        let end = head.wrapping_add(records.len());
        if room(self.known_tail) < records.len() {
            self.known_tail = shared.tail.load(Ordering::Acquire);
            if room(self.known_tail) < records.len() {
                shared.dropped.store(shared.dropped.load(Ordering::Relaxed) + spans, Ordering::Release);
                return;
            }
        }
        for (at, record) in records.enumerate() {
            shared.slots[head.wrapping_add(at) & (shared.slots.len() - 1)].with_mut(|slot| {
                // SAFETY: there is room, so the slot is outside `tail..head` and belongs to the producer, of which `&mut self`
                // is the only one.
                unsafe { (*slot).write(record) };
            });
        }
        shared.head.store(end, Ordering::Release);
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
    }
}

impl Consumer {
    /// How many records were ever written; all of them can be taken.
    pub fn written(&self) -> usize {
        self.shared.head.load(Ordering::Acquire)
    }

    /// Takes the records up to the one that [`Consumer::written`] counted as `end`, oldest first.
    pub fn take(&mut self, end: usize, mut receive: impl FnMut(Record)) {
        let shared = &*self.shared;
        let mut tail = shared.tail.load(Ordering::Relaxed);
        while tail != end {
            shared.slots[tail & (shared.slots.len() - 1)].with(|slot| {
                // SAFETY: `end` came from an acquiring load of `head`, so the slot was written, and it stays the
                // consumer's (`&mut self`) until `tail` passes it.
                receive(unsafe { (*slot).assume_init() });
            });
            tail = tail.wrapping_add(1);
        }
        shared.tail.store(tail, Ordering::Release);
    }

    /// How many spans were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        dropped - std::mem::replace(&mut self.reported, dropped)
    }

    /// The producer is gone: what [`Consumer::written`] says from now on is all there will ever be.
    pub fn is_abandoned(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::super::{Track, names};
    use super::*;
    use crate::sync::thread;

    fn record(begin: u64) -> Record {
        Record { begin, end: begin, arg: 0, invocation: 0, name: names::TASK, track: Track::HOST }
    }

    fn push(producer: &mut Producer, begins: &[u64]) {
        producer.push(begins.iter().copied().map(record), begins.len() as u64);
    }

    fn take(consumer: &mut Consumer, into: &mut Vec<u64>) {
        let end = consumer.written();
        consumer.take(end, |record| into.push(record.begin));
    }

    #[test]
    fn loom_each_record_is_taken_once_in_order_or_counted_as_dropped() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let writer = thread::spawn(move || {
                push(&mut producer, &[1]);
                push(&mut producer, &[2, 3]);
                push(&mut producer, &[4]);
            });
            let mut taken = Vec::new();
            take(&mut consumer, &mut taken);
            take(&mut consumer, &mut taken);
            writer.join().unwrap();
            take(&mut consumer, &mut taken);
            assert!(taken.is_sorted());
            assert_eq!(taken.len() as u64 + consumer.take_dropped(), 4);
        });
    }

    #[test]
    fn loom_nothing_comes_after_the_end_of_the_writer_was_seen() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let writer = thread::spawn(move || push(&mut producer, &[1]));
            let mut taken = Vec::new();
            let ended = consumer.is_abandoned();
            take(&mut consumer, &mut taken);
            if ended {
                assert_eq!(taken, [1]);
            }
            writer.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Track, names};
    use super::*;

    fn record(begin: u64) -> Record {
        Record { begin, end: begin, arg: 0, invocation: 0, name: names::TASK, track: Track::HOST }
    }

    fn push(producer: &mut Producer, begins: &[u64]) {
        producer.push(begins.iter().copied().map(record), begins.len() as u64);
    }

    fn take(consumer: &mut Consumer) -> Vec<u64> {
        let mut begins = Vec::new();
        let end = consumer.written();
        consumer.take(end, |record| begins.push(record.begin));
        begins
    }

    #[test]
    fn a_full_ring_refuses_the_newest_and_counts_it_once() {
        let (mut producer, mut consumer) = ring(4);
        (0..7).for_each(|begin| push(&mut producer, &[begin]));
        assert_eq!(take(&mut consumer), [0, 1, 2, 3]);
        assert_eq!(consumer.take_dropped(), 3);
        assert_eq!(consumer.take_dropped(), 0);
        push(&mut producer, &[7]);
        assert_eq!(take(&mut consumer), [7]);
    }

    #[test]
    fn records_that_belong_together_are_written_or_refused_together() {
        let (mut producer, mut consumer) = ring(4);
        push(&mut producer, &[0, 1, 2]);
        push(&mut producer, &[3, 4]);
        push(&mut producer, &[5]);
        assert_eq!(take(&mut consumer), [0, 1, 2, 5]);
        assert_eq!(consumer.take_dropped(), 2);
        push(&mut producer, &[6, 7, 8]);
        assert_eq!(take(&mut consumer), [6, 7, 8]);
    }

    #[test]
    fn a_ring_turns_over_without_losing_the_order() {
        let (mut producer, mut consumer) = ring(8);
        for round in 0..100 {
            let begins: Vec<u64> = (0..5).map(|number| round * 5 + number).collect();
            begins.iter().for_each(|&begin| push(&mut producer, &[begin]));
            assert_eq!(take(&mut consumer), begins);
        }
        assert_eq!(consumer.take_dropped(), 0);
    }

    #[test]
    fn records_can_be_taken_up_to_a_cut_and_after_the_writer_is_gone() {
        let (mut producer, mut consumer) = ring(8);
        push(&mut producer, &[1]);
        let cut = consumer.written();
        push(&mut producer, &[2]);
        let mut begins = Vec::new();
        consumer.take(cut, |record| begins.push(record.begin));
        assert_eq!(begins, [1]);
        assert!(!consumer.is_abandoned());
        drop(producer);
        assert!(consumer.is_abandoned());
        assert_eq!(take(&mut consumer), [2]);
    }

    #[test]
    fn two_threads_at_full_speed_lose_nothing_unseen() {
        const COUNT: u64 = 100_000;
        let (mut producer, mut consumer) = ring(64);
        let writer = std::thread::spawn(move || (0..COUNT).for_each(|begin| push(&mut producer, &[begin])));
        let (mut taken, mut last) = (0, None);
        loop {
            let ended = consumer.is_abandoned();
            for begin in take(&mut consumer) {
                assert!(last < Some(begin));
                last = Some(begin);
                taken += 1;
            }
            if ended {
                break;
            }
        }
        writer.join().unwrap();
        assert_eq!(taken + consumer.take_dropped(), COUNT);
    }

    #[test]
    #[should_panic(expected = "a ring holds a power of two of records, not 6")]
    fn a_capacity_that_is_no_power_of_two_is_refused() {
        let _ = ring(6);
    }
}
