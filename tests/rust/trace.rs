//! Recording as the users of the trace see it. Recording is a state of the process, so these tests have a process to
//! themselves and run one at a time.
#![allow(unsafe_code)] // fork

use _pypto::trace::{self, Drained, Record, Track, names};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the other tests from recording.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A launch of two arguments and two tasks, all on one thread.
fn launch(invocation: u32) {
    let _run = trace::span(names::CHIP_RUN, invocation, 0xc0ffee);
    {
        let _bind = trace::span(names::BIND, invocation, 0);
        let mut args = trace::span(names::BIND_ARGS, invocation, 0);
        args.set_arg(2);
    }
    drop(trace::span(names::H2D, invocation, 4096));
    {
        let _runner = trace::span(names::RUNNER_RUN, invocation, 0);
        let begin = trace::now();
        for core in 0..2 {
            let (begin, end) = (trace::now(), trace::now());
            let track = Track::core(core);
            trace::record(Record { begin, end, arg: 0, invocation, name: names::TASK, track });
        }
        let (end, track) = (trace::now(), Track::DEVICE);
        trace::record(Record { begin, end, arg: 0, invocation, name: names::DEVICE_WALL, track });
    }
    drop(trace::span(names::D2H, invocation, 64));
}

fn args_of(drained: &Drained) -> Vec<u64> {
    drained.spans.iter().map(|span| span.arg).collect()
}

#[cfg(feature = "trace-off")]
#[test]
fn without_the_recorder_nothing_is_recorded_whoever_asks() {
    let _alone = alone();
    const { assert!(!trace::is_enabled()) };
    let recording = trace::enable();
    assert!(!trace::is_enabled());
    launch(trace::next_invocation());
    let drained = recording.drain();
    assert_eq!(drained, Drained { pid: std::process::id(), ..Drained::default() });
    assert!(args_of(&drained).is_empty());
    assert!(trace::ticks_to_ns(trace::now()) > 0, "the clock stays");
}

#[cfg(not(feature = "trace-off"))]
mod recording {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_launch_gives_the_tree_of_the_contract() {
        let _alone = alone();
        let recording = trace::enable();
        launch(trace::next_invocation());
        assert_eq!(
            trace::tree(&recording.drain().spans),
            "\
chip.run
  bind
    args args=2
  h2d bytes=4096
  runner_run
    device_wall [dev]
      task kernel=0 [core 0]
      task kernel=0 [core 1]
  d2h bytes=64
"
        );
    }

    #[test]
    fn spans_lie_inside_their_parents_after_conversion() {
        let _alone = alone();
        let recording = trace::enable();
        (0..100).for_each(|_| launch(trace::next_invocation()));
        let spans = recording.drain().spans;
        assert_eq!(spans.len(), 900);
        for launch in spans.chunk_by(|a, b| a.invocation == b.invocation) {
            let root = launch.last().expect("a chunk is not empty");
            assert_eq!(root.name, names::CHIP_RUN);
            assert!(launch.iter().all(|span| span.begin_ns >= root.begin_ns && span.end_ns() <= root.end_ns()));
        }
    }

    #[test]
    fn nothing_is_recorded_while_no_guard_lives() {
        let _alone = alone();
        assert!(!trace::is_enabled());
        let begun_unseen = trace::span(names::CHIP_RUN, 0, 1);
        let first = trace::enable();
        let begun_seen = trace::span(names::CHIP_RUN, 0, 2);
        drop(begun_unseen);
        let second = trace::enable();
        drop(first);
        assert!(trace::is_enabled(), "the second guard lives");
        drop(second);
        assert!(!trace::is_enabled());
        drop(begun_seen);
        let track = Track::DEVICE;
        trace::record(Record { begin: 1, end: 2, arg: 3, invocation: 0, name: names::TASK, track });
        let third = trace::enable();
        assert_eq!(args_of(&third.drain()), [0u64; 0], "a guard sees what ends while it lives");
    }

    #[test]
    fn a_drain_takes_nothing_from_another_guard() {
        let _alone = alone();
        let first = trace::enable();
        drop(trace::span(names::TASK, 0, 1));
        let second = trace::enable();
        drop(trace::span(names::TASK, 0, 2));
        assert_eq!(args_of(&second.drain()), [2]);
        drop(trace::span(names::TASK, 0, 3));
        assert_eq!(args_of(&first.drain()), [1, 2, 3]);
        assert_eq!(args_of(&first.drain()), [0u64; 0]);
        assert_eq!(args_of(&second.drain()), [3]);
    }

    #[test]
    fn what_a_thread_recorded_outlasts_it() {
        let _alone = alone();
        let recording = trace::enable();
        drop(trace::span(names::TASK, 0, 1));
        std::thread::spawn(|| drop(trace::span(names::TASK, 0, 2))).join().unwrap();
        let drained = recording.drain();
        let mut args = args_of(&drained);
        args.sort_unstable();
        assert_eq!(args, [1, 2]);
        assert_ne!(drained.spans[0].tid, drained.spans[1].tid);
        assert_eq!(drained.pid, std::process::id());
    }

