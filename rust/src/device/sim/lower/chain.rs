//! Turns a group of values into one [`ChainProgram`].
//!
//! Values of the group are of two classes: *full* ones span the region and live in the accumulator; *columns* have one
//! element per row and live in row scalars. A value that needs a whole row (a reduction) splits the row into phases; a
//! full value that a later phase needs is kept in a row buffer.

use super::functions::{binary, constant_bits, conversions, reduce, relu_max, rounding, rounds, unary};
use super::graph::{Node, NodeId, NodeOp};
use crate::device::DeviceError;
use crate::device::sim::code::{Extent, Mem, MemUse, ScalarUse};
use crate::dtype::DType;
use crate::kernels::chain::{BinaryFn, ChainProgram, Dst, Inst, MemDecl, Phase, RowInst, RowSrc, Src};
use crate::program::{OpCode, Operand, Rounding};
use std::collections::HashMap;

/// A value of the group with what the schedule decided about it.
pub(super) struct Member {
    pub node: NodeId,
    /// One element per row.
    pub column: bool,
    /// The pass that computes it (full), or the pass from which it is available (column).
    pub phase: usize,
    /// Where it is also written to, when something outside the group reads it.
    pub save: Option<Mem>,
}

/// Where the arguments of a member come from when they are not members.
#[derive(Clone)]
pub(super) enum Outside {
    Mem(Mem),
    Fill(Operand),
}

/// What the machine runs, and what the step must give it.
pub(super) struct Built {
    pub program: ChainProgram,
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
        built: Built { program: ChainProgram::default(), mems: Vec::new(), scalars: Vec::new() },
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

    /// Row instructions of all column members.
    fn columns(&mut self) -> Result<(), DeviceError> {
        for member in self.members.iter().filter(|member| member.column) {
            let node = &self.nodes[member.node];
            if let NodeOp::RowReduce(_) = node.op {
                let slot = self.new_slot();
                self.slots.insert(member.node, slot);
            }
        }
        for member in self.members.iter().filter(|member| member.column) {
            self.column(member)?;
        }
        Ok(())
    }

    fn column(&mut self, member: &Member) -> Result<(), DeviceError> {
        let node = &self.nodes[member.node];
        let mut insts = Vec::new();
        let result = match &node.op {
            NodeOp::RowReduce(_) => {
                let slot = self.slots[&member.node];
                insts.extend(rounding(node.dtype).map(|conversion| RowInst::Convert {
                    slot,
                    conversion,
                    src: RowSrc::Slot(slot),
                }));
                RowSrc::Slot(slot)
            }
            NodeOp::Store(spec) => {
                let src = self.row_src(node, 0)?;
                let mem = self.mem(Mem::Box(spec.clone()), spec.dtype, Extent { rows: true, cols: false }, true);
                insts.push(RowInst::Store { mem, src });
                src
            }
            NodeOp::Cast(mode) => {
                let from = self.nodes[node.inputs[0]].dtype;
                let mut src = self.row_src(node, 0)?;
                let slot = self.new_slot();
                let conversions = conversions(from, node.dtype, *mode);
                if conversions.is_empty() {
                    let zero = RowSrc::Const(0);
                    // An integer addition of 0 keeps every bit, of floats too.
                    insts.push(RowInst::Binary { slot, f: BinaryFn::AddI, a: src, b: zero });
                }
                for conversion in conversions {
                    insts.push(RowInst::Convert { slot, conversion, src });
                    src = RowSrc::Slot(slot);
                }
                RowSrc::Slot(slot)
            }
            NodeOp::Unary(op) => {
                let src = self.row_src(node, 0)?;
                let slot = self.new_slot();
                insts.push(match unary(*op, node.dtype) {
                    Some(f) => RowInst::Unary { slot, f, src },
                    None => {
                        let f = relu_max(*op, node)?;
                        RowInst::Binary { slot, f, a: src, b: RowSrc::Const(0) }
                    }
                });
                insts.extend(self.row_rounding(node, *op, slot));
                RowSrc::Slot(slot)
            }
            NodeOp::Binary(op) => {
                let a = self.row_src(node, 0)?;
                let b = match node.scalar {
                    Some(value) => self.scalar_row_src(value, node.dtype),
                    None => self.row_src(node, 1)?,
                };
                let slot = self.new_slot();
                insts.push(RowInst::Binary { slot, f: binary(*op, node)?, a, b });
                insts.extend(self.row_rounding(node, *op, slot));
                RowSrc::Slot(slot)
            }
            other => unreachable!("{other:?} is no member of a group"),
        };
        if let RowSrc::Slot(slot) = result {
            self.slots.insert(member.node, slot);
        }
        if let Some(save) = &member.save {
            let mem = self.mem(save.clone(), node.dtype, Extent { rows: true, cols: false }, true);
            insts.push(RowInst::Store { mem, src: result });
        }
        let phases = &mut self.built.program.phases;
        match member.phase {
            0 => phases[0].prologue.extend(insts),
            ready => phases[ready - 1].epilogue.extend(insts),
        }
        Ok(())
    }

