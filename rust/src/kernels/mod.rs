//! Arithmetic on tiles. Kernels are resolved once, when a program is registered, for one instruction set ([`Isa`]).
//!
//! - [`chain`]: elementwise work, casts, broadcasts, row reductions, loads and stores, fused and run chunk by chunk in registers;
//! - [`matmul`]: matrix products;
//! - [`block`]: whole-tile operations (transposes, reductions of columns, gathers, sorting) and 64-bit integers;
//! - [`convert`]: 16-bit floats;
//! - [`peaks`]: what this machine can do, measured.
//!
//! Results never depend on the instruction set or on how work is split: every floating-point operation is one IEEE
//! operation in a fixed order, and `fma` is always fused (in software where the processor has none).

pub mod block;
pub mod chain;
pub mod convert;
mod copy;
mod fused;
mod isa;
pub mod matmul;
pub mod peaks;
mod simd;

pub use copy::{copy_past_caches, settle_streams};
pub use isa::{Isa, IsaError};
