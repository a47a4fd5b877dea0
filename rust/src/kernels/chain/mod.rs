//! Fused elementwise work: an accumulator machine that runs a whole chain of operations chunk by chunk in registers.
//!
//! [`ChainProgram`] says what to do for one row of a `rows x cols` region; the machine repeats it for each row. A row is
//! worked on in *phases*: a phase passes over the row once, chunk by chunk, and a value that needs the whole row (a
//! reduction) is available to the next phase as a *row scalar*.

mod program;

pub use program::{
    BinaryFn, ChainProgram, Conversion, Dst, Inst, MemDecl, Phase, ReduceFn, RowInst, RowSrc, Src, UnaryFn,
};