    fn row_rounding(&self, node: &Node, op: OpCode, slot: u16) -> Option<RowInst> {
        let conversion = rounding(node.dtype).filter(|_| rounds(op))?;
        Some(RowInst::Convert { slot, conversion, src: RowSrc::Slot(slot) })
    }

    /// A column argument.
    fn row_src(&mut self, node: &Node, at: usize) -> Result<RowSrc, DeviceError> {
        let input = node.inputs[at];
        if let Some(&slot) = self.slots.get(&input) {
            return Ok(RowSrc::Slot(slot));
        }
        let dtype = self.nodes[input].dtype;
        Ok(match (self.outside)(input) {
            Outside::Fill(value) => self.scalar_row_src(value, dtype),
            Outside::Mem(mem) => {
                let rows = self.nodes[input].rows > 1 || node.rows == 1;
                RowSrc::Slot(self.load_slot(mem, dtype, rows))
            }
        })
    }

    fn scalar_row_src(&mut self, value: Operand, dtype: DType) -> RowSrc {
        match self.scalar(value, dtype) {
            Src::Const(bits) => RowSrc::Const(bits),
            Src::Scalar(at) => RowSrc::Scalar(at),
            other => unreachable!("a scalar is no {other:?}"),
        }
    }

    /// The row scalar that holds a column of memory, loaded once per row.
    fn load_slot(&mut self, mem: Mem, dtype: DType, rows: bool) -> u16 {
        let mem = self.mem(mem, dtype, Extent { rows, cols: false }, false);
        if let Some(&(_, slot)) = self.mem_slots.iter().find(|&&(known, _)| known == mem) {
            return slot;
        }
        let slot = self.new_slot();
        self.mem_slots.push((mem, slot));
        self.built.program.phases[0].prologue.insert(self.mem_slots.len() - 1, RowInst::Load { slot, mem });
        slot
    }

