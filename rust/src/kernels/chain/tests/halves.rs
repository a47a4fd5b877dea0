//! 16-bit floats on every instruction set: every value, and every place where rounding turns.

use super::*;
use crate::kernels::chain::{Dst, Src, UnaryFn};
use crate::kernels::convert;

/// Copies `inputs` from one element type to another; bits in, bits out.
fn copy(from: DType, to: DType, inputs: &[u32], isa: Isa) -> Vec<u32> {
    through(&[], from, to, inputs, isa)
}

/// The same with instructions on the way.
fn through(insts: &[Inst], from: DType, to: DType, inputs: &[u32], isa: Isa) -> Vec<u32> {
    let mut operands = vec![Operand::new(from, 1, inputs.len(), 0, 0), Operand::new(to, 1, inputs.len(), 0, 0)];
    for (bytes, bits) in operands[0].bytes.chunks_exact_mut(from.size()).zip(inputs) {
        bytes.copy_from_slice(&bits.to_le_bytes()[..from.size()]);
    }
    let mut case = Case { rows: 1, cols: inputs.len(), first: [0; 2], operands, scalars: vec![] };
    let body = [&[Inst::Load(Src::Mem(0))], insts, &[Inst::Store(Dst::Mem(1))]].concat();
    case.run(&chain(&[from, to], &body), isa);
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

/// A function in binary64.
type Exact = fn(f64) -> f64;

/// The functions of binary16 numbers, those of bfloat16 numbers, and what they are.
const FUNCTIONS: [(UnaryFn, UnaryFn, Exact); 7] = [
    (UnaryFn::ExpH, UnaryFn::ExpF, f64::exp),
    (UnaryFn::LogH, UnaryFn::LogF, f64::ln),
    (UnaryFn::SinH, UnaryFn::SinF, f64::sin),
    (UnaryFn::CosH, UnaryFn::CosF, f64::cos),
    (UnaryFn::SqrtF, UnaryFn::SqrtF, f64::sqrt),
    (UnaryFn::RsqrtF, UnaryFn::RsqrtF, |x| 1.0 / x.sqrt()),
    (UnaryFn::RecipF, UnaryFn::RecipF, |x| 1.0 / x),
];

/// Binary64 rounded once: the two numbers next to what rounding twice gives decide by their middle, which is exact.
fn nearest(exact: f64, twice: u16, widen: fn(u16) -> f32) -> u16 {
    let wide = |half: u16| f64::from(widen(half));
    if exact.is_nan() || !wide(twice).is_finite() || exact == wide(twice) {
        return twice;
    }
    // Neighbours in size; beyond 0 the smallest number of the other sign is as far away as any can be.
    let size = twice & 0x7fff;
    let other = if exact.abs() > wide(size) { twice + 1 } else { twice.saturating_sub(u16::from(size != 0)) };
    let (here, there) = ((exact - wide(twice)).abs(), (exact - wide(other)).abs());
    if there < here || there == here && other & 1 == 0 { other } else { twice }
}

#[test]
fn every_function_of_every_half_is_rounded_once() {
    let halves: Vec<u32> = (0..=0xffff).collect();
    for isa in Isa::available() {
        for (of_f16, of_bf16, exact) in FUNCTIONS {
            let types = [
                (DType::F16, of_f16, convert::f16_to_f32 as fn(u16) -> f32, convert::f32_to_f16 as fn(f32) -> u16),
                (DType::BF16, of_bf16, convert::bf16_to_f32, convert::f32_to_bf16),
            ];
            for (dtype, f, widen, narrow) in types {
                let results = through(&[Inst::Unary(f)], dtype, dtype, &halves, isa);
                for (half, result) in halves.iter().zip(results) {
                    let x = widen(*half as u16);
                    let y = exact(f64::from(x));
                    let expected = nearest(y, narrow(y as f32), widen);
                    let same = result == u32::from(expected) || y.is_nan() && widen(result as u16).is_nan();
                    assert!(same, "{f:?}({x:?}) is {result:#06x} on {isa}, not {expected:#06x}");
                }
            }
        }
    }
}
