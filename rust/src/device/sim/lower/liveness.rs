//! Which tile slots are read later: a slot that nobody reads is never written to memory.

use crate::program::{Arg, Place, Stmt, StmtKind};
use fixedbitset::FixedBitSet;

/// What is live where the innermost loop is left or goes on.
#[derive(Clone, Copy)]
pub(super) struct LoopLive<'a>(pub Option<&'a FixedBitSet>);

/// Turns what is live after `stmt` into what is live before it.
fn step_back(stmt: &Stmt, live: &mut FixedBitSet, around: LoopLive<'_>) {
    match &stmt.kind {
        StmtKind::Tile(op) => {
            if let Some(out) = op.out {
                live.set(out as usize, false);
            }
            for arg in &op.args {
                if let Arg::Tile(slot) = *arg {
                    live.insert(slot as usize);
                }
            }
        }
        StmtKind::Read { src: Place::Tile(slot), .. } => live.insert(*slot as usize),
        // One element changes, the others stay: the old value is still needed.
        StmtKind::Write { dst: Place::Tile(slot), .. } => live.insert(*slot as usize),
        StmtKind::If { then, orelse, .. } => {
            let mut other = live.clone();
            block_back(then, live, around);
            block_back(orelse, &mut other, around);
            live.union_with(&other);
        }
        StmtKind::For { body, .. } => live.union_with(&loop_live(&[], body, live)),
        StmtKind::While { head, body, .. } => live.union_with(&loop_live(head, body, live)),
        StmtKind::Break | StmtKind::Continue => {
            if let Some(at_loop) = around.0 {
                live.union_with(at_loop);
            }
        }
        _ => {}
    }
}

/// [`step_back`] over a whole block.
pub(super) fn block_back(body: &[Stmt], live: &mut FixedBitSet, around: LoopLive<'_>) {
    for stmt in body.iter().rev() {
        step_back(stmt, live, around);
    }
}

/// What may be live at any edge of a loop: what is live after it, and what a round reads before it assigns. One set for
/// the entry, the back edge, `break` and `continue` is a little larger than needed and needs no iteration.
pub(super) fn loop_live(head: &[Stmt], body: &[Stmt], after: &FixedBitSet) -> FixedBitSet {
    let mut exposed = FixedBitSet::with_capacity(after.len());
    block_back(body, &mut exposed, LoopLive(None));
    block_back(head, &mut exposed, LoopLive(None));
    exposed.union_with(after);
    exposed
}
