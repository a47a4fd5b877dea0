//! Values that one chain computes together.

use super::alias::Alias;
use super::chain::Member;
use super::graph::{Node, NodeId, NodeOp};
use crate::device::sim::code::BoxSpec;
use crate::program::{Loc, Operand};
use std::collections::HashSet;

/// Largest number of values in a group. The registers of the machine do not limit it, but compiling a chain takes time that
/// grows with the square of its length.
const MAX_MEMBERS: usize = 128;

/// The open group. All members have the same rows; full members have the same columns too.
#[derive(Default)]
pub(super) struct Group {
    nodes: Vec<NodeId>,
    known: HashSet<NodeId>,
    positions: HashSet<usize>,
    rows: Option<Operand>,
    cols: Option<Operand>,
    /// Whether a member needs its row: without full members it would be one long row.
    by_row: bool,
    /// Tensors that members store to.
    pub stores: Vec<u32>,
}

/// The columns of the row that a member works on, and how many it has physically; `None` for one element per row.
fn width(nodes: &[Node], node: &Node) -> Option<(Operand, u32)> {
    let columns = columns(nodes, node);
    let cols = node.work()[1];
    match node.op {
        NodeOp::RowReduce(_) => node.scalar().map(|cols| (cols, nodes[node.inputs[0]].cols)),
        // Whether anything at all is written depends on a scalar that may be 0.
        NodeOp::Store(_) | NodeOp::Insert if cols != Operand::Int(1) => Some((cols, columns)),
        _ if columns == 1 => None,
        _ => Some((cols, columns)),
    }
}

