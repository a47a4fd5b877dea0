//! What a device tells about launches: the time of steps, and tasks with what they wait for.

use crate::dtype::DType;
use crate::program::Loc;

/// The time of launches, step by step.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Profile {
    /// How many launches there were.
    pub launches: u64,
    /// The steps, by kernel in program order. Steps of kernels that nobody launched are among them, without runs.
    pub steps: Vec<StepProfile>,
}

/// What was executed and timed as one.
#[derive(Clone, PartialEq, Debug)]
pub struct StepProfile {
    /// Index of the kernel in the program.
    pub kernel: u32,
    /// What kind of step.
    pub kind: StepKind,
    /// The place of its first operation.
    pub at: Loc,
    /// Runs in all launches.
    pub runs: u64,
    /// Nanoseconds of all runs.
    pub ns: f64,
    /// The operations of the source that it does. Apart from chains, the first one is what the step is, and the others are
    /// loads and stores within it.
    pub operations: Vec<OperationProfile>,
}

/// What kind of step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// Elementwise operations and row reductions, fused: run chunk by chunk in registers.
    Chain,
    /// A matrix product.
    Product,
    /// An operation on a whole tile.
    Tile,
}

/// One operation of the source within a step.
#[derive(Clone, PartialEq, Debug)]
pub struct OperationProfile {
    /// Name of the core operation.
    pub name: &'static str,
    /// Its place in the source.
    pub at: Loc,
    /// Element type that it computes with.
    pub dtype: DType,
    /// Arithmetic operations in all launches; a multiply-add is two, any function of an element one.
    pub operations: u64,
    /// Bytes of device memory that it reads or writes in all launches.
    pub device_bytes: u64,
    /// Bytes of tiles in on-chip memory. What stays in registers counts nothing.
    pub tile_bytes: u64,
    /// Nanoseconds that its instructions would take alone, data in the first-level cache. Chains only.
    pub alone_ns: f64,
}

/// A task of a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskOf {
    /// Index of its kernel in the program; `None` for the orchestration, where it reads or writes elements itself, and for
    /// a task that only waits.
    pub kernel: Option<u32>,
    /// Where it is launched.
    pub at: Loc,
    /// Blocks of it.
    pub blocks: u64,
    /// The tasks that it waits for, by their numbers, without those that the others wait for.
    pub waits: Vec<u32>,
}
