//! How do operations on whole tiles compare with the loop that one would write for them?
//!
//! Each case runs in turn with its plain loop, compiled for what every processor has, as a careful author without intrinsics
//! would write it; the ratio of the best times is printed.
#![allow(unsafe_code)] // runs kernels on addresses
#![allow(clippy::print_stdout)] // the ratios are what this bench is for
#![allow(missing_docs)] // criterion's macros make undocumented functions

use _pypto::DType;
use _pypto::kernels::Isa;
use _pypto::kernels::block::{Args, Block, BlockOp, Combine, Mat};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

/// Time that this thread has worked: other processes may take the processor away without counting.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `work` under criterion and gives its best time in seconds, infinite if it was not chosen.
fn best(c: &mut Criterion, name: &str, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    c.bench_function(name, |bencher| {
        bencher.iter_custom(|runs| {
            let start = thread_time();
            for _ in 0..runs {
                work();
            }
            let elapsed = thread_time() - start;
            best = best.min(elapsed.as_secs_f64() / runs as f64);
            elapsed
        });
    });
    best
}

fn mat<T>(data: &mut [T], cols: usize) -> Mat {
    let size = size_of::<T>() as isize;
    Mat { data: data.as_mut_ptr().cast(), row: cols as isize * size, col: size, rows: data.len() / cols, cols }
}

struct Case<'a> {
    name: &'a str,
    op: BlockOp,
    dtypes: &'a [DType],
    region: [usize; 2],
    scalars: &'a [u64],
    /// Bytes that go through, for the rate.
    bytes: usize,
}

fn compare(c: &mut Criterion, case: &Case<'_>, mats: &[Mat], mut plain: impl FnMut()) {
    let block = Block::new(case.op, case.dtypes, Isa::from_env().unwrap()).unwrap();
    let mut scratch = vec![0u64; block.scratch_bytes(case.bytes) / 8 + 1];
    let args = Args {
        rows: case.region[0],
        cols: case.region[1],
        mats,
        scalars: case.scalars,
        tensor: None,
        scratch: scratch.as_mut_ptr().cast(),
    };
    // SAFETY: the matrices are as large as they say, and apart.
    let ours = best(c, case.name, || unsafe { block.run(black_box(&args)) });
    let loops = best(c, &format!("{} as a plain loop", case.name), &mut plain);
    if ours.is_finite() && loops.is_finite() {
        let rate = case.bytes as f64 / ours / 1e9;
        println!("{:24} {:5.2} of the plain loop, {rate:6.1} GB/s", case.name, ours / loops);
    }
}

