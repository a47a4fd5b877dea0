//! Statements that are no tile operations: what waits on what they change is done before.

use super::super::emit::Emitter;
use super::super::graph::{NodeId, NodeOp};
use super::Scheduler;
use crate::device::DeviceError;
use crate::device::sim::code::{Inst, Source};
use crate::program::{Place, Stmt, StmtKind};

impl Scheduler<'_> {
    pub(super) fn other(
        &mut self,
        stmt: &Stmt,
        element: Option<NodeId>,
        pos: usize,
        emit: &mut dyn FnMut(&mut Emitter, &Stmt),
    ) -> Result<(), DeviceError> {
        match &stmt.kind {
            StmtKind::Scalar { dst, .. } | StmtKind::Dim { dst, .. } => self.before_scalar(*dst, pos)?,
            StmtKind::View { dst, .. } => self.before_tensor(*dst, pos)?,
            StmtKind::Read { dst, src, index } => {
                self.before_scalar(*dst, pos)?;
                match *src {
                    Place::Tensor(tensor) => {
                        if self.group.stores.iter().any(|&stored| self.alias.may(stored, tensor)) {
                            self.flush(pos)?;
                        }
                    }
                    Place::Tile(slot) => {
                        let id = element.expect("a read of a tile names its node");
                        let tile = self.in_memory(id, pos)?;
                        let src = Source::Tile { tile, dtype: self.graph.nodes[id].dtype, slot };
                        self.out.push(Inst::Read { dst: *dst, src, index: index.clone() }, stmt.at);
                        return Ok(());
                    }
                }
            }
            StmtKind::Write { dst, index, value } => match *dst {
                Place::Tensor(tensor) => {
                    if self.group.touches(&self.graph.nodes, tensor, self.alias) {
                        self.flush(pos)?;
                    }
                    self.before_tensor_changes(tensor, pos)?;
                }
                Place::Tile(slot) => {
                    let id = element.expect("a write to a tile names its node");
                    let tile = self.own_slot(id, slot, pos)?;
                    let dst = Source::Tile { tile, dtype: self.graph.nodes[id].dtype, slot };
                    self.out.push(Inst::Write { dst, index: index.clone(), value: *value }, stmt.at);
                    return Ok(());
                }
            },
            _ => {}
        }
        emit(self.out, stmt);
        Ok(())
    }

    /// Before anything in the memory of a tensor changes: loads that are read by the item at `pos` or later are done.
    pub(super) fn before_tensor_changes(&mut self, tensor: u32, pos: usize) -> Result<(), DeviceError> {
        self.settle_where(pos, |this, node| {
            matches!(&node.op, NodeOp::Load(spec) if this.alias.may(spec.tensor, tensor)) && node.last_use() >= pos
        })
    }

    /// Before a scalar slot changes: what waits on its old value is done.
    fn before_scalar(&mut self, slot: u32, pos: usize) -> Result<(), DeviceError> {
        if self.group.uses_scalar(&self.graph.nodes, slot) {
            self.flush(pos)?;
        }
        self.settle_where(pos, |_, node| node.uses_scalar(slot) && node.last_use() >= pos)
    }

    fn before_tensor(&mut self, slot: u32, pos: usize) -> Result<(), DeviceError> {
        if self.group.names_tensor(&self.graph.nodes, slot) {
            self.flush(pos)?;
        }
        self.settle_where(pos, |_, node| {
            matches!(&node.op, NodeOp::Load(spec) if spec.tensor == slot) && node.last_use() >= pos
        })
    }
}
