//! Turns the graph of a straight-line run into steps, in source order.
//!
//! Elementwise values join the open *group* as long as one chain can compute them together; anything else closes it. Loads
//! and fills wait: they become operands of the chain or product that reads them, and touch scratch memory only if what
//! they read is about to change or a region does not fit.

use super::alias::Alias;
use super::chain::{self, Member, Outside};
use super::emit::Emitter;
use super::graph::{END, Graph, Item, Node, NodeId, NodeOp};
use super::{group::Group, unsupported};
use crate::device::DeviceError;
use crate::device::sim::code::{BoxSpec, ChainStep, Extent, Inst, MatMulStep, Mem, MemUse, Source, Step, TileMem};
use crate::dtype::DType;
use crate::kernels::Isa;
use crate::kernels::chain::Machine;
use crate::kernels::matmul::{MatMul, MatMulSpec};
use crate::program::{Function, Loc, Operand, Place, Stmt, StmtKind, TileSlot};

pub(super) struct Scheduler<'a> {
    function: &'a Function,
    graph: &'a Graph<'a>,
    alias: &'a Alias,
    isa: Isa,
    out: &'a mut Emitter,
    /// Scratch memory that holds a value.
    places: Vec<Option<TileMem>>,
    /// Loads and fills that are in no memory yet and are still needed.
    waiting: Vec<NodeId>,
    group: Group,
    /// Stores that a product has already done.
    done: Vec<bool>,
}

/// Emits the steps of `graph`; `other` emits a statement that is no tile operation.
pub(super) fn schedule<'a>(
    function: &'a Function,
    graph: &'a Graph<'a>,
    alias: &'a Alias,
    isa: Isa,
    out: &'a mut Emitter,
    other: &mut dyn FnMut(&mut Emitter, &Stmt),
) -> Result<(), DeviceError> {
    let mut places = vec![None; graph.nodes.len()];
    for (node, place) in graph.nodes.iter().zip(&mut places) {
        if let NodeOp::SlotIn(slot) = node.op {
            *place = Some(Emitter::slot_home(slot, &function.tiles[slot as usize]));
        }
    }
    let done = vec![false; graph.items.len()];
    let (waiting, group) = (Vec::new(), Group::default());
    let mut scheduler = Scheduler { function, graph, alias, isa, out, places, waiting, group, done };
    for (pos, item) in graph.items.iter().enumerate() {
        match *item {
            Item::Node(id) if !scheduler.done[pos] => scheduler.node(id, pos)?,
            Item::Node(_) => {}
            Item::Other(stmt, element) => scheduler.other(stmt, element, pos, other)?,
        }
    }
    scheduler.finish()
}

