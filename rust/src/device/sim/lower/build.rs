//! From statements to the [`Graph`]. A `move` makes no node: its result is another name for the same value. Operations
//! that others express are replaced here: a part of a load is a smaller load, `store_add` is a load, an addition and a
//! store, and the transpose that a product reads becomes a property of the product.

use super::alias::Alias;
use super::graph::{Graph, Item, Node, NodeId, NodeOp, inside};
use crate::device::sim::code::BoxSpec;
use crate::dtype::DType;
use crate::program::{Arg, Function, Loc, OpCode, Operand, Place, Rounding, Stmt, StmtKind, TileOp, TileSlot};

/// Builds the graph of `run`. `live` tells which slots are read after it; `scalars` counts the scalar slots, to which sums
/// of offsets add some.
pub(super) fn build<'a>(
    function: &'a Function,
    alias: &'a Alias,
    run: &'a [Stmt],
    scalars: &'a mut usize,
    live: impl Fn(u32) -> bool,
) -> Graph<'a> {
    let names = vec![None; function.tiles.len()];
    let graph = Graph { nodes: Vec::new(), items: Vec::new() };
    let mut builder = Builder { function, alias, scalars, names, touched: Vec::new(), graph };
    for stmt in run {
        builder.stmt(stmt);
    }
    builder.touched.sort_unstable();
    builder.touched.dedup();
    for slot in builder.touched {
        if let Some(node) = builder.names[slot as usize].filter(|_| live(slot)) {
            let node = &mut builder.graph.nodes[node];
            if matches!(node.op, NodeOp::SlotIn(source) if source == slot) {
                node.stays = true;
            } else {
                node.live_out.push(slot);
            }
        }
    }
    builder.graph.forget_dead();
    builder.graph
}

impl Graph<'_> {
    /// Takes back the uses that dead nodes make of others, so that nothing is kept for them.
    fn forget_dead(&mut self) {
        for id in (0..self.nodes.len()).rev() {
            if self.nodes[id].is_dead() {
                let pos = self.nodes[id].pos;
                for input in std::mem::take(&mut self.nodes[id].inputs) {
                    self.nodes[input].uses.retain(|&at| at != pos);
                }
            }
        }
    }
}

pub(super) struct Builder<'a> {
    function: &'a Function,
    alias: &'a Alias,
    /// Scalar slots so far.
    scalars: &'a mut usize,
    /// The value that each slot holds now; `None` while the run has not mentioned it.
    names: Vec<Option<NodeId>>,
    touched: Vec<u32>,
    graph: Graph<'a>,
}

/// The arguments of an operation by kind.
struct Args {
    tiles: Vec<NodeId>,
    scalars: Vec<Operand>,
    tensor: Option<u32>,
}

