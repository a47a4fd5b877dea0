//! Runs a program on the chip with matrices as arguments.

use super::reference::{Matrix, from_bytes, to_bytes};
use crate::device::sim::SimDevice;
use crate::device::{Device, DeviceError, Executable, Launch, TensorArg, Workspace};
use crate::kernels::Isa;
use crate::program::Program;
use crate::shape::Shape;

/// Bytes before and after each buffer that nothing may touch.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xa5;

/// Memory that a launch creates, kept to the end of the test.
#[derive(Default)]
pub struct Heap(Vec<Vec<u64>>);

impl Workspace for Heap {
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, DeviceError> {
        if bytes > 1 << 26 {
            return Err(DeviceError::OutOfMemory(format!("no room for {bytes} bytes")));
        }
        self.0.push(vec![u64::MAX; bytes.div_ceil(8) as usize + 32]);
        let start = self.0.last_mut().unwrap().as_mut_ptr().cast::<u8>();
        Ok(start.wrapping_add(start.align_offset(256)))
    }
}

/// Device memory of the arguments with guards around each.
pub struct Guarded {
    buffers: Vec<Vec<u8>>,
    shapes: Vec<Shape>,
}

impl Guarded {
    pub fn new(matrices: &[Matrix]) -> Self {
        let guard = vec![GUARD_BYTE; GUARD];
        let buffers = matrices.iter().map(|matrix| [&guard[..], &bytes_of(matrix), &guard].concat()).collect();
        let shape = |matrix: &Matrix| Shape::new(&[matrix.rows as u64, matrix.cols as u64]).unwrap();
        Self { buffers, shapes: matrices.iter().map(shape).collect() }
    }

    fn args(&mut self) -> Vec<TensorArg> {
        let buffers = self.buffers.iter_mut().zip(&self.shapes);
        buffers.map(|(bytes, &shape)| TensorArg { data: bytes[GUARD..].as_mut_ptr(), shape }).collect()
    }

    /// The bytes of each tensor.
    pub fn bytes(&self) -> Vec<&[u8]> {
        self.buffers.iter().map(|bytes| &bytes[GUARD..bytes.len() - GUARD]).collect()
    }

    /// Panics if a guard was written to.
    pub fn check(&self) {
        for (tensor, bytes) in self.buffers.iter().enumerate() {
            let guards = bytes[..GUARD].iter().chain(&bytes[bytes.len() - GUARD..]);
            assert!(guards.copied().all(|byte| byte == GUARD_BYTE), "a write beside tensor {tensor}");
        }
    }
}

/// Launches once; `repeats` as for the launch.
pub fn execute(
    executable: &mut dyn Executable,
    tensors: &mut Guarded,
    scalars: &[u64],
    repeats: bool,
    poll: &mut dyn FnMut() -> bool,
) -> Result<(), DeviceError> {
    execute_as(1, executable, tensors, scalars, repeats, poll)
}

/// As [`execute`], with the number of the launch.
pub fn execute_as(
    invocation: u32,
    executable: &mut dyn Executable,
    tensors: &mut Guarded,
    scalars: &[u64],
    repeats: bool,
    poll: &mut dyn FnMut() -> bool,
) -> Result<(), DeviceError> {
    let mut heap = Heap::default();
    let scratch = heap.reserve(executable.scratch_bytes())?;
    let args = tensors.args();
    let launch =
        Launch { tensors: &args, scalars, repeats, packed: &[], scratch, workspace: &mut heap, poll, invocation };
    // SAFETY: the arguments match the parameters: the tests pass what the program declares.
    unsafe { executable.launch(launch) }
}

/// Compiles `program` for a chip with `cores` cores and runs it; `memory` becomes what the program left. Runs it several
/// times, since neither what a launch leaves behind nor what is kept of it for the next one may change anything.
pub fn run_on(
    program: &Program,
    memory: &mut [Matrix],
    scalars: &[u64],
    isa: Isa,
    cores: usize,
) -> Result<(), DeviceError> {
    run_with(&SimDevice::new(cores, isa), program, memory, scalars)
}

/// As [`run_on`], on a given chip.
pub fn run_with(
    device: &dyn Device,
    program: &Program,
    memory: &mut [Matrix],
    scalars: &[u64],
) -> Result<(), DeviceError> {
    run_compiled(device.compile(program)?.as_mut(), memory, scalars)
}

/// As [`run_on`], with a program that was compiled before.
pub fn run_compiled(
    executable: &mut dyn Executable,
    memory: &mut [Matrix],
    scalars: &[u64],
) -> Result<(), DeviceError> {
    let mut results: Vec<Vec<Vec<u8>>> = Vec::new();
    for repeats in [false, false, true, true, true] {
        let mut tensors = Guarded::new(memory);
        for (index, bytes) in tensors.buffers.iter_mut().enumerate() {
            if repeats && executable.overwrites(index) {
                let end = bytes.len() - GUARD;
                bytes[GUARD..end].fill(0x5a);
            }
        }
        execute(executable, &mut tensors, scalars, repeats, &mut || true)?;
        tensors.check();
        results.push(tensors.buffers);
    }
    for (index, matrix) in memory.iter_mut().enumerate() {
        let elements = |of: &Vec<Vec<u8>>| -> Vec<_> {
            let bytes = &of[index][GUARD..of[index].len() - GUARD];
            bytes.chunks_exact(matrix.dtype.size()).map(|bytes| Some(from_bytes(bytes, matrix.dtype))).collect()
        };
        let results: Vec<_> = results.iter().map(elements).collect();
        for (launch, result) in results.iter().enumerate() {
            let differs = result.iter().zip(&results[0]).position(|(a, b)| a != b);
            if let Some(at) = differs {
                let (got, first) = (result[at], results[0][at]);
                panic!("launch {launch} differs in tensor {index} at element {at}: {got:x?}, first {first:x?}");
            }
        }
        matrix.data = results[0].clone();
    }
    Ok(())
}

/// The bytes of `matrix`; an undefined element is a NaN with a telling payload.
fn bytes_of(matrix: &Matrix) -> Vec<u8> {
    matrix.data.iter().flat_map(|element| to_bytes(element.unwrap_or(0x7fc0_dead), matrix.dtype)).collect()
}