    /// The body of one pass.
    fn pass(&mut self, phase: usize) -> Result<(), DeviceError> {
        let here: Vec<usize> = (0..self.members.len()).filter(|&at| self.runs_in(at) == Some(phase)).collect();
        let mut body = Vec::new();
        let mut acc: Option<NodeId> = None;
        let (nodes, members) = (self.nodes, self.members);
        for (order, &at) in here.iter().enumerate() {
            let member = &members[at];
            let node = &nodes[member.node];
            if let Some((src, dst)) = self.raw_copy(node, member) {
                body.extend([Inst::Load(src), Inst::Store(dst)]);
                acc = None;
                continue;
            }
            self.compute(member.node, &mut body, &mut acc)?;
            if matches!(node.op, NodeOp::Store(_) | NodeOp::RowReduce(_)) {
                self.release_temps(&here[order + 1..]);
                continue;
            }
            acc = Some(member.node);
            if let Some(save) = member.save.clone() {
                let mem = self.mem(save, node.dtype, Extent::FULL, true);
                body.push(Inst::Store(Dst::Mem(mem)));
            }
            let readers: Vec<(NodeId, usize)> =
                self.readers(member.node).map(|reader| (reader.node, self.pass_of(reader))).collect();
            if readers.iter().any(|&(_, pass)| pass > phase) {
                let buf = self.built.program.row_bufs;
                self.built.program.row_bufs += 1;
                self.row_bufs.insert(member.node, buf);
                body.push(Inst::Store(Dst::RowBuf(buf)));
            }
            // The accumulator serves the next member; every other reader in this pass needs a copy.
            let next = here.get(order + 1).map(|&at| self.members[at].node);
            let keeps = readers.iter().any(|&(reader, pass)| pass == phase && Some(reader) != next)
                || next.is_some_and(|next| self.nodes[next].inputs.iter().filter(|&&i| i == member.node).count() > 1);
            if keeps && !self.row_bufs.contains_key(&member.node) {
                let temp = self.free_temps.pop().unwrap_or_else(|| {
                    self.built.program.temps += 1;
                    self.built.program.temps - 1
                });
                self.temps.insert(member.node, temp);
                body.push(Inst::Store(Dst::Temp(temp)));
            }
            self.release_temps(&here[order + 1..]);
        }
        self.free_temps.extend(self.temps.drain().map(|(_, temp)| temp));
        self.built.program.phases[phase].body = body;
        Ok(())
    }

    /// The pass whose body computes a member, if it has a place in a body: full members, and reductions.
    fn runs_in(&self, at: usize) -> Option<usize> {
        let member = &self.members[at];
        match (member.column, &self.nodes[member.node].op) {
            (false, _) => Some(member.phase),
            (true, NodeOp::RowReduce(_)) => Some(member.phase - 1),
            (true, _) => None,
        }
    }

    fn pass_of(&self, member: &Member) -> usize {
        self.runs_in(self.index[&member.node]).unwrap_or(member.phase)
    }

