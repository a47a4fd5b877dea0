//! Turns the graph of a straight-line run into steps, in source order.
//!
//! Elementwise values join the open *group* as long as one chain can compute them together; anything else closes it. Loads,
//! fills and windows wait: they become operands of the chain, product or whole-tile operation that reads them, and touch
//! scratch memory only if what they read is about to change or a region does not fit. An insertion changes its target where it
//! lives, if nobody needs what the target was ([`insert`]).

mod account;
mod direct;
mod homes;
mod insert;
mod matmul;
mod others;
mod whole;

use super::alias::Alias;
use super::chain::{self, Outside};
use super::emit::Emitter;
use super::graph::{Graph, Item, Node, NodeId, NodeOp};
use super::group::{Group, disjoint};
use crate::device::DeviceError;
use crate::device::sim::account::Account;
use crate::device::sim::code::{BoxSpec, ChainStep, Inst, Mem, Step, TileMem, Window};
use crate::kernels::Isa;
use crate::kernels::chain::Machine;
use crate::program::{Function, Loc, Operand, ScalarOp, ScalarType, Stmt, TileSlot};

pub(super) struct Scheduler<'a> {
    function: &'a Function,
    graph: &'a Graph<'a>,
    alias: &'a Alias,
    isa: Isa,
    out: &'a mut Emitter,
    /// Scratch memory that holds a value.
    places: Vec<Option<TileMem>>,
    /// Loads, fills and windows that are in no memory of their own yet and are still needed.
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
            Item::Sum(dst, args) => {
                let inst = Inst::Scalar { dst, op: ScalarOp::Add, kind: ScalarType::Int, args };
                scheduler.out.push(inst, Loc::default());
            }
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
            NodeOp::Extract => {
                // A window keeps scratch memory from changing, but neither a tensor nor a scalar that its source waits on.
                if !self.group.contains(node.inputs[0]) {
                    self.in_memory(node.inputs[0], pos)?;
                }
                self.waiting.push(id);
                Ok(())
            }
            // Nobody may rely on the value, so whatever memory it gets is right.
            NodeOp::Undef => Ok(()),
            NodeOp::Reinterpret => {
                let place = self.in_memory(node.inputs[0], pos)?;
                self.places[id] = Some(TileMem { home: place.home, ..Emitter::slot_home(0, &node.slot()) });
                Ok(())
            }
            NodeOp::MatMul { acc, trans } => self.matmul(id, *acc, *trans, pos),
            NodeOp::Block(op, tensor) => self.whole(id, *op, *tensor, pos),
            NodeOp::Insert => self.insert(id, pos),
            NodeOp::Store(spec) => {
                self.settle_aliases(spec, pos)?;
                if self.is_wide(id) { self.wide_store(id, spec, pos) } else { self.join(id, pos) }
            }
            _ if self.is_wide(id) => self.wide(id, pos),
            _ => self.join(id, pos),
        }
    }

    /// Whether a value is beyond the 32-bit lanes of a chain.
    fn is_wide(&self, id: NodeId) -> bool {
        let wide = |node: &Node| node.dtype.size() > 4;
        let node = &self.graph.nodes[id];
        wide(node) || node.inputs.iter().any(|&input| wide(&self.graph.nodes[input]))
    }

    /// Adds an elementwise value, a reduction or a store to the open group, closing it first where it does not fit.
    fn join(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        let reads_inserted = node.inputs.iter().any(|&input| {
            !self.group.contains(input) && self.home_of(input).is_some_and(|home| self.inserts_into(home))
        });
        if reads_inserted || !self.group.accepts(&self.graph.nodes, id, self.alias) {
            self.flush(pos)?;
        }
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
                self.places[input] = Some(self.out.new_home(&value.slot()));
                Ok(())
            }
            NodeOp::Fill => Ok(()),
            NodeOp::Load(_) if self.load_fits(value, node) => Ok(()),
            NodeOp::Extract => self.in_memory(value.inputs[0], pos).map(drop),
            _ => self.settle(input, pos),
        }
    }

    /// Whether a load reads exactly what `node` needs of it.
    fn load_fits(&self, load: &Node, node: &Node) -> bool {
        let one = Operand::Int(1);
        let work = node.work();
        if let NodeOp::Insert = node.op {
            return load.region == work;
        }
        let rows = if load.rows > 1 || node.rows == 1 { work[0] } else { one };
        let cols = match node.op {
            NodeOp::RowReduce(_) => node.scalar().expect("verified: a reduction has a column count"),
            _ if load.cols > 1 || node.cols == 1 => work[1],
            _ => one,
        };
        load.region == [rows, cols]
    }

    /// Writes a waiting value to scratch memory now.
    fn settle(&mut self, id: NodeId, pos: usize) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        if let NodeOp::Extract = node.op {
            self.in_memory(node.inputs[0], pos)?;
        }
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
            NodeOp::Load(spec) if this.alias.may(spec.tensor, stored.tensor) && !disjoint(spec, stored) => {
                node.last_use() > pos || (node.last_use() == pos && spec != stored)
            }
            _ => false,
        })
    }

    fn settle_where(&mut self, pos: usize, condition: impl Fn(&Self, &Node) -> bool) -> Result<(), DeviceError> {
        for id in self.waiting.clone() {
            if self.places[id].is_none() && condition(self, &self.graph.nodes[id]) {
                self.settle(id, pos)?;
            }
        }
        Ok(())
    }

    /// Scratch memory that holds a value.
    fn in_memory(&mut self, id: NodeId, pos: usize) -> Result<TileMem, DeviceError> {
        if self.group.contains(id) {
            self.flush(pos)?;
        }
        if self.places[id].is_none() {
            match self.graph.nodes[id].op {
                NodeOp::Undef => self.places[id] = Some(self.pick_home(id, pos, None)),
                _ => self.settle(id, pos)?,
            }
        }
        Ok(self.places[id].expect("settled above"))
    }

    /// Closes the group: one chain.
    fn flush(&mut self, now: usize) -> Result<(), DeviceError> {
        if self.group.is_empty() {
            return Ok(());
        }
        let mut members = self.group.members(&self.graph.nodes, self.alias);
        for at in 0..members.len() {
            let id = members[at].node;
            let node = &self.graph.nodes[id];
            if let NodeOp::Insert = node.op {
                members[at].save = Some(self.inserted(id));
                continue;
            }
            if node.is_effect() || !node.needed_after(node.pos, |at| self.group.holds_pos(at)) {
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
        let account = self.out.accounts.is_some().then(|| self.chain_account(&members, &built));
        self.push_chain(built, region, bound, at, account);
        let graph = self.graph;
        self.waiting.retain(|&id| graph.nodes[id].last_use() >= now);
        Ok(())
    }

    /// `account` is there where the code keeps accounts.
    fn push_chain(
        &mut self,
        built: chain::Built,
        region: [Operand; 2],
        bound: [u32; 2],
        at: Loc,
        account: Option<Account>,
    ) {
        let cost = built.program.phases.iter().map(|phase| phase.body.len() as u32).sum::<u32>().max(1) * 20;
        let machine = Machine::new(built.program, self.isa);
        let step = ChainStep { machine, region, bound, mems: built.mems, scalars: built.scalars, cost };
        self.out.push_step(Step::Chain(step), at, account);
    }

    fn outside(&self, id: NodeId) -> Outside {
        if let Some(place) = self.places[id] {
            return Outside::Mem(Mem::Tile(place));
        }
        let node = &self.graph.nodes[id];
        match &node.op {
            NodeOp::Load(spec) => Outside::Mem(Mem::Box(spec.clone())),
            NodeOp::Fill => Outside::Fill(node.scalar().expect("verified: a fill has a value")),
            NodeOp::Extract => {
                let source = self.places[node.inputs[0]].expect("the source of a window is in memory when it is read");
                Outside::Mem(window(source, &node.slot(), [node.scalars[0], node.scalars[1]]))
            }
            other => unreachable!("{other:?} is in memory when it is read"),
        }
    }

    /// One step that writes a value which is in memory, or waiting, to `home`.
    fn copy_to(&mut self, id: NodeId, home: TileMem) -> Result<(), DeviceError> {
        let node = &self.graph.nodes[id];
        // What is in scratch memory is copied whole: its region may depend on scalars that have changed since.
        let bound = [node.rows.min(home.rows), node.cols.min(home.cols)];
        let whole = bound.map(|extent| Operand::Int(extent.into()));
        let region = if self.places[id].is_some() || matches!(node.op, NodeOp::Fill) { whole } else { node.region };
        if node.dtype.size() > 4 {
            return self.wide_copy(id, Mem::Tile(home), region, bound, node.at);
        }
        let built = chain::build_copy(node, self.outside(id), Mem::Tile(home))?;
        let account = self.out.accounts.is_some().then(|| self.copy_account(id, built.mems.len()));
        self.push_chain(built, region, bound, node.at, account);
        Ok(())
    }
}

/// The part of `tile` that begins at `start` and has room for `part`.
fn window(tile: TileMem, part: &TileSlot, start: [Operand; 2]) -> Mem {
    let [row, col] = start;
    if let (Operand::Int(first), Operand::Int(left)) = (row, col) {
        let inside = |at: i64, extent: u32, limit: u32| {
            at >= 0 && at.checked_add(extent.into()).is_some_and(|end| end <= limit.into())
        };
        if inside(first, part.rows, tile.rows) && inside(left, part.cols, tile.cols) {
            let distance = first as u64 * u64::from(tile.row_stride) + left as u64 * part.dtype.size() as u64;
            return Mem::Tile(TileMem { start: tile.start + distance, rows: part.rows, cols: part.cols, ..tile });
        }
    }
    Mem::Window(Window { tile, row, col })
}
