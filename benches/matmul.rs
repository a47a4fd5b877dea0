//! How close do the matrix kernels come to the arithmetic limit of this processor, and where memory is the limit, to that?
//!
//! The limits are measured in the same run: a loop of independent multiply-adds for each element type, and reading a large
//! buffer. After each case its best time is printed in relation to its limit.
#![allow(unsafe_code)] // runs kernels on addresses
#![allow(clippy::print_stdout)] // the ratios are what this bench is for
#![allow(missing_docs)] // criterion's macros make undocumented functions

use _pypto::DType;
use _pypto::kernels::Isa;
use _pypto::kernels::matmul::{MatMul, MatMulArgs, MatMulSpec, MatMut, MatRef, PackedRef, Rhs};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

/// What limits a case.
#[derive(Clone, Copy)]
struct Limits {
    f32: f64,
    bf16: f64,
    i8: f64,
    /// Bytes per second from memory.
    memory: f64,
}

/// Time that this thread has worked: other processes may take the processor away without counting.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The best time of a few runs in seconds.
fn limit(mut work: impl FnMut()) -> f64 {
    let once = || {
        let start = thread_time();
        work();
        (thread_time() - start).as_secs_f64()
    };
    std::iter::repeat_with(once).take(30).fold(f64::INFINITY, f64::min)
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

/// Zeroed memory, 64-byte aligned, in huge pages where the kernel gives them.
struct Memory {
    data: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(2 << 20).max(2 << 20);
        let layout = std::alloc::Layout::from_size_align(bytes, 2 << 20).expect("a size");
        // SAFETY: the size is not 0; advice changes no contents.
        let data = unsafe {
            let data = std::alloc::alloc(layout);
            libc::madvise(data.cast(), bytes, libc::MADV_HUGEPAGE);
            data.write_bytes(0, bytes);
            data
        };
        Memory { data, bytes }
    }

    /// Numbers between -1 and 1.
    fn filled(dtype: DType, elements: usize) -> Self {
        let memory = Self::new(elements * dtype.size());
        let mut state = 1u32;
        for i in 0..elements {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            // SAFETY: element i is inside.
            unsafe {
                match dtype {
                    DType::F32 => memory.data.cast::<f32>().add(i).write(value),
                    DType::F16 => memory.data.cast::<half::f16>().add(i).write(half::f16::from_f32(value)),
                    DType::BF16 => memory.data.cast::<half::bf16>().add(i).write(half::bf16::from_f32(value)),
                    _ => memory.data.add(i).write((state >> 24) as u8),
                }
            }
        }
        memory
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this layout.
        unsafe {
            let layout = std::alloc::Layout::from_size_align_unchecked(self.bytes, 2 << 20);
            std::alloc::dealloc(self.data, layout);
        }
    }
}

/// `rows` independent chains of `$op` on vectors; returns operations per second, with `$each` per vector operation.
#[cfg(target_arch = "x86_64")]
macro_rules! chains {
    ($features:literal, $zero:expr, $each:literal, |$acc:ident, $x:ident| $op:expr) => {{
        #[target_feature(enable = $features)]
        fn run() {
            use std::arch::x86_64::*;
            let mut acc = [$zero; 16];
            let $x = black_box($zero);
            for _ in 0..100_000 {
                for $acc in &mut acc {
                    *$acc = $op;
                }
            }
            black_box(acc);
        }
        // SAFETY: the caller looked for the features.
        let seconds = limit(|| unsafe { run() });
        16.0 * 100_000.0 * $each / seconds
    }};
}

#[cfg(target_arch = "x86_64")]
fn limits() -> Limits {
    let f32 = if Isa::detect() == Isa::Avx512 {
        chains!("avx512f", _mm512_setzero_ps(), 32.0, |acc, x| _mm512_fmadd_ps(x, x, *acc))
    } else {
        chains!("avx2,fma", _mm256_setzero_ps(), 16.0, |acc, x| _mm256_fmadd_ps(x, x, *acc))
    };
    let bf16 = if is_x86_feature_detected!("avx512bf16") {
        chains!("avx512f,avx512bf16", _mm512_setzero_ps(), 64.0, |acc, x| {
            // SAFETY: 64 bytes either way.
            let x = unsafe { std::mem::transmute::<__m512, __m512bh>(x) };
            _mm512_dpbf16_ps(*acc, x, x)
        })
    } else {
        f32
    };
    let i8 = if is_x86_feature_detected!("avx512vnni") {
        chains!("avx512f,avx512vnni", _mm512_setzero_si512(), 128.0, |acc, x| _mm512_dpbusd_epi32(*acc, x, x))
    } else {
        f32
    };
    Limits { f32, bf16, i8, memory: memory() }
}

