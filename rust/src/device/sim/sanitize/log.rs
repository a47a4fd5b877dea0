//! The accesses of a launch, and which of them meet without an order.

use super::area::Area;
use super::tasks::Tasks;
use crate::device::findings::Action;
use crate::program::Loc;
use std::collections::HashMap;

/// One access to device memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Touch {
    pub task: u32,
    pub block: u64,
    pub action: Action,
    pub area: Area,
    pub at: Loc,
}

/// The accesses to each piece of memory. Reads and writes are apart, because reads of what nobody writes are most.
#[derive(Default)]
pub struct Log {
    of: HashMap<u32, Accesses>,
}

#[derive(Default)]
struct Accesses {
    reads: Vec<Touch>,
    writes: Vec<Touch>,
}

impl Log {
    /// Notes an access of the last of `tasks` to the memory `object`, and gives the earlier ones that meet it in no order.
    pub fn note(&mut self, object: u32, new: Touch, tasks: &Tasks) -> Vec<Touch> {
        let Accesses { reads, writes } = self.of.entry(object).or_default();
        let mine = |old: &Touch| (old.task, old.block) == (new.task, new.block);
        let ordered = |old: &Touch| mine(old) || (old.task != new.task && tasks.is_before(old.task));
        let races = |old: &&Touch| {
            let both_add = (old.action, new.action) == (Action::Add, Action::Add);
            !both_add && !ordered(old) && old.area.common(&new.area).is_some()
        };
        let mut found: Vec<Touch> = writes.iter().filter(races).copied().collect();
        if new.action == Action::Read {
            if !reads.iter().rev().take_while(|old| mine(old)).any(|old| old.area == new.area) {
                reads.push(new);
            }
            return found;
        }
        found.extend(reads.iter().filter(races));
        if new.action == Action::Write {
            // What would meet an old access meets this one too. It also keeps loops over one buffer short.
            let stays = |old: &Touch| !(ordered(old) && new.area.covers(&old.area));
            reads.retain(stays);
            writes.retain(stays);
        }
        if !writes.iter().rev().take_while(|old| mine(old)).any(|old| old.area == new.area) {
            writes.push(new);
        }
        found
    }
}
