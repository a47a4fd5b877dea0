//! What does fusing elementwise work by an interpreter cost beside a loop written by hand for the same work?
//!
//! Each group holds the machine on the best instruction set and the loop, compiled for the same one: compare the two.

#![allow(missing_docs, unsafe_code)]

use _pypto::DType;
use _pypto::kernels::Isa;
use _pypto::kernels::chain::{
    BinaryFn, ChainProgram, ChainRun, Conversion, Dst, Inst, Machine, MemArg, MemDecl, Phase, ReduceFn, RowInst,
    RowSrc, Src, UnaryFn,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// Memory like that of the arena: in huge pages where it is large, touched.
struct Buffer {
    data: Vec<f32>,
    start: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Self {
        const HUGE: usize = 2 << 20;
        let align = if bytes < HUGE { 64 } else { HUGE };
        let mut data: Vec<f32> = Vec::with_capacity((bytes + align) / 4);
        let start = data.as_ptr().align_offset(align);
        if bytes >= HUGE {
            // SAFETY: advice about memory that was just allocated and holds nothing.
            unsafe { libc::madvise(data.as_mut_ptr().add(start).cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        let value = |i: usize| ((i.wrapping_mul(2_654_435_761) >> 8) % 1024) as f32 / 256.0 - 2.0;
        data.extend((0..data.capacity()).map(value));
        Buffer { data, start }
    }

    fn start(&mut self) -> *mut u8 {
        self.data[self.start..].as_mut_ptr().cast()
    }
}

/// A machine with the memory for one region.
struct Bench {
    machine: Machine,
    scratch: Buffer,
    rows: usize,
    cols: usize,
    mems: Vec<MemArg>,
}

impl Bench {
    fn new(program: ChainProgram, rows: usize, cols: usize, data: &[*mut u8], stream: bool) -> Self {
        let size = |index: usize| program.mems[index].dtype.size();
        let mem = |(index, &data)| MemArg { data, row_stride: (cols * size(index)) as isize, stream };
        let mems = data.iter().enumerate().map(mem).collect();
        let machine = Machine::new(program, Isa::detect());
        let scratch = Buffer::new(machine.scratch_bytes(cols));
        Bench { machine, scratch, rows, cols, mems }
    }

    fn run(&mut self) {
        let scratch = self.scratch.start();
        let run = ChainRun {
            rows: self.rows,
            cols: self.cols,
            first: [0; 2],
            mems: black_box(&self.mems),
            scalars: &[],
            scratch,
        };
        // SAFETY: `new` was given memory for the region.
        unsafe { self.machine.run(&run) };
    }
}

fn chain(dtypes: &[DType], body: &[Inst]) -> ChainProgram {
    ChainProgram {
        phases: vec![Phase { body: body.to_vec(), ..Phase::default() }],
        mems: dtypes.iter().map(|&dtype| MemDecl { dtype }).collect(),
        ..ChainProgram::default()
    }
}

fn constant(f: BinaryFn, value: f32) -> Inst {
    Inst::Binary(f, Src::Const(value.to_bits()))
}

/// A loop compiled for each instruction set, and the choice of the best.
macro_rules! loops {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $body:block)*) => {
        $(
            fn $name($($arg: $type),*) {
                #[inline(always)]
                fn body($($arg: $type),*) $body
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
                fn avx512($($arg: $type),*) {
                    body($($arg),*);
                }
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $type),*) {
                    body($($arg),*);
                }
                match Isa::detect() {
                    // SAFETY: detected.
                    Isa::Avx512 => unsafe { avx512($($arg),*) },
                    // SAFETY: detected.
                    Isa::Avx2 => unsafe { avx2($($arg),*) },
                    Isa::Generic => body($($arg),*),
                }
            }
        )*
    };
}

loops! {
    fn add_loop(a: &[f32], b: &[f32], c: &mut [f32]) {
        for ((c, a), b) in c.iter_mut().zip(a).zip(b) {
            *c = a + b;
        }
    }

    fn eight_loop(x: &mut [f32]) {
        for x in x {
            *x = ((((*x * 1.5 + 0.25).max(0.0) * 0.75 + 0.5).min(3.0) - 0.125) * 1.25) + 0.0625;
        }
    }
}

