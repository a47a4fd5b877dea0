//! Passes over a row as code: joined instructions, and rows whose first pass runs ahead.

use super::code::{Code, Op};
use super::compile::Tables;
use super::loops;
use super::recompute::is_cheap;
use super::{ChainProgram, Dst, Inst, RowInst, Src};

/// The code of a phase, in parts.
pub(super) struct Parts {
    pub prologue: Vec<Op>,
    pub begins: Vec<Op>,
    /// Without `End`.
    pub body: Vec<Op>,
    /// Whether it reads the row from memory, or asks for the next, and does little else.
    pub paced: bool,
    /// The ends of the reductions, and the epilogue.
    pub ends: Vec<Op>,
}

impl Parts {
    pub fn code(&self, tables: &mut Tables) -> Vec<Op> {
        [&self.prologue[..], &self.begins, &pass(&self.body, self.paced, tables), &self.ends].concat()
    }
}

/// A pass over the row.
pub(super) fn pass(body: &[Op], paced: bool, tables: &mut Tables) -> Vec<Op> {
    if body.is_empty() {
        return Vec::new();
    }
    let body = [body, &[op(Code::End)]].concat();
    let joined = fuse(&body);
    let begin = Op { b: joined.len() as u32, ..op(Code::Pass) };
    let tail = Op { b: tables.tail.len() as u32, ..op(Code::Tail) };
    let looped = loops::find(&body).map(|number| Op {
        a: joined.len() as u32 + 1,
        b: tail.b,
        step_a: paced.into(),
        step_b: number as u8,
        ..op(Code::Loop)
    });
    tables.tail.extend(body);
    let looped: Vec<Op> = looped.into_iter().collect();
    [&looped[..], &[begin], &joined, &[tail]].concat()
}

/// The code of rows whose first pass runs within the second pass of the row before, and the last, where it can, within that of
/// the row after.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The first pass of the first row.
    pub first: Vec<Op>,
    /// The rest of the first row, with the first pass of the next.
    pub opening: Vec<Op>,
    /// The same of a row with one before it.
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
    first.prologue.is_empty()
        && !first.body.is_empty()
        && second.body.iter().any(is_long)
        && !first.body.iter().any(|inst| leaves(inst) || needs(inst))
}

/// Whether the last pass of a row can wait for the second of the next, in which it then comes first: it leaves nothing but memory,
/// and what it needs the next row has not changed by then. A row buffer is read before that row writes to it.
pub(super) fn runs_behind(program: &ChainProgram) -> bool {
    let [first, second, third] = &program.phases[..] else { return false };
    let reduced = |inst: &Inst| if let Inst::Reduce(_, slot) = inst { Some(*slot) } else { None };
    let changed: Vec<u16> = first.body.iter().filter_map(reduced).collect();
    let rows = || first.epilogue.iter().chain(&second.prologue).filter_map(RowInst::assigned);
    let keeps =
        |src: Src| !matches!(src, Src::Slot(slot) if changed.contains(&slot) || rows().any(|other| other == slot));
    let leaves = |inst: &Inst| matches!(inst, Inst::Reduce(..) | Inst::Store(Dst::RowBuf(_)));
    runs_ahead(program)
        && third.epilogue.is_empty()
        && !third.body.iter().any(|inst| leaves(inst) || is_long(inst))
        && third.body.iter().flat_map(Inst::sources).flatten().all(keeps)
}

/// Whether an instruction takes many times as long as an addition.
fn is_long(inst: &Inst) -> bool {
    matches!(inst, Inst::Unary(_)) && !is_cheap(inst)
}

/// The phase that asks for the next row, in programs of several passes: the second of those.
pub(super) fn asking(program: &ChainProgram) -> Option<usize> {
    let passes = (0..).zip(&program.phases).filter(|(_, phase)| !phase.body.is_empty());
    passes.map(|(at, _)| at).nth(1)
}

/// Whether the pass of a phase reads the row from memory, as the only one, or asks for the next, and does little else.
pub(super) fn is_paced(program: &ChainProgram, index: usize) -> bool {
    asking(program).is_none_or(|asking| asking == index) && !program.phases[index].body.iter().any(is_long)
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
