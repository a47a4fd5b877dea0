//! Which scratch memory holds which value.

use super::super::chain::Member;
use super::super::emit::Emitter;
use super::super::graph::{END, Item, Node, NodeId, NodeOp};
use super::Scheduler;
use crate::device::DeviceError;
use crate::device::sim::code::TileMem;
use crate::program::OpCode;

impl Scheduler<'_> {
    /// The memory that reading a value reads: its own, or that of what it is a window of.
    pub(super) fn home_of(&self, id: NodeId) -> Option<u64> {
        match (self.places[id], &self.graph.nodes[id].op) {
            (Some(place), _) => Some(place.home),
            // A dead window has forgotten its source.
            (None, NodeOp::Extract) => self.home_of(*self.graph.nodes[id].inputs.first()?),
            _ => None,
        }
    }

    /// Memory for a value: that of a slot which holds it at the end, or in which it is changed or renamed until then, if
    /// nothing that is still to run reads what the slot holds now; otherwise fresh memory.
    pub(super) fn pick_home(&mut self, id: NodeId, now: usize, members: Option<&[Member]>) -> TileMem {
        let last = self.destination(id);
        let slots = &self.graph.nodes[last].live_out;
        match slots.iter().copied().find(|&slot| self.is_free(slot, id, last, now, members)) {
            Some(slot) => Emitter::slot_home(slot, &self.graph.nodes[id].slot()),
            None => self.out.new_home(&self.graph.nodes[id].slot()),
        }
    }

    /// The value that will be in the memory of `id` at the end, if each step on the way can stay there.
    fn destination(&self, mut id: NodeId) -> NodeId {
        loop {
            let node = &self.graph.nodes[id];
            let ([at], true) = (&node.uses[..], node.live_out.is_empty()) else { return id };
            let Some(Item::Node(next)) = self.graph.items.get(*at) else { return id };
            let user = &self.graph.nodes[*next];
            let stays = match user.op {
                NodeOp::Reinterpret => true,
                _ => {
                    changes_in_place(user)
                        && user.same_slot(node)
                        && user.inputs[0] == id
                        && !user.inputs[1..].contains(&id)
                }
            };
            if !stays {
                return id;
            }
            id = *next;
        }
    }

    /// Whether `id` may be written to the memory of `slot` now, to become `last` there.
    fn is_free(&self, slot: u32, id: NodeId, last: NodeId, now: usize, members: Option<&[Member]>) -> bool {
        let nodes = &self.graph.nodes;
        let node = &nodes[id];
        let home = Emitter::slot_home(slot, &node.slot());
        (0..nodes.len()).all(|other| {
            if other == id || self.home_of(other) != Some(home.home) {
                return true;
            }
            let old = &nodes[other];
            if old.pos > now {
                return last == id || old.pos > nodes[last].pos;
            }
            let later = old.last_use();
            let reads_after = later >= now && later != node.pos;
            // Only the accumulator of a product may be where the product goes.
            let is_accumulator = matches!(node.op, NodeOp::MatMul { acc: true, .. })
                && self.places[other] == Some(home)
                && node.inputs[0] == other
                && !node.inputs[1..].contains(&other);
            let reads_now = members.is_none() && node.inputs.contains(&other) && !is_accumulator;
            let in_group = old.uses.iter().any(|&at| self.group.holds_pos(at));
            let group_conflict = in_group
                && members.is_none_or(|members| {
                    let whole = self.places[other] == Some(home);
                    self.group.read_after(nodes, members, other, id, whole)
                });
            !(reads_after || reads_now || group_conflict)
        })
    }

    /// The memory of the first argument of `id`, for `id` to change: the argument is brought there, and is copied first
    /// if somebody still needs what it was and `copies`. `None` where it may not be changed and is not to be copied.
    pub(super) fn take_over(&mut self, id: NodeId, pos: usize, copies: bool) -> Result<Option<TileMem>, DeviceError> {
        let nodes = &self.graph.nodes;
        let node = &nodes[id];
        let target = node.inputs[0];
        let place = self.in_memory(target, pos)?;
        // Windows that are read later are small beside what they are windows of.
        for waiting in self.waiting.clone() {
            let window = &nodes[waiting];
            let reads = self.places[waiting].is_none() && self.home_of(waiting) == Some(place.home);
            if reads && (window.last_use() > pos || node.inputs[1..].contains(&waiting)) {
                self.settle(waiting, pos)?;
            }
        }
        let needed = |other: NodeId| {
            let old = &nodes[other];
            old.pos <= pos && self.home_of(other) == Some(place.home) && (other != id && old.last_use() > pos)
        };
        let read_again = node.inputs[1..].iter().any(|&input| self.home_of(input) == Some(place.home));
        if node.same_slot(&nodes[target]) && !read_again && !(0..nodes.len()).any(needed) {
            return Ok(Some(place));
        }
        if !copies {
            return Ok(None);
        }
        let fresh = self.pick_home(id, pos, None);
        self.copy_to(target, fresh)?;
        Ok(Some(fresh))
    }

    /// Brings a value into the memory of `slot`, where an element of it is about to change, and saves every other value
    /// that this memory holds.
    pub(super) fn own_slot(&mut self, id: NodeId, slot: u32, pos: usize) -> Result<TileMem, DeviceError> {
        self.flush(pos)?;
        let home = Emitter::slot_home(slot, &self.function.tiles[slot as usize]);
        self.in_memory(id, pos)?;
        for other in 0..self.graph.nodes.len() {
            let node = &self.graph.nodes[other];
            let later = node.pos <= pos && node.last_use() > pos;
            if self.home_of(other) == Some(home.home) && later && !self.is_fresh(other, slot, pos) {
                let saved = self.out.new_home(&node.slot());
                self.copy_to(other, saved)?;
                self.places[other] = Some(saved);
            }
        }
        if self.places[id] != Some(home) {
            self.copy_to(id, home)?;
        }
        Ok(home)
    }

    /// Whether a node stands for what `slot` holds after the write at `pos`.
    fn is_fresh(&self, id: NodeId, slot: u32, pos: usize) -> bool {
        let node = &self.graph.nodes[id];
        matches!(node.op, NodeOp::SlotIn(source) if source == slot) && node.pos > pos
    }

    /// Closes the run: every value that is read afterwards moves to the memory of its slot.
    pub(super) fn finish(mut self) -> Result<(), DeviceError> {
        self.flush(END)?;
        self.settle_where(END, |_, node| matches!(node.op, NodeOp::Extract) && !node.live_out.is_empty())?;
        let mut copies = Vec::new();
        for (id, node) in self.graph.nodes.iter().enumerate() {
            for &slot in &node.live_out {
                let home = Emitter::slot_home(slot, &self.function.tiles[slot as usize]);
                if self.places[id] != Some(home) && !matches!(node.op, NodeOp::Undef) {
                    copies.push((id, home));
                }
            }
        }
        // A source that one of the copies overwrites is saved first (`a, b = b, a`).
        for (id, _) in copies.clone() {
            let overwritten = copies.iter().any(|&(_, home)| self.home_of(id) == Some(home.home));
            if overwritten {
                let saved = self.out.new_home(&self.graph.nodes[id].slot());
                self.copy_to(id, saved)?;
                self.places[id] = Some(saved);
            }
        }
        for (id, home) in copies {
            self.copy_to(id, home)?;
        }
        Ok(())
    }
}

/// Whether an operation leaves its result where its first argument was, if it may.
pub(super) fn changes_in_place(node: &Node) -> bool {
    use OpCode::{FillPad, ScatterCols, ScatterFlat, ScatterRows, ScatterStride};
    match node.op {
        NodeOp::Insert => true,
        NodeOp::Block(op, _) => matches!(op, FillPad | ScatterCols | ScatterFlat | ScatterRows | ScatterStride),
        _ => false,
    }
}
