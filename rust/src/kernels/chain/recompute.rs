//! Row buffers that cost more than what they keep.
//!
//! A value that a later pass reads again goes through memory: a store and a load for each vector, and a row of the
//! first-level cache, which holds two rows of 4,096 numbers. Where one or two cheap instructions make it from operands that
//! are still what they were, the later pass makes it again: layer norm of 4,096 columns takes 0.88 of the time.

use super::{BinaryFn, ChainProgram, Dst, Inst, Phase, RowInst, Src, UnaryFn};
use std::ops::Range;

/// Instructions behind the load that are cheaper than a store and a load.
const MAX_INSTRUCTIONS: usize = 2;

/// `program` without the row buffers whose value its readers can make themselves.
pub(super) fn recompute(program: &ChainProgram) -> ChainProgram {
    let mut program = program.clone();
    for buf in (0..program.row_bufs).rev() {
        if let Some(recipe) = recipe(&program, buf) {
            replace(&mut program, buf, &recipe);
        }
    }
    program
}

/// The instructions that make what `buf` holds, where each reader can run them.
fn recipe(program: &ChainProgram, buf: u16) -> Option<Vec<Inst>> {
    let phases = &program.phases;
    let stores = places(phases, |inst| *inst == Inst::Store(Dst::RowBuf(buf)));
    let loads = places(phases, |inst| *inst == Inst::Load(Src::RowBuf(buf)));
    let uses = places(phases, |inst| inst.sources().contains(&Some(Src::RowBuf(buf))));
    let ([made], Some(&last)) = (&stores[..], loads.last()) else { return None };
    if loads.len() != uses.len() {
        return None;
    }
    let recipe = made_by(&phases[made.0].body[..made.1])?;
    let slots: Vec<u16> = recipe.iter().flat_map(Inst::sources).flatten().filter_map(slot_of).collect();
    let keeps = !writes_memory(phases, *made..last) && !assigns(&phases[made.0..], &slots);
    keeps.then_some(recipe)
}

/// What the instructions at the end of `body` load and do to it, where that is cheap and reads nothing that goes away.
fn made_by(body: &[Inst]) -> Option<Vec<Inst>> {
    let begin = body.iter().rposition(|inst| matches!(inst, Inst::Load(_)))?;
    let keeps_accumulator = |inst: &Inst| matches!(inst, Inst::Store(_) | Inst::Reduce(..));
    let recipe: Vec<Inst> = body[begin..].iter().filter(|inst| !keeps_accumulator(inst)).copied().collect();
    let stays = |src: Src| matches!(src, Src::Mem(_) | Src::Slot(_) | Src::Scalar(_) | Src::Const(_));
    let all_stay = recipe.iter().flat_map(Inst::sources).flatten().all(stays);
    (all_stay && recipe.len() <= 1 + MAX_INSTRUCTIONS && recipe[1..].iter().all(is_cheap)).then_some(recipe)
}

/// Whether it is one instruction of the processor, and none of the slow ones.
pub(super) fn is_cheap(inst: &Inst) -> bool {
    use BinaryFn::{AddF, AddI, AndI, MaxF, MinF, MulF, OrI, SubF, SubI, XorI};
    use UnaryFn::{AbsF, NegF, NegI, NotI, SquareF};
    match inst {
        Inst::Binary(f, _) | Inst::BinaryRev(f, _) => {
            matches!(f, AddF | SubF | MulF | MaxF | MinF | AddI | SubI | AndI | OrI | XorI)
        }
        Inst::Unary(f) => matches!(f, AbsF | NegF | NegI | NotI | SquareF),
        _ => false,
    }
}

fn slot_of(src: Src) -> Option<u16> {
    match src {
        Src::Slot(slot) => Some(slot),
        _ => None,
    }
}

/// Phase and index in its body of each instruction that `is_wanted`, in order.
fn places(phases: &[Phase], is_wanted: impl Fn(&Inst) -> bool) -> Vec<(usize, usize)> {
    let bodies = phases.iter().enumerate();
    let all = bodies.flat_map(|(phase, of)| of.body.iter().enumerate().map(move |(at, inst)| ((phase, at), inst)));
    all.filter(|(_, inst)| is_wanted(inst)).map(|(place, _)| place).collect()
}

/// Whether memory operands change between two places. A chunk is read before what comes behind it in the same pass is
/// written, and no other chunk has its columns.
fn writes_memory(phases: &[Phase], between: Range<(usize, usize)>) -> bool {
    let stores = places(phases, |inst| matches!(inst, Inst::Store(Dst::Mem(_))));
    let in_bodies = stores.iter().any(|place| between.contains(place));
    let is_store = |inst: &RowInst| matches!(inst, RowInst::Store { .. });
    let epilogues = phases[between.start.0..between.end.0].iter().flat_map(|phase| &phase.epilogue);
    let prologues = phases[between.start.0 + 1..=between.end.0].iter().flat_map(|phase| &phase.prologue);
    in_bodies || (between.start.0 < between.end.0 && epilogues.chain(prologues).any(is_store))
}