impl Scheduler<'_> {
    fn node(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        if node.is_dead() {
            return Ok(());
        }
        let wide = |dtype: DType| dtype.size() > 4;
        if wide(node.dtype) || node.inputs.iter().any(|&input| wide(self.graph.nodes[input].dtype)) {
            return Err(unsupported(node.at, format!("arithmetic on {}", node.dtype)));
        }
        match &node.op {
            NodeOp::Load(spec) => {
                if self.group.stores.iter().any(|&stored| self.alias.may(stored, spec.tensor)) {
                    self.flush(pos)?;
                }
                self.waiting.push(id);
                Ok(())
            }
            NodeOp::Fill => {
                self.waiting.push(id);
                Ok(())
            }
            // Nobody may rely on the value, so whatever memory it gets is right.
            NodeOp::Undef => Ok(()),
            NodeOp::MatMul { acc } => self.matmul(id, *acc, pos),
            NodeOp::Store(spec) => {
                self.settle_aliases(spec, pos)?;
                self.join(id, pos)
            }
            _ => self.join(id, pos),
        }
    }

    /// Adds an elementwise value, a reduction or a store to the open group, closing it first where it does not fit.
    fn join(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        if !self.group.accepts(&self.graph.nodes, id, self.alias) {
            self.flush(pos)?;
        }
        let node = &self.graph.nodes[id];
        for &input in &node.inputs {
            if !self.group.contains(input) {
                self.reachable(input, node, pos)?;
            }
        }
        self.group.add(&self.graph.nodes, id);
        Ok(())
    }

    /// Sees to it that `input` can be an operand for `node`: in memory, or a waiting load of just the needed region.
    fn reachable(&mut self, input: NodeId, node: &Node, pos: usize) -> Result<(), DeviceError> {
        if self.places[input].is_some() {
            return Ok(());
        }
        let value = &self.graph.nodes[input];
        match value.op {
            NodeOp::Undef => {
                self.places[input] = Some(self.out.new_home(&tile_of(value)));
                Ok(())
            }
            NodeOp::Fill => Ok(()),
            NodeOp::Load(_) if self.load_fits(value, node) => Ok(()),
            _ => self.settle(input, pos),
        }
    }

    /// Whether a load reads exactly what `node` needs of it.
    fn load_fits(&self, load: &Node, node: &Node) -> bool {
        let one = Operand::Int(1);
        let rows = if load.rows > 1 || node.rows == 1 { node.region[0] } else { one };
        let cols = match node.op {
            NodeOp::RowReduce(_) => node.scalar.expect("verified: a reduction has a column count"),
            _ if load.cols > 1 || node.cols == 1 => node.region[1],
            _ => one,
        };
        load.region == [rows, cols]
    }

    /// Writes a waiting value to scratch memory now.
    fn settle(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        let home = self.pick_home(id, pos, None);
        self.copy_to(id, home)?;
        self.places[id] = Some(home);
        self.waiting.retain(|&waiting| waiting != id);
        Ok(())
    }

    /// Before the item at `pos` stores to a box: waiting loads that may overlap it and are read later are done now, and
    /// so is one that the item itself stores to another place.
    fn settle_aliases(&mut self, stored: &BoxSpec, pos: usize) -> Result<(), DeviceError> {
        self.settle_where(pos, |this, node| match &node.op {
            NodeOp::Load(spec) if this.alias.may(spec.tensor, stored.tensor) => {
                node.last_use() > pos || (node.last_use() == pos && spec != stored)
            }
            _ => false,
        })
    }

    fn settle_where(&mut self, pos: usize, condition: impl Fn(&Self, &Node) -> bool) -> Result<(), DeviceError> {
        for id in self.waiting.clone() {
            if condition(self, &self.graph.nodes[id]) {
                self.settle(id, pos)?;
            }
        }
        Ok(())
    }

    /// Memory for a value: that of a slot which holds it at the end, if nothing that is still to run reads what the slot
    /// held before; otherwise fresh memory.
    fn pick_home(&mut self, id: NodeId, now: usize, phases: Option<&[Member]>) -> TileMem {
        let node = &self.graph.nodes[id];
        let free = |slot: u32| {
            self.graph.nodes.iter().enumerate().all(|(other, old)| {
                if !matches!(old.op, NodeOp::SlotIn(source) if source == slot) || old.pos > node.pos {
                    return true;
                }
                let later = old.last_use();
                let in_group = old.uses.iter().any(|&at| self.group.holds_pos(at));
                let reads_after = later >= now && later != node.pos;
                let reads_now = matches!(node.op, NodeOp::MatMul { .. }) && node.inputs.contains(&other) && {
                    // Only the accumulator may be where the product goes.
                    !matches!(node.op, NodeOp::MatMul { acc: true })
                        || node.inputs[0] != other
                        || node.inputs[1..].contains(&other)
                };
                let group_conflict = in_group
                    && match phases {
                        Some(members) => self.group.read_after(&self.graph.nodes, members, other, id),
                        None => true,
                    };
                !(reads_after || reads_now || group_conflict)
            })
        };
        match node.live_out.iter().copied().find(|&slot| free(slot)) {
            Some(slot) => Emitter::slot_home(slot, &self.function.tiles[slot as usize]),
            None => self.out.new_home(&tile_of(node)),
        }
    }

    /// Closes the group: one chain.
    pub fn flush(&mut self, now: usize) -> Result<(), DeviceError> {
        if self.group.is_empty() {
            return Ok(());
        }
        let mut members = self.group.members(&self.graph.nodes, self.alias);
        for at in 0..members.len() {
            let id = members[at].node;
            let node = &self.graph.nodes[id];
            if matches!(node.op, NodeOp::Store(_)) || !node.needed_after(node.pos, |at| self.group.holds_pos(at)) {
                continue;
            }
            let home = self.pick_home(id, now, Some(&members));
            members[at].save = Some(Mem::Tile(home));
            self.places[id] = Some(home);
        }
        let region = self.group.region();
        let bound = self.group.bound(&self.graph.nodes);
        let at = self.group.at(&self.graph.nodes);
        // Members' own places are written by this chain and never read by it.
        let group = std::mem::take(&mut self.group);
        let built = chain::build(&self.graph.nodes, &members, &|id| {
            debug_assert!(!group.contains(id));
            self.outside(id)
        })?;
        self.push_chain(built, region, bound, at);
        let graph = self.graph;
        self.waiting.retain(|&id| graph.nodes[id].last_use() >= now);
        Ok(())
    }

    fn push_chain(&mut self, built: chain::Built, region: [Operand; 2], bound: [u32; 2], at: Loc) {
        let cost = built.program.phases.iter().map(|phase| phase.body.len() as u32).sum::<u32>().max(1) * 20;
        let machine = Machine::new(built.program, self.isa);
        let step = ChainStep { machine, region, bound, mems: built.mems, scalars: built.scalars, cost };
        self.out.push_step(Step::Chain(step), at);
    }

    fn outside(&self, id: NodeId) -> Outside {
        if let Some(place) = self.places[id] {
            return Outside::Mem(Mem::Tile(place));
        }
        let node = &self.graph.nodes[id];
        match &node.op {
            NodeOp::Load(spec) => Outside::Mem(Mem::Box(spec.clone())),
            NodeOp::Fill => Outside::Fill(node.scalar.expect("verified: a fill has a value")),
            other => unreachable!("{other:?} is in memory when it is read"),
        }
    }

    /// One chain that writes a value which is in memory, or waiting, to `home`.
    fn copy_to(&mut self, id: NodeId, home: TileMem) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        // What is in scratch memory is copied whole: its region may depend on scalars that have changed since.
        let whole = [Operand::Int(node.rows.into()), Operand::Int(node.cols.into())];
        let region = if self.places[id].is_some() || matches!(node.op, NodeOp::Fill) { whole } else { node.region };
        let built = chain::build_copy(node, self.outside(id), Mem::Tile(home))?;
        self.push_chain(built, region, [node.rows, node.cols], node.at);
        Ok(())
    }

    fn matmul(&mut self, id: NodeId, acc: bool, pos: usize) -> Result<(), DeviceError> {
        self.flush(pos)?;
        let node = &self.graph.nodes[id];
        let k = node.scalar.expect("verified: a product has an inner extent");
        let [m, n] = node.region;
        let skip = usize::from(acc);
        let (a, b) = (node.inputs[skip], node.inputs[skip + 1]);
        let a_use = self.operand(a, [m, k], pos)?;
        let b_use = self.operand(b, [k, n], pos)?;
        let acc_use = if acc { Some(self.operand(node.inputs[0], [m, n], pos)?) } else { None };
        let (out, c_use) = match self.direct_store(id, &[&a_use, &b_use], acc, pos)? {
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
        let spec = MatMulSpec { dtype, a_trans: false, b_trans: false, out };
        let kernel =
            MatMul::new(spec, self.isa).ok_or_else(|| unsupported(node.at, format!("matmul of {dtype} into {out}")))?;
        let inner = self.graph.nodes[a].cols.min(self.graph.nodes[b].rows);
        let bound = [node.rows, node.cols, inner];
        let step = MatMulStep { kernel, region: [m, n], k, bound, a: a_use, b: b_use, c: c_use, acc: acc_use };
        self.out.push_step(Step::MatMul(step), node.at);
        let graph = self.graph;
        self.waiting.retain(|&id| graph.nodes[id].last_use() > pos);
        Ok(())
    }

    /// An operand of a product: a waiting load where it reads just `region`, else scratch memory.
    fn operand(&mut self, id: NodeId, region: [Operand; 2], pos: usize) -> Result<MemUse, DeviceError> {
        let value = &self.graph.nodes[id];
        let direct = matches!(value.op, NodeOp::Load(_)) && value.region == region;
        if self.places[id].is_none() && !direct {
            match value.op {
                NodeOp::Undef => self.places[id] = Some(self.out.new_home(&tile_of(value))),
                _ => self.settle(id, pos)?,
            }
        }
        let Outside::Mem(mem) = self.outside(id) else { unreachable!("a fill was settled above") };
        Ok(MemUse { mem, dtype: value.dtype, extent: Extent::FULL, write: false })
    }

    /// If the only reader of a product is a store that follows it, the product goes straight to device memory.
    fn direct_store(
        &mut self,
        id: NodeId,
        operands: &[&MemUse],
        acc: bool,
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
        });
        let apart = operands.iter().all(|operand| match &operand.mem {
            Mem::Box(source) => !self.alias.may(source.tensor, spec.tensor),
            Mem::Tile(_) => true,
        });
        if !quiet || !apart || acc || store.region != node.region {
            return Ok(None);
        }
        let (at, spec) = (*at, spec.clone());
        self.settle_aliases(&spec, at)?;
        self.done[at] = true;
        Ok(Some(spec))
    }

    fn other(
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
                    Place::Tile(_) => {
                        let id = element.expect("a read of a tile names its node");
                        let place = self.in_memory(id, pos)?;
                        let src = Source::Tile(place, self.graph.nodes[id].dtype);
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
                    self.settle_where(pos, |this, node| {
                        matches!(&node.op, NodeOp::Load(spec) if this.alias.may(spec.tensor, tensor))
                            && node.last_use() > pos
                    })?;
                }
                Place::Tile(slot) => {
                    let id = element.expect("a write to a tile names its node");
                    let home = self.own_slot(id, slot, pos)?;
                    let dst = Source::Tile(home, self.graph.nodes[id].dtype);
                    self.out.push(Inst::Write { dst, index: index.clone(), value: *value }, stmt.at);
                    return Ok(());
                }
            },
            _ => {}
        }
        emit(self.out, stmt);
        Ok(())
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

    /// Scratch memory that holds a value.
    fn in_memory(&mut self, id: NodeId, pos: usize) -> Result<TileMem, DeviceError> {
        if self.group.contains(id) {
            self.flush(pos)?;
        }
        if self.places[id].is_none() {
            match self.graph.nodes[id].op {
                NodeOp::Undef => self.places[id] = Some(self.out.new_home(&tile_of(&self.graph.nodes[id]))),
                _ => self.settle(id, pos)?,
            }
        }
        Ok(self.places[id].expect("settled above"))
    }

    /// Brings a value into the memory of `slot`, where an element of it is about to change, and saves every other value
    /// that this memory holds.
    fn own_slot(&mut self, id: NodeId, slot: u32, pos: usize) -> Result<TileMem, DeviceError> {
        self.flush(pos)?;
        let home = Emitter::slot_home(slot, &self.function.tiles[slot as usize]);
        self.in_memory(id, pos)?;
        for other in 0..self.graph.nodes.len() {
            let node = &self.graph.nodes[other];
            let later = node.pos <= pos && node.last_use() > pos;
            if self.places[other] == Some(home) && later && !self.is_fresh(other, slot, pos) {
                let saved = self.out.new_home(&tile_of(node));
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
    fn finish(mut self) -> Result<(), DeviceError> {
        self.flush(END)?;
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
            let overwritten = copies.iter().any(|&(_, home)| self.places[id] == Some(home));
            if overwritten && matches!(self.graph.nodes[id].op, NodeOp::SlotIn(_)) {
                let saved = self.out.new_home(&tile_of(&self.graph.nodes[id]));
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

pub(super) fn tile_of(node: &Node) -> TileSlot {
    TileSlot { dtype: node.dtype, rows: node.rows, cols: node.cols }
}
