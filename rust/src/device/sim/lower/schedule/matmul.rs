//! Matrix products: steps of their own.

use super::super::graph::{NodeId, NodeOp};
use super::super::unsupported;
use super::{Outside, Scheduler};
use crate::device::DeviceError;
use crate::device::sim::code::{Extent, MatMulStep, Mem, MemUse, Step};
use crate::kernels::matmul::{MatMul, MatMulSpec};
use crate::program::Operand;

impl Scheduler<'_> {
    pub(super) fn matmul(&mut self, id: NodeId, acc: bool, trans: [bool; 2], pos: usize) -> Result<(), DeviceError> {
        self.flush(pos)?;
        let node = &self.graph.nodes[id];
        let k = node.scalar().expect("verified: a product has an inner extent");
        let [m, n] = node.region;
        let skip = usize::from(acc);
        let (a, b) = (node.inputs[skip], node.inputs[skip + 1]);
        let turned = |region: [Operand; 2], trans: bool| if trans { [region[1], region[0]] } else { region };
        let a_use = self.operand(a, turned([m, k], trans[0]), pos)?;
        let b_use = self.operand(b, turned([k, n], trans[1]), pos)?;
        let acc_use = if acc { Some(self.operand(node.inputs[0], [m, n], pos)?) } else { None };
        let direct = if acc { None } else { self.direct_store(id, &[&a_use, &b_use], None, None, pos)? };
        let (out, c_use) = match direct {
            Some(spec) => {
                (spec.dtype, MemUse { dtype: spec.dtype, mem: Mem::Box(spec), extent: Extent::FULL, write: true })
            }
            None => {
                let home = self.pick_home(id, pos, None);
                self.places[id] = Some(home);
                (node.dtype, MemUse { mem: Mem::Tile(home), dtype: node.dtype, extent: Extent::FULL, write: true })
            }
        };
        let dtype = self.graph.nodes[a].dtype;
        let kernel = |a_trans, b_trans| {
            MatMul::new(MatMulSpec { dtype, a_trans, b_trans, out }, self.isa)
                .ok_or_else(|| unsupported(node.at, format!("matmul of {dtype} into {out}")))
        };
        let kernels = [[kernel(false, false)?, kernel(false, true)?], [kernel(true, false)?, kernel(true, true)?]];
        let inner = |id: NodeId, left: bool| {
            let node = &self.graph.nodes[id];
            if left != trans[usize::from(!left)] { node.cols } else { node.rows }
        };
        let bound = [node.rows, node.cols, inner(a, true).min(inner(b, false))];
        let step = MatMulStep { kernels, trans, region: [m, n], k, bound, a: a_use, b: b_use, c: c_use, acc: acc_use };
        let step = Step::MatMul(step);
        let account = self.out.accounts.is_some().then(|| self.single_account(id, dtype, &step));
        self.out.push_step(step, node.at, account);
        let graph = self.graph;
        self.waiting.retain(|&id| graph.nodes[id].last_use() > pos);
        Ok(())
    }

    /// An operand of a product: a waiting load where it reads just `region`, a window, else scratch memory.
    fn operand(&mut self, id: NodeId, region: [Operand; 2], pos: usize) -> Result<MemUse, DeviceError> {
        let value = &self.graph.nodes[id];
        let direct = matches!(value.op, NodeOp::Load(_)) && value.region == region;
        if self.places[id].is_none() && !direct {
            match value.op {
                NodeOp::Undef => self.places[id] = Some(self.out.new_home(&value.slot())),
                NodeOp::Extract => drop(self.in_memory(value.inputs[0], pos)?),
                _ => self.settle(id, pos)?,
            }
        }
        let Outside::Mem(mem) = self.outside(id) else { unreachable!("a fill was settled above") };
        Ok(MemUse { mem, dtype: value.dtype, extent: Extent::FULL, write: false })
    }
}