fn benches(c: &mut Criterion) {
    // In the second-level cache, and from memory.
    for (name, rows, cols) in [("col_sum 256x512", 256, 512), ("col_sum 4096x4096", 4096, 4096)] {
        let mut x: Vec<f32> = (0..rows * cols).map(|at| (at % 97) as f32).collect();
        let (mut out, mut plain) = (vec![0f32; cols], vec![0f32; cols]);
        let mats = [mat(&mut out, cols), mat(&mut x, cols)];
        let (op, dtypes) = (BlockOp::ColReduce(Combine::Add), &[DType::F32; 2][..]);
        let scalars = &[rows as u64][..];
        let case = Case { name, op, dtypes, region: [1, cols], scalars, bytes: rows * cols * 4 };
        compare(c, &case, &mats, || {
            plain.fill(0.0);
            for row in black_box(&x).chunks_exact(cols) {
                for (sum, x) in plain.iter_mut().zip(row) {
                    *sum += x;
                }
            }
        });
    }
    for (name, side) in [("transpose 128", 128), ("transpose 1024", 1024)] {
        let mut x: Vec<f32> = (0..side * side).map(|at| at as f32).collect();
        let (mut out, mut plain) = (x.clone(), x.clone());
        let mats = [mat(&mut out, side), mat(&mut x, side)];
        let dtypes = &[DType::F32; 2][..];
        let case =
            Case { name, op: BlockOp::Transpose, dtypes, region: [side; 2], scalars: &[], bytes: side * side * 8 };
        compare(c, &case, &mats, || {
            let x = black_box(&x);
            for (row, line) in plain.chunks_exact_mut(side).enumerate() {
                for (col, to) in line.iter_mut().enumerate() {
                    *to = x[col * side + row];
                }
            }
        });
    }
    let (rows, cols) = (64, 1024);
    let mut x: Vec<f32> = (0..rows * cols).map(|at| ((at * 37) % 1009) as f32).collect();
    let mut index: Vec<i32> = (0..rows * cols).map(|at| ((at * 73) % cols) as i32).collect();
    let (mut out, mut plain) = (x.clone(), x.clone());
    let mats = [mat(&mut out, cols), mat(&mut x, cols), mat(&mut index, cols)];
    let dtypes = &[DType::F32, DType::F32, DType::I32][..];
    let (op, scalars) = (BlockOp::GatherCols, &[cols as u64][..]);
    let case = Case { name: "gather_cols 64x1024", op, dtypes, region: [rows, cols], scalars, bytes: rows * cols * 12 };
    compare(c, &case, &mats, || {
        let (x, index) = (black_box(&x), black_box(&index));
        for row in 0..rows {
            let from = &x[row * cols..(row + 1) * cols];
            for (to, &at) in plain[row * cols..(row + 1) * cols].iter_mut().zip(&index[row * cols..]) {
                *to = from.get(at as usize).copied().unwrap_or(0.0);
            }
        }
    });
    let mut out = vec![0f32; 2 * rows * cols];
    let mut plain = vec![(0f32, 0u32); rows * cols];
    let mats = [mat(&mut out, 2 * cols), mat(&mut x, cols), mat(&mut index, cols)];
    let case = Case {
        name: "sort32 64x1024",
        op: BlockOp::Sort32,
        region: [rows, 2 * cols],
        bytes: rows * cols * 16,
        dtypes,
        scalars,
    };
    compare(c, &case, &mats, || {
        for ((group, x), index) in
            plain.chunks_exact_mut(32).zip(black_box(&x).chunks_exact(32)).zip(index.chunks_exact(32))
        {
            for ((to, &x), &index) in group.iter_mut().zip(x).zip(index) {
                *to = (x, index as u32);
            }
            group.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
    });
}

fn merges(c: &mut Criterion) {
    // Four runs of 512 records, of values that fall.
    let (run, cols) = (512, 2 * 4 * 512);
    let value = |at: usize| ((at * 7919) % 4093) as f32;
    let mut lists: Vec<Vec<f32>> = (0..4).map(|list| (0..run).map(|at| value(list * run + at)).collect()).collect();
    lists.iter_mut().for_each(|list| list.sort_by(|a, b| b.total_cmp(a)));
    let mut x: Vec<f32> = lists.concat().into_iter().zip(0..).flat_map(|(v, at)| [v, f32::from_bits(at)]).collect();
    let (mut out, mut plain) = (x.clone(), vec![(0f32, 0u32); 4 * run]);
    let mats = [mat(&mut out, cols), mat(&mut x, cols)];
    let (op, scalars) = (BlockOp::MergeSort, &[2 * run as u64, cols as u64][..]);
    let dtypes = &[DType::F32; 2][..];
    let case = Case { name: "mrgsort 4x512", op, dtypes, region: [1, cols], scalars, bytes: 4 * run * 16 };
    compare(c, &case, &mats, || {
        for (to, pair) in plain.iter_mut().zip(black_box(&x).chunks_exact(2)) {
            *to = (pair[0], pair[1].to_bits());
        }
        // A merge sort that finds the runs that there are.
        plain.sort_by(|a, b| b.0.total_cmp(&a.0));
    });
}

criterion_group! {
    name = block;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = benches, merges
}
criterion_main!(block);