    #[test]
    fn a_span_that_ends_after_its_threads_ring_is_counted_and_harmless() {
        struct AtExit;
        impl Drop for AtExit {
            fn drop(&mut self) {
                drop(trace::span(names::TASK, 0, 2));
            }
        }
        thread_local! {
            static EARLY: AtExit = const { AtExit };
        }
        let _alone = alone();
        let recording = trace::enable();
        // Thread-local values are dropped in the reverse order of their first use or in the same, depending on the C
        // library; one of two threads meets the case.
        for span_first in [false, true] {
            std::thread::spawn(move || {
                if span_first {
                    drop(trace::span(names::TASK, 0, 1));
                }
                EARLY.with(|_| ());
                drop(trace::span(names::TASK, 0, 1));
            })
            .join()
            .unwrap();
        }
        let drained = recording.drain();
        assert_eq!(drained.spans.len() as u64 + drained.dropped, 5);
        assert!(drained.dropped >= 1, "{drained:?}");
    }

    #[test]
    fn too_many_spans_are_counted_and_the_oldest_kept() {
        let _alone = alone();
        let recording = trace::enable();
        const COUNT: u64 = 100_000;
        (0..COUNT).for_each(|arg| drop(trace::span(names::TASK, 0, arg)));
        let drained = recording.drain();
        assert!(drained.dropped > 0);
        assert_eq!(drained.spans.len() as u64 + drained.dropped, COUNT);
        assert!(args_of(&drained).into_iter().eq(0..drained.spans.len() as u64));
        drop(trace::span(names::TASK, 0, COUNT));
        let after = recording.drain();
        assert_eq!((args_of(&after), after.dropped), (vec![COUNT], 0));
    }

    #[test]
    fn a_root_never_comes_before_the_tasks_of_its_launch() {
        const LAUNCHES: u64 = 500;
        let _alone = alone();
        let recording = trace::enable();
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let wait_for = |counter: &AtomicU64, launch| {
            while counter.load(Ordering::Acquire) < launch {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let core = scope.spawn(|| {
                for launch in 1..=LAUNCHES {
                    wait_for(&begun, launch);
                    drop(trace::span(names::TASK, 0, launch));
                    done.store(launch, Ordering::Release);
                }
            });
            let host = scope.spawn(|| {
                for launch in 1..=LAUNCHES {
                    let _root = trace::span(names::CHIP_RUN, 0, launch);
                    begun.store(launch, Ordering::Release);
                    wait_for(&done, launch);
                }
            });
            let (mut roots, mut last_task) = (0, 0);
            while roots < LAUNCHES {
                let drained = recording.drain();
                let tasks = drained.spans.iter().filter(|span| span.name == names::TASK);
                last_task = tasks.map(|span| span.arg).max().unwrap_or(last_task);
                for root in drained.spans.iter().filter(|span| span.name == names::CHIP_RUN) {
                    assert!(root.arg <= last_task, "root {} came before its task; the last is {last_task}", root.arg);
                    roots += 1;
                }
            }
            // ThreadSanitizer sees a join, but not the end of a scope.
            [host, core].into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    fn values_of(drained: &Drained) -> Vec<u64> {
        let mut counters = drained.counters.clone();
        counters.sort_by_key(|counter| counter.begin_ns);
        counters.iter().map(|counter| counter.arg).collect()
    }

    #[test]
    fn a_recording_has_the_values_of_gauges_from_its_begin() {
        let _alone = alone();
        let (gauge, unset) = (trace::Gauge::new(names::LIVE_BYTES, 1), trace::Gauge::new(names::QUEUE_DEPTH, 1));
        gauge.set(4096);
        let recording = trace::enable();
        drop(trace::span(names::TASK, 0, 1));
        gauge.set(64);
        let drained = recording.drain();
        assert_eq!(values_of(&drained), [4096, 64]);
        assert!(drained.counters.iter().any(|counter| counter.begin_ns <= drained.spans[0].begin_ns));
        assert!(recording.drain().counters.is_empty(), "once is enough");
        drop((gauge, unset));
        assert!(trace::enable().drain().counters.is_empty(), "what was dropped shows nothing");
    }

    #[test]
    fn no_change_of_a_gauge_falls_between_the_begin_of_a_recording_and_what_it_records() {
        const LAST: u64 = 20_000;
        let _alone = alone();
        let gauge = trace::Gauge::new(names::LIVE_BYTES, 1);
        gauge.set(0);
        std::thread::scope(|scope| {
            let setter = scope.spawn(|| (1..=LAST).for_each(|value| gauge.set(value)));
            while !setter.is_finished() {
                let recording = trace::enable();
                let values: Vec<u64> = recording.drain().counters.iter().map(|counter| counter.arg).collect();
                let (first, later) = values.split_first().expect("the value at the begin");
                // The value at the begin may be in a record of its own, too, where both saw each other.
                let gap = later.first().is_some_and(|second| *second > first + 1);
                assert!(!gap, "{values:?}");
            }
            setter.join().unwrap();
        });
    }

    #[test]
    fn a_forked_child_begins_with_nothing_and_records_its_own() {
        let _alone = alone();
        let recording = trace::enable();
        drop(trace::span(names::TASK, 0, 1));
        // SAFETY: the test's other threads wait for a lock that the child does not take; the child records, drains and
        // ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let inherited = recording.drain();
            drop(trace::span(trace::intern("interned in the child"), 0, 2));
            let own = recording.drain();
            let right = inherited.spans.is_empty() && args_of(&own) == [2] && own.pid == std::process::id();
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        assert!(child > 0, "fork failed");
        let mut status = -1;
        // SAFETY: `status` is valid for writes and `child` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(trace::span(names::TASK, 0, 3));
        assert_eq!(args_of(&recording.drain()), [1, 3]);
    }
}
