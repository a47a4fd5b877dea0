//! A launch in the steady state allocates no host memory on any thread, counted by the allocator itself: with a device
//! that does nothing but take workspace, and with programs of each kind on the simulated chip.
#![allow(unsafe_code)] // It replaces the allocator, and launches are unsafe calls.

mod programs;

use _pypto::arena::{Buffer, BufferSpec};
use _pypto::device::sim::SimDevice;
use _pypto::device::{Device, DeviceError, Executable, Launch};
use _pypto::kernels::Isa;
use _pypto::program::{Dim, Direction, Function, Loc, Param, ParamKind, Program};
use _pypto::worker::{HostTensor, Kept, NO_VERSION, Registration, ResidencyMode, Value, Worker, WorkerConfig};
use _pypto::{DType, Shape};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting what all threads ask for. So there is one test in this file.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: it passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the contract of the trait.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
        Ok(())
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the contract of the trait.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
        Ok(())
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

/// A program with `inputs` matrices that it reads, one that it writes, and a scalar.
fn idle(inputs: usize) -> Arc<Program> {
    let tensor = |name: String, direction| {
        let dims = vec![Dim::Symbol(0), Dim::Const(16)];
        Param { name, kind: ParamKind::Tensor { dtype: DType::F32, dims, direction } }
    };
    let mut params: Vec<_> = (0..inputs).map(|index| tensor(format!("in{index}"), Direction::In)).collect();
    params.push(tensor("out".into(), Direction::Out));
    params.push(Param { name: "n".into(), kind: ParamKind::Scalar { dtype: DType::I32, baked: None } });
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
    let (name, files, symbols) = ("idle".into(), vec![], vec!["M".into()]);
    Arc::new(Program { name, files, symbols, params, entry, kernels: vec![] })
}

/// The arguments of one program, of up to `ROWS` rows, on the host and on the device.
struct Arguments {
    params: Vec<Param>,
    host: Vec<Vec<f32>>,
    resident: Vec<Arc<Buffer>>,
}

const ROWS: u64 = 40;

impl Arguments {
    fn of(program: &Program, worker: &Worker) -> Self {
        let params = program.params.clone();
        let shapes: Vec<_> = params.iter().filter_map(|param| shape(param, ROWS)).collect();
        let elements = |shape: &Shape| shape.elements().unwrap() as usize;
        let spec = |shape: &Shape| BufferSpec { shape: *shape, dtype: DType::F32, site: None, scope: None };
        let host = shapes.iter().map(|shape| (0..elements(shape)).map(|at| (at % 7) as f32).collect()).collect();
        let resident = shapes.iter().map(|shape| worker.allocate(spec(shape)).unwrap()).collect();
        Self { params, host, resident }
    }

    /// Launches, and says how many allocations that took.
    fn launch(&mut self, worker: &Worker, registration: &Registration, rows: u64, resident: bool, scalar: i64) -> u64 {
        let shapes: Vec<_> = self.params.iter().map(|param| shape(param, rows)).collect();
        let mut tensors = self.host.iter_mut().zip(&self.resident);
        let args: Vec<_> = shapes
            .iter()
            .map(|shape| match (shape, resident) {
                (None, _) => Value::Int(scalar),
                (Some(shape), true) => {
                    let buffer = tensors.next().unwrap().1;
                    Value::Resident { buffer, offset: 0, shape, dtype: DType::F32 }
                }
                (Some(shape), false) => {
                    let data = tensors.next().unwrap().0.as_mut_ptr().cast();
                    let (shape, dtype) = (*shape, DType::F32);
                    Value::Host(HostTensor { data, shape, dtype, writable: true, version: NO_VERSION })
                }
            })
            .collect();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        // SAFETY: the host tensors are the vectors above.
        unsafe { worker.launch(registration, &args, &mut || true) }.unwrap();
        ALLOCATIONS.load(Ordering::Relaxed) - before
    }
}

impl Arguments {
    /// Launches resident tensors that were bound before, and says how many allocations that took.
    fn launch_prepared(&self, worker: &Worker, registration: &Arc<Registration>) -> u64 {
        let mut buffers = self.resident.iter();
        let args = self.params.iter().map(|param| match shape(param, ROWS) {
            None => Kept::Other(Value::Int(1)),
            Some(shape) => {
                let buffer = buffers.next().unwrap().clone();
                Kept::Resident { buffer, offset: 0, shape, dtype: DType::F32 }
            }
        });
        let prepared = worker.enter("bind").unwrap().prepare(registration, args.collect()).unwrap();
        let mut allocations = 0;
        for round in 0..6 {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            // SAFETY: there are no host tensors.
            let launched = unsafe { worker.enter("run").unwrap().launch_prepared(&prepared, &[], &mut || true) };
            assert!(launched.unwrap());
            if round >= 3 {
                allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
            }
        }
        allocations
    }
}

/// The shape of a tensor parameter; `None` for a scalar.
fn shape(param: &Param, rows: u64) -> Option<Shape> {
    let ParamKind::Tensor { dims, .. } = &param.kind else { return None };
    let extent = |dim: &Dim| match dim {
        Dim::Const(extent) => *extent,
        Dim::Symbol(_) => rows,
    };
    let dims: Vec<_> = dims.iter().map(extent).collect();
    Shape::new(&dims)
}

fn open(device: Box<dyn Device>) -> Arc<Worker> {
    Worker::open(WorkerConfig {
        name: None,
        device,
        capacity: 256 << 20,
        poison: false,
        packed_share: 0.5,
        residency: ResidencyMode::Off,
    })
    .unwrap()
}

/// Launches with extents and scalars that change and that stay, after a first round of them.
fn check(worker: &Worker, program: Arc<Program>, name: &str) {
    let registration = worker.register(program.clone()).unwrap();
    let mut args = Arguments::of(&program, worker);
    for resident in [false, true] {
        for round in 0..3 {
            for (rows, scalar) in [(ROWS, 0), (ROWS, 0), (ROWS, 0), (ROWS, 1), (1, 1), (39, 1), (39, 1), (39, 1)] {
                let allocations = args.launch(worker, &registration, rows, resident, scalar);
                let what = format!("{name}, {rows} rows, scalar {scalar}, resident: {resident}");
                assert!(round == 0 || allocations == 0, "{what}: {allocations} allocations");
            }
        }
    }
    let allocations = args.launch_prepared(worker, &registration);
    assert_eq!(allocations, 0, "{name}, prepared");
    let result = args.host.last().unwrap();
    assert!(name.starts_with("idle") || result.iter().any(|&value| value != 0.0), "{name} computed nothing");
}

#[test]
fn a_steady_launch_allocates_nothing() {
    let idle_worker = open(Box::new(Idle));
    for inputs in [2, 141, 1215] {
        check(&idle_worker, idle(inputs), &format!("idle with {inputs} inputs"));
    }
    let worker = open(Box::new(SimDevice::new(2, Isa::detect())));
    for program in [
        programs::add(16, 16),
        programs::add(1024, 1024),
        programs::add_transposed(),
        programs::product(),
        programs::add_by_blocks(),
        programs::add_rows(),
        programs::add_row(),
        programs::add_created(),
    ] {
        check(&worker, program.clone(), &program.name);
    }
    let counted = ALLOCATIONS.load(Ordering::Relaxed);
    drop(std::hint::black_box(Box::new(1)));
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > counted, "the allocator counts");
}