    /// Members that read a full value in a body.
    fn readers(&self, node: NodeId) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| self.nodes[member.node].inputs.contains(&node))
    }

    fn release_temps(&mut self, rest: &[usize]) {
        let done: Vec<NodeId> = self
            .temps
            .keys()
            .copied()
            .filter(|node| !rest.iter().any(|&at| self.nodes[self.members[at].node].inputs.contains(node)))
            .collect();
        for node in done {
            self.free_temps.extend(self.temps.remove(&node));
        }
    }

    /// A member that only moves elements keeps every bit: 16-bit floats are moved as integers, so that a signalling NaN
    /// or an index that travels in a float lane survives.
    fn raw_copy(&mut self, node: &Node, member: &Member) -> Option<(Src, Dst)> {
        let (source, dst) = match (&node.op, &member.save) {
            (NodeOp::Store(spec), None) if spec.dtype == node.dtype => (node.inputs[0], Mem::Box(spec.clone())),
            (NodeOp::Cast(_), Some(save)) if self.nodes[node.inputs[0]].dtype == node.dtype => {
                if self.readers(member.node).next().is_some() {
                    return None;
                }
                (node.inputs[0], save.clone())
            }
            _ => return None,
        };
        if self.index.contains_key(&source) {
            return None;
        }
        let Outside::Mem(mem) = (self.outside)(source) else { return None };
        let bits = match node.dtype.size() {
            1 => DType::U8,
            2 => DType::U16,
            _ => DType::I32,
        };
        let extent = self.extent(source, node);
        if !extent.cols {
            return None;
        }
        let src = self.mem(mem, bits, extent, false);
        Some((Src::Mem(src), Dst::Mem(self.mem(dst, bits, Extent::FULL, true))))
    }

    fn compute(&mut self, id: NodeId, body: &mut Vec<Inst>, acc: &mut Option<NodeId>) -> Result<(), DeviceError> {
        let node = &self.nodes[id];
        match &node.op {
            NodeOp::Store(spec) => {
                self.load_acc(node, 0, body, acc)?;
                let mem = self.mem(Mem::Box(spec.clone()), spec.dtype, Extent::FULL, true);
                body.push(Inst::Store(Dst::Mem(mem)));
            }
            NodeOp::RowReduce(op) => {
                self.load_acc(node, 0, body, acc)?;
                body.push(Inst::Reduce(reduce(*op, node)?, self.slots[&id]));
            }
            NodeOp::Cast(mode) => {
                self.load_acc(node, 0, body, acc)?;
                let from = self.nodes[node.inputs[0]].dtype;
                body.extend(conversions(from, node.dtype, *mode).into_iter().map(Inst::Convert));
            }
            NodeOp::Unary(op) => {
                self.load_acc(node, 0, body, acc)?;
                body.push(match unary(*op, node.dtype) {
                    Some(f) => Inst::Unary(f),
                    None => Inst::Binary(relu_max(*op, node)?, Src::Const(0)),
                });
                self.round(node, *op, body);
            }
            NodeOp::Binary(op) => {
                let f = binary(*op, node)?;
                match node.scalar {
                    Some(value) => {
                        self.load_acc(node, 0, body, acc)?;
                        let src = self.scalar(value, node.dtype);
                        body.push(Inst::Binary(f, src));
                    }
                    None if *acc == Some(node.inputs[1]) && *acc != Some(node.inputs[0]) => {
                        let src = self.src(node, 0)?;
                        body.push(Inst::BinaryRev(f, src));
                    }
                    None => {
                        self.load_acc(node, 0, body, acc)?;
                        let src = self.src(node, 1)?;
                        body.push(Inst::Binary(f, src));
                    }
                }
                self.round(node, *op, body);
            }
            other => unreachable!("{other:?} is no member of a group"),
        }
        Ok(())
    }

    fn round(&self, node: &Node, op: OpCode, body: &mut Vec<Inst>) {
        body.extend(rounding(node.dtype).filter(|_| rounds(op)).map(Inst::Convert));
    }

    fn load_acc(
        &mut self,
        node: &Node,
        at: usize,
        body: &mut Vec<Inst>,
        acc: &mut Option<NodeId>,
    ) -> Result<(), DeviceError> {
        if *acc != Some(node.inputs[at]) {
            let src = self.src(node, at)?;
            body.push(Inst::Load(src));
            *acc = Some(node.inputs[at]);
        }
        Ok(())
    }

    /// A full or broadcast argument of a full member.
    fn src(&mut self, node: &Node, at: usize) -> Result<Src, DeviceError> {
        let input = node.inputs[at];
        if let Some(&slot) = self.slots.get(&input) {
            return Ok(Src::Slot(slot));
        }
        if let Some(&temp) = self.temps.get(&input) {
            return Ok(Src::Temp(temp));
        }
        if let Some(&buf) = self.row_bufs.get(&input) {
            return Ok(Src::RowBuf(buf));
        }
        debug_assert!(self.member(input).is_none(), "a member is in a temporary or a row buffer when it is read");
        let dtype = self.nodes[input].dtype;
        Ok(match (self.outside)(input) {
            Outside::Fill(value) => self.scalar(value, dtype),
            Outside::Mem(mem) => {
                let extent = self.extent(input, node);
                if extent.cols {
                    Src::Mem(self.mem(mem, dtype, extent, false))
                } else {
                    Src::Slot(self.load_slot(mem, dtype, extent.rows))
                }
            }
        })
    }

    /// How an argument spans the region of `node`.
    fn extent(&self, input: NodeId, node: &Node) -> Extent {
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
}
