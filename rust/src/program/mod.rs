//! What the Python frontend hands over, once, at registration: plain data that says what to compute and nothing about how.
//!
//! A [`Program`] has an *entry* function, which orchestrates (scalars, control flow, views of device memory, launches of
//! kernels), and *kernels*, which compute on tiles. Both are trees of statements over numbered slots:
//!
//! - a **scalar** slot holds a 64-bit integer, a binary32 number or a truth value, 0 until it is assigned;
//! - a **tensor** slot holds a view of device memory: address, extents, strides;
//! - a **tile** slot holds an on-chip value of static physical size `rows x cols`.
//!
//! Slots are variables: a statement may assign one that already has a value. Values of tiles are functional: an operation
//! reads its arguments and then assigns its result, so `out` may be one of the arguments.
//!
//! How much of a tile an operation touches is said by the operation, not by the tile: [`TileOp::region`] is the valid
//! extent, constant or run-time. Bytes outside it are undefined.
//!
//! Nothing in this module trusts its input: [`verify`] accepts or refuses any value of [`Program`] without panicking.

mod depth;
mod encode;
mod ops;
mod signature;
mod verify;

pub use depth::{MAX_DEPTH, shallow, with_room};
pub use ops::{OpCode, ScalarOp};
pub use signature::{ArgRule, Cover, Element, RegionRule, ScalarRule, TileRule, Types};
pub use verify::{ProgramError, verify};

pub use crate::dtype::Rounding;

use crate::dtype::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in the user's source: index into [`Program::files`], line (1-based), column (0-based).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Loc(pub u32, pub u32, pub u32);

/// A whole program. See the module for how its parts fit together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// The name of the entry, for messages and traces.
    pub name: String,
    /// Paths of the source files that [`Loc`] points into.
    pub files: Vec<String>,
    /// Names of the dynamic extents; [`Dim::Symbol`] points here.
    pub symbols: Vec<String>,
    /// The parameters that a launch passes, in order.
    pub params: Vec<Param>,
    /// The function that a launch runs. Its parameters are `params`, slot by slot.
    pub entry: Function,
    /// The kernels that the entry launches.
    pub kernels: Vec<Function>,
}

/// One parameter of a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// The name in the source.
    pub name: String,
    /// Tensor or scalar.
    pub kind: ParamKind,
}

/// What a parameter accepts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ParamKind {
    /// A row-major tensor.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Extents, outermost first.
        dims: Vec<Dim>,
        /// Which copies a host tensor needs.
        direction: Direction,
    },
    /// A number. `dtype` decides the accepted range.
    Scalar {
        /// Type as declared; integers are checked against its range.
        dtype: DType,
        /// The value for which the program was compiled, where it was fixed then: a launch cannot have another one.
        baked: Option<Number>,
    },
}

/// A number as it stands in a source.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// An integer that [`Number::Int`] cannot hold.
    Large(u64),
    /// A floating point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(value) => value.fmt(f),
            Number::Large(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
            Number::Bool(value) => value.fmt(f),
        }
    }
}

/// One extent of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Dim {
    /// Must be exactly this.
    Const(u64),
    /// Any extent, but the same wherever the symbol stands in one launch.
    Symbol(u32),
}

/// What a function does with a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Direction {
    /// Only read. A host tensor is copied to the device before the launch.
    In,
    /// Only written. A host tensor is copied from the device after the launch.
    Out,
    /// Read and written; both copies.
    InOut,
}

/// A function: slots, and a body over them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Name for messages and traces.
    pub name: String,
    /// Where it is defined.
    pub at: Loc,
    /// Which slots the arguments arrive in, in order.
    pub params: Vec<FnParam>,
    /// Scalar slots.
    pub scalars: Vec<ScalarType>,
    /// Tensor slots.
    pub tensors: Vec<TensorSlot>,
    /// Tile slots. The entry has none.
    pub tiles: Vec<TileSlot>,
    /// The statements.
    #[serde(deserialize_with = "depth::block")]
    pub body: Vec<Stmt>,
    /// What only sanitizers ask for.
    #[serde(default)]
    pub source: SourceInfo,
}

