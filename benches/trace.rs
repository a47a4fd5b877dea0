//! What tracing costs the traced: a span while nobody records, a span while somebody does, and taking the spans out.
//!
//! `nothing` is the loop and the three `black_box` around a span without the span; the two cost their difference to it.
//! A span that is recorded reads the clock twice, so twice `clock` is what it cannot go below.
#![allow(missing_docs)]

use _pypto::trace::{self, names};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Fewer than a ring holds, so that no span is refused (which would be cheaper than recording it).
const BATCH: u64 = 16_384;

fn one_span() {
    let _span = trace::span(black_box(names::TASK), black_box(1), black_box(2));
}

fn no_span() {
    black_box((black_box(names::TASK), black_box(1u32), black_box(2u64)));
}

fn tracing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace");

    group.bench_function("clock", |b| b.iter(trace::now));
    group.bench_function("nothing", |b| b.iter(no_span));
    group.bench_function("span, off", |b| b.iter(one_span));

    let recording = trace::enable();
    group.bench_function("span, on", |b| {
        b.iter_custom(|count| {
            let mut total = Duration::ZERO;
            let mut left = count;
            while left > 0 {
                let batch = left.min(BATCH);
                let start = Instant::now();
                (0..batch).for_each(|_| one_span());
                total += start.elapsed();
                left -= batch;
                assert_eq!(recording.drain().dropped, 0);
            }
            total
        });
    });

    group.throughput(Throughput::Elements(BATCH));
    group.bench_function("drain", |b| {
        b.iter_custom(|count| {
            (0..count)
                .map(|_| {
                    (0..BATCH).for_each(|_| one_span());
                    let start = Instant::now();
                    let drained = black_box(recording.drain());
                    let elapsed = start.elapsed();
                    assert_eq!(drained.spans.len(), BATCH as usize);
                    elapsed
                })
                .sum()
        });
    });
    group.finish();
}

criterion_group!(benches, tracing);
criterion_main!(benches);