#[cfg(not(target_arch = "x86_64"))]
fn limits() -> Limits {
    Limits { f32: f64::NAN, bf16: f64::NAN, i8: f64::NAN, memory: memory() }
}

/// Reads 128 MiB.
fn memory() -> f64 {
    let buffer = Memory::new(128 << 20);
    // SAFETY: all of it is initialised.
    let words = unsafe { std::slice::from_raw_parts(buffer.data.cast::<u64>(), buffer.bytes / 8) };
    let seconds = limit(|| {
        let mut sums = [0u64; 32];
        for line in words.chunks_exact(32) {
            for (sum, word) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*word);
            }
        }
        black_box(sums);
    });
    buffer.bytes as f64 / seconds
}

/// One product.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    dtype: DType,
    m: usize,
    k: usize,
    n: usize,
    packed: bool,
    a_trans: bool,
    b_trans: bool,
    /// Runs on this many weights in turn, so that they come from memory.
    weights: usize,
}

const fn case(name: &'static str, dtype: DType, m: usize, k: usize, n: usize) -> Case {
    Case { name, dtype, m, k, n, packed: false, a_trans: false, b_trans: false, weights: 1 }
}

const fn packed(case: Case) -> Case {
    Case { packed: true, ..case }
}

const CASES: &[Case] = &[
    case("1024^3", DType::F32, 1024, 1024, 1024),
    case("1024^3", DType::F16, 1024, 1024, 1024),
    case("1024^3", DType::BF16, 1024, 1024, 1024),
    case("1024^3", DType::I8, 1024, 1024, 1024),
    packed(case("1024^3", DType::F32, 1024, 1024, 1024)),
    Case { b_trans: true, ..case("1024^3, b_trans", DType::F32, 1024, 1024, 1024) },
    Case { a_trans: true, ..case("1024^3, a_trans", DType::F32, 1024, 1024, 1024) },
    case("x[16,1024] @ W[1024,4096]", DType::F32, 16, 1024, 4096),
    packed(case("x[16,1024] @ W[1024,4096]", DType::F32, 16, 1024, 4096)),
    case("x[16,1024] @ W[1024,4096]", DType::F16, 16, 1024, 4096),
    packed(case("x[16,1024] @ W[1024,4096]", DType::F16, 16, 1024, 4096)),
    case("x[16,1024] @ W[1024,4096]", DType::BF16, 16, 1024, 4096),
    packed(case("x[16,1024] @ W[1024,4096]", DType::BF16, 16, 1024, 4096)),
    packed(case("x[16,1024] @ W[1024,4096]", DType::I8, 16, 1024, 4096)),
    case("x[4,1024] @ W[1024,4096]", DType::F32, 4, 1024, 4096),
    case("x[8,1024] @ W[1024,4096]", DType::F32, 8, 1024, 4096),
    case("x[4,1024] @ W[1024,4096]", DType::BF16, 4, 1024, 4096),
    case("x[40,1024] @ W[1024,4096]", DType::F16, 40, 1024, 4096),
    packed(case("x[40,1024] @ W[1024,4096]", DType::F16, 40, 1024, 4096)),
    case("tile 32^3", DType::F32, 32, 32, 32),
    case("tile 64^3", DType::F32, 64, 64, 64),
    case("tile 128^3", DType::F32, 128, 128, 128),
    case("tile 256^3", DType::F32, 256, 256, 256),
    case("tile 128^3", DType::F16, 128, 128, 128),
    case("tile 128^3", DType::BF16, 128, 128, 128),
    Case { b_trans: true, ..case("tile 128^3, b_trans", DType::F16, 128, 128, 128) },
    Case { weights: 3, ..case("1x4096x4096", DType::F32, 1, 4096, 4096) },
    Case { weights: 3, ..packed(case("1x4096x4096", DType::F32, 1, 4096, 4096)) },
    Case { weights: 6, ..case("1x4096x4096", DType::F16, 1, 4096, 4096) },
    Case { weights: 6, ..packed(case("1x4096x4096", DType::F16, 1, 4096, 4096)) },
    Case { weights: 6, ..case("1x4096x4096", DType::BF16, 1, 4096, 4096) },
    Case { weights: 6, ..packed(case("1x4096x4096", DType::BF16, 1, 4096, 4096)) },
    Case { weights: 3, b_trans: true, ..case("1x4096x4096, b_trans", DType::F32, 1, 4096, 4096) },
];

