//! What it costs to share work between cores: one round trip, from the call to its return.
//!
//! `empty` is what a run of two parts costs that do nothing (mostly the caller takes both and the post is taken back).
//! `meet` is a round trip that needs the other core: each part waits until the other core is in a part too. After a
//! pause of 5 ms the core sleeps, and has to be woken. The channel of `std` does the same round trip in the same run.
#![allow(missing_docs)]

use _pypto::device::sim::pool::CorePool;
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// A run in which two cores meet: part 0 and part 1 each wait for the other.
struct Meeting {
    pool: CorePool,
    arrived: AtomicU64,
    round: u64,
}

impl Meeting {
    fn new() -> Meeting {
        Meeting { pool: CorePool::new(2), arrived: AtomicU64::new(0), round: 0 }
    }

    fn run(&mut self) {
        self.round += 2;
        let Meeting { pool, arrived, round } = self;
        pool.run(2, &|_, _| {
            arrived.fetch_add(1, Ordering::AcqRel);
            let mut turns = 0u32;
            while arrived.load(Ordering::Acquire) < *round {
                turns += 1;
                // On one CPU the other core gets its turn only so.
                if turns.is_multiple_of(1024) { std::thread::yield_now() } else { spin_loop() }
            }
        });
    }
}

/// The sum of `count` runs that are each preceded by a pause.
fn after_pauses(count: u64, mut run: impl FnMut()) -> Duration {
    (0..count)
        .map(|_| {
            std::thread::sleep(PAUSE);
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .sum()
}

fn handoff(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("handoff");

    let pool = CorePool::new(2);
    group.bench_function("one part", |b| b.iter(|| pool.run(1, &|_, _| {})));
    group.bench_function("empty", |b| b.iter(|| pool.run(2, &|_, _| {})));

    let mut meeting = Meeting::new();
    group.bench_function("meet, hot", |b| b.iter(|| meeting.run()));

    let (to, inbox) = mpsc::channel::<u64>();
    let (back, outbox) = mpsc::channel();
    let echo = std::thread::spawn(move || inbox.iter().for_each(|value| back.send(value).expect("the bench listens")));
    let mut round_trip = || {
        to.send(1).expect("the echo listens");
        outbox.recv().expect("the echo answers")
    };
    group.bench_function("channel, hot", |b| b.iter(&mut round_trip));

    group.sample_size(10);
    group.bench_function("meet, after a pause", |b| b.iter_custom(|count| after_pauses(count, || meeting.run())));
    group.bench_function("channel, after a pause", |b| {
        b.iter_custom(|count| after_pauses(count, || _ = round_trip()));
    });
    group.finish();
    drop(to);
    echo.join().expect("the echo ends when nobody sends");
}

criterion_group! {
    name = benches;
    config = Criterion::default();
    targets = handoff
}
criterion_main!(benches);