/// The work of `eight_loop`.
fn eight() -> ChainProgram {
    chain(
        &[DType::F32],
        &[
            Inst::Load(Src::Mem(0)),
            constant(BinaryFn::MulF, 1.5),
            constant(BinaryFn::AddF, 0.25),
            constant(BinaryFn::MaxF, 0.0),
            constant(BinaryFn::MulF, 0.75),
            constant(BinaryFn::AddF, 0.5),
            constant(BinaryFn::MinF, 3.0),
            constant(BinaryFn::SubF, 0.125),
            constant(BinaryFn::MulF, 1.25),
            constant(BinaryFn::AddF, 0.0625),
            Inst::Store(Dst::Mem(0)),
        ],
    )
}

/// `data` as `len` numbers.
///
/// # Safety
/// It has that many, and nobody else uses them.
unsafe fn floats<'a>(data: *mut u8, len: usize) -> &'a mut [f32] {
    // SAFETY: passed on to the caller.
    unsafe { std::slice::from_raw_parts_mut(data.cast(), len) }
}

fn small_add(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain/add_16x16");
    let mut buffers: [Buffer; 3] = std::array::from_fn(|_| Buffer::new(1024));
    let data = buffers.each_mut().map(Buffer::start);
    let body = [Inst::Load(Src::Mem(0)), Inst::Binary(BinaryFn::AddF, Src::Mem(1)), Inst::Store(Dst::Mem(2))];
    let mut bench = Bench::new(chain(&[DType::F32; 3], &body), 16, 16, &data, false);
    group.bench_function("machine", |b| b.iter(|| bench.run()));
    group.bench_function("loop", |b| {
        // SAFETY: the buffers have 256 numbers.
        b.iter(|| unsafe { add_loop(floats(data[0], 256), floats(data[1], 256), floats(data[2], 256)) });
    });
    group.finish();
}

fn eight_operations(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain/eight_operations");
    for side in [32, 128, 1024, 4096] {
        let mut buffer = Buffer::new(side * side * 4);
        let data = buffer.start();
        let mut bench = Bench::new(eight(), side, side, &[data], false);
        group.throughput(Throughput::Elements((side * side) as u64));
        group.bench_with_input(BenchmarkId::new("machine", side), &side, |b, _| b.iter(|| bench.run()));
        group.bench_with_input(BenchmarkId::new("loop", side), &side, |b, _| {
            // SAFETY: the buffer has so many numbers.
            b.iter(|| eight_loop(unsafe { floats(data, side * side) }));
        });
    }
    group.finish();
}

/// Maximum; exp of the distance and its sum; product with the reciprocal of the sum.
fn softmax(dtype: DType) -> ChainProgram {
    let maximum = Phase { body: vec![Inst::Load(Src::Mem(0)), Inst::Reduce(ReduceFn::MaxF, 0)], ..Phase::default() };
    let exp = Phase {
        body: vec![
            Inst::Load(Src::Mem(0)),
            Inst::Binary(BinaryFn::SubF, Src::Slot(0)),
            Inst::Unary(UnaryFn::ExpF),
            Inst::Store(Dst::RowBuf(0)),
            Inst::Reduce(ReduceFn::SumF, 1),
        ],
        epilogue: vec![RowInst::Unary { slot: 1, f: UnaryFn::RecipF, src: RowSrc::Slot(1) }],
        ..Phase::default()
    };
    let scale = Phase {
        body: vec![Inst::Load(Src::RowBuf(0)), Inst::Binary(BinaryFn::MulF, Src::Slot(1)), Inst::Store(Dst::Mem(1))],
        ..Phase::default()
    };
    ChainProgram {
        mems: vec![MemDecl { dtype }; 2],
        slots: 2,
        row_bufs: 1,
        temps: 0,
        phases: vec![maximum, exp, scale],
    }
}