/// What the source says beyond what is computed: for reports of sanitizers.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct SourceInfo {
    /// Names of the tensor slots, as far as they have one.
    pub tensors: Vec<String>,
    /// How many task ids each slot of task ids holds. Entry only.
    pub tasks: Vec<u32>,
    /// The tensor slots of which less is valid than their views have.
    pub valid: Vec<PartlyValid>,
}

/// What the source declares valid of a tensor slot, whatever the operations on it access.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PartlyValid {
    /// The slot.
    pub tensor: u32,
    /// Valid extents, one per axis: constants, or scalar slots that hold them whenever the tensor slot is used.
    pub extents: Vec<Operand>,
}

/// Where an argument arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FnParam {
    /// In this tensor slot.
    Tensor {
        /// The slot.
        slot: u32,
        /// What the function does with it.
        direction: Direction,
    },
    /// In this scalar slot.
    Scalar(u32),
}

/// The type of a scalar slot. Narrow integers live in 64 bits, and `ScalarOp::WrapI8` and its like narrow where the source
/// says so. Integers of 64 bits without sign have operations of their own where the sign matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ScalarType {
    /// 64-bit integer.
    Int,
    /// binary32.
    Float,
    /// Truth value.
    Bool,
}

/// The static part of a tensor slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TensorSlot {
    /// Element type.
    pub dtype: DType,
    /// Number of extents.
    pub rank: u32,
}

/// The static part of a tile slot. Tiles of higher rank arrive flattened: leading extents merge into rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TileSlot {
    /// Element type.
    pub dtype: DType,
    /// Physical rows.
    pub rows: u32,
    /// Physical columns.
    pub cols: u32,
}

/// A scalar argument: a constant or a slot.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Operand {
    /// An integer constant.
    Int(i64),
    /// A binary32 constant.
    Float(f32),
    /// A truth value.
    Bool(bool),
    /// The value of a scalar slot.
    Var(u32),
}

/// A statement with its place in the source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stmt {
    /// Where it stands in the source.
    pub at: Loc,
    /// What it does.
    pub kind: StmtKind,
}

/// What a statement does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum StmtKind {
    /// `dst = op(args)`.
    Scalar {
        /// Assigned slot.
        dst: u32,
        /// Operation.
        op: ScalarOp,
        /// Arguments; their number and types are fixed by `op`.
        args: Vec<Operand>,
    },
    /// `dst = extent of tensor along axis`.
    Dim {
        /// Assigned scalar slot (integer).
        dst: u32,
        /// Tensor slot.
        tensor: u32,
        /// Axis, 0 outermost.
        axis: u32,
    },
    /// `dst = src[index]`, one element. Out of range yields 0 (`and`/`or` do not short-circuit, so this must not fail).
    Read {
        /// Assigned scalar slot.
        dst: u32,
        /// Tensor or tile slot read.
        src: Place,
        /// One index per axis (two for a tile).
        index: Vec<Operand>,
    },
    /// `dst[index] = value`, one element.
    Write {
        /// Tensor or tile slot written.
        dst: Place,
        /// One index per axis (two for a tile).
        index: Vec<Operand>,
        /// The element.
        value: Operand,
    },
    /// `dst = view of src`, no data moves.
    View {
        /// Assigned tensor slot.
        dst: u32,
        /// Viewed tensor slot.
        src: u32,
        /// How.
        kind: ViewKind,
    },
    /// `dst = fresh device memory` for the time of the launch. Entry only.
    Create {
        /// Assigned tensor slot.
        dst: u32,
        /// Extents.
        dims: Vec<Operand>,
        /// Value of every element, or undefined.
        fill: Option<f64>,
    },
    /// Runs a kernel: one task of `blocks` blocks. Entry only.
    Launch {
        /// Index into [`Program::kernels`].
        kernel: u32,
        /// One per parameter of the kernel.
        args: Vec<LaunchArg>,
        /// Number of blocks; 0 is no work.
        blocks: Operand,
    },
    /// An operation on tiles. Kernels only.
    Tile(TileOp),
    /// `for var in range(start, stop, step)`. `step` is not 0; bounds are read once.
    For {
        /// Scalar slot (integer) of the index; undefined after the loop.
        var: u32,
        /// First value.
        start: Operand,
        /// Bound, exclusive.
        stop: Operand,
        /// Distance.
        step: Operand,
        /// Whether the source says that iterations are independent.
        parallel: bool,
        /// The statements.
        #[serde(deserialize_with = "depth::block")]
        body: Vec<Stmt>,
    },
    /// `while cond`, where `head` computes `cond` before each round.
    While {
        /// Statements before each test.
        #[serde(deserialize_with = "depth::block")]
        head: Vec<Stmt>,
        /// The test.
        cond: Operand,
        /// The statements of a round.
        #[serde(deserialize_with = "depth::block")]
        body: Vec<Stmt>,
    },
    /// `if cond ... else ...`.
    If {
        /// The test.
        cond: Operand,
        /// When true.
        #[serde(deserialize_with = "depth::block")]
        then: Vec<Stmt>,
        /// When false.
        #[serde(deserialize_with = "depth::block")]
        orelse: Vec<Stmt>,
    },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the next round of the innermost loop.
    Continue,
    /// What the source declares about the order of tasks. Results do not depend on it. Entry only.
    Order {
        /// Computes the scalars that `rule` mentions; nothing else reads them.
        #[serde(deserialize_with = "depth::block")]
        scalars: Vec<Stmt>,
        /// What is declared.
        rule: OrderRule,
    },
}