/// The physical columns of what a member works on.
fn columns(nodes: &[Node], node: &Node) -> u32 {
    match node.op {
        NodeOp::Insert => nodes[node.inputs[1]].cols,
        _ => node.cols,
    }
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.known.contains(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().copied()
    }

    /// Whether the item at this position is a member.
    pub fn holds_pos(&self, pos: usize) -> bool {
        self.positions.contains(&pos)
    }

    /// Whether a chain can compute `id` together with the members.
    pub fn accepts(&self, nodes: &[Node], id: NodeId, alias: &Alias) -> bool {
        let node = &nodes[id];
        if self.is_empty() {
            return true;
        }
        let width = width(nodes, node).map(|(cols, _)| cols);
        let fits = self.nodes.len() < MAX_MEMBERS
            && self.rows == Some(node.work()[0])
            && (width.is_none() || self.cols.is_none() || width == self.cols);
        // A member that would have to broadcast along rows must be finished before.
        let broadcasts = !matches!(node.op, NodeOp::Insert)
            && node.inputs.iter().any(|&input| self.contains(input) && nodes[input].rows == 1 && node.rows > 1);
        // What was inserted is in memory only when the chain has run.
        let reads_insertion = node.inputs.iter().enumerate().any(|(at, &input)| {
            let is_target = matches!(node.op, NodeOp::Insert) && at == 0;
            !is_target && self.contains(input) && matches!(nodes[input].op, NodeOp::Insert)
        });
        // Reductions of a narrow tile and columns of the same group would be taken for each other.
        let reduces_column = matches!(node.op, NodeOp::RowReduce(_)) && nodes[node.inputs[0]].cols == 1;
        // The chain goes row by row, so a store may share memory with an earlier access only box for box.
        let in_order = match &node.op {
            NodeOp::Store(spec) => {
                let apart =
                    |other: &BoxSpec| !alias.may(other.tensor, spec.tensor) || other == spec || disjoint(other, spec);
                self.nodes.iter().all(|&member| {
                    let family = node.family != 0 && nodes[member].family == node.family;
                    let stored = !family && matches!(&nodes[member].op, NodeOp::Store(other) if !apart(other));
                    let loaded = nodes[member]
                        .inputs
                        .iter()
                        .any(|&input| matches!(&nodes[input].op, NodeOp::Load(other) if !apart(other)));
                    !stored && !loaded
                })
            }
            _ => true,
        };
        fits && !broadcasts && !reads_insertion && !reduces_column && in_order
    }

    pub fn add(&mut self, nodes: &[Node], id: NodeId) {
        let node = &nodes[id];
        self.nodes.push(id);
        self.known.insert(id);
        self.positions.insert(node.pos);
        self.rows = Some(node.work()[0]);
        self.cols = self.cols.or(width(nodes, node).map(|(cols, _)| cols));
        self.by_row |= matches!(node.op, NodeOp::Index(0));
        if let NodeOp::Store(spec) = &node.op {
            self.stores.push(spec.tensor);
        }
    }

    /// The region of the chain. A group of columns alone is a region with one column.
    pub fn region(&self) -> [Operand; 2] {
        [self.rows.expect("a group has members"), self.cols.unwrap_or(Operand::Int(1))]
    }

    /// What the region must not exceed.
    pub fn bound(&self, nodes: &[Node]) -> [u32; 2] {
        let rows = |id: NodeId| match nodes[id].op {
            NodeOp::Insert => nodes[nodes[id].inputs[1]].rows,
            _ => nodes[id].rows,
        };
        let cols = self.nodes.iter().filter_map(|&id| width(nodes, &nodes[id]).map(|(_, columns)| columns));
        [self.nodes.iter().map(|&id| rows(id)).min().unwrap_or(0), cols.min().unwrap_or(1)]
    }

    pub fn at(&self, nodes: &[Node]) -> Loc {
        nodes[self.nodes[0]].at
    }

    /// The members with their class and phase, in source order.
    pub fn members(&self, nodes: &[Node], alias: &Alias) -> Vec<Member> {
        let mut members: Vec<Member> = Vec::with_capacity(self.nodes.len());
        for &id in &self.nodes {
            let node = &nodes[id];
            // Without a full member there is no pass over columns, and whole columns are faster as one long row.
            let reduces = matches!(node.op, NodeOp::RowReduce(_));
            let column = (self.cols.is_some() || self.by_row) && (reduces || width(nodes, node).is_none());
            let phase_of = |input: &NodeId| members.iter().find(|member| member.node == *input).map(|m| m.phase);
            let read = if matches!(node.op, NodeOp::Insert) { &node.inputs[1..] } else { &node.inputs[..] };
            let ready = read.iter().filter_map(phase_of).max().unwrap_or(0);
            // What is written in place waits for every pass that reads there.
            let after = |reads: &dyn Fn(&Node) -> bool| {
                let loads = members.iter().filter(|member| {
                    nodes[member.node].inputs.iter().any(|&input| !self.contains(input) && reads(&nodes[input]))
                });
                loads.map(|member| member.phase).max().unwrap_or(0).max(ready)
            };
            let phase = match &node.op {
                NodeOp::RowReduce(_) => ready + 1,
                NodeOp::Store(spec) => {
                    let reads =
                        after(&|input| matches!(&input.op, NodeOp::Load(from) if alias.may(from.tensor, spec.tensor)));
                    // A pass writes its stores in source order; what an earlier one writes in a later pass would win.
                    let same = |member: &&Member| matches!(&nodes[member.node].op, NodeOp::Store(to) if to == spec);
                    members.iter().filter(same).map(|member| member.phase).fold(reads, usize::max)
                }
                NodeOp::Insert => after(&|input| matches!(input.op, NodeOp::Extract)),
                _ => ready,
            };
            members.push(Member { node: id, column, phase, save: None });
        }
        members
    }

    /// Whether a member reads `old`, which is memory that `new` is written to, after that. `whole` tells that both lie there
    /// alike, element for element.
    pub fn read_after(&self, nodes: &[Node], members: &[Member], old: NodeId, new: NodeId, whole: bool) -> bool {
        let Some(writer) = members.iter().find(|member| member.node == new) else { return true };
        members.iter().filter(|member| nodes[member.node].inputs.contains(&old)).any(|reader| {
            !whole
                || nodes[reader.node].pos > nodes[new].pos
                || reader.phase > writer.phase
                || nodes[old].rows != nodes[new].rows
        })
    }

    /// Whether a member loads from or stores to memory that `tensor` may name.
    pub fn touches(&self, nodes: &[Node], tensor: u32, alias: &Alias) -> bool {
        self.stores.iter().any(|&stored| alias.may(stored, tensor))
            || self.loads(nodes).any(|loaded| alias.may(loaded, tensor))
    }

    /// Whether a member goes through this tensor slot.
    pub fn names_tensor(&self, nodes: &[Node], slot: u32) -> bool {
        self.stores.contains(&slot) || self.loads(nodes).any(|loaded| loaded == slot)
    }

    /// Whether a member, or a load, fill or window that it reads, depends on a scalar slot.
    pub fn uses_scalar(&self, nodes: &[Node], slot: u32) -> bool {
        self.nodes.iter().any(|&id| {
            nodes[id].uses_scalar(slot)
                || nodes[id].inputs.iter().any(|&input| {
                    matches!(nodes[input].op, NodeOp::Load(_) | NodeOp::Fill | NodeOp::Extract)
                        && nodes[input].uses_scalar(slot)
                })
        })
    }

    fn loads<'a>(&'a self, nodes: &'a [Node]) -> impl Iterator<Item = u32> + 'a {
        self.nodes.iter().flat_map(|&id| &nodes[id].inputs).filter_map(|&input| match &nodes[input].op {
            NodeOp::Load(spec) => Some(spec.tensor),
            _ => None,
        })
    }
}

/// Whether two boxes of one view certainly have no element in common.
pub(super) fn disjoint(a: &BoxSpec, b: &BoxSpec) -> bool {
    let before = |start: Operand, extent: Operand, next: Operand| match (start, extent, next) {
        (Operand::Int(start), Operand::Int(extent), Operand::Int(next)) => {
            start.checked_add(extent).is_some_and(|end| end <= next)
        }
        _ => false,
    };
    a.tensor == b.tensor
        && (0..a.offsets.len()).any(|axis| {
            before(a.offsets[axis], a.extents[axis], b.offsets[axis])
                || before(b.offsets[axis], b.extents[axis], a.offsets[axis])
        })
}
