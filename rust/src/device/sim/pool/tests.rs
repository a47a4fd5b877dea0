//! Behaviour of the pool as its callers see it. The hand-off itself is modelled beside it.
#![allow(unsafe_code)] // fork and clock_gettime

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs `parts` parts and gives how often each ran.
fn count(pool: &CorePool, parts: usize) -> Vec<usize> {
    let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    pool.run(parts, &|part, core| {
        assert!(core < pool.cores());
        counts[part].fetch_add(1, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

/// A part that ends when all cores of `pool` are in one, so that each core is proved to take part.
fn cores_that_meet(pool: &CorePool) -> Vec<usize> {
    let barrier = Barrier::new(pool.cores());
    let seen: Vec<AtomicUsize> = (0..pool.cores()).map(|_| AtomicUsize::new(0)).collect();
    pool.run(pool.cores(), &|_, core| {
        barrier.wait();
        seen[core].fetch_add(1, Ordering::Relaxed);
    });
    seen.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_part_runs_once_whatever_the_number_of_cores_and_parts() {
    for cores in [0, 1, 2, 3, 7] {
        let pool = CorePool::new(cores);
        for parts in [0, 1, 2, 3, 8, 1000, 2] {
            assert_eq!(count(&pool, parts), vec![1; parts], "{cores} cores");
        }
    }
}

#[test]
fn every_core_takes_part_hot_and_after_sleeping() {
    let pool = CorePool::new(3);
    for pause in [0, 0, 2, 0, 5, 5, 0] {
        std::thread::sleep(Duration::from_millis(pause));
        assert_eq!(cores_that_meet(&pool), [1, 1, 1]);
    }
}

#[test]
fn one_part_or_one_core_stays_on_the_caller_and_starts_no_thread() {
    let caller = std::thread::current().id();
    let on_caller = |_: usize, core: usize| {
        assert_eq!(core, 0);
        assert_eq!(std::thread::current().id(), caller);
    };
    let one = CorePool::new(1);
    one.run(100, &on_caller);
    let many = CorePool::new(4);
    many.run(1, &on_caller);
    many.run(0, &on_caller);
    assert!(one.crew.lock().unwrap().is_none());
    assert!(many.crew.lock().unwrap().is_none());
}

#[test]
fn no_core_runs_two_parts_at_once() {
    let pool = CorePool::new(3);
    let busy = [const { AtomicBool::new(false) }; 3];
    for _ in 0..200 {
        pool.run(20, &|_, core| {
            assert!(!busy[core].swap(true, Ordering::Acquire));
            std::hint::spin_loop();
            busy[core].store(false, Ordering::Release);
        });
    }
}

#[test]
fn what_parts_wrote_is_there_when_the_run_returns() {
    let pool = CorePool::new(2);
    let mut data = vec![0u64; 64];
    for round in 1..=500u64 {
        let base = data.as_mut_ptr() as usize;
        pool.run(64, &move |part, _| {
            // SAFETY: each part has an element of its own, and `data` outlives the run.
            unsafe { *(base as *mut u64).add(part) += round };
        });
        assert!(data.iter().all(|&sum| sum == round * (round + 1) / 2));
    }
}

#[test]
fn a_panic_of_any_part_reaches_the_caller_and_the_pool_stays_usable() {
    let pool = CorePool::new(2);
    for bad in [0, 1, 7] {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.run(8, &|part, _| assert!(part != bad, "part {part} is broken"));
        }));
        let text = *caught.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(text, format!("part {bad} is broken"));
        assert_eq!(cores_that_meet(&pool), [1, 1]);
    }
}

#[test]
fn a_panic_on_another_core_reaches_the_caller() {
    let pool = CorePool::new(2);
    let barrier = Barrier::new(2);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.run(2, &|_, core| {
            barrier.wait();
            assert!(core == 0, "core {core} is broken");
        });
    }));
    assert_eq!(*caught.unwrap_err().downcast::<String>().unwrap(), "core 1 is broken");
    assert_eq!(count(&pool, 10), [1; 10]);
}

#[test]
fn parts_that_nobody_took_are_left_out_after_a_panic() {
    let pool = CorePool::new(2);
    let ran = AtomicUsize::new(0);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.run(usize::MAX / 2, &|_, _| {
            assert!(ran.fetch_add(1, Ordering::Relaxed) < 100, "enough");
        });
    }));
    assert!(caught.is_err());
    assert!(ran.into_inner() <= 102);
}

