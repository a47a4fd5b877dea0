//! Which operations of the source a step is made of: for profiles.

use super::super::chain::{Built, Member, Outside};
use super::super::graph::{Item, Node, NodeId, NodeOp};
use super::Scheduler;
use crate::device::sim::account::{Account, Part};
use crate::device::sim::code::{Mem, MemUse, Step};
use crate::dtype::DType;
use crate::kernels::chain::{Dst, Inst, Src};
use crate::program::OpCode;

impl Scheduler<'_> {
    /// The account of a chain of `members`.
    pub(super) fn chain_account(&self, members: &[Member], built: &Built) -> Account {
        let nodes = &self.graph.nodes;
        let mut parts: Vec<Part> = members.iter().map(|member| part_of_chain(nodes, member, built)).collect();
        let mut loads = Vec::new();
        let owners = built.mems.iter().map(|operand| {
            let writes = |member: &Member| match (&nodes[member.node].op, &member.save) {
                (_, Some(save)) => *save == operand.mem,
                (NodeOp::Store(spec), _) => matches!(&operand.mem, Mem::Box(target) if target == spec),
                _ => false,
            };
            if operand.write {
                return members.iter().position(writes).unwrap_or(0);
            }
            let (reader, input) = self.reader(members, operand);
            if self.is_waiting_load(input) { self.load_part(input, &mut loads, &mut parts) } else { reader }
        });
        let owners: Vec<usize> = owners.collect();
        // Reading and writing memory belongs to the operation whose memory it is.
        for (id, phase, range) in &built.bodies {
            let member = members.iter().position(|member| member.node == *id).expect("only members have bodies");
            for &inst in &built.program.phases[*phase].body[range.clone()] {
                let (memory, own) = apart(inst);
                if let Some((mem, inst)) = memory {
                    parts[owners[mem]].body.push(inst);
                }
                parts[member].body.extend(own);
            }
        }
        Account { parts, owners }
    }

    /// The account of a product or of a whole-tile operation. Loads and stores that it does are parts of their own.
    pub(super) fn single_account(&self, id: NodeId, dtype: DType, step: &Step) -> Account {
        let nodes = &self.graph.nodes;
        let node = &nodes[id];
        let mut parts = vec![part(node, dtype)];
        let mut others = Vec::new();
        let is_store = |id: NodeId, operand: &MemUse| matches!((&nodes[id].op, &operand.mem), (NodeOp::Store(spec), Mem::Box(target)) if spec == target);
        let owners = step.mems().map(|operand| {
            let other = if operand.write {
                let uses = node.uses.iter().filter_map(|&at| match self.graph.items[at] {
                    Item::Node(user) => Some(user),
                    _ => None,
                });
                uses.into_iter().find(|&user| is_store(user, operand))
            } else {
                let mut loads = node.inputs.iter().copied().filter(|&input| self.is_waiting_load(input));
                loads.find(|&input| self.is_at(input, operand))
            };
            other.map_or(0, |other| self.load_part(other, &mut others, &mut parts))
        });
        let owners = owners.collect();
        Account { parts, owners }
    }

    /// The account of a step with `operands` memory operands that copies a value to scratch memory.
    pub(super) fn copy_account(&self, id: NodeId, operands: usize) -> Account {
        let node = &self.graph.nodes[id];
        let part = match node.op {
            NodeOp::Load(_) | NodeOp::Fill | NodeOp::Extract => part(node, node.dtype),
            _ => Part { name: "move", operations: 0, ..part(node, node.dtype) },
        };
        Account { parts: vec![part], owners: vec![0; operands] }
    }

    /// The place of a load or a store among `parts`, where it is added once.
    fn load_part(&self, id: NodeId, known: &mut Vec<(NodeId, usize)>, parts: &mut Vec<Part>) -> usize {
        if let Some(&(_, at)) = known.iter().find(|(other, _)| *other == id) {
            return at;
        }
        let node = &self.graph.nodes[id];
        parts.push(part(node, node.dtype));
        known.push((id, parts.len() - 1));
        parts.len() - 1
    }

    /// Whether a value is a load that its readers do themselves.
    fn is_waiting_load(&self, id: NodeId) -> bool {
        self.places[id].is_none() && matches!(self.graph.nodes[id].op, NodeOp::Load(_))
    }

    /// Whether a value that no chain under way computes lies where `operand` says.
    fn is_at(&self, id: NodeId, operand: &MemUse) -> bool {
        match self.graph.nodes[id].op {
            NodeOp::Undef | NodeOp::Fill if self.places[id].is_none() => false,
            _ => matches!(self.outside(id), Outside::Mem(mem) if mem == operand.mem),
        }
    }

    /// The first member that reads `operand`, by its place among the members, and what it reads there.
    fn reader(&self, members: &[Member], operand: &MemUse) -> (usize, NodeId) {
        let nodes = &self.graph.nodes;
        let inside = |id: NodeId| members.iter().any(|member| member.node == id);
        for (at, member) in members.iter().enumerate() {
            let is_insert = matches!(nodes[member.node].op, NodeOp::Insert);
            let mut inputs = nodes[member.node].inputs.iter().skip(usize::from(is_insert));
            if let Some(&input) = inputs.find(|&&input| !inside(input) && self.is_at(input, operand)) {
                return (at, input);
            }
        }
        (0, members[0].node)
    }
}