impl<'a> Builder<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Tile(op) => self.tile_op(stmt.at, op),
            StmtKind::Read { src: Place::Tile(slot), .. } => {
                let node = self.current(*slot, stmt.at);
                self.used(node);
                self.graph.items.push(Item::Other(stmt, Some(node)));
            }
            StmtKind::Write { dst: Place::Tile(slot), .. } => {
                // The element is changed where the slot lives; afterwards the slot holds a new value.
                let node = self.current(*slot, stmt.at);
                self.used(node);
                self.graph.items.push(Item::Other(stmt, Some(node)));
                let fresh = self.slot_in(*slot, stmt.at, self.graph.items.len());
                self.name(*slot, fresh);
            }
            _ => self.graph.items.push(Item::Other(stmt, None)),
        }
    }

    fn tile_op(&mut self, at: Loc, op: &TileOp) {
        let mut args = Args { tiles: Vec::new(), scalars: Vec::new(), tensor: None };
        for arg in &op.args {
            match *arg {
                Arg::Tile(slot) => args.tiles.push(self.current(slot, at)),
                Arg::Scalar(operand) => args.scalars.push(operand),
                Arg::Tensor(slot) => args.tensor = Some(slot),
            }
        }
        match op.out {
            Some(out) => {
                let made = self.value(at, op, self.function.tiles[out as usize], args);
                self.name(out, made);
            }
            None => self.effect(at, op, args),
        }
    }

    /// The node that has the value of `op`.
    fn value(&mut self, at: Loc, op: &TileOp, slot: TileSlot, mut args: Args) -> NodeId {
        let new = |op_is: NodeOp| New { op: op_is, at, slot, region: op.region };
        let is_same = |this: &Self, node: NodeId| this.graph.nodes[node].slot() == slot;
        if let Some(made) = self.elementwise_by_parts(&new, op, &args) {
            return made;
        }
        match op.op {
            OpCode::Move | OpCode::Expand | OpCode::Reinterpret if is_same(self, args.tiles[0]) => args.tiles[0],
            // Another physical size has another row stride, so the value is really copied.
            OpCode::Move => self.node(new(NodeOp::Cast(Rounding::None)), args.tiles, vec![]),
            OpCode::Load => {
                let spec = self.spec(&args);
                self.node(new(NodeOp::Load(spec)), vec![], vec![])
            }
            OpCode::Fill => self.node(new(NodeOp::Fill), vec![], args.scalars),
            OpCode::Undef => self.node(new(NodeOp::Undef), vec![], vec![]),
            OpCode::Cast => {
                let from = self.graph.nodes[args.tiles[0]].dtype;
                if slot.dtype == DType::Bool && from.is_float() {
                    let zero = vec![Operand::Float(0.0)];
                    return self.node(new(NodeOp::Compare(OpCode::CmpNe)), args.tiles, zero);
                }
                self.node(new(NodeOp::Cast(op.mode.unwrap_or(Rounding::None))), args.tiles, vec![])
            }
            OpCode::Expand => self.node(new(NodeOp::Expand), args.tiles, vec![]),
            OpCode::Reinterpret => self.node(new(NodeOp::Reinterpret), args.tiles, vec![]),
            OpCode::Extract => self.extract(new, args),
            OpCode::Insert => self.insert(new, args),
            OpCode::Select => self.select(new, op, args),
            OpCode::Iota => self.iota(new, args),
            OpCode::FillPad => self.fillpad(new, args),
            OpCode::RowSum | OpCode::RowMax | OpCode::RowMin | OpCode::RowProd => {
                self.node(new(NodeOp::RowReduce(op.op)), args.tiles, args.scalars)
            }
            OpCode::MatMul | OpCode::MatMulAcc => {
                let acc = op.op == OpCode::MatMulAcc;
                let operands = &mut args.tiles[usize::from(acc)..];
                let trans = [self.untransposed(&mut operands[0]), self.untransposed(&mut operands[1])];
                self.node(new(NodeOp::MatMul { acc, trans }), args.tiles, args.scalars)
            }
            OpCode::CmpEq | OpCode::CmpNe | OpCode::CmpLt | OpCode::CmpLe | OpCode::CmpGt | OpCode::CmpGe => {
                // A chain compares lanes of 32 bits; what is wider than that is made from the truth value.
                if slot.dtype.size() > 4 && self.graph.nodes[args.tiles[0]].dtype.size() <= 4 {
                    let truth = New { slot: TileSlot { dtype: DType::Bool, ..slot }, ..new(NodeOp::Compare(op.op)) };
                    let truth = self.node(truth, args.tiles, args.scalars);
                    return self.node(new(NodeOp::Cast(Rounding::None)), vec![truth], vec![]);
                }
                self.node(new(NodeOp::Compare(op.op)), args.tiles, args.scalars)
            }
            _ if is_unary(op.op) => self.node(new(NodeOp::Unary(op.op)), args.tiles, vec![]),
            _ if is_binary(op.op) => self.node(new(NodeOp::Binary(op.op)), args.tiles, args.scalars),
            _ => self.node(new(NodeOp::Block(op.op, args.tensor)), args.tiles, args.scalars),
        }
    }

    /// An operation of one tile that was put together from parts, and of no other tile.
    fn elementwise_by_parts(&mut self, new: &impl Fn(NodeOp) -> New, op: &TileOp, args: &Args) -> Option<NodeId> {
        let [tile] = args.tiles[..] else { return None };
        let kind = match op.op {
            OpCode::Cast if self.node_at(tile).dtype.is_float() && new(NodeOp::Undef).slot.dtype == DType::Bool => {
                return None;
            }
            OpCode::Cast => NodeOp::Cast(op.mode.unwrap_or(Rounding::None)),
            other if is_unary(other) => NodeOp::Unary(other),
            other if is_binary(other) => NodeOp::Binary(other),
            _ => return None,
        };
        let (from, to) = (self.node_at(tile).slot(), new(NodeOp::Undef).slot);
        if (from.rows, from.cols) != (to.rows, to.cols) {
            return None;
        }
        let parts = self.parts(tile)?;
        Some(self.by_parts(new, &parts, &kind, &args.scalars))
    }

    fn effect(&mut self, at: Loc, op: &TileOp, args: Args) {
        let tile = args.tiles[0];
        let slot = self.graph.nodes[tile].slot();
        let new = |op_is: NodeOp| New { op: op_is, at, slot, region: op.region };
        match op.op {
            OpCode::Store => {
                let spec = self.spec(&args);
                let parts = self.parts(tile);
                if !parts.is_some_and(|parts| self.store_parts(&new, &parts, &spec)) {
                    self.node(new(NodeOp::Store(spec)), vec![tile], vec![]);
                }
            }
            OpCode::StoreAdd => {
                let spec = self.spec(&args);
                let slot = TileSlot { dtype: spec.dtype, ..slot };
                let new = |op_is: NodeOp| New { slot, ..new(op_is) };
                let old = self.node(new(NodeOp::Load(spec.clone())), vec![], vec![]);
                let value = match self.graph.nodes[tile].dtype == spec.dtype {
                    true => tile,
                    false => self.node(new(NodeOp::Cast(Rounding::None)), vec![tile], vec![]),
                };
                let sum = self.node(new(NodeOp::Binary(OpCode::Add)), vec![old, value], vec![]);
                self.node(new(NodeOp::Store(spec)), vec![sum], vec![]);
            }
            _ => {
                self.node(new(NodeOp::Block(op.op, args.tensor)), args.tiles, args.scalars);
            }
        }
    }

    fn spec(&self, args: &Args) -> BoxSpec {
        let (offsets, extents) = args.scalars.split_at(args.scalars.len() / 2);
        let tensor = args.tensor.expect("verified: a box is of a tensor");
        let dtype = self.function.tensors[tensor as usize].dtype;
        BoxSpec { tensor, dtype, offsets: offsets.to_vec(), extents: extents.to_vec() }
    }

    fn extract(&mut self, new: impl Fn(NodeOp) -> New, args: Args) -> NodeId {
        let source = args.tiles[0];
        let (row, col) = (args.scalars[0], args.scalars[1]);
        let New { slot, region, .. } = new(NodeOp::Extract);
        let from = &self.graph.nodes[source];
        let zero = Operand::Int(0);
        if (row, col) == (zero, zero) && from.slot() == slot {
            return source;
        }
        let within = |limit: [Operand; 2]| inside(row, region[0], limit[0]) && inside(col, region[1], limit[1]);
        let physical = [from.rows, from.cols].map(|extent| Operand::Int(extent.into()));
        match &from.op {
            NodeOp::Fill if within(physical) => {
                let value = from.scalars.clone();
                if !self.changed_since(from.pos, &value, None) {
                    return self.node(new(NodeOp::Fill), vec![], value);
                }
            }
            NodeOp::Load(spec) if within(from.region) => {
                let (spec, rows, pos) = (spec.clone(), from.region[0], from.pos);
                let scalars = [&spec.offsets[..], &spec.extents, &[row, col], &region].concat();
                if !self.changed_since(pos, &scalars, Some(spec.tensor))
                    && let Some(part) = self.part_of(&spec, rows, [row, col], region)
                {
                    return self.node(new(NodeOp::Load(part)), vec![], vec![]);
                }
            }
            NodeOp::Extract if within(physical) => {
                if let (Operand::Int(row), Operand::Int(col), [Operand::Int(first_row), Operand::Int(first_col)]) =
                    (row, col, [from.scalars[0], from.scalars[1]])
                {
                    // A part of a part that may lie outside: what is outside the first is outside the second.
                    let sum = |a: i64, b: i64| Operand::Int(a.saturating_add(b));
                    let scalars = vec![sum(first_row, row), sum(first_col, col)];
                    let source = from.inputs[0];
                    return self.node(new(NodeOp::Extract), vec![source], scalars);
                }
            }
            _ => {}
        }
        self.node(new(NodeOp::Extract), args.tiles, args.scalars)
    }

    fn insert(&mut self, new: impl Fn(NodeOp) -> New, args: Args) -> NodeId {
        let New { slot, region, .. } = new(NodeOp::Insert);
        let zero = Operand::Int(0);
        if args.scalars[..] == [zero, zero, region[0], region[1]] {
            let source = args.tiles[1];
            if self.graph.nodes[source].slot() == slot {
                return source;
            }
        }
        self.node(new(NodeOp::Insert), args.tiles, args.scalars)
    }

    /// Scalars become fills, and a mask of floats becomes one of truth values.
    fn select(&mut self, new: impl Fn(NodeOp) -> New, op: &TileOp, args: Args) -> NodeId {
        let mut tiles = args.tiles.into_iter();
        let mut mask = tiles.next().expect("verified: a mask is a tile");
        let source = self.graph.nodes[mask].slot();
        if source.dtype.is_float() {
            let slot = TileSlot { dtype: DType::Bool, ..source };
            let truth = New { slot, ..new(NodeOp::Compare(OpCode::CmpNe)) };
            mask = self.node(truth, vec![mask], vec![Operand::Float(0.0)]);
        }
        let mut inputs = vec![mask];
        for arg in &op.args[1..] {
            inputs.push(match *arg {
                Arg::Scalar(value) => self.node(new(NodeOp::Fill), vec![], vec![value]),
                _ => tiles.next().expect("verified: the others are tiles"),
            });
        }
        self.node(new(NodeOp::Select), inputs, vec![])
    }

    /// Arithmetic on the index of the column, where 32 bits have room for it.
    fn iota(&mut self, new: impl Fn(NodeOp) -> New, args: Args) -> NodeId {
        let New { slot, .. } = new(NodeOp::Undef);
        let exact = match args.scalars[..] {
            [Operand::Int(start), Operand::Int(step)] => {
                let last = i128::from(start) + i128::from(step) * i128::from(slot.cols);
                i32::try_from(start).is_ok() && i32::try_from(last).is_ok()
            }
            _ => false,
        };
        if slot.dtype.size() > 4 || (slot.dtype.is_float() && !exact) {
            return self.node(new(NodeOp::Block(OpCode::Iota, None)), vec![], args.scalars);
        }
        let wide = |op: NodeOp| New { slot: TileSlot { dtype: DType::I32, ..slot }, ..new(op) };
        let index = self.node(wide(NodeOp::Index(1)), vec![], vec![]);
        let scaled = self.node(wide(NodeOp::Binary(OpCode::Mul)), vec![index], vec![args.scalars[1]]);
        let sum = self.node(wide(NodeOp::Binary(OpCode::Add)), vec![scaled], vec![args.scalars[0]]);
        match slot.dtype {
            DType::I32 => sum,
            _ => self.node(new(NodeOp::Cast(Rounding::None)), vec![sum], vec![]),
        }
    }

    /// A selection by the indices of row and column, if the tile has all elements of the region.
    fn fillpad(&mut self, new: impl Fn(NodeOp) -> New, args: Args) -> NodeId {
        let New { slot, region, .. } = new(NodeOp::Undef);
        let (source, rows, cols, value) = (args.tiles[0], args.scalars[0], args.scalars[1], args.scalars[2]);
        let from = self.graph.nodes[source].slot();
        if slot.dtype.size() > 4 || from.rows < slot.rows || from.cols < slot.cols {
            return self.node(new(NodeOp::Block(OpCode::FillPad, None)), args.tiles, args.scalars);
        }
        let covers = |valid: Operand, extent: Operand| inside(Operand::Int(0), extent, valid);
        let truth = |rows: u32, cols: u32| TileSlot { dtype: DType::Bool, rows, cols };
        let index = |slot: TileSlot| TileSlot { dtype: DType::I32, ..slot };
        let mut mask = None;
        if !covers(rows, region[0]) {
            let slot = truth(slot.rows, 1);
            let region = [region[0], Operand::Int(1)];
            let row = New { slot: index(slot), region, ..new(NodeOp::Index(0)) };
            let row = self.node(row, vec![], vec![]);
            let below = New { slot, region, ..new(NodeOp::Compare(OpCode::CmpLt)) };
            mask = Some(self.node(below, vec![row], vec![rows]));
        }
        if !covers(cols, region[1]) {
            let slot = truth(slot.rows, slot.cols);
            let col = self.node(New { slot: index(slot), ..new(NodeOp::Index(1)) }, vec![], vec![]);
            let left = self.node(New { slot, ..new(NodeOp::Compare(OpCode::CmpLt)) }, vec![col], vec![cols]);
            mask = Some(match mask {
                None => left,
                Some(above) => {
                    self.node(New { slot, ..new(NodeOp::Binary(OpCode::BitAnd)) }, vec![left, above], vec![])
                }
            });
        }
        match mask {
            None if from == slot => source,
            None => self.node(new(NodeOp::Cast(Rounding::None)), vec![source], vec![]),
            Some(mask) => {
                let value = self.node(new(NodeOp::Fill), vec![], vec![value]);
                self.node(new(NodeOp::Select), vec![mask, source, value], vec![])
            }
        }
    }

    /// Replaces an operand of a product that is a transpose by what it transposes.
    fn untransposed(&self, operand: &mut NodeId) -> bool {
        let node = &self.graph.nodes[*operand];
        if !matches!(node.op, NodeOp::Block(OpCode::Transpose, _)) {
            return false;
        }
        // A product may touch, without using it, what the region of the transpose leaves out.
        let source = &self.graph.nodes[node.inputs[0]];
        if source.rows < node.cols || source.cols < node.rows {
            return false;
        }
        *operand = node.inputs[0];
        true
    }

    /// Whether a load or a fill made at `pos` could give something else now.
    fn changed_since(&self, pos: usize, scalars: &[Operand], tensor: Option<u32>) -> bool {
        let uses = |slot: u32| scalars.contains(&Operand::Var(slot));
        let may = |other: u32| tensor.is_some_and(|tensor| self.alias.may(other, tensor));
        self.graph.items[pos..].iter().any(|item| match item {
            Item::Sum(..) => false,
            Item::Node(id) => match &self.graph.nodes[*id].op {
                NodeOp::Store(spec) => may(spec.tensor),
                NodeOp::Block(OpCode::ScatterTensor, Some(target)) => may(*target),
                _ => false,
            },
            Item::Other(stmt, _) => match &stmt.kind {
                StmtKind::Scalar { dst, .. } | StmtKind::Dim { dst, .. } | StmtKind::Read { dst, .. } => uses(*dst),
                StmtKind::View { dst, .. } => tensor == Some(*dst),
                StmtKind::Write { dst: Place::Tensor(target), .. } => may(*target),
                StmtKind::Write { dst: Place::Tile(_), .. } => false,
                _ => true,
            },
        })
    }

    /// The box that is `region` of the rows and columns of `spec` from `start` on, if it is one box; `rows` are its rows.
    pub(super) fn part_of(
        &mut self,
        spec: &BoxSpec,
        rows: Operand,
        start: [Operand; 2],
        region: [Operand; 2],
    ) -> Option<BoxSpec> {
        let (one, last) = (Operand::Int(1), spec.extents.len() - 1);
        let all_rows = start[0] == Operand::Int(0) && region[0] == rows;
        // The axis of the rows, if the axes before it add none.
        let axis = last.checked_sub(1);
        let is_box = axis.is_some_and(|axis| spec.extents[..axis].iter().all(|&extent| extent == one));
        if !all_rows && !is_box {
            return None;
        }
        let mut part = spec.clone();
        part.offsets[last] = self.sum(spec.offsets[last], start[1])?;
        part.extents[last] = region[1];
        if let (false, Some(axis)) = (all_rows, axis) {
            part.offsets[axis] = self.sum(spec.offsets[axis], start[0])?;
            part.extents[axis] = region[0];
        }
        Some(part)
    }

    /// The sum of two scalars here; `None` if it overflows.
    fn sum(&mut self, a: Operand, b: Operand) -> Option<Operand> {
        match (a, b) {
            (Operand::Int(a), Operand::Int(b)) => a.checked_add(b).map(Operand::Int),
            (other, Operand::Int(0)) | (Operand::Int(0), other) => Some(other),
            _ => {
                let slot = *self.scalars as u32;
                *self.scalars += 1;
                self.graph.items.push(Item::Sum(slot, [a, b]));
                Some(Operand::Var(slot))
            }
        }
    }

    /// Tells that the last `count` nodes are stores to different elements.
    pub(super) fn are_apart(&mut self, count: usize) {
        let family = self.graph.nodes.len();
        for node in &mut self.graph.nodes[family - count..] {
            node.family = family;
        }
    }

    pub(super) fn node_at(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id]
    }

    /// Adds a node at the next position.
    pub(super) fn node(&mut self, new: New, inputs: Vec<NodeId>, scalars: Vec<Operand>) -> NodeId {
        let New { op, at, slot, region } = new;
        for &input in &inputs {
            self.used(input);
        }
        let (pos, id) = (self.graph.items.len(), self.graph.nodes.len());
        let TileSlot { dtype, rows, cols } = slot;
        let (uses, live_out, stays) = (Vec::new(), Vec::new(), false);
        let node = Node { op, at, inputs, scalars, region, dtype, rows, cols, pos, uses, live_out, stays, family: 0 };
        self.graph.nodes.push(node);
        self.graph.items.push(Item::Node(id));
        id
    }

    fn name(&mut self, slot: u32, node: NodeId) {
        self.names[slot as usize] = Some(node);
        self.touched.push(slot);
    }

    /// The value that `slot` holds now.
    fn current(&mut self, slot: u32, at: Loc) -> NodeId {
        if let Some(node) = self.names[slot as usize] {
            return node;
        }
        let node = self.slot_in(slot, at, 0);
        self.name(slot, node);
        node
    }

    /// Notes a use by the item that comes next.
    fn used(&mut self, node: NodeId) {
        let pos = self.graph.items.len();
        let uses = &mut self.graph.nodes[node].uses;
        if uses.last() != Some(&pos) {
            uses.push(pos);
        }
    }

    /// What the slot holds from the item at `pos` on, 0 for what it held when the run began.
    fn slot_in(&mut self, slot: u32, at: Loc, pos: usize) -> NodeId {
        let TileSlot { dtype, rows, cols } = self.function.tiles[slot as usize];
        let region = [Operand::Int(rows.into()), Operand::Int(cols.into())];
        let op = NodeOp::SlotIn(slot);
        let (inputs, scalars, uses, live_out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let node =
            Node { op, at, inputs, scalars, region, dtype, rows, cols, pos, uses, live_out, stays: false, family: 0 };
        self.graph.nodes.push(node);
        self.graph.nodes.len() - 1
    }
}

/// What a node is, without its arguments.
pub(super) struct New {
    pub op: NodeOp,
    pub at: Loc,
    pub slot: TileSlot,
    pub region: [Operand; 2],
}

fn is_unary(op: OpCode) -> bool {
    use OpCode::*;
    matches!(op, Exp | Log | Recip | Sqrt | Rsqrt | Sin | Cos | Relu | Neg | Abs | BitNot)
}

fn is_binary(op: OpCode) -> bool {
    use OpCode::*;
    matches!(op, Add | Sub | Mul | Div | Fmod | Rem | Maximum | Minimum | BitAnd | BitOr | BitXor | Shl | Shr)
}
