//! Members that span the region: the instructions on the accumulator of each pass.

use super::super::functions::{Fit, binary, compare, conversions, reduce, rounding, rounds, unary, with_zero};
use super::super::graph::{Node, NodeId, NodeOp};
use super::{Builder, Member, Outside};
use crate::device::DeviceError;
use crate::device::sim::code::{Extent, Mem};
use crate::dtype::DType;
use crate::kernels::chain::{BinaryFn, Conversion, Dst, Inst, Src, UnaryFn};
use crate::program::OpCode;

impl Builder<'_> {
    /// The body of one pass.
    pub(super) fn pass(&mut self, phase: usize) -> Result<(), DeviceError> {
        let here: Vec<usize> = (0..self.members.len()).filter(|&at| self.runs_in(at) == Some(phase)).collect();
        let mut body = Vec::new();
        let mut acc: Option<NodeId> = None;
        let (nodes, members) = (self.nodes, self.members);
        let mut begins = Vec::with_capacity(here.len() + 1);
        for (order, &at) in here.iter().enumerate() {
            let member = &members[at];
            let node = &nodes[member.node];
            begins.push(body.len());
            if let Some((src, dst)) = self.raw_copy(node, member) {
                body.extend([Inst::Load(src), Inst::Store(dst)]);
                acc = None;
                continue;
            }
            self.compute(member, &mut body, &mut acc)?;
            if matches!(node.op, NodeOp::Store(_) | NodeOp::RowReduce(_) | NodeOp::Insert) {
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
                || next.is_some_and(|next| needs_copy(&self.nodes[next], member.node));
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
        begins.push(body.len());
        let ranges = begins.windows(2).map(|ends| ends[0]..ends[1]);
        self.built.bodies.extend(here.iter().zip(ranges).map(|(&at, range)| (members[at].node, phase, range)));
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
        self.members.iter().filter(move |member| read_by(&self.nodes[member.node]).contains(&node))
    }

    fn release_temps(&mut self, rest: &[usize]) {
        let done: Vec<NodeId> = self
            .temps
            .keys()
            .copied()
            .filter(|node| !rest.iter().any(|&at| read_by(&self.nodes[self.members[at].node]).contains(node)))
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
            (NodeOp::Insert, Some(save)) => (node.inputs[1], save.clone()),
            (NodeOp::Cast(_) | NodeOp::Expand, Some(save)) if self.nodes[node.inputs[0]].dtype == node.dtype => {
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

    fn compute(&mut self, member: &Member, body: &mut Vec<Inst>, acc: &mut Option<NodeId>) -> Result<(), DeviceError> {
        let node = &self.nodes[member.node];
        match &node.op {
            NodeOp::Store(spec) => {
                self.load_acc(node, 0, body, acc)?;
                let mem = self.mem(Mem::Box(spec.clone()), spec.dtype, Extent::FULL, true);
                body.push(Inst::Store(Dst::Mem(mem)));
            }
            NodeOp::Insert => {
                self.load_acc(node, 1, body, acc)?;
                let place = member.save.clone().expect("an insertion has a place");
                let mem = self.mem(place, node.dtype, Extent::FULL, true);
                body.push(Inst::Store(Dst::Mem(mem)));
            }
            NodeOp::RowReduce(op) => {
                self.load_acc(node, 0, body, acc)?;
                body.push(Inst::Reduce(reduce(*op, node)?, self.slots[&member.node]));
            }
            NodeOp::Cast(mode) => {
                self.load_acc(node, 0, body, acc)?;
                let from = self.nodes[node.inputs[0]].dtype;
                body.extend(conversions(from, node.dtype, *mode).into_iter().map(|fit| match fit {
                    Fit::Convert(conversion) => Inst::Convert(conversion),
                    Fit::Bound(f, limit) => Inst::Binary(f, Src::Const(limit)),
                }));
            }
            NodeOp::Expand => self.load_acc(node, 0, body, acc)?,
            NodeOp::Unary(op) => {
                self.load_acc(node, 0, body, acc)?;
                body.push(match unary(*op, node.dtype) {
                    Some(f) => Inst::Unary(f),
                    None => Inst::Binary(with_zero(*op, node)?, Src::Const(0)),
                });
                round(node, *op, body);
            }
            NodeOp::Binary(op) => {
                match binary(*op, node)? {
                    BinaryFn::MulF if is_square(node) => {
                        self.load_acc(node, 0, body, acc)?;
                        body.push(Inst::Unary(UnaryFn::SquareF));
                    }
                    f => self.apply(node, f, body, acc)?,
                }
                round(node, *op, body);
            }
            NodeOp::Compare(op) => {
                self.apply(node, compare(*op, self.nodes[node.inputs[0]].dtype), body, acc)?;
                if node.dtype.is_float() {
                    body.push(Inst::Convert(Conversion::I32ToF32));
                }
            }
            NodeOp::Select if *acc == Some(node.inputs[0]) && *acc != Some(node.inputs[1]) => {
                let (then, other) = (self.src(node, 1)?, self.src(node, 2)?);
                body.push(Inst::Pick { then, other });
            }
            NodeOp::Select => {
                self.load_acc(node, 1, body, acc)?;
                let (when, other) = (self.src(node, 0)?, self.src(node, 2)?);
                body.push(Inst::Select { when, other });
            }
            NodeOp::Index(axis) => {
                debug_assert_eq!(*axis, 1, "the index of a row is a column");
                body.push(Inst::Load(Src::Column));
            }
            other => unreachable!("{other:?} is no member of a group"),
        }
        Ok(())
    }

    /// A function of two arguments, of which the accumulator may hold either.
    fn apply(
        &mut self,
        node: &Node,
        f: BinaryFn,
        body: &mut Vec<Inst>,
        acc: &mut Option<NodeId>,
    ) -> Result<(), DeviceError> {
        if let Some(value) = node.scalar() {
            self.load_acc(node, 0, body, acc)?;
            let src = self.scalar_of(node, value);
            body.push(Inst::Binary(f, src));
        } else if *acc == Some(node.inputs[1]) && *acc != Some(node.inputs[0]) {
            let src = self.src(node, 0)?;
            body.push(Inst::BinaryRev(f, src));
        } else {
            self.load_acc(node, 0, body, acc)?;
            let src = self.src(node, 1)?;
            body.push(Inst::Binary(f, src));
        }
        Ok(())
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
}

/// The arguments that a member reads: what an insertion changes is not one of them.
fn read_by(node: &Node) -> &[NodeId] {
    if let NodeOp::Insert = node.op { &node.inputs[1..] } else { &node.inputs }
}

/// Whether `node`, which follows `value`, cannot do with having it in the accumulator.
fn needs_copy(node: &Node, value: NodeId) -> bool {
    let count = read_by(node).iter().filter(|&&input| input == value).count();
    let elsewhere = matches!(node.op, NodeOp::Select) && node.inputs[2] == value;
    (count > 1 && !is_square(node)) || elsewhere
}

/// Whether a product is of a float with itself.
fn is_square(node: &Node) -> bool {
    let is_product = matches!(node.op, NodeOp::Binary(OpCode::Mul)) && node.dtype.is_float();
    is_product && node.inputs.len() == 2 && node.inputs[0] == node.inputs[1]
}

fn round(node: &Node, op: OpCode, body: &mut Vec<Inst>) {
    body.extend(rounding(node.dtype).filter(|_| rounds(op)).map(Inst::Convert));
}
