//! Insertions: stores into the middle of a tile in scratch memory.

use super::super::graph::{Node, NodeId, NodeOp};
use super::{Scheduler, window};
use crate::device::DeviceError;
use crate::device::sim::code::{Mem, TileMem};
use crate::program::{Operand, TileSlot};

impl Scheduler<'_> {
    /// Adds an insertion to the open group, which writes it to the memory of its target.
    pub(super) fn insert(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        let (target, source) = (node.inputs[0], node.inputs[1]);
        let wide = self.is_wide(id);
        // Insertions one after the other into parts that do not touch share a chain.
        let goes_on = self.group.contains(target)
            && !wide
            && self.places[target].is_some()
            && self.group.accepts(&self.graph.nodes, id, self.alias)
            && self.only_successor(target, id, pos);
        let place = match goes_on {
            true => self.places[target].expect("checked above"),
            false => self.take_over(id, pos, true)?.expect("copied where needed"),
        };
        self.places[id] = Some(place);
        if wide {
            self.flush(pos)?;
            self.reachable(source, node, pos)?;
            let bound = [self.graph.nodes[source].rows, self.graph.nodes[source].cols];
            let to = self.inserted(id);
            return self.wide_copy(source, to, node.work(), bound, node.at);
        }
        if self.insert_conflicts(id, place) || !self.group.accepts(&self.graph.nodes, id, self.alias) {
            self.flush(pos)?;
        }
        if !self.group.contains(source) {
            self.reachable(source, node, pos)?;
        }
        self.group.add(&self.graph.nodes, id);
        Ok(())
    }

    /// Whether `id` alone needs what `target`, an insertion of the open group, is, and nothing waits to read there.
    fn only_successor(&self, target: NodeId, id: NodeId, pos: usize) -> bool {
        let nodes = &self.graph.nodes;
        let home = self.places[target].map(|place| place.home);
        let others = (0..nodes.len()).any(|other| {
            other != id && nodes[other].pos <= pos && self.home_of(other) == home && nodes[other].last_use() > pos
        });
        let read = nodes[id].inputs[1..].iter().any(|&input| self.home_of(input) == home);
        matches!(nodes[target].op, NodeOp::Insert) && nodes[target].same_slot(&nodes[id]) && !others && !read
    }

    /// Whether the open group writes a part of this memory.
    pub(super) fn inserts_into(&self, home: u64) -> bool {
        self.group
            .iter()
            .any(|member| matches!(self.graph.nodes[member].op, NodeOp::Insert) && self.home_of(member) == Some(home))
    }

    /// Whether a chain would do something of the open group in another order than the insertion `id` into `place`. Row by row
    /// it may read just what it then replaces, and write parts that do not touch.
    fn insert_conflicts(&self, id: NodeId, place: TileMem) -> bool {
        let nodes = &self.graph.nodes;
        let node = &nodes[id];
        self.group.iter().any(|member| {
            let other = &nodes[member];
            let is_insert = matches!(other.op, NodeOp::Insert);
            let writes = is_insert && self.home_of(member) == Some(place.home) && !disjoint(other, node);
            let read = other.inputs.iter().skip(usize::from(is_insert));
            let reads = read.filter(|&&input| !self.group.contains(input)).any(|&input| {
                let from = &nodes[input];
                let replaced = matches!(from.op, NodeOp::Extract)
                    && self.places[input].is_none()
                    && self.places[from.inputs[0]] == Some(place)
                    && from.scalars[..2] == node.scalars[..2]
                    && other.work() == node.work();
                self.home_of(input) == Some(place.home) && !replaced
            });
            writes || reads
        })
    }

    /// Where an insertion writes.
    pub(super) fn inserted(&self, id: NodeId) -> Mem {
        let node = &self.graph.nodes[id];
        let source = self.graph.nodes[node.inputs[1]].slot();
        let extent = |operand: Operand, most: u32| match operand {
            Operand::Int(extent) => u32::try_from(extent).unwrap_or(most).min(most),
            _ => most,
        };
        let [rows, cols] = node.work();
        let part = TileSlot { rows: extent(rows, source.rows), cols: extent(cols, source.cols), ..source };
        window(self.places[id].expect("an insertion has a place"), &part, [node.scalars[0], node.scalars[1]])
    }
}

/// Whether two insertions certainly write different elements.
fn disjoint(a: &Node, b: &Node) -> bool {
    let apart = |axis: usize| {
        let (Operand::Int(a_start), Operand::Int(b_start)) = (a.scalars[axis], b.scalars[axis]) else { return false };
        let (Operand::Int(a_extent), Operand::Int(b_extent)) = (a.scalars[axis + 2], b.scalars[axis + 2]) else {
            return false;
        };
        let before = |start: i64, extent: i64, next: i64| start.checked_add(extent).is_some_and(|end| end <= next);
        before(a_start, a_extent, b_start) || before(b_start, b_extent, a_start)
    };
    apart(0) || apart(1)
}
