//! A program as the simulated chip runs it: flat instructions with everything resolved that registration can resolve.

use super::account::Account;
use crate::dtype::DType;
use crate::kernels::block::Block;
use crate::kernels::chain::Machine;
use crate::kernels::matmul::MatMul;
use crate::program::{LaunchArg, Loc, Operand, OrderRule, Place, ScalarOp, ScalarType, TileOp, ViewKind};

/// One function.
pub(super) struct Code {
    pub insts: Vec<Inst>,
    /// The place in the source of each instruction.
    pub at: Vec<Loc>,
    /// Scalar slots, the hidden ones of loops included.
    pub scalars: usize,
    /// Element type of each tensor slot.
    pub tensors: Vec<DType>,
    /// Whether anything is written through each tensor slot or a view of it.
    pub written: Vec<bool>,
    pub params: Vec<Param>,
    pub steps: Vec<Step>,
    /// Bytes of scratch memory for tiles.
    pub tile_bytes: u64,
    /// Most memory operands of a step.
    pub max_mems: usize,
    /// Most scalars of a step.
    pub max_scalars: usize,
    /// What sanitizers ask for; `None` where nobody checks.
    pub checked: Option<Checked>,
    /// What each step does for the source; empty where nobody profiles.
    pub accounts: Vec<Account>,
}

/// What the source says about code of which every statement was lowered by itself.
#[derive(Default)]
pub(super) struct Checked {
    /// The operations on tiles, and which steps each became. In the order of the steps.
    pub ops: Vec<(std::ops::Range<u32>, TileOp)>,
    /// What is declared about the order of tasks; [`Inst::Order`] counts them.
    pub orders: Vec<OrderRule>,
}

/// Where an argument arrives.
#[derive(Clone, Copy)]
pub(super) enum Param {
    Tensor(u32),
    Scalar(u32),
}

/// One instruction. Targets are indices into [`Code::insts`].
pub(super) enum Inst {
    Scalar {
        dst: u32,
        op: ScalarOp,
        kind: ScalarType,
        args: [Operand; 2],
    },
    Dim {
        dst: u32,
        tensor: u32,
        axis: u32,
    },
    Read {
        dst: u32,
        src: Source,
        index: Vec<Operand>,
    },
    Write {
        dst: Source,
        index: Vec<Operand>,
        value: Operand,
    },
    View {
        dst: u32,
        src: u32,
        kind: ViewKind,
    },
    Create {
        dst: u32,
        dims: Vec<Operand>,
        fill: Option<f64>,
    },
    Launch {
        kernel: u32,
        args: Vec<LaunchArg>,
        blocks: Operand,
    },
    Step(u32),
    /// A declaration of [`Checked::orders`].
    Order(u32),
    Jump(u32),
    JumpUnless {
        cond: Operand,
        target: u32,
    },
    /// Leaves for `exit` unless `count` is before `stop` in the direction of `step`; else `var = count`.
    LoopTest {
        count: u32,
        var: u32,
        stop: Operand,
        step: Operand,
        exit: u32,
    },
    /// `count += step`, then goes to `head`; to `exit` where the sum overflows.
    LoopNext {
        count: u32,
        step: Operand,
        head: u32,
        exit: u32,
    },
}

impl Inst {
    /// The step that it takes.
    pub fn step(&self) -> Option<u32> {
        if let Inst::Step(step) = self { Some(*step) } else { None }
    }
}

/// Memory that one element is read from or written to.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Tensor(u32),
    Tile { tile: TileMem, dtype: DType, slot: u32 },
}

impl Source {
    pub fn tensor(place: Place) -> Option<u32> {
        match place {
            Place::Tensor(slot) => Some(slot),
            Place::Tile(_) => None,
        }
    }
}

/// A row-major matrix in scratch memory. `home` is an index while lowering and a byte offset afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TileMem {
    pub home: u64,
    /// Bytes from the start of the home to the first element.
    pub start: u64,
    pub rows: u32,
    pub cols: u32,
    pub row_stride: u32,
}

/// Work on tiles.
pub(super) enum Step {
    Chain(ChainStep),
    MatMul(MatMulStep),
    Block(BlockStep),
}

impl Step {
    /// Its memory operands.
    pub fn mems(&self) -> impl Iterator<Item = &MemUse> {
        let (chain, product, block) = match self {
            Step::Chain(chain) => (Some(&chain.mems), None, None),
            Step::MatMul(product) => (None, Some(product), None),
            Step::Block(block) => (None, None, Some(&block.mems)),
        };
        let products = product.into_iter().flat_map(|step| [&step.a, &step.b, &step.c].into_iter().chain(&step.acc));
        let blocks = block.into_iter().flatten().filter_map(BlockMem::memory);
        chain.into_iter().flatten().chain(products).chain(blocks)
    }

