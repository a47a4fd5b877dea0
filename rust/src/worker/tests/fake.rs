//! The smallest device that keeps the contract: what a program does is a closure.

use crate::arena::{Buffer, BufferSpec, Site};
use crate::device::{Device, DeviceError, Executable, Launch, TensorArg};
use crate::dtype::DType;
use crate::error::Result;
use crate::program::{Dim, Direction, Function, Loc, Number, Param, ParamKind, Program};
use crate::shape::Shape;
use crate::worker::{HostTensor, Registration, Value, Worker, WorkerConfig};
use std::sync::{Arc, Mutex};

type Body = dyn Fn(&mut Launch<'_>) -> Result<(), DeviceError> + Send + Sync;

/// A device whose programs all do the same.
pub struct Fake {
    body: Arc<Body>,
    pub scratch: u64,
    pub refuses: bool,
    /// Whether its programs say that they overwrite their tensors.
    pub overwrites: bool,
    /// What ended, in order: programs by name, then `device`.
    pub ended: Arc<Mutex<Vec<String>>>,
}

struct FakeProgram {
    name: String,
    body: Arc<Body>,
    scratch: u64,
    overwrites: bool,
    ended: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    pub fn new(body: impl Fn(&mut Launch<'_>) -> Result<(), DeviceError> + Send + Sync + 'static) -> Self {
        Self { body: Arc::new(body), scratch: 0, refuses: false, overwrites: false, ended: Arc::default() }
    }

    /// The last tensor becomes the bytewise sum of the others.
    pub fn adding() -> Self {
        Self::new(|launch| {
            let (out, inputs) = launch.tensors.split_last().unwrap();
            for index in 0..bytes(out) {
                let sum = inputs.iter().map(|input| read(input, index)).fold(0, u8::wrapping_add);
                write(out, index, sum);
            }
            Ok(())
        })
    }

    pub fn open(self) -> Arc<Worker> {
        self.open_with(1 << 20, false)
    }

    pub fn open_with(self, capacity: u64, poison: bool) -> Arc<Worker> {
        Worker::open(WorkerConfig {
            name: Some("w".into()),
            device: Box::new(self),
            capacity,
            poison,
            packed_share: 0.5,
            residency: crate::worker::ResidencyMode::Off,
        })
        .unwrap()
    }
}

impl Device for Fake {
    fn platform(&self) -> &'static str {
        "fake"
    }

    fn cores(&self) -> usize {
        1
    }

    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        if self.refuses {
            return Err(DeviceError::Unavailable("the fake compiler is out of order".into()));
        }
        let (name, body, ended) = (program.name.clone(), self.body.clone(), self.ended.clone());
        let &Self { scratch, overwrites, .. } = self;
        Ok(Box::new(FakeProgram { name, body, scratch, overwrites, ended }))
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the contract.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
        Ok(())
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the contract.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
        Ok(())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ended.lock().unwrap().push("device".into());
    }
}

impl Executable for FakeProgram {
    fn scratch_bytes(&self) -> u64 {
        self.scratch
    }

    fn estimated_ns(&self) -> u64 {
        3000
    }

    fn overwrites(&self, _: usize) -> bool {
        self.overwrites
    }

    unsafe fn launch(&mut self, mut launch: Launch<'_>) -> Result<(), DeviceError> {
        (self.body)(&mut launch)
    }
}

impl Drop for FakeProgram {
    fn drop(&mut self) {
        self.ended.lock().unwrap().push(self.name.clone());
    }
}

/// Bytes of an argument; all fake programs work on bytes.
pub fn bytes(tensor: &TensorArg) -> u64 {
    tensor.shape.elements().unwrap()
}

pub fn read(tensor: &TensorArg, index: u64) -> u8 {
    // SAFETY: tests stay in range, or in the guard behind it.
    unsafe { tensor.data.add(index as usize).read() }
}

pub fn write(tensor: &TensorArg, index: u64, value: u8) {
    // SAFETY: as above.
    unsafe { tensor.data.add(index as usize).write(value) };
}

pub fn tensor(name: &str, dtype: DType, dims: &[Dim], direction: Direction) -> Param {
    Param { name: name.into(), kind: ParamKind::Tensor { dtype, dims: dims.into(), direction } }
}

pub fn scalar(name: &str, dtype: DType, baked: Option<Number>) -> Param {
    Param { name: name.into(), kind: ParamKind::Scalar { dtype, baked } }
}

pub fn program(name: &str, params: Vec<Param>) -> Arc<Program> {
    let entry = Function {
        source: Default::default(),
        name: name.into(),
        at: Loc::default(),
        params: vec![],
        scalars: vec![],
        tensors: vec![],
        tiles: vec![],
        body: vec![],
    };
    let (files, symbols) = (vec!["kernel.py".into()], vec!["M".into(), "N".into()]);
    Arc::new(Program { name: name.into(), files, symbols, params, entry, kernels: vec![] })
}

/// `c = a + b` on `length` bytes.
pub fn add(length: u64) -> Arc<Program> {
    let dims = [Dim::Const(length)];
    let param = |name, direction| tensor(name, DType::U8, &dims, direction);
    program("add", vec![param("a", Direction::In), param("b", Direction::In), param("c", Direction::Out)])
}

pub fn shape(dims: &[u64]) -> Shape {
    Shape::new(dims).unwrap()
}

pub fn spec(dims: &[u64], dtype: DType) -> BufferSpec {
    BufferSpec { shape: shape(dims), dtype, site: Some(Site { file: "model.py".into(), line: 12 }), scope: None }
}

pub fn host(data: &mut [u8]) -> Value<'_> {
    host_as(data, &[data.len() as u64], DType::U8)
}

pub fn host_as<'a>(data: &mut [u8], dims: &[u64], dtype: DType) -> Value<'a> {
    Value::Host(HostTensor {
        data: data.as_mut_ptr(),
        shape: shape(dims),
        dtype,
        writable: true,
        version: crate::worker::NO_VERSION,
    })
}

pub fn read_only(data: &[u8]) -> Value<'_> {
    let (data, shape) = (data.as_ptr().cast_mut(), shape(&[data.len() as u64]));
    Value::Host(HostTensor { data, shape, dtype: DType::U8, writable: false, version: crate::worker::NO_VERSION })
}

pub fn resident(buffer: &Arc<Buffer>) -> Value<'_> {
    Value::Resident { buffer, offset: 0, shape: buffer.shape(), dtype: buffer.dtype() }
}

pub fn run(worker: &Worker, registration: &Registration, args: &[Value<'_>]) -> Result<()> {
    // SAFETY: the host tensors of the tests outlive the call.
    unsafe { worker.launch(registration, args, &mut || true) }
}

/// A buffer of bytes with these contents.
pub fn upload(worker: &Worker, data: &[u8]) -> Arc<Buffer> {
    // SAFETY: the buffer is as large as the data.
    unsafe { worker.allocate_from(spec(&[data.len() as u64], DType::U8), data.as_ptr()) }.unwrap()
}

/// The bytes of a buffer.
pub fn download(worker: &Worker, buffer: &Buffer) -> Vec<u8> {
    let mut data = vec![0; buffer.bytes() as usize];
    // SAFETY: the vector is as large as the buffer.
    unsafe { worker.copy_from(data.as_mut_ptr(), buffer.addr(), buffer.bytes()) }.unwrap();
    data
}