#[test]
fn runs_from_several_threads_wait_for_each_other() {
    let pool = CorePool::new(2);
    let running = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let callers = [(); 4].map(|()| {
            scope.spawn(|| {
                for _ in 0..50 {
                    pool.run(4, &|_, _| {
                        assert!(running.fetch_add(1, Ordering::Relaxed) < 2, "more parts at once than cores");
                        running.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            })
        });
        // ThreadSanitizer sees a join, but not the end of a scope.
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

#[test]
fn a_run_inside_a_part_is_a_loop_on_the_core_of_that_part() {
    let (pool, other) = (CorePool::new(2), CorePool::new(2));
    let barrier = Barrier::new(2);
    let ran = AtomicUsize::new(0);
    pool.run(2, &|_, core| {
        barrier.wait();
        pool.run(5, &|_, inner| {
            assert_eq!(inner, core);
            ran.fetch_add(1, Ordering::Relaxed);
        });
        other.run(5, &|_, _| _ = ran.fetch_add(1, Ordering::Relaxed));
        pool.run(5, &|_, inner| {
            assert_eq!(inner, core);
            ran.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(ran.into_inner(), 30);
}

#[test]
fn the_caller_looks_around_while_it_waits_for_another_core() {
    let pool = CorePool::new(2);
    let barrier = Barrier::new(2);
    let stop = AtomicBool::new(false);
    let looks = AtomicUsize::new(0);
    // Core 1 goes on until the caller, who has nothing left to do, has looked around three times.
    pool.run_watched(
        2,
        &|_, core| {
            barrier.wait();
            while core == 1 && !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        },
        &mut || {
            if looks.fetch_add(1, Ordering::Relaxed) == 2 {
                stop.store(true, Ordering::Relaxed);
            }
        },
    );
    assert!(looks.into_inner() >= 3);
}

#[test]
fn a_panic_while_waiting_goes_on_when_the_cores_have_finished() {
    let pool = CorePool::new(2);
    let barrier = Barrier::new(2);
    let (stop, finished) = (AtomicBool::new(false), AtomicBool::new(false));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let part = |_: usize, core: usize| {
            barrier.wait();
            if core == 1 {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(20));
                finished.store(true, Ordering::Relaxed);
            }
        };
        pool.run_watched(2, &part, &mut || assert!(stop.swap(true, Ordering::Relaxed), "enough waiting"));
    }));
    assert!(finished.into_inner());
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "enough waiting");
    assert_eq!(cores_that_meet(&pool), [1, 1]);
}

#[test]
fn threads_carry_the_number_of_their_core_and_end_with_the_pool() {
    let pool = CorePool::new(3);
    let names = Mutex::new(Vec::new());
    let barrier = Barrier::new(3);
    pool.run(3, &|_, core| {
        barrier.wait();
        let name = std::thread::current().name().map(str::to_owned);
        lock(&names).push((core, name));
    });
    let mut names = names.into_inner().unwrap();
    names.retain(|(core, _)| *core > 0);
    names.sort();
    assert_eq!(names, [(1, Some("pypto-core-1".to_owned())), (2, Some("pypto-core-2".to_owned()))]);
    let handoff = Arc::downgrade(&pool.crew.lock().unwrap().as_ref().unwrap().handoff);
    drop(pool);
    assert!(handoff.upgrade().is_none(), "a thread still holds what it shares with the pool");
}

#[test]
fn a_pool_can_be_moved_between_runs() {
    let pool = CorePool::new(2);
    assert_eq!(cores_that_meet(&pool), [1, 1]);
    let moved = std::thread::spawn(move || {
        assert_eq!(cores_that_meet(&pool), [1, 1]);
        pool
    });
    assert_eq!(cores_that_meet(&moved.join().unwrap()), [1, 1]);
}

#[test]
fn a_forked_child_runs_everything_itself_and_drops_the_pool_without_hanging() {
    let pool = CorePool::new(2);
    assert_eq!(cores_that_meet(&pool), [1, 1]);
    // SAFETY: the child runs a loop, frees memory and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let sum = AtomicU64::new(0);
        pool.run(10, &|part, core| _ = sum.fetch_add(part as u64 + 100 * core as u64, Ordering::Relaxed));
        drop(pool);
        // SAFETY: ends the child at once, without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(sum.into_inner() != 45)) };
    }
    assert!(child > 0, "fork failed");
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut status = -1;
    // SAFETY: `status` is valid for writes and `child` is ours.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > deadline {
            // SAFETY: `child` is ours and not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0);
    assert_eq!(cores_that_meet(&pool), [1, 1]);
}

#[test]
fn an_idle_pool_uses_no_cpu() {
    fn cpu_time_of(clock: libc::clockid_t) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writes.
        assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    let pool = CorePool::new(2);
    let barrier = Barrier::new(2);
    let clock = AtomicUsize::new(0);
    pool.run(2, &|_, core| {
        barrier.wait();
        if core == 1 {
            let mut id = 0;
            // SAFETY: `id` is valid for writes, and the thread asks about itself.
            unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut id) };
            clock.store(id as u32 as usize, Ordering::Relaxed);
        }
    });
    let clock = clock.into_inner() as u32 as libc::clockid_t;
    let before = cpu_time_of(clock);
    std::thread::sleep(Duration::from_millis(200));
    // The spin after the run is 50 us; 1 % of the time slept is 2 ms.
    let used = cpu_time_of(clock) - before;
    assert!(used < Duration::from_millis(2), "core 1 used {used:?} while idle");
}