fn softmax_rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain/softmax");
    for (rows, cols, stream) in [(64, 64, false), (4096, 1024, true)] {
        let mut buffers: [Buffer; 2] = std::array::from_fn(|_| Buffer::new(rows * cols * 4));
        let data = buffers.each_mut().map(Buffer::start);
        let mut bench = Bench::new(softmax(DType::F32), rows, cols, &data, stream);
        group.throughput(Throughput::Elements((rows * cols) as u64));
        group.bench_function(BenchmarkId::new("machine", format!("{rows}x{cols}")), |b| b.iter(|| bench.run()));
    }
    group.finish();
}

/// One function over a region in the first-level cache; `copy` is the load and the store that all of them have.
fn functions(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain/function_16x128");
    let vector = |f| Inst::Binary(f, Src::Mem(0));
    let functions: [(&str, &[Inst]); 22] = [
        ("copy", &[]),
        ("exp", &[Inst::Unary(UnaryFn::ExpF)]),
        ("log", &[Inst::Unary(UnaryFn::LogF)]),
        ("sin", &[Inst::Unary(UnaryFn::SinF)]),
        ("cos", &[Inst::Unary(UnaryFn::CosF)]),
        ("sin_large", &[constant(BinaryFn::MulF, 1e30), Inst::Unary(UnaryFn::SinF)]),
        ("sqrt", &[Inst::Unary(UnaryFn::SqrtF)]),
        ("rsqrt", &[Inst::Unary(UnaryFn::RsqrtF)]),
        ("div", &[constant(BinaryFn::DivF, 3.0)]),
        ("fmod", &[constant(BinaryFn::FmodF, 0.3)]),
        ("maximum", &[constant(BinaryFn::MaxF, 0.0)]),
        ("add", &[constant(BinaryFn::AddF, 1.0)]),
        ("compare", &[constant(BinaryFn::GtF, 0.5)]),
        ("compare_pick", &[constant(BinaryFn::GtF, 0.5), Inst::Pick { then: Src::Mem(0), other: Src::Const(7) }]),
        ("div_i", &[vector(BinaryFn::DivI)]),
        ("rem_i", &[vector(BinaryFn::RemI)]),
        ("shl", &[vector(BinaryFn::ShlI)]),
        ("round_f16", &[Inst::Convert(Conversion::RoundF16)]),
        ("round_bf16", &[Inst::Convert(Conversion::RoundBF16)]),
        ("row_max", &[Inst::Reduce(ReduceFn::MaxF, 0)]),
        ("row_sum", &[Inst::Reduce(ReduceFn::SumF, 0)]),
        ("row_prod", &[Inst::Reduce(ReduceFn::ProdF, 0)]),
    ];
    let mut buffers: [Buffer; 2] = std::array::from_fn(|_| Buffer::new(16 * 128 * 4));
    let data = buffers.each_mut().map(Buffer::start);
    group.throughput(Throughput::Elements(16 * 128));
    for (name, insts) in functions {
        let body = [&[Inst::Load(Src::Mem(0))], insts, &[Inst::Store(Dst::Mem(1))]].concat();
        let mut program = chain(&[DType::F32; 2], &body);
        program.slots = insts.iter().any(|inst| matches!(inst, Inst::Reduce(..))).into();
        let mut bench = Bench::new(program, 16, 128, &data, false);
        group.bench_function(name, |b| b.iter(|| bench.run()));
    }
    group.finish();
}

fn half_add(c: &mut Criterion) {
    let mut group = c.benchmark_group("chain/half_add_64x128");
    group.throughput(Throughput::Elements(64 * 128));
    for (name, dtype, round) in
        [("f16", DType::F16, Conversion::RoundF16), ("bf16", DType::BF16, Conversion::RoundBF16)]
    {
        let mut buffers: [Buffer; 3] = std::array::from_fn(|_| Buffer::new(64 * 128 * 2));
        let data = buffers.each_mut().map(Buffer::start);
        let body = [
            Inst::Load(Src::Mem(0)),
            Inst::Binary(BinaryFn::AddF, Src::Mem(1)),
            Inst::Convert(round),
            Inst::Store(Dst::Mem(2)),
        ];
        let mut bench = Bench::new(chain(&[dtype; 3], &body), 64, 128, &data, false);
        group.bench_function(name, |b| b.iter(|| bench.run()));
    }
    group.finish();
}

criterion_group!(benches, small_add, eight_operations, softmax_rows, functions, half_add);
criterion_main!(benches);
