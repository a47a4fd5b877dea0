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
    /// Tensors that members store to.
    pub stores: Vec<u32>,
}

/// The columns of the row that a value works on; `None` for a value with one element per row.
fn width(node: &Node) -> Option<Operand> {
    match node.op {
        NodeOp::RowReduce(_) => node.scalar,
        _ if node.cols == 1 => None,
        _ => Some(node.region[1]),
    }
}

impl Node {
    /// Whether the value, or where it is loaded from or stored to, depends on a scalar slot.
    pub fn uses_scalar(&self, slot: u32) -> bool {
        let var = Operand::Var(slot);
        let boxed = match &self.op {
            NodeOp::Load(spec) | NodeOp::Store(spec) => spec.offsets.contains(&var) || spec.extents.contains(&var),
            _ => false,
        };
        boxed || self.scalar == Some(var) || self.region.contains(&var)
    }
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.known.contains(&id)
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
        let width = width(node);
        let fits = self.nodes.len() < MAX_MEMBERS
            && self.rows == Some(node.region[0])
            && (width.is_none() || self.cols.is_none() || width == self.cols);
        // A member that would have to broadcast along rows must be finished before.
        let broadcasts =
            node.inputs.iter().any(|&input| self.contains(input) && nodes[input].rows == 1 && node.rows > 1);
        // Reductions of a narrow tile and columns of the same group would be taken for each other.
        let reduces_column = matches!(node.op, NodeOp::RowReduce(_)) && nodes[node.inputs[0]].cols == 1;
        // The chain goes row by row, so a store may share memory with an earlier access only box for box.
        let in_order = match &node.op {
            NodeOp::Store(spec) => {
                let apart = |other: &BoxSpec| !alias.may(other.tensor, spec.tensor) || other == spec;
                self.nodes.iter().all(|&member| {
                    let stored = matches!(&nodes[member].op, NodeOp::Store(other) if !apart(other));
                    let loaded = nodes[member]
                        .inputs
                        .iter()
                        .any(|&input| matches!(&nodes[input].op, NodeOp::Load(other) if !apart(other)));
                    !stored && !loaded
                })
            }
            _ => true,
        };
        fits && !broadcasts && !reduces_column && in_order
    }

    pub fn add(&mut self, nodes: &[Node], id: NodeId) {
        let node = &nodes[id];
        self.nodes.push(id);
        self.known.insert(id);
        self.positions.insert(node.pos);
        self.rows = Some(node.region[0]);
        self.cols = self.cols.or(width(node));
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
        let rows = self.nodes.iter().map(|&id| nodes[id].rows).min().unwrap_or(0);
        let cols = self.nodes.iter().filter_map(|&id| match nodes[id].op {
            NodeOp::RowReduce(_) => Some(nodes[nodes[id].inputs[0]].cols),
            _ => (nodes[id].cols > 1).then_some(nodes[id].cols),
        });
        [rows, cols.min().unwrap_or(1)]
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
            let column = self.cols.is_some() && node.cols == 1;
            let phase_of = |input: &NodeId| members.iter().find(|member| member.node == *input).map(|m| m.phase);
            let ready = node.inputs.iter().filter_map(phase_of).max().unwrap_or(0);
            let phase = match &node.op {
                NodeOp::RowReduce(_) => ready + 1,
                NodeOp::Store(spec) => {
                    // A store in place waits for every pass that loads the same box again.
                    let loads = members.iter().filter(|member| {
                        nodes[member.node].inputs.iter().any(
                            |&input| matches!(&nodes[input].op, NodeOp::Load(from) if alias.may(from.tensor, spec.tensor)),
                        )
                    });
                    loads.map(|member| member.phase).max().unwrap_or(0).max(ready)
                }
                _ => ready,
            };
            members.push(Member { node: id, column, phase, save: None });
        }
        members
    }

    /// Whether a member reads `old` (the former contents of a slot) after `new` is written to the same memory.
    pub fn read_after(&self, nodes: &[Node], members: &[Member], old: NodeId, new: NodeId) -> bool {
        let Some(writer) = members.iter().find(|member| member.node == new) else { return true };
        members.iter().filter(|member| nodes[member.node].inputs.contains(&old)).any(|reader| {
            nodes[reader.node].pos > nodes[new].pos || reader.phase > writer.phase || nodes[old].rows != nodes[new].rows
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

    /// Whether a member, or a load or fill that it reads, depends on a scalar slot.
    pub fn uses_scalar(&self, nodes: &[Node], slot: u32) -> bool {
        self.nodes.iter().any(|&id| {
            nodes[id].uses_scalar(slot)
                || nodes[id].inputs.iter().any(|&input| {
                    matches!(nodes[input].op, NodeOp::Load(_) | NodeOp::Fill) && nodes[input].uses_scalar(slot)
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
