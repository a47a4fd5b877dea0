//! A straight-line run of statements as a graph of values.
//!
//! Slots are variables; here each assignment is a *node*, and a read names the node that it sees. Nodes know where they are
//! used, so the schedule can keep a value in registers when nobody needs it later.

use crate::device::sim::code::BoxSpec;
use crate::dtype::DType;
use crate::program::{Loc, OpCode, Operand, Rounding, Stmt, TileSlot};

pub(super) type NodeId = usize;

/// One value, or one effect.
#[derive(Clone)]
pub(super) struct Node {
    pub op: NodeOp,
    pub at: Loc,
    /// Tile arguments in order.
    pub inputs: Vec<NodeId>,
    /// Scalar arguments in order, without those of a box.
    pub scalars: Vec<Operand>,
    pub region: [Operand; 2],
    pub dtype: DType,
    /// Physical extents.
    pub rows: u32,
    pub cols: u32,
    /// Index of the item that makes it.
    pub pos: usize,
    /// Indices of the items that read it, ascending.
    pub uses: Vec<usize>,
    /// Slots that hold this value at the end of the run and are read afterwards, apart from the slot that it came in.
    pub live_out: Vec<u32>,
    /// Of what came in a slot: the slot still holds it at the end of the run, and it is read afterwards.
    pub stays: bool,
    /// Stores of one number, other than 0, write different elements.
    pub family: usize,
}

/// What makes a value.
#[derive(Clone, Debug)]
pub(super) enum NodeOp {
    /// What the slot held when the run began.
    SlotIn(u32),
    Load(BoxSpec),
    Store(BoxSpec),
    Fill,
    Undef,
    /// A window of another value: row and column.
    Extract,
    /// The bytes of another value.
    Reinterpret,
    /// The first value with a part of the second: row, column, rows, columns.
    Insert,
    Cast(Rounding),
    Unary(OpCode),
    Binary(OpCode),
    Compare(OpCode),
    Select,
    Expand,
    /// The index of the row (0) or the column (1) of each element.
    Index(usize),
    RowReduce(OpCode),
    MatMul {
        acc: bool,
        /// Whether the operands are the transposes of the inputs.
        trans: [bool; 2],
    },
    /// A whole-tile operation; the tensor that it gathers from or scatters to.
    Block(OpCode, Option<u32>),
}

/// One step of the run, in source order.
pub(super) enum Item<'a> {
    Node(NodeId),
    /// A statement that is no tile operation, with the node that it reads or writes an element of.
    Other(&'a Stmt, Option<NodeId>),
    /// A scalar slot that no statement names becomes the sum of two scalars.
    Sum(u32, [Operand; 2]),
}

pub(super) struct Graph<'a> {
    pub nodes: Vec<Node>,
    pub items: Vec<Item<'a>>,
}

/// Position of uses after the run.
pub(super) const END: usize = usize::MAX;

impl Node {
    /// Whether anything after `pos` reads the value, apart from items in `except`.
    pub fn needed_after(&self, pos: usize, except: impl Fn(usize) -> bool) -> bool {
        !self.live_out.is_empty() || self.uses.iter().any(|&at| at > pos && !except(at))
    }

    /// Whether the node is there for what it does to a tensor.
    pub fn is_effect(&self) -> bool {
        matches!(self.op, NodeOp::Store(_) | NodeOp::Block(OpCode::ScatterTensor, _))
    }

    /// Whether nobody ever reads the value.
    pub fn is_dead(&self) -> bool {
        !self.is_effect() && self.uses.is_empty() && self.live_out.is_empty()
    }

    /// The last position at which the value is read.
    pub fn last_use(&self) -> usize {
        if self.live_out.is_empty() && !self.stays { self.uses.last().copied().unwrap_or(self.pos) } else { END }
    }

    /// The first scalar argument, where the operation has one.
    pub fn scalar(&self) -> Option<Operand> {
        self.scalars.first().copied()
    }

    /// What a chain works on: an insertion works on what it inserts.
    pub fn work(&self) -> [Operand; 2] {
        match self.op {
            NodeOp::Insert => [self.scalars[2], self.scalars[3]],
            _ => self.region,
        }
    }

    pub fn slot(&self) -> TileSlot {
        TileSlot { dtype: self.dtype, rows: self.rows, cols: self.cols }
    }

    /// Whether two values have the same element type and physical size.
    pub fn same_slot(&self, other: &Node) -> bool {
        self.slot() == other.slot()
    }

    /// Whether the value, or where it is loaded from or stored to, depends on a scalar slot.
    pub fn uses_scalar(&self, slot: u32) -> bool {
        let var = Operand::Var(slot);
        let boxed = match &self.op {
            NodeOp::Load(spec) | NodeOp::Store(spec) => spec.offsets.contains(&var) || spec.extents.contains(&var),
            _ => false,
        };
        boxed || self.scalars.contains(&var) || self.region.contains(&var)
    }
}

/// Whether `offset .. offset + extent` certainly lies within `0 .. limit`.
pub(super) fn inside(offset: Operand, extent: Operand, limit: Operand) -> bool {
    match (offset, extent, limit) {
        (Operand::Int(0), extent, limit) if extent == limit => true,
        (Operand::Int(offset), Operand::Int(extent), Operand::Int(limit)) => {
            offset >= 0 && extent >= 0 && offset.checked_add(extent).is_some_and(|end| end <= limit)
        }
        _ => false,
    }
}
