//! Passes over a row as code: joined instructions, and rows whose first pass runs ahead.

use super::code::{Code, Op};
use super::compile::Tables;
use super::recompute::is_cheap;
use super::{ChainProgram, Dst, Inst, Src};

/// The code of a phase, in parts.
pub(super) struct Parts {
    pub prologue: Vec<Op>,
    pub begins: Vec<Op>,
    /// Without `End`.
    pub body: Vec<Op>,
    /// The ends of the reductions, and the epilogue.
    pub ends: Vec<Op>,
}

impl Parts {
    pub fn code(&self, tables: &mut Tables) -> Vec<Op> {
        [&self.prologue[..], &self.begins, &pass(&self.body, tables), &self.ends].concat()
    }
}

/// A pass over the row.
pub(super) fn pass(body: &[Op], tables: &mut Tables) -> Vec<Op> {
    if body.is_empty() {
        return Vec::new();
    }
    let body = [body, &[op(Code::End)]].concat();
    let joined = fuse(&body);
    let begin = Op { b: joined.len() as u32, ..op(Code::Pass) };
    let tail = Op { b: tables.tail.len() as u32, ..op(Code::Tail) };
    tables.tail.extend(body);
    [&[begin], &joined[..], &[tail]].concat()
}

/// The code of rows whose first pass runs within the second pass of the row before.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The first pass of the first row.
    pub first: Vec<Op>,
    /// The rest of a row, with the first pass of the next.
    pub row: Vec<Op>,
    /// The rest of the last row.
    pub last: Vec<Op>,
}

/// Whether the first pass of a row can run before the row before it has ended: it leaves nothing but reductions, and needs
/// nothing of its row that comes from elsewhere. What it reads no other row writes, by the rules for operands.
pub(super) fn runs_ahead(program: &ChainProgram) -> bool {
    let [first, second, ..] = &program.phases[..] else { return false };
    let leaves = |inst: &Inst| matches!(inst, Inst::Store(Dst::Mem(_) | Dst::RowBuf(_)));
    let needs =
        |inst: &Inst| inst.sources().into_iter().flatten().any(|src| matches!(src, Src::Slot(_) | Src::RowBuf(_)));
    let is_long = |inst: &Inst| matches!(inst, Inst::Unary(_)) && !is_cheap(inst);
    first.prologue.is_empty()
        && !first.body.is_empty()
        && second.body.iter().any(is_long)
        && !first.body.iter().any(|inst| leaves(inst) || needs(inst))
}

/// A pass in as few instructions as there can be: neighbours are joined where one does what they do.
fn fuse(body: &[Op]) -> Vec<Op> {
    // For each place, how many instructions the rest takes, and how many the first of those joins.
    let mut best = vec![(0, 1); body.len() + 1];
    for at in (0..body.len()).rev() {
        let joins = (1..=MAX_JOINED.min(body.len() - at)).filter(|&many| joined(&body[at..at + many]).is_some());
        best[at] = joins.map(|many| (best[at + many].0 + 1, many)).min().expect("one is always itself");
    }
    let mut fused = Vec::with_capacity(best[0].0);
    let mut at = 0;
    while at < body.len() {
        let many = best[at].1;
        fused.extend(joined(&body[at..at + many]));
        at += many;
    }
    fused
}

/// Instructions that one may join.
const MAX_JOINED: usize = 3;

/// One instruction for these.
fn joined(ops: &[Op]) -> Option<Op> {
    let [first, second, ..] = ops else { return ops.first().copied() };
    let codes: Vec<Code> = ops.iter().map(|op| op.code).collect();
    Some(Op { code: Code::join(&codes)?, b: second.a, step_b: second.step_a, ..*first })
}

pub(super) fn op(code: Code) -> Op {
    Op { code, step_a: 0, step_b: 0, a: 0, b: 0 }
}
