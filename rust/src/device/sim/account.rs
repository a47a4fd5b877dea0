//! What the steps of a plan do for the operations of the source: for profiles.

use crate::dtype::DType;
use crate::kernels::chain::{Inst, RowInst};
use crate::program::Loc;

/// What a step does for the source.
pub(super) struct Account {
    /// Operations. Apart from chains, the first one is what the step is and the others are loads and stores within it.
    pub parts: Vec<Part>,
    /// The part that each memory operand of the step belongs to, in the order of [`Step::mems`](super::code::Step::mems).
    pub owners: Vec<usize>,
}

/// An operation of the source within a step.
pub(super) struct Part {
    pub name: &'static str,
    pub at: Loc,
    /// Element type of the result; of a product that of its operands, of a store that of what it stores.
    pub dtype: DType,
    /// Arithmetic operations for each element that it works on.
    pub operations: u64,
    /// Whether it has one element for each row of a chain, not one for each of the region.
    pub column: bool,
    /// Its instructions in a chain, on the elements and on row scalars.
    pub body: Vec<Inst>,
    pub rows: Vec<RowInst>,
}
