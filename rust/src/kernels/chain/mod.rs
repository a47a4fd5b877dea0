//! Fused elementwise work: an accumulator machine that runs a whole chain of operations chunk by chunk in registers.
//!
//! [`ChainProgram`] says what to do for one row of a `rows x cols` region; the machine repeats it for each row. A row is
//! worked on in *phases*: a phase passes over the row once, chunk by chunk, and a value that needs the whole row (a
//! reduction) is available to the next phase as a *row scalar*.
//!
//! [`Machine::new`] turns the program into compact opcodes whose operands are places in a *frame* (scratch memory). The
//! interpreter matches on the opcode once for each chunk of eight vector registers, the accumulator, which stay in registers
//! across the arms. The passes of softmax, of the norms and of functions of two arguments are loops of their own, in
//! `loops`.
//!
//! A new function of lanes is a variant in `functions`, an arm in `lane` and a line in the table of `code` or, where it is
//! long, of `calls`; a new reduction an arm in the interpreter; a new instruction set a file in `kernels::simd` and a line in
//! `isa`.
//!
//! What was measured on Zen 4 (AVX-512, 3.7 GHz), per chunk of 128 numbers in the first-level cache: load and store 22 cycles,
//! each cheap operation 2 to 8 more, `exp` 50, `log` 100, `sin` 120, division 30. A chain of nine operations takes 1.1 to 1.25 times as long
//! as a loop written for it, and the same from memory.

#![allow(unsafe_code)] // Vector instructions and raw memory.

/// Does the body for `i` in `0..N` with `i` constant, so that the accumulator is never indexed by a variable: that would
/// put it into memory for good.
macro_rules! each {
    ($N:ident, $i:ident => $body:expr) => {
        each!(@ $N, $i, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $N:ident, $i:ident, $body:expr, $($index:literal)*) => {{
        $(
            if $index < $N {
                let $i: usize = $index;
                $body;
            }
        )*
    }};
}

mod calls;
mod code;
mod compile;
mod frame;
mod functions;
mod interpret;
mod isa;
mod lane;
mod loops;
mod machine;
mod passes;
mod price;
mod program;
mod recompute;
mod reduction;
mod row;
#[cfg(test)]
mod tests;

pub use functions::{BinaryFn, Conversion, ReduceFn, UnaryFn};
pub use machine::{ChainRun, Machine, MemArg};
pub use price::Prices;
pub use program::{ChainProgram, Dst, Inst, MemDecl, Phase, RowInst, RowSrc, Src};
