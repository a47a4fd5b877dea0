//! Fused elementwise work: an accumulator machine that runs a whole chain of operations chunk by chunk in registers.
//!
//! [`ChainProgram`] says what to do for one row of a `rows x cols` region; the machine repeats it for each row. A row is
//! worked on in *phases*: a phase passes over the row once, chunk by chunk, and a value that needs the whole row (a
//! reduction) is available to the next phase as a *row scalar*.

#![allow(unsafe_code)] // Vector instructions and raw memory.

mod code;
mod compile;
mod frame;
mod interpret;
mod isa;
mod lane;
mod machine;
mod program;
#[cfg(test)]
mod tests;

pub use machine::{ChainRun, Machine, MemArg};
pub use program::{
    BinaryFn, ChainProgram, Conversion, Dst, Inst, MemDecl, Phase, ReduceFn, RowInst, RowSrc, Src, UnaryFn,
};
