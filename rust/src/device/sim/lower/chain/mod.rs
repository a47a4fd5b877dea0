//! Turns a group of values into one [`ChainProgram`].
//!
//! Values of the group are of two classes: *full* ones span the region and live in the accumulator ([`body`]); *columns*
//! have one element per row and live in row scalars ([`columns`]). A value that needs a whole row (a reduction) splits the
//! row into phases; a full value that a later phase needs is kept in a row buffer.

mod body;
mod columns;

use super::functions::constant_bits;
use super::graph::{Node, NodeId, NodeOp};
use crate::device::DeviceError;
use crate::device::sim::code::{Extent, Mem, MemUse, ScalarUse};
use crate::dtype::DType;
use crate::kernels::chain::{ChainProgram, MemDecl, Phase, RowInst, Src};
use crate::program::{Operand, Rounding};
use std::collections::HashMap;
use std::ops::Range;

/// A value of the group with what the schedule decided about it.
pub(super) struct Member {
    pub node: NodeId,
    /// One element per row.
    pub column: bool,
    /// The pass that computes it (full), or the pass from which it is available (column).
    pub phase: usize,
    /// Where it is also written to, when something outside the group reads it; where an insertion goes.
    pub save: Option<Mem>,
}

/// Where the arguments of a member come from when they are not members.
#[derive(Clone)]
pub(super) enum Outside {
    Mem(Mem),
    Fill(Operand),
}

/// What the machine runs, and what the step must give it.
#[derive(Default)]
pub(super) struct Built {
    pub program: ChainProgram,
    /// Which instructions of which pass each member became, in no order.
    pub bodies: Vec<(NodeId, usize, Range<usize>)>,
    /// The same on row scalars.
    pub rows: Vec<(NodeId, RowInst)>,
    pub mems: Vec<MemUse>,
    pub scalars: Vec<ScalarUse>,
}

/// Compiles `members`, which are in source order. `outside` finds arguments that are not members.
pub(super) fn build(
    nodes: &[Node],
    members: &[Member],
    outside: &dyn Fn(NodeId) -> Outside,
) -> Result<Built, DeviceError> {
    let passes = members.iter().map(|member| if member.column { member.phase } else { member.phase + 1 });
    let passes = passes.max().unwrap_or(1).max(1);
    let mut builder = Builder {
        nodes,
        members,
        outside,
        index: members.iter().enumerate().map(|(at, member)| (member.node, at)).collect(),
        slots: HashMap::new(),
        mem_slots: Vec::new(),
        temps: HashMap::new(),
        free_temps: Vec::new(),
        row_bufs: HashMap::new(),
        built: Built::default(),
    };
    builder.built.program.phases = vec![Phase::default(); passes];
    builder.columns()?;
    for phase in 0..passes {
        builder.pass(phase)?;
    }
    // A row without a full value (a pass whose body is empty) is fine: only its row instructions run.
    Ok(builder.built)
}

/// Compiles a copy of the value `source`, found at `from`, to `to`.
pub(super) fn build_copy(source: &Node, from: Outside, to: Mem) -> Result<Built, DeviceError> {
    let copy = Node { op: NodeOp::Cast(Rounding::None), inputs: vec![1], ..source.clone() };
    let member = Member { node: 0, column: false, phase: 0, save: Some(to) };
    build(&[copy, source.clone()], &[member], &|_| from.clone())
}

struct Builder<'a> {
    nodes: &'a [Node],
    members: &'a [Member],
    outside: &'a dyn Fn(NodeId) -> Outside,
    index: HashMap<NodeId, usize>,
    /// Row scalar of each column value.
    slots: HashMap<NodeId, u16>,
    /// Row scalars loaded from memory.
    mem_slots: Vec<(u16, u16)>,
    temps: HashMap<NodeId, u16>,
    free_temps: Vec<u16>,
    row_bufs: HashMap<NodeId, u16>,
    built: Built,
}

impl Builder<'_> {
    fn member(&self, node: NodeId) -> Option<&Member> {
        self.index.get(&node).map(|&at| &self.members[at])
    }

    /// How an argument spans the region of `node`.
    fn extent(&self, input: NodeId, node: &Node) -> Extent {
        if let NodeOp::Insert = node.op {
            return Extent::FULL;
        }
        let input = &self.nodes[input];
        // The result of a reduction has one column; its argument spans them all.
        let cols = input.cols > 1 || node.cols == 1;
        Extent { rows: input.rows > 1 || node.rows == 1, cols }
    }

    fn new_slot(&mut self) -> u16 {
        self.built.program.slots += 1;
        self.built.program.slots - 1
    }

    fn mem(&mut self, mem: Mem, dtype: DType, extent: Extent, write: bool) -> u16 {
        let wanted = MemUse { mem, dtype, extent, write };
        if let Some(at) = self.built.mems.iter().position(|known| *known == wanted) {
            return at as u16;
        }
        self.built.mems.push(wanted);
        self.built.program.mems.push(MemDecl { dtype });
        (self.built.mems.len() - 1) as u16
    }

    fn scalar(&mut self, value: Operand, dtype: DType) -> Src {
        if let Some(bits) = constant_bits(value, dtype) {
            return Src::Const(bits);
        }
        let wanted = ScalarUse { value, dtype };
        let at = self.built.scalars.iter().position(|known| *known == wanted).unwrap_or_else(|| {
            self.built.scalars.push(wanted);
            self.built.scalars.len() - 1
        });
        Src::Scalar(at as u16)
    }

    /// The scalar argument of a member. A comparison is of elements of its argument's type.
    fn scalar_of(&mut self, node: &Node, value: Operand) -> Src {
        let dtype = match node.op {
            NodeOp::Compare(_) => self.nodes[node.inputs[0]].dtype,
            _ => node.dtype,
        };
        self.scalar(value, dtype)
    }
}