impl Case {
    fn run(&self, c: &mut Criterion, limits: &Limits) {
        let &Case { name, dtype, m, k, n, packed, a_trans, b_trans, weights } = self;
        let out = if dtype == DType::I8 { DType::I32 } else { DType::F32 };
        let mm = MatMul::new(MatMulSpec { dtype, a_trans, b_trans, out }, Isa::from_env().expect("PYPTO_ISA"))
            .expect("types");
        let row = |cols: usize| (cols * dtype.size()) as isize;
        let a = Memory::filled(dtype, m * k);
        let result = Memory::new(m * n * 4);
        let scratch = Memory::new(mm.scratch_bytes(m, n, k));
        let plain: Vec<Memory> = (0..weights).map(|_| Memory::filled(dtype, k * n)).collect();
        let b_row = row(if b_trans { k } else { n });
        let made: Vec<Memory> = plain
            .iter()
            .filter(|_| packed)
            .map(|b| {
                let room = Memory::new(mm.packed_bytes(k, n));
                // SAFETY: `b` is `[k, n]`, `room` as large as asked for.
                unsafe { mm.pack_b(MatRef { data: b.data, row_stride: b_row }, k, n, room.data) };
                room
            })
            .collect();
        let mut turn = 0;
        let form = if packed { "packed" } else { "plain" };
        let seconds = best(c, &format!("{name}/{dtype}/{form}"), || {
            turn = (turn + 1) % weights;
            let b = match made.get(turn) {
                Some(room) => Rhs::Packed(PackedRef { data: room.data, k_total: k, k_start: 0, n_start: 0 }),
                None => Rhs::Plain(MatRef { data: plain[turn].data, row_stride: b_row }),
            };
            let args = MatMulArgs {
                m,
                n,
                k,
                a: MatRef { data: a.data, row_stride: row(if a_trans { m } else { k }) },
                b,
                c: MatMut { data: result.data, row_stride: (n * 4) as isize },
                acc: None,
                bias: None,
                scratch: scratch.data,
            };
            // SAFETY: every operand has these extents.
            unsafe { mm.run(&args) };
        });
        if seconds.is_infinite() {
            return;
        }
        let operations = 2.0 * (m * n * k) as f64;
        let limit = match dtype {
            DType::BF16 => limits.bf16,
            DType::I8 => limits.i8,
            _ => limits.f32,
        };
        print!(
            "    {:.2} us, {:.1} GOP/s, {:.0} % of the arithmetic limit",
            seconds * 1e6,
            operations / seconds / 1e9,
            100.0 * operations / seconds / limit
        );
        if weights > 1 {
            let read = (k * n * dtype.size()) as f64 / seconds;
            print!(", {:.1} GB/s, {:.0} % of the memory limit", read / 1e9, 100.0 * read / limits.memory);
        }
        println!("\n");
    }
}

fn all(c: &mut Criterion) {
    let limits = limits();
    println!(
        "    limits: FP32 {:.0}, BF16 {:.0} GFLOP/s, INT8 {:.0} GOP/s, memory {:.1} GB/s\n",
        limits.f32 / 1e9,
        limits.bf16 / 1e9,
        limits.i8 / 1e9,
        limits.memory / 1e9
    );
    for case in CASES {
        case.run(c, &limits);
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
