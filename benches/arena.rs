//! What the host side costs when the device does nothing: allocation, binding, uploads.
#![allow(unsafe_code, missing_docs)] // Launches and copies are unsafe calls; the macros of criterion have no docs.

use _pypto::arena::BufferSpec;
use _pypto::device::{Device, DeviceError, Executable, Launch};
use _pypto::program::{Dim, Direction, Function, Loc, Param, ParamKind, Program};
use _pypto::worker::{HostTensor, Value, Worker, WorkerConfig};
use _pypto::{DType, Shape};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;

/// A device whose programs do nothing.
struct Idle;

impl Device for Idle {
    fn platform(&self) -> &'static str {
        "idle"
    }

    fn cores(&self) -> usize {
        1
    }

    fn compile(&self, _program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        Ok(Box::new(Idle))
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) {
        // SAFETY: the contract of the trait.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) {
        // SAFETY: the contract of the trait.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
    }
}

impl Executable for Idle {
    fn scratch_bytes(&self) -> u64 {
        0
    }

    fn estimated_ns(&self) -> u64 {
        0
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        black_box(launch.tensors);
        Ok(())
    }
}

fn open() -> Arc<Worker> {
    Worker::open(WorkerConfig {
        name: None,
        device: Box::new(Idle),
        capacity: 4 << 30,
        poison: false,
        packed_share: 0.5,
    })
    .unwrap()
}

fn spec(dims: &[u64]) -> BufferSpec {
    BufferSpec { shape: Shape::new(dims).unwrap(), dtype: DType::F32, site: None }
}

/// A program of `count` 16x16 FP32 tensors, the last of which it writes.
fn program(count: usize) -> Arc<Program> {
    let params = (0..count).map(|index| {
        let direction = if index + 1 == count { Direction::Out } else { Direction::In };
        let kind = ParamKind::Tensor { dtype: DType::F32, dims: vec![Dim::Const(16); 2], direction };
        Param { name: format!("p{index}"), kind }
    });
    let params = params.collect();
    let entry = Function {
        source: Default::default(),
        name: "idle".into(),
        at: Loc::default(),
        params: vec![],
        scalars: vec![],
        tensors: vec![],
        tiles: vec![],
        body: vec![],
    };
    Arc::new(Program { name: "idle".into(), files: vec![], symbols: vec![], params, entry, kernels: vec![] })
}

/// Does an allocation cost more when it is larger, or among many?
fn allocation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc_free");
    for (name, bytes) in [("64KiB", 64 << 10), ("1MiB", 1 << 20)] {
        for live in [0u64, 1136] {
            let worker = open();
            let others: Vec<_> = (0..live).map(|index| worker.allocate(spec(&[256 + index * 7])).unwrap()).collect();
            group.bench_function(BenchmarkId::new(name, format!("{live}_live")), |bencher| {
                bencher.iter(|| {
                    let buffer = worker.allocate(spec(&[bytes / 4])).unwrap();
                    worker.free(&buffer).unwrap()
                });
            });
            drop(others);
        }
    }
    group.finish();
}

/// What does a launch cost by number of arguments, and does it depend on how many buffers are live?
fn launch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("launch");
    for (count, live) in [(3, 3), (3, 1136), (142, 142), (142, 1136)] {
        let worker = open();
        let registration = worker.register(program(count)).unwrap();
        let buffers: Vec<_> = (0..live).map(|_| worker.allocate(spec(&[16, 16])).unwrap()).collect();
        let shape = Shape::new(&[16, 16]).unwrap();
        let resident = |buffer| Value::Resident { buffer, shape: &shape, dtype: DType::F32 };
        let args: Vec<_> = buffers[live - count..].iter().map(resident).collect();
        group.bench_function(format!("{count}_resident_of_{live}_live"), |bencher| {
            // SAFETY: there are no host tensors.
            bencher.iter(|| unsafe { worker.launch(&registration, &args, &mut || true) }.unwrap());
        });
    }
    let worker = open();
    let registration = worker.register(program(3)).unwrap();
    let mut host = [[0f32; 256]; 3];
    let args = host.each_mut().map(|data| {
        let (data, shape) = (data.as_mut_ptr().cast(), Shape::new(&[16, 16]).unwrap());
        Value::Host(HostTensor { data, shape, dtype: DType::F32, writable: true })
    });
    group.bench_function("3_host", |bencher| {
        // SAFETY: the host tensors are the arrays above.
        bencher.iter(|| unsafe { worker.launch(&registration, &args, &mut || true) }.unwrap());
    });
    group.finish();
}

/// Does an upload run at the speed of a plain copy into touched memory?
fn upload(criterion: &mut Criterion) {
    const BYTES: u64 = 64 << 20;
    let mut group = criterion.benchmark_group("upload_64MiB");
    group.throughput(Throughput::Bytes(BYTES)).sample_size(20);
    let source = vec![1u8; BYTES as usize];
    let mut target = vec![2u8; BYTES as usize];
    group
        .bench_function("plain_memcpy", |bencher| bencher.iter(|| black_box(&mut target[..]).copy_from_slice(&source)));
    let worker = open();
    let buffer = worker.allocate(spec(&[BYTES / 4])).unwrap();
    group.bench_function("copy_to", |bencher| {
        // SAFETY: both have that many bytes.
        bencher.iter(|| unsafe { worker.copy_to(buffer.addr(), source.as_ptr(), BYTES) }.unwrap());
    });
    group.bench_function("alloc_upload_free", |bencher| {
        bencher.iter(|| {
            // SAFETY: the source has that many bytes.
            let buffer = unsafe { worker.allocate_from(spec(&[BYTES / 4]), source.as_ptr()) }.unwrap();
            worker.free(&buffer).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, allocation, launch, upload);
criterion_main!(benches);
