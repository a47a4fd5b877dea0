//! Results that go straight to device memory, past scratch memory.

use super::super::graph::{Item, NodeId, NodeOp};
use super::Scheduler;
use crate::device::DeviceError;
use crate::device::sim::code::{BoxSpec, Mem, MemUse};
use crate::dtype::DType;

impl Scheduler<'_> {
    /// Where the result of a product or of a whole-tile operation at `pos` goes if its only reader is a store that
    /// follows it: that store is then done. `operands` are what the step reads, `tensor` one that it reads anywhere;
    /// `dtype` is that of the result where the step cannot convert it.
    pub(super) fn direct_store(
        &mut self,
        id: NodeId,
        operands: &[&MemUse],
        tensor: Option<u32>,
        dtype: Option<DType>,
        pos: usize,
    ) -> Result<Option<BoxSpec>, DeviceError> {
        let node = &self.graph.nodes[id];
        let ([at], []) = (&node.uses[..], &node.live_out[..]) else { return Ok(None) };
        let Item::Node(store) = self.graph.items[*at] else { return Ok(None) };
        let store = &self.graph.nodes[store];
        let NodeOp::Store(spec) = &store.op else { return Ok(None) };
        let between = &self.graph.items[pos + 1..*at];
        let quiet = between.iter().all(|item| match item {
            Item::Node(id) => matches!(self.graph.nodes[*id].op, NodeOp::Fill | NodeOp::Undef),
            Item::Other(..) => false,
            Item::Sum(..) => true,
        });
        let may_be = |source: u32| self.alias.may(source, spec.tensor);
        let apart = !tensor.is_some_and(may_be)
            && operands.iter().all(|operand| match &operand.mem {
                Mem::Box(source) => !may_be(source.tensor),
                Mem::Tile(_) | Mem::Window(_) => true,
            });
        let fits = dtype.is_none_or(|dtype| dtype == spec.dtype) && store.region == node.region;
        if !quiet || !apart || !fits {
            return Ok(None);
        }
        let (at, spec) = (*at, spec.clone());
        self.settle_aliases(&spec, at)?;
        self.done[at] = true;
        Ok(Some(spec))
    }
}
