//! What sanitizers report: data until the edge, where it becomes an exception.

use crate::dtype::DType;
use serde::Serialize;
use std::fmt;

/// Most findings that one launch keeps; the others are counted.
pub const MOST_FINDINGS: usize = 20;

/// The findings of one launch.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct Findings {
    /// Name of the program.
    pub program: String,
    /// The first ones, in the order in which the launch met them.
    pub findings: Vec<Finding>,
    /// How many more there were.
    pub more: u64,
    /// What ended the launch early, if anything did.
    pub fault: Option<String>,
}

/// One finding.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// Which sanitizer found it.
    pub kind: FindingKind,
    /// What is wrong, and what to do.
    pub message: String,
    /// The access; of a race both, the earlier in program order first.
    pub accesses: Vec<Access>,
    /// The memory that it is about: of a race what both touch.
    pub memory: BoxOf,
}

/// What a finding is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingKind {
    /// Two tasks touch the same bytes in no declared order.
    Race,
    /// A read of memory that nothing wrote.
    Uninit,
    /// An access outside what there is.
    Bounds,
}

/// One access of a task.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Access {
    /// What it does.
    pub action: Action,
    /// The kernel; the program itself for an element that the orchestration reads or writes.
    pub kernel: String,
    /// Block of the task.
    pub block: u64,
    /// Blocks that the task has.
    pub blocks: u64,
    /// Source file of the access.
    pub file: String,
    /// Line of the access.
    pub line: u32,
    /// Source file of the launch.
    pub launch_file: String,
    /// Line of the launch.
    pub launch_line: u32,
    /// The memory it touches.
    pub memory: BoxOf,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub enum Action {
    /// Reads.
    #[serde(rename = "read")]
    Read,
    /// Writes.
    #[serde(rename = "write")]
    Write,
    /// Adds, in one step.
    #[serde(rename = "atomic add")]
    Add,
}

/// A box of a tensor or a tile.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BoxOf {
    /// Name of the tensor.
    pub tensor: String,
    /// Element type.
    pub dtype: DType,
    /// Extents of the tensor.
    pub shape: Vec<u64>,
    /// First element along each axis.
    pub offsets: Vec<i64>,
    /// Elements along each axis.
    pub extents: Vec<u64>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.findings.len() as u64 + self.more;
        write!(f, "{:?}: the sanitizers found {count} fault{}", self.program, if count == 1 { "" } else { "s" })?;
        for finding in &self.findings {
            write!(f, "\n{finding}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        if let Some(fault) = &self.fault {
            write!(f, "\nthen the launch failed: {fault}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FindingKind::Race => "race",
            FindingKind::Uninit => "uninit",
            FindingKind::Bounds => "bounds",
        };
        write!(f, "{kind}: {}\n    at {}", self.message, self.memory)?;
        for access in &self.accesses {
            write!(f, "\n    {access}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { kernel, block, blocks, file, line, launch_file, launch_line, memory, .. } = self;
        let action = match self.action {
            Action::Read => "reads",
            Action::Write => "writes",
            Action::Add => "adds to",
        };
        let block = if *blocks > 1 { format!(" block {block} of {blocks}") } else { String::new() };
        write!(f, "{file}:{line}: {kernel}{block} {action} {memory}, launched at {launch_file}:{launch_line}")
    }
}

impl fmt::Display for BoxOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.tensor)?;
        for (axis, (&offset, &extent)) in self.offsets.iter().zip(&self.extents).enumerate() {
            let comma = if axis == 0 { "" } else { ", " };
            write!(f, "{comma}{offset}:{}", offset.saturating_add(extent as i64))?;
        }
        write!(f, "] of {} {:?}", self.dtype, self.shape)
    }
}
