//! A launch in the steady state allocates no host memory, counted by the allocator itself.
#![allow(unsafe_code)] // It replaces the allocator, and launches are unsafe calls.

use _pypto::arena::BufferSpec;
use _pypto::device::{Device, DeviceError, Executable, Launch};
use _pypto::program::{Dim, Direction, Function, Loc, Param, ParamKind, Program};
use _pypto::worker::{HostTensor, Value, Worker, WorkerConfig};
use _pypto::{DType, Shape};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

/// The system's allocator, counting what this thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: it passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A device whose programs only take workspace.
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
        4096
    }

    fn estimated_ns(&self) -> u64 {
        0
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        launch.workspace.reserve(100)?;
        launch.workspace.reserve(10_000)?;
        Ok(())
    }
}

fn shape(length: u64) -> Shape {
    Shape::new(&[length]).unwrap()
}

/// A program with `inputs` tensors that it reads, one that it writes, and a scalar.
fn program(inputs: usize) -> Arc<Program> {
    let tensor = |name: String, direction| {
        let kind = ParamKind::Tensor { dtype: DType::U8, dims: vec![Dim::Symbol(0)], direction };
        Param { name, kind }
    };
    let mut params: Vec<_> = (0..inputs).map(|index| tensor(format!("in{index}"), Direction::In)).collect();
    params.push(tensor("out".into(), Direction::Out));
    params.push(Param { name: "n".into(), kind: ParamKind::Scalar { dtype: DType::I32, baked: false } });
    let entry = Function {
        name: "idle".into(),
        at: Loc::default(),
        params: vec![],
        scalars: vec![],
        tensors: vec![],
        tiles: vec![],
        body: vec![],
    };
    let (name, files, symbols) = ("idle".into(), vec![], vec!["M".into()]);
    Arc::new(Program { name, files, symbols, params, entry, kernels: vec![] })
}

#[test]
fn a_steady_launch_allocates_nothing() {
    let config = WorkerConfig { name: None, device: Box::new(Idle), capacity: 64 << 20, poison: false };
    let worker = Worker::open(config).unwrap();
    for inputs in [2, 141] {
        let registration = worker.register(program(inputs)).unwrap();
        let mut host = vec![vec![1u8; 1000]; inputs + 1];
        let spec = BufferSpec { shape: shape(1000), dtype: DType::U8, site: None };
        let buffers: Vec<_> = (0..=inputs).map(|_| worker.allocate(spec.clone()).unwrap()).collect();
        let launch = |length: u64, resident: bool, host: &mut [Vec<u8>]| {
            let (shape, dtype) = (&shape(length), DType::U8);
            let mut args: Vec<_> = host
                .iter_mut()
                .zip(&buffers)
                .map(|(host, buffer)| match resident {
                    true => Value::Resident { buffer, shape, dtype },
                    false => Value::Host(HostTensor { data: host.as_mut_ptr(), shape: *shape, dtype, writable: true }),
                })
                .collect();
            args.push(Value::Int(7));
            let before = ALLOCATIONS.get();
            // SAFETY: the host tensors are the vectors above.
            unsafe { worker.launch(&registration, &args, &mut || true) }.unwrap();
            ALLOCATIONS.get() - before
        };
        for resident in [false, true] {
            launch(1000, resident, &mut host);
            launch(1000, resident, &mut host);
            for length in [1000, 1, 999, 500] {
                assert_eq!(launch(length, resident, &mut host), 0, "{inputs} inputs, resident: {resident}");
            }
        }
    }
    let counted = ALLOCATIONS.get();
    drop(Box::new(1));
    assert_eq!(ALLOCATIONS.get(), counted + 1, "the allocator counts");
}
