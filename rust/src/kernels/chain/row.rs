//! What is done once for a row: instructions on its scalars.

use super::calls::Calls;
use super::compile::RowOp;
use super::frame::Entry;
use super::lane;
use super::{BinaryFn, UnaryFn};
use crate::dtype::DType;
use crate::kernels::convert;

/// Runs an instruction on row scalars. There is no loop around it here: the compiler would load the constants of all
/// functions before the loop, which took longer than most functions.
///
/// # Safety
/// The processor has the instruction set `S`; the frame is valid, and so is column 0 of its memory operands.
#[inline(always)]
pub(super) unsafe fn row<S: Calls>(op: &RowOp, frame: *mut u8) {
    // SAFETY: the caller vouches for instruction set, frame and memory; offsets were made for this frame.
    unsafe {
        let word = |offset: u32| frame.add(offset as usize).cast::<u32>();
        let base = |entry: u32| (*frame.add(entry as usize).cast::<Entry>()).base;
        match *op {
            RowOp::Load { to, entry, dtype } => *word(to) = load_element(base(entry), dtype),
            RowOp::Store { entry, dtype, from } => store_element(base(entry), dtype, *word(from)),
            RowOp::Unary { to, f, from } => *word(to) = S::first(lane::unary::<S>(f, S::splat(*word(from)))),
            RowOp::Binary { to, f, a, b } => {
                *word(to) = S::first(lane::binary::<S>(f, S::splat(*word(a)), S::splat(*word(b))));
            }
            RowOp::Select { to, when, then, other } => *word(to) = *word(if *word(when) != 0 { then } else { other }),
            RowOp::Convert { to, conversion, from } => {
                *word(to) = S::first(lane::convert::<S>(conversion, S::splat(*word(from))));
            }
        }
    }
}

/// Does an instruction that the processor has for one number, without the call that others need; `false` for those. The numbers
/// are the same: each is rounded once. Between passes everything waits for these.
///
/// # Safety
/// The frame is valid.
#[inline(always)]
pub(super) unsafe fn arithmetic(op: &RowOp, frame: *mut u8) -> bool {
    // SAFETY: the caller vouches for the frame; offsets were made for it.
    unsafe {
        let word = |offset: u32| frame.add(offset as usize).cast::<f32>();
        let (to, result) = match *op {
            RowOp::Binary { to, f: BinaryFn::AddF, a, b } => (to, *word(a) + *word(b)),
            RowOp::Binary { to, f: BinaryFn::SubF, a, b } => (to, *word(a) - *word(b)),
            RowOp::Binary { to, f: BinaryFn::MulF, a, b } => (to, *word(a) * *word(b)),
            RowOp::Binary { to, f: BinaryFn::DivF, a, b } => (to, *word(a) / *word(b)),
            RowOp::Unary { to, f: UnaryFn::SqrtF, from } => (to, word(from).read().sqrt()),
            RowOp::Unary { to, f: UnaryFn::RecipF, from } => (to, 1.0 / *word(from)),
            RowOp::Unary { to, f: UnaryFn::RsqrtF, from } => (to, 1.0 / word(from).read().sqrt()),
            _ => return false,
        };
        *word(to) = result;
        true
    }
}

/// One element as the bits of a lane.
///
/// # Safety
/// `p` is valid for one element.
#[inline(always)]
unsafe fn load_element(p: *const u8, dtype: DType) -> u32 {
    // SAFETY: the caller vouches for the element.
    unsafe {
        match dtype {
            DType::F16 => convert::f16_to_f32(p.cast::<u16>().read_unaligned()).to_bits(),
            DType::BF16 => convert::bf16_to_f32(p.cast::<u16>().read_unaligned()).to_bits(),
            DType::I8 => p.cast::<i8>().read() as u32,
            DType::U8 | DType::Bool => p.read().into(),
            DType::I16 => p.cast::<i16>().read_unaligned() as u32,
            DType::U16 => p.cast::<u16>().read_unaligned().into(),
            _ => p.cast::<u32>().read_unaligned(),
        }
    }
}

/// The bits of a lane as one element.
///
/// # Safety
/// `p` is valid for one element.
#[inline(always)]
unsafe fn store_element(p: *mut u8, dtype: DType, bits: u32) {
    // SAFETY: the caller vouches for the element.
    unsafe {
        match dtype {
            DType::F16 => p.cast::<u16>().write_unaligned(convert::f32_to_f16(f32::from_bits(bits))),
            DType::BF16 => p.cast::<u16>().write_unaligned(convert::f32_to_bf16(f32::from_bits(bits))),
            _ => match dtype.size() {
                1 => p.write(bits as u8),
                2 => p.cast::<u16>().write_unaligned(bits as u16),
                _ => p.cast::<u32>().write_unaligned(bits),
            },
        }
    }
}
