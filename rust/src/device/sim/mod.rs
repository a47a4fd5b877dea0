//! `a2a3sim`: the simulated chip. It computes on the CPU.

pub mod pool;