/// Whether one of `slots` gets a value in or behind the first pass of `phases`.
fn assigns(phases: &[Phase], slots: &[u16]) -> bool {
    let reductions = phases.iter().flat_map(|phase| &phase.body).filter_map(|inst| match inst {
        Inst::Reduce(_, slot) => Some(*slot),
        _ => None,
    });
    let prologues = phases.iter().skip(1).flat_map(|phase| &phase.prologue);
    let rows = phases.iter().flat_map(|phase| &phase.epilogue).chain(prologues);
    reductions.chain(rows.filter_map(RowInst::assigned)).any(|slot| slots.contains(&slot))
}

/// Takes `buf` out of the program.
fn replace(program: &mut ChainProgram, buf: u16, recipe: &[Inst]) {
    program.row_bufs -= 1;
    let renumbered = |at: u16| if at > buf { at - 1 } else { at };
    let source = |src: Src| if let Src::RowBuf(at) = src { Src::RowBuf(renumbered(at)) } else { src };
    for phase in &mut program.phases {
        let body = std::mem::take(&mut phase.body);
        phase.body = body
            .into_iter()
            .flat_map(|inst| match inst {
                Inst::Store(Dst::RowBuf(at)) if at == buf => vec![],
                Inst::Store(Dst::RowBuf(at)) => vec![Inst::Store(Dst::RowBuf(renumbered(at)))],
                Inst::Load(Src::RowBuf(at)) if at == buf => recipe.to_vec(),
                other => vec![other.with_sources(source)],
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::kernels::chain::{MemDecl, ReduceFn, RowSrc};

    /// `keep` and a sum in one pass, `between`, then a pass that reads what was kept.
    fn two_passes(keep: Vec<Inst>, between: Phase) -> ChainProgram {
        let first = [keep, vec![Inst::Store(Dst::RowBuf(1)), Inst::Reduce(ReduceFn::SumF, 1)]].concat();
        let last =
            vec![Inst::Load(Src::RowBuf(1)), Inst::Binary(BinaryFn::MulF, Src::Slot(1)), Inst::Store(Dst::Mem(1))];
        let body = |body: Vec<Inst>| Phase { body, ..Phase::default() };
        let others = [Inst::Load(Src::Mem(0)), Inst::Unary(UnaryFn::ExpF)];
        let (keep_others, read_others) = (Inst::Store(Dst::RowBuf(0)), Inst::Load(Src::RowBuf(0)));
        let phases = vec![
            body([&others[..], &[keep_others]].concat()),
            body(first),
            between,
            body([last, vec![read_others, Inst::Store(Dst::Mem(1))]].concat()),
        ];
        let mems = vec![MemDecl { dtype: DType::F32 }; 2];
        ChainProgram { phases, mems, temps: 0, row_bufs: 2, slots: 2 }
    }

    fn centred() -> Vec<Inst> {
        vec![Inst::Load(Src::Mem(0)), Inst::Binary(BinaryFn::SubF, Src::Slot(0))]
    }

    #[test]
    fn what_two_cheap_instructions_make_is_made_again() {
        let squared = [centred(), vec![Inst::Unary(UnaryFn::SquareF)]].concat();
        for recipe in [centred(), squared] {
            let made = recompute(&two_passes(recipe.clone(), Phase::default()));
            assert_eq!(made.row_bufs, 1, "the exponential is kept");
            assert!(made.phases[0].body.contains(&Inst::Store(Dst::RowBuf(0))));
            assert_eq!(made.phases[3].body[..recipe.len()], recipe);
        }
    }

    #[test]
    fn what_is_dear_or_changes_before_it_is_read_is_kept() {
        let still = |keep: Vec<Inst>, between: Phase| recompute(&two_passes(keep, between)).row_bufs == 2;
        assert!(still([centred(), vec![Inst::Unary(UnaryFn::ExpF)]].concat(), Phase::default()));
        assert!(still([centred(), vec![Inst::Unary(UnaryFn::NegF); 2]].concat(), Phase::default()));
        assert!(still(vec![Inst::Load(Src::Temp(0))], Phase::default()), "a temporary does not outlive its chunk");
        let store = vec![Inst::Load(Src::Const(0)), Inst::Store(Dst::Mem(0))];
        assert!(still(centred(), Phase { body: store, ..Phase::default() }), "the operand is written");
        let row_store = vec![RowInst::Store { mem: 0, src: RowSrc::Const(0) }];
        assert!(still(centred(), Phase { prologue: row_store.clone(), ..Phase::default() }));
        assert!(still(centred(), Phase { epilogue: row_store, ..Phase::default() }));
        let assigned = vec![RowInst::Load { slot: 0, mem: 1 }];
        assert!(still(centred(), Phase { prologue: assigned, ..Phase::default() }), "the scalar is another");
        let reduced = vec![Inst::Load(Src::Mem(0)), Inst::Reduce(ReduceFn::MaxF, 0)];
        assert!(still(centred(), Phase { body: reduced, ..Phase::default() }));
    }
}
