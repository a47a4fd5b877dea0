//! Runs a program on the chip with matrices as arguments.

use super::reference::Matrix;
use crate::device::sim::SimDevice;
use crate::device::{Device, DeviceError, Launch, TensorArg, Workspace};
use crate::dtype::DType;
use crate::kernels::Isa;
use crate::program::Program;
use crate::shape::Shape;

/// Memory that a launch creates, kept to the end of the test.
#[derive(Default)]
struct Heap(Vec<Vec<u64>>);

impl Workspace for Heap {
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, DeviceError> {
        self.0.push(vec![0xffff_ffff_ffff_ffff; bytes.div_ceil(8) as usize + 32]);
        let start = self.0.last_mut().unwrap().as_mut_ptr().cast::<u8>();
        Ok(start.wrapping_add(start.align_offset(256)))
    }
}

/// Element bits in memory: the bytes of `matrix`.
fn to_bytes(matrix: &Matrix) -> Vec<u8> {
    let bits = |element: &Option<u32>| element.unwrap_or(0x7fc0_dead);
    let bytes = |element| -> Vec<u8> {
        let bits = bits(element);
        match matrix.dtype {
            DType::F16 => half::f16::from_f32(f32::from_bits(bits)).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f32(f32::from_bits(bits)).to_le_bytes().to_vec(),
            DType::I8 => vec![bits as u8],
            _ => bits.to_le_bytes().to_vec(),
        }
    };
    matrix.data.iter().flat_map(bytes).collect()
}

fn from_bytes(bytes: &[u8], dtype: DType) -> Vec<Option<u32>> {
    let element = |bytes: &[u8]| match dtype {
        DType::F16 => half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f32().to_bits(),
        DType::BF16 => half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32().to_bits(),
        DType::I8 => bytes[0] as i8 as u32,
        _ => u32::from_le_bytes(bytes.try_into().unwrap()),
    };
    bytes.chunks_exact(dtype.size()).map(|bytes| Some(element(bytes))).collect()
}

/// Compiles and runs `program` on a chip with `cores` cores; `memory` becomes what the program left.
pub fn run_on(
    program: &Program,
    memory: &mut [Matrix],
    scalars: &[u64],
    isa: Isa,
    cores: usize,
) -> Result<(), DeviceError> {
    let device = SimDevice::new(cores, isa);
    let executable = device.compile(program)?;
    let mut buffers: Vec<Vec<u8>> = memory.iter().map(to_bytes).collect();
    let tensors: Vec<TensorArg> = buffers
        .iter_mut()
        .zip(memory.iter())
        .map(|(bytes, matrix)| TensorArg {
            data: bytes.as_mut_ptr(),
            shape: Shape::new(&[matrix.rows as u64, matrix.cols as u64]).unwrap(),
        })
        .collect();
    let mut heap = Heap::default();
    let scratch = heap.reserve(executable.scratch_bytes())?;
    // Twice: what a launch leaves behind must not matter to the next one.
    let originals: Vec<Vec<u8>> = memory.iter().map(to_bytes).collect();
    for _ in 0..2 {
        for (tensor, original) in tensors.iter().zip(&originals) {
            // SAFETY: the buffer has these bytes.
            unsafe { std::ptr::copy_nonoverlapping(original.as_ptr(), tensor.data, original.len()) };
        }
        let launch =
            Launch { tensors: &tensors, scalars, scratch, workspace: &mut heap, poll: &mut || true, invocation: 1 };
        // SAFETY: the tests pass matrices that match the parameters.
        unsafe { executable.launch(launch)? };
    }
    for (matrix, bytes) in memory.iter_mut().zip(&buffers) {
        matrix.data = from_bytes(bytes, matrix.dtype);
    }
    Ok(())
}
