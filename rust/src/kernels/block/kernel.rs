//! Loops written once and compiled for each instruction set.

use super::mat::Args;
use crate::kernels::Isa;

/// A resolved operation; see [`super::Block::run`] for what it needs.
pub(super) type Run = unsafe fn(&Args<'_>);

/// A loop as a type, so that it can be instantiated under a target feature.
pub(super) trait Kernel {
    /// Runs it; to be inlined into its callers.
    ///
    /// # Safety
    /// As [`super::Block::run`].
    unsafe fn run(args: &Args<'_>);
}

/// The loop for `isa`.
pub(super) fn resolve<K: Kernel>(isa: Isa) -> Run {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<K>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<K>,
        _ => plain::<K>,
    }
}

/// The loop as every processor runs it.
pub(super) unsafe fn plain<K: Kernel>(args: &Args<'_>) {
    // SAFETY: the caller's promise.
    unsafe { K::run(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(args: &Args<'_>) {
    // SAFETY: the caller's promise.
    unsafe { K::run(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<K: Kernel>(args: &Args<'_>) {
    // SAFETY: the caller's promise.
    unsafe { K::run(args) }
}

/// Chooses a type by the size of an element: movement does not look at what the bits mean.
macro_rules! by_size {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}

/// Chooses a type by the kind of an element.
macro_rules! by_type {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use crate::dtype::DType;
        use crate::kernels::block::element::{BF16, F16};
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F16 => {
                type $T = F16;
                $body
            }
            DType::BF16 => {
                type $T = BF16;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            DType::I16 => {
                type $T = i16;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::U8 => {
                type $T = u8;
                $body
            }
            DType::U16 => {
                type $T = u16;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::U64 => {
                type $T = u64;
                $body
            }
            _ => None,
        }
    }};
}

pub(super) use {by_size, by_type};
