//! Tiles that are put together from parts, as `concat` and rotary embeddings make them: an elementwise operation on such a
//! tile is one on each part, and storing it stores the parts, so that the tile itself need not exist.

use super::build::{Builder, New};
use super::graph::{Node, NodeId, NodeOp};
use crate::device::sim::code::BoxSpec;
use crate::program::{Operand, TileSlot};

/// More parts than this are left together: each becomes operations of its own.
const MOST: usize = 4;

/// A part of a tile: what it is, and where: row, column, rows, columns.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub node: NodeId,
    place: [i64; 4],
}

impl Part {
    fn region(&self) -> [Operand; 2] {
        [self.place[2], self.place[3]].map(Operand::Int)
    }

    fn start(&self) -> [Operand; 2] {
        [self.place[0], self.place[1]].map(Operand::Int)
    }

    fn overlaps(&self, other: &Part) -> bool {
        let meet = |axis: usize| {
            let (a, b) = (self.place[axis], other.place[axis]);
            a < b + other.place[axis + 2] && b < a + self.place[axis + 2]
        };
        meet(0) && meet(1)
    }
}

impl Builder<'_> {
    /// The parts of a tile that had no defined value before they were inserted, if they are known and apart from each other.
    pub(super) fn parts(&self, mut id: NodeId) -> Option<Vec<Part>> {
        let whole = self.node_at(id).slot();
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let node = self.node_at(id);
            match node.op {
                NodeOp::Undef => return (!parts.is_empty()).then_some(parts),
                NodeOp::Insert if node.slot() == whole && parts.len() < MOST => {
                    let part = Part { node: node.inputs[1], place: constants(node)? };
                    let source = self.node_at(part.node).slot();
                    let [row, col, rows, cols] = part.place;
                    let limits = [whole.rows.min(source.rows), whole.cols.min(source.cols)].map(i64::from);
                    let inside = row >= 0 && col >= 0 && rows > 0 && cols > 0 && rows <= limits[0] && cols <= limits[1];
                    let fits = row + rows <= i64::from(whole.rows) && col + cols <= i64::from(whole.cols);
                    if !inside || !fits || parts.iter().any(|other| other.overlaps(&part)) {
                        return None;
                    }
                    parts.insert(0, part);
                    id = node.inputs[0];
                }
                _ => return None,
            }
        }
    }

    /// The result of an operation of one tile, made part by part.
    pub(super) fn by_parts(
        &mut self,
        new: &impl Fn(NodeOp) -> New,
        parts: &[Part],
        op: &NodeOp,
        scalars: &[Operand],
    ) -> NodeId {
        let slot = new(NodeOp::Undef).slot;
        let mut whole = self.node(new(NodeOp::Undef), vec![], vec![]);
        for part in parts {
            let source = self.node_at(part.node).slot();
            let slot = TileSlot { dtype: slot.dtype, ..source };
            let made = New { slot, region: part.region(), ..new(op.clone()) };
            let made = self.node(made, vec![part.node], scalars.to_vec());
            let place = part.place.map(Operand::Int).to_vec();
            whole = self.node(new(NodeOp::Insert), vec![whole, made], place);
        }
        whole
    }

    /// Stores the parts of a tile, if they are all that is stored; `false` where they are not.
    pub(super) fn store_parts(&mut self, new: &impl Fn(NodeOp) -> New, parts: &[Part], spec: &BoxSpec) -> bool {
        let New { region, slot, .. } = new(NodeOp::Undef);
        let [Operand::Int(rows), Operand::Int(cols)] = region else { return false };
        let within = |part: &&Part| part.place[0] + part.place[2] <= rows && part.place[1] + part.place[3] <= cols;
        let area = |part: &Part| part.place[2] * part.place[3];
        if !parts.iter().all(|part| within(&part)) || parts.iter().map(area).sum::<i64>() != rows * cols {
            return false;
        }
        let boxes = parts.iter().map(|part| self.part_of(spec, region[0], part.start(), part.region()));
        let boxes: Option<Vec<BoxSpec>> = boxes.collect();
        let Some(boxes) = boxes else { return false };
        for (part, spec) in parts.iter().zip(boxes) {
            let source = self.node_at(part.node).slot();
            let slot = TileSlot { dtype: slot.dtype, ..source };
            let store = New { slot, region: part.region(), ..new(NodeOp::Store(spec)) };
            self.node(store, vec![part.node], vec![]);
        }
        self.are_apart(parts.len());
        true
    }
}

/// Where an insertion goes, if that is known.
fn constants(insertion: &Node) -> Option<[i64; 4]> {
    let mut place = [0; 4];
    for (to, scalar) in place.iter_mut().zip(&insertion.scalars) {
        let Operand::Int(value) = *scalar else { return None };
        // Far from overflow in what is computed with it.
        *to = i64::from(i32::try_from(value).ok()?);
    }
    Some(place)
}
