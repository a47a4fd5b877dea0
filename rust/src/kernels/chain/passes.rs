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
    /// See [`pace`].
    pub pace: u8,
    /// The ends of the reductions, and the epilogue.
    pub ends: Vec<Op>,
}

impl Parts {
    pub fn code(&self, tables: &mut Tables) -> Vec<Op> {
        [&self.prologue[..], &self.begins, &pass(&self.body, self.pace, tables), &self.ends].concat()
    }
}

/// A pass over the row. `pace` is that of [`pace`].
pub(super) fn pass(body: &[Op], pace: u8, tables: &mut Tables) -> Vec<Op> {
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
        step_a: pace,
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

/// Which part of the next row a pass asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Asked {
    All,
    FirstHalf,
    SecondHalf,
}

/// The part of the next row that a phase asks for: of three passes and more the first two half of it each, one after the other;
/// of two the second asks for all. So does the second of a row that runs ahead: for the one after, since it reads the next.
///
/// A row of a layer norm of 4096x4096 takes 1.11 us where its second pass asks for all, 1.0 with halves; in the caches, and on two
/// cores, which wait for memory, it loses 2 %. As C, in other forms: 1.05 and 0.91 to 1.0, 0.95 to 1.0 with a part of each chunk in
/// each pass, 1.12 where the first pass runs free. Two passes gain 2 % by halves on one core, and lose 8 on two.
pub(super) fn asked(program: &ChainProgram, index: usize) -> Option<Asked> {
    match passes(program)[..] {
        [first, second, _, ..] if !runs_ahead(program) => {
            let halves = [(first, Asked::FirstHalf), (second, Asked::SecondHalf)];
            halves.into_iter().find(|(at, _)| *at == index).map(|(_, half)| half)
        }
        [_, second, ..] => (index == second).then_some(Asked::All),
        _ => None,
    }
}

/// How many bytes of a row the pass of a phase may begin together, in units of [`PACE_BYTES`](loops::PACE_BYTES); 0 where it is
/// not held back. A pass is that asks for rows, or reads them as the only one, and does little else. The second half of a row is
/// asked for by a pass that computes more than the first: paced too, even half as often, it made layer norm take 1.08 of the time.
pub(super) fn pace(program: &ChainProgram, index: usize) -> u8 {
    match asked(program, index) {
        _ if program.phases[index].body.iter().any(is_long) => 0,
        Some(Asked::All) => 1,
        Some(Asked::FirstHalf) => 2,
        None if passes(program) == [index] => 1,
        Some(Asked::SecondHalf) | None => 0,
    }
}

/// The phases that pass over the row.
fn passes(program: &ChainProgram) -> Vec<usize> {
    (0..program.phases.len()).filter(|&at| !program.phases[at].body.is_empty()).collect()
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
