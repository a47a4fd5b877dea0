//! Members with one element per row: row instructions before and after the passes.

use super::super::functions::{Fit, binary, compare, conversions, reduce_end, rounding, rounds, unary, with_zero};
use super::super::graph::{Node, NodeOp};
use super::{Builder, Member, Outside};
use crate::device::DeviceError;
use crate::device::sim::code::{Extent, Mem};
use crate::dtype::DType;
use crate::kernels::chain::{BinaryFn, Conversion, RowInst, RowSrc, Src};
use crate::program::{OpCode, Operand};

/// How a column lies in memory.
const COLUMN: Extent = Extent { rows: true, cols: false };

impl Builder<'_> {
    /// Row instructions of all column members.
    pub(super) fn columns(&mut self) -> Result<(), DeviceError> {
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
            NodeOp::RowReduce(op) => {
                let slot = self.slots[&member.node];
                let src = RowSrc::Slot(slot);
                insts.extend(reduce_end(*op, node.dtype).map(|fit| row_fit(fit, slot, src)));
                src
            }
            NodeOp::Store(spec) => {
                let src = self.row_src(node, 0)?;
                let mem = self.mem(Mem::Box(spec.clone()), spec.dtype, COLUMN, true);
                insts.push(RowInst::Store { mem, src });
                src
            }
            NodeOp::Insert => self.row_src(node, 1)?,
            _ => {
                let slot = self.new_slot();
                self.column_value(node, slot, &mut insts)?;
                RowSrc::Slot(slot)
            }
        };
        if let (RowSrc::Slot(slot), false) = (result, matches!(node.op, NodeOp::Insert)) {
            self.slots.insert(member.node, slot);
        }
        if let Some(save) = &member.save {
            let mem = self.mem(save.clone(), node.dtype, COLUMN, true);
            insts.push(RowInst::Store { mem, src: result });
        }
        self.built.rows.extend(insts.iter().map(|&inst| (member.node, inst)));
        let phases = &mut self.built.program.phases;
        match member.phase {
            0 => phases[0].prologue.extend(insts),
            ready => phases[ready - 1].epilogue.extend(insts),
        }
        Ok(())
    }

    /// The instructions that leave an elementwise value in `slot`.
    fn column_value(&mut self, node: &Node, slot: u16, insts: &mut Vec<RowInst>) -> Result<(), DeviceError> {
        let zero = RowSrc::Const(0);
        match &node.op {
            NodeOp::Cast(_) | NodeOp::Expand => {
                let mut src = self.row_src(node, 0)?;
                let conversions = match &node.op {
                    NodeOp::Cast(mode) => conversions(self.nodes[node.inputs[0]].dtype, node.dtype, *mode),
                    _ => Vec::new(),
                };
                if conversions.is_empty() {
                    // An integer addition of 0 keeps every bit, of floats too.
                    insts.push(RowInst::Binary { slot, f: BinaryFn::AddI, a: src, b: zero });
                }
                for fit in conversions {
                    insts.push(row_fit(fit, slot, src));
                    src = RowSrc::Slot(slot);
                }
            }
            NodeOp::Unary(op) => {
                let src = self.row_src(node, 0)?;
                insts.push(match unary(*op, node.dtype) {
                    Some(f) => RowInst::Unary { slot, f, src },
                    None => RowInst::Binary { slot, f: with_zero(*op, node)?, a: src, b: zero },
                });
                insts.extend(row_rounding(node, *op, slot));
            }
            NodeOp::Binary(op) => {
                let (a, b) = (self.row_src(node, 0)?, self.second(node)?);
                insts.push(RowInst::Binary { slot, f: binary(*op, node)?, a, b });
                insts.extend(row_rounding(node, *op, slot));
            }
            NodeOp::Compare(op) => {
                let (a, b) = (self.row_src(node, 0)?, self.second(node)?);
                let f = compare(*op, self.nodes[node.inputs[0]].dtype);
                insts.push(RowInst::Binary { slot, f, a, b });
                if node.dtype.is_float() {
                    let (conversion, src) = (Conversion::I32ToF32, RowSrc::Slot(slot));
                    insts.push(RowInst::Convert { slot, conversion, src });
                }
            }
            NodeOp::Select => {
                let [when, then, other] = [self.row_src(node, 0)?, self.row_src(node, 1)?, self.row_src(node, 2)?];
                insts.push(RowInst::Select { slot, when, then, other });
            }
            NodeOp::Index(axis) => {
                let a = if *axis == 0 { RowSrc::Row } else { zero };
                insts.push(RowInst::Binary { slot, f: BinaryFn::AddI, a, b: zero });
            }
            other => unreachable!("{other:?} is no member of a group"),
        }
        Ok(())
    }

    fn second(&mut self, node: &Node) -> Result<RowSrc, DeviceError> {
        match node.scalar() {
            Some(value) => Ok(row_scalar(self.scalar_of(node, value))),
            None => self.row_src(node, 1),
        }
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
                let rows = self.extent(input, node).rows;
                RowSrc::Slot(self.load_slot(mem, dtype, rows))
            }
        })
    }

    fn scalar_row_src(&mut self, value: Operand, dtype: DType) -> RowSrc {
        row_scalar(self.scalar(value, dtype))
    }

    /// The row scalar that holds a column of memory, loaded once per row.
    pub(super) fn load_slot(&mut self, mem: Mem, dtype: DType, rows: bool) -> u16 {
        let mem = self.mem(mem, dtype, Extent { rows, cols: false }, false);
        if let Some(&(_, slot)) = self.mem_slots.iter().find(|&&(known, _)| known == mem) {
            return slot;
        }
        let slot = self.new_slot();
        self.mem_slots.push((mem, slot));
        self.built.program.phases[0].prologue.insert(self.mem_slots.len() - 1, RowInst::Load { slot, mem });
        slot
    }
}

fn row_scalar(src: Src) -> RowSrc {
    match src {
        Src::Const(bits) => RowSrc::Const(bits),
        Src::Scalar(at) => RowSrc::Scalar(at),
        other => unreachable!("a scalar is no {other:?}"),
    }
}

fn row_fit(fit: Fit, slot: u16, src: RowSrc) -> RowInst {
    match fit {
        Fit::Convert(conversion) => RowInst::Convert { slot, conversion, src },
        Fit::Bound(f, limit) => RowInst::Binary { slot, f, a: src, b: RowSrc::Const(limit) },
    }
}

fn row_rounding(node: &Node, op: OpCode, slot: u16) -> Option<RowInst> {
    let conversion = rounding(node.dtype).filter(|_| rounds(op))?;
    Some(RowInst::Convert { slot, conversion, src: RowSrc::Slot(slot) })
}
