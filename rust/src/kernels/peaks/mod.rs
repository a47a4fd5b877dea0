//! What this machine can do: the peaks that profiles put the speed of kernels beside.
//!
//! Arithmetic is that of the instruction set that the kernels use, and of the instructions that they would use: on a
//! processor without dot products the peak of BF16 is that of FP32, since its elements are widened. Everything is measured
//! on several threads at once, each with its own data, and the quickest of a few rounds counts.
#![allow(unsafe_code)] // vector instructions, and memory by address

mod arithmetic;
mod memory;

use super::Isa;
use memory::Memory;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Instant;

/// Bytes that outgrow the caches of all cores.
const LARGE: usize = 256 << 20;
/// Bytes of each thread that stay in the second-level cache of most processors, and not in the first.
const SMALL: usize = 256 << 10;
/// How often the small buffer is read in a round.
const READS: usize = 200;
/// The quickest counts: on a machine with other work most are slow.
const ROUNDS: usize = 11;

/// Peaks of some threads together: bytes and operations in a second. A multiply-add is two operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Reading what no cache holds.
    pub read: f64,
    /// Copying it: bytes read and bytes written.
    pub copy: f64,
    /// Reading what the second-level cache holds.
    pub cached_read: f64,
    /// Multiply-adds of FP32.
    pub fp32: f64,
    /// Multiply-adds of BF16 into FP32.
    pub bf16: f64,
    /// Multiply-adds of INT8 into INT32.
    pub int8: f64,
}

impl Peaks {
    /// Measures for about a second, on `threads` threads or as many of them as the system starts.
    pub fn measure(isa: Isa, threads: usize) -> Self {
        let large = Memory::new(LARGE);
        let small: Vec<Memory> = (0..threads).map(|_| Memory::new(SMALL)).collect();
        let part = LARGE / threads / 2 / 512 * 512;
        let halves = |thread: usize| (large.at(2 * part * thread), large.at(2 * part * thread + part));
        // SAFETY: each thread has a part of the large buffer and a small one to itself.
        let read = rate(threads, &|thread| unsafe { memory::read(halves(thread).0, 2 * part) });
        let copy = rate(threads, &|thread| {
            let (to, from) = halves(thread);
            // SAFETY: as above.
            unsafe { super::copy_past_caches(to, from, part) };
        });
        let cached_read = rate(threads, &|thread| {
            for _ in 0..READS {
                // SAFETY: as above.
                unsafe { memory::read(small[thread].at(0), SMALL) };
            }
        });
        let [fp32, bf16, int8] = arithmetic::loops(isa).map(|peak| peak.operations * rate(threads, &|_| (peak.run)()));
        let moved = (2 * part) as f64;
        Self {
            read: moved * read,
            copy: moved * copy,
            cached_read: (SMALL * READS) as f64 * cached_read,
            fp32,
            bf16,
            int8,
        }
    }
}

/// How often all threads together do `work`, which gets the number of its thread, in a second of their quickest round.
fn rate(threads: usize, work: &(dyn Fn(usize) + Sync)) -> f64 {
    rate_of(threads, thread::Builder::new, work)
}

fn rate_of(threads: usize, builder: impl Fn() -> thread::Builder, work: &(dyn Fn(usize) + Sync)) -> f64 {
    thread::scope(|scope| {
        let mut starts = Vec::new();
        for thread in 1..threads {
            // Told only when all have started: who waits for one that never comes would wait for ever.
            let (start, told) = mpsc::channel::<Arc<Barrier>>();
            let rounds = move || told.recv().map_or(0.0, |barrier| quickest(&barrier, || work(thread)));
            if builder().spawn_scoped(scope, rounds).is_err() {
                break;
            }
            starts.push(start);
        }
        let together = 1 + starts.len();
        let barrier = Arc::new(Barrier::new(together));
        starts.into_iter().for_each(|start| start.send(barrier.clone()).expect("it waits for this"));
        together as f64 / quickest(&barrier, || work(0))
    })
}

/// Seconds of the quickest round of all threads.
fn quickest(barrier: &Barrier, work: impl Fn()) -> f64 {
    let round = || {
        barrier.wait();
        let begin = Instant::now();
        work();
        // Until the last has ended: the round of all is what counts.
        barrier.wait();
        begin.elapsed().as_secs_f64()
    };
    std::iter::repeat_with(round).take(ROUNDS).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_has_peaks_and_caches_are_quicker_than_memory() {
        for isa in Isa::available() {
            let peaks = Peaks::measure(isa, 1);
            let Peaks { read, copy, cached_read, fp32, bf16, int8 } = peaks;
            assert!([read, copy, fp32, bf16, int8].iter().all(|&peak| peak > 1e8 && peak < 1e14), "{isa}: {peaks:?}");
            assert!(cached_read > read, "{isa}: {peaks:?}");
        }
    }

    #[test]
    fn where_the_system_starts_fewer_threads_those_are_measured() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        use std::time::Duration;
        let (asked, worked) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // The second thread would need more address space than there is.
        let builder =
            || thread::Builder::new().stack_size([1 << 20, 1 << 62][asked.fetch_add(1, Ordering::Relaxed).min(1)]);
        let rate = rate_of(4, builder, &|thread| {
            assert!(thread < 2);
            worked.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        });
        assert_eq!(worked.into_inner(), 2 * ROUNDS);
        assert!(rate > 0.0 && rate <= 2000.0, "two threads, a millisecond each: {rate}");
    }
}