/// A declaration about the order of tasks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum OrderRule {
    /// `dst = src`; without `src` it becomes the id of no task.
    Assign {
        /// Assigned ids.
        dst: TaskRef,
        /// What they become.
        src: Option<TaskRef>,
    },
    /// A task that does nothing.
    Dummy {
        /// Where its id goes.
        dst: TaskRef,
        /// What it waits for.
        deps: Vec<TaskRef>,
    },
    /// About the next launch.
    Next {
        /// Where its id goes.
        dst: Option<TaskRef>,
        /// What it waits for.
        deps: Vec<TaskRef>,
        /// It waits for nothing else: it stands in a manual scope.
        manual: bool,
        /// Positions of arguments that it waits for nobody for.
        no_dep: Vec<u32>,
    },
    /// Nobody waits for others because of this tensor.
    Untracked {
        /// Tensor slot.
        tensor: u32,
    },
}

/// Task ids of a slot: one of them, or all.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskRef {
    /// The slot.
    pub slot: u32,
    /// Which of its ids; `None` for all.
    pub index: Option<Operand>,
}

/// A slot that holds elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Place {
    /// A tensor slot.
    Tensor(u32),
    /// A tile slot.
    Tile(u32),
}

/// How one tensor slot views another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ViewKind {
    /// A box: `offsets` and `extents`, one per axis of the source. `keep` lists the axes that remain, in order; a dropped
    /// axis has extent 1. A box may exceed its source: only accessed elements must exist.
    Slice {
        /// First element along each axis.
        offsets: Vec<Operand>,
        /// Extent along each axis.
        extents: Vec<Operand>,
        /// Axes of the source that the view keeps.
        keep: Vec<u32>,
    },
    /// Row-major reinterpretation; the source must be contiguous.
    Reshape {
        /// New extents.
        dims: Vec<Operand>,
    },
    /// Two axes swapped.
    Transpose {
        /// One axis.
        a: u32,
        /// The other.
        b: u32,
    },
    /// The same bytes as elements of the target's type. The last axis counts them anew; its elements must be adjacent and
    /// hold a whole number of the new ones, as must every other stride.
    Reinterpret,
}

/// An argument of a kernel launch.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum LaunchArg {
    /// A tensor slot of the entry.
    Tensor(u32),
    /// A scalar.
    Scalar(Operand),
}

/// An operation on tiles: `out[0:rows, 0:cols] = op(args)`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TileOp {
    /// Which operation; [`OpCode`] documents the arguments of each.
    pub op: OpCode,
    /// Assigned tile slot, where the operation has a result.
    pub out: Option<u32>,
    /// Arguments in the order that [`OpCode`] documents.
    pub args: Vec<Arg>,
    /// Valid rows and columns of the result (of the stored tile for `store`).
    pub region: [Operand; 2],
    /// Rounding of `cast`; `None` elsewhere.
    pub mode: Option<Rounding>,
}

/// An argument of a tile operation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Arg {
    /// A tile slot.
    Tile(u32),
    /// A tensor slot.
    Tensor(u32),
    /// A scalar.
    Scalar(Operand),
}