/// An instruction as what it does with a memory operand, by the operand's number, and what it does in registers.
fn apart(inst: Inst) -> (Option<(usize, Inst)>, Option<Inst>) {
    let memory = |mem: u16, inst: Inst| Some((usize::from(mem), inst));
    let read = |mem: u16| memory(mem, Inst::Load(Src::Mem(mem)));
    let register = Src::Const(0);
    match inst {
        Inst::Load(Src::Mem(mem)) | Inst::Store(Dst::Mem(mem)) => (memory(mem, inst), None),
        Inst::Binary(f, Src::Mem(mem)) => (read(mem), Some(Inst::Binary(f, register))),
        Inst::BinaryRev(f, Src::Mem(mem)) => (read(mem), Some(Inst::BinaryRev(f, register))),
        _ => (None, Some(inst)),
    }
}

fn part_of_chain(nodes: &[Node], member: &Member, built: &Built) -> Part {
    let node = &nodes[member.node];
    let rows = built.rows.iter().filter(|(id, _)| *id == member.node).map(|(_, inst)| *inst);
    let reduces = matches!(node.op, NodeOp::RowReduce(_));
    Part { column: member.column && !reduces, rows: rows.collect(), ..part(node, node.dtype) }
}

fn part(node: &Node, dtype: DType) -> Part {
    let (name, operations) = name(&node.op);
    Part { name, at: node.at, dtype, operations, column: false, body: Vec::new(), rows: Vec::new() }
}

/// The name of an operation, and how many arithmetic operations it takes for an element.
fn name(op: &NodeOp) -> (&'static str, u64) {
    use OpCode::{ColMax, ColMin, ColProd, ColSum, PartAdd, PartMax, PartMin, PartMul};
    match op {
        NodeOp::SlotIn(_) | NodeOp::Undef => ("tile", 0),
        NodeOp::Load(_) => ("load", 0),
        NodeOp::Store(_) => ("store", 0),
        NodeOp::Fill => ("fill", 0),
        NodeOp::Extract => ("extract", 0),
        NodeOp::Reinterpret => ("reinterpret", 0),
        NodeOp::Insert => ("insert", 0),
        NodeOp::Cast(_) => ("cast", 0),
        NodeOp::Expand => ("expand", 0),
        NodeOp::Index(_) => ("iota", 0),
        NodeOp::Select => ("select", 1),
        NodeOp::Unary(op) | NodeOp::Binary(op) | NodeOp::Compare(op) | NodeOp::RowReduce(op) => (op.name(), 1),
        NodeOp::MatMul { acc, .. } => (if *acc { "matmul_acc" } else { "matmul" }, 2),
        NodeOp::Block(op, _) => {
            let computes = matches!(op, ColMax | ColMin | ColProd | ColSum | PartAdd | PartMax | PartMin | PartMul);
            (op.name(), u64::from(computes))
        }
    }
}
