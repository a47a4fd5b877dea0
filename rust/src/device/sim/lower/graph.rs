//! A straight-line run of statements as a graph of values.
//!
//! Slots are variables; here each assignment is a *node*, and a read names the node that it sees. A `move` makes no node:
//! its result is another name for the same value. Nodes know where they are used, so the schedule can keep a value in
//! registers when nobody needs it later.

use crate::device::sim::code::BoxSpec;
use crate::dtype::DType;
use crate::program::{Arg, Function, Loc, OpCode, Operand, Place, Rounding, Stmt, StmtKind, TileOp};

pub(super) type NodeId = usize;

/// One value, or one store.
#[derive(Clone)]
pub(super) struct Node {
    pub op: NodeOp,
    pub at: Loc,
    /// Tile arguments in order.
    pub inputs: Vec<NodeId>,
    /// The scalar argument, where the operation has one.
    pub scalar: Option<Operand>,
    pub region: [Operand; 2],
    pub dtype: DType,
    /// Physical extents.
    pub rows: u32,
    pub cols: u32,
    /// Index of the item that makes it.
    pub pos: usize,
    /// Indices of the items that read it, ascending.
    pub uses: Vec<usize>,
    /// Slots that hold this value at the end of the run and are read afterwards.
    pub live_out: Vec<u32>,
}

/// What makes a value.
#[derive(Clone, Debug)]
pub(super) enum NodeOp {
    /// What the slot held when the run began.
    SlotIn(u32),
    Load(BoxSpec),
    Store(BoxSpec),
    Fill,
    Undef,
    Cast(Rounding),
    Unary(OpCode),
    Binary(OpCode),
    RowReduce(OpCode),
    MatMul {
        acc: bool,
    },
}

/// One step of the run, in source order.
pub(super) enum Item<'a> {
    Node(NodeId),
    /// A statement that is no tile operation, with the node that it reads or writes an element of.
    Other(&'a Stmt, Option<NodeId>),
}

pub(super) struct Graph<'a> {
    pub nodes: Vec<Node>,
    pub items: Vec<Item<'a>>,
}

/// Position of uses after the run.
pub(super) const END: usize = usize::MAX;

impl Node {
    /// Whether anything after `pos` reads the value, apart from items in `except`.
    pub fn needed_after(&self, pos: usize, except: impl Fn(usize) -> bool) -> bool {
        !self.live_out.is_empty() || self.uses.iter().any(|&at| at > pos && !except(at))
    }

    /// Whether nobody ever reads the value.
    pub fn is_dead(&self) -> bool {
        !matches!(self.op, NodeOp::Store(_)) && self.uses.is_empty() && self.live_out.is_empty()
    }

    /// The last position at which the value is read.
    pub fn last_use(&self) -> usize {
        if self.live_out.is_empty() { self.uses.last().copied().unwrap_or(self.pos) } else { END }
    }
}

impl<'a> Graph<'a> {
    /// Builds the graph of `run`. `live` tells which slots are read after it.
    pub fn build(function: &'a Function, run: &'a [Stmt], live: impl Fn(u32) -> bool) -> Self {
        let mut builder = Builder {
            function,
            names: vec![None; function.tiles.len()],
            touched: Vec::new(),
            graph: Graph { nodes: Vec::new(), items: Vec::new() },
        };
        for stmt in run {
            builder.stmt(stmt);
        }
        builder.touched.sort_unstable();
        builder.touched.dedup();
        for slot in builder.touched {
            if let Some(node) = builder.names[slot as usize] {
                let itself = matches!(builder.graph.nodes[node].op, NodeOp::SlotIn(source) if source == slot);
                if !itself && live(slot) {
                    builder.graph.nodes[node].live_out.push(slot);
                }
            }
        }
        builder.graph
    }
}

struct Builder<'a> {
    function: &'a Function,
    /// The value that each slot holds now; `None` while the run has not mentioned it.
    names: Vec<Option<NodeId>>,
    touched: Vec<u32>,
    graph: Graph<'a>,
}