    /// The tensor that it gathers from or scatters to.
    pub fn tensor(&self) -> Option<WholeUse> {
        if let Step::Block(block) = self { block.tensor } else { None }
    }
}

/// A fused chain over a region.
pub(super) struct ChainStep {
    pub machine: Machine,
    pub region: [Operand; 2],
    /// Physical bound of the region.
    pub bound: [u32; 2],
    pub mems: Vec<MemUse>,
    pub scalars: Vec<ScalarUse>,
    /// Estimated picoseconds per element, for splitting and for interruption.
    pub cost: u32,
}

/// A memory operand of a step.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MemUse {
    pub mem: Mem,
    /// Element type in memory.
    pub dtype: DType,
    pub extent: Extent,
    pub write: bool,
}

/// Whether an operand spans the rows and the columns of the region; along an axis that it does not span it broadcasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub rows: bool,
    pub cols: bool,
}

impl Extent {
    pub const FULL: Self = Self { rows: true, cols: true };
}

/// Where a memory operand lives.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Mem {
    Tile(TileMem),
    Window(Window),
    Box(BoxSpec),
}

/// A part of a tile that begins where scalars say. What lies outside the tile reads 0 and swallows what is written.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Window {
    pub tile: TileMem,
    pub row: Operand,
    pub col: Operand,
}

/// A box of device memory.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct BoxSpec {
    pub tensor: u32,
    pub dtype: DType,
    pub offsets: Vec<Operand>,
    pub extents: Vec<Operand>,
}

/// A scalar argument of a chain, as the element type of the tile sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ScalarUse {
    pub value: Operand,
    pub dtype: DType,
}

/// A matrix product. `region` is `m x n`.
pub(super) struct MatMulStep {
    /// By whether the left and the right operand lie transposed in memory: a box of a transposed view shows it at run time.
    pub kernels: [[MatMul; 2]; 2],
    /// Whether the values are the transposes of `a` and `b`.
    pub trans: [bool; 2],
    pub region: [Operand; 2],
    pub k: Operand,
    /// Physical bounds of m, n, k.
    pub bound: [u32; 3],
    pub a: MemUse,
    pub b: MemUse,
    pub c: MemUse,
    pub acc: Option<MemUse>,
}

/// A whole-tile operation.
pub(super) struct BlockStep {
    pub block: Block,
    pub region: [Operand; 2],
    pub bound: [u32; 2],
    /// The result, where there is one, then the arguments.
    pub mems: Vec<BlockMem>,
    pub scalars: Vec<ScalarUse>,
    /// The tensor that elements are gathered from or scattered to.
    pub tensor: Option<WholeUse>,
    /// Whether it writes all of its region, whatever its arguments are.
    pub fills: bool,
}

impl BlockStep {
    /// Estimated picoseconds at the largest extents.
    pub fn most_work(&self) -> u64 {
        let elements = |[rows, cols]: [u32; 2]| u64::from(rows) * u64::from(cols);
        let argument = match self.mems.get(1) {
            Some(BlockMem::Mem { bound, .. }) => elements(*bound),
            _ => 0,
        };
        self.block.work(elements(self.bound), argument)
    }

    /// Bytes of scratch memory that it needs.
    pub fn scratch_bytes(&self) -> usize {
        let bytes = |operand: &BlockMem| match operand {
            BlockMem::Mem { mem, bound: [rows, cols], .. } if !mem.write => {
                *rows as usize * *cols as usize * mem.dtype.size()
            }
            _ => 0,
        };
        self.block.scratch_bytes(self.mems.iter().map(bytes).sum())
    }
}

/// An operand of a whole-tile operation.
pub(super) enum BlockMem {
    /// A matrix; of a box or a window, `span` are the rows and columns that may be used, at most `bound`.
    Mem { mem: MemUse, span: [Operand; 2], bound: [u32; 2] },
    /// One scalar for every element.
    Scalar(ScalarUse),
}

impl BlockMem {
    /// The matrix, where it is one.
    pub fn memory(&self) -> Option<&MemUse> {
        match self {
            BlockMem::Mem { mem, .. } => Some(mem),
            BlockMem::Scalar(_) => None,
        }
    }
}

/// A tensor of which any element may be used.
#[derive(Clone, Copy)]
pub(super) struct WholeUse {
    pub slot: u32,
    pub dtype: DType,
    pub write: bool,
}
