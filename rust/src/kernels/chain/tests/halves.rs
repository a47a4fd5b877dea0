//! 16-bit floats on every instruction set: every value, and every place where rounding turns.

use super::*;
use crate::kernels::chain::{Dst, Src};
use crate::kernels::convert;

/// Copies `inputs` from one element type to another; bits in, bits out.
fn copy(from: DType, to: DType, inputs: &[u32], isa: Isa) -> Vec<u32> {
    let mut operands = vec![Operand::new(from, 1, inputs.len(), 0, 0), Operand::new(to, 1, inputs.len(), 0, 0)];
    for (bytes, bits) in operands[0].bytes.chunks_exact_mut(from.size()).zip(inputs) {
        bytes.copy_from_slice(&bits.to_le_bytes()[..from.size()]);
    }
    let mut case = Case { rows: 1, cols: inputs.len(), first: [0; 2], operands, scalars: vec![] };
    case.run(&chain(&[from, to], &[Inst::Load(Src::Mem(0)), Inst::Store(Dst::Mem(1))]), isa);
    let elements = case.operands[1].bytes.chunks_exact(to.size()).take(inputs.len());
    elements.map(|bytes| bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte))).collect()
}

#[test]
fn every_half_widens_to_the_same_bits() {
    let halves: Vec<u32> = (0..=0xffff).collect();
    for isa in Isa::available() {
        for (dtype, widen) in [(DType::F16, convert::f16_to_f32 as fn(u16) -> f32), (DType::BF16, convert::bf16_to_f32)]
        {
            for (half, wide) in halves.iter().zip(copy(dtype, DType::F32, &halves, isa)) {
                assert_eq!(wide, widen(*half as u16).to_bits(), "{isa} {dtype} {half:#06x}");
            }
        }
    }
}

#[test]
fn numbers_around_every_half_and_every_midpoint_narrow_to_the_same_bits() {
    let inputs: Vec<u32> = convert::tests::turning_points().collect();
    for isa in Isa::available() {
        for (dtype, narrow) in
            [(DType::F16, convert::f32_to_f16 as fn(f32) -> u16), (DType::BF16, convert::f32_to_bf16)]
        {
            for (wide, half) in inputs.iter().zip(copy(DType::F32, dtype, &inputs, isa)) {
                assert_eq!(half, u32::from(narrow(f32::from_bits(*wide))), "{isa} {dtype} {wide:#010x}");
            }
        }
    }
}