impl<'a> Builder<'a> {
    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Tile(op) => self.tile_op(stmt, op),
            StmtKind::Read { src: Place::Tile(slot), .. } => {
                let node = self.read(*slot, stmt.at);
                self.graph.items.push(Item::Other(stmt, Some(node)));
            }
            StmtKind::Write { dst: Place::Tile(slot), .. } => {
                // The element is changed where the slot lives; afterwards the slot holds a new value.
                let node = self.read(*slot, stmt.at);
                self.graph.items.push(Item::Other(stmt, Some(node)));
                let fresh = self.slot_in(*slot, stmt.at, self.graph.items.len());
                self.names[*slot as usize] = Some(fresh);
            }
            _ => self.graph.items.push(Item::Other(stmt, None)),
        }
    }

    fn tile_op(&mut self, stmt: &'a Stmt, op: &'a TileOp) {
        let mut inputs = Vec::new();
        let mut scalars = Vec::new();
        let mut tensor = None;
        for arg in &op.args {
            match *arg {
                Arg::Tile(slot) => inputs.push(slot),
                Arg::Scalar(operand) => scalars.push(operand),
                Arg::Tensor(slot) => tensor = Some(slot),
            }
        }
        let boxed = |scalars: &[Operand]| {
            let (offsets, extents) = scalars.split_at(scalars.len() / 2);
            let tensor = tensor.expect("verified: loads and stores name a tensor");
            let dtype = self.function.tensors[tensor as usize].dtype;
            BoxSpec { tensor, dtype, offsets: offsets.to_vec(), extents: extents.to_vec() }
        };
        let node_op = match op.op {
            OpCode::Move => {
                let out = op.out.expect("verified: a move has a result");
                let (to, from) = (self.function.tiles[out as usize], self.function.tiles[inputs[0] as usize]);
                if (to.rows, to.cols) == (from.rows, from.cols) {
                    let node = self.current(inputs[0], stmt.at);
                    self.name(out, node);
                    return;
                }
                // Another physical size has another row stride, so the value is really copied.
                NodeOp::Cast(Rounding::None)
            }
            OpCode::Load => NodeOp::Load(boxed(&scalars)),
            OpCode::Store => NodeOp::Store(boxed(&scalars)),
            OpCode::Fill => NodeOp::Fill,
            OpCode::Undef => NodeOp::Undef,
            OpCode::Cast => NodeOp::Cast(op.mode.unwrap_or(Rounding::None)),
            OpCode::RowSum | OpCode::RowMax | OpCode::RowMin => NodeOp::RowReduce(op.op),
            OpCode::MatMul => NodeOp::MatMul { acc: false },
            OpCode::MatMulAcc => NodeOp::MatMul { acc: true },
            op if inputs.len() + scalars.len() == 1 => NodeOp::Unary(op),
            op => NodeOp::Binary(op),
        };
        let scalar = match node_op {
            NodeOp::Load(_) | NodeOp::Store(_) => None,
            _ => scalars.first().copied(),
        };
        let inputs: Vec<NodeId> = inputs.into_iter().map(|slot| self.read(slot, stmt.at)).collect();
        let shape = op.out.map(|out| self.function.tiles[out as usize]);
        let (dtype, rows, cols) = match shape {
            Some(tile) => (tile.dtype, tile.rows, tile.cols),
            None => {
                let stored = &self.graph.nodes[inputs[0]];
                (stored.dtype, stored.rows, stored.cols)
            }
        };
        let pos = self.graph.items.len();
        let node = self.graph.nodes.len();
        self.graph.nodes.push(Node {
            op: node_op,
            at: stmt.at,
            inputs,
            scalar,
            region: op.region,
            dtype,
            rows,
            cols,
            pos,
            uses: Vec::new(),
            live_out: Vec::new(),
        });
        self.graph.items.push(Item::Node(node));
        if let Some(out) = op.out {
            self.name(out, node);
        }
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

    /// The value that `slot` holds now, with a use at the item that comes next.
    fn read(&mut self, slot: u32, at: Loc) -> NodeId {
        let node = self.current(slot, at);
        let pos = self.graph.items.len();
        let uses = &mut self.graph.nodes[node].uses;
        if uses.last() != Some(&pos) {
            uses.push(pos);
        }
        node
    }

    /// What the slot holds from the item at `pos` on, 0 for what it held when the run began.
    fn slot_in(&mut self, slot: u32, at: Loc, pos: usize) -> NodeId {
        let tile = self.function.tiles[slot as usize];
        let region = [Operand::Int(tile.rows.into()), Operand::Int(tile.cols.into())];
        let (dtype, rows, cols) = (tile.dtype, tile.rows, tile.cols);
        let op = NodeOp::SlotIn(slot);
        let (inputs, uses, live_out) = (Vec::new(), Vec::new(), Vec::new());
        let node = Node { op, at, inputs, scalar: None, region, dtype, rows, cols, pos, uses, live_out };
        self.graph.nodes.push(node);
        self.graph.nodes.len() - 1
    }
}
