//! Which tasks wait for which, by what the program declares.
//!
//! A task waits for those of its `deps=`. Outside manual scopes it also waits for each earlier task that was given memory in
//! common with it, where one of them writes that: this is what a scheduler can see, which knows arguments but not
//! accesses. An argument under `no_dep` and a tensor with `manual_dep` count for neither side. The orchestration waits for
//! the tasks whose elements it reads or writes, and what comes after waits for the orchestration.

use super::area::Area;
use crate::device::profile::TaskOf;
use crate::program::Loc;
use fixedbitset::FixedBitSet;

/// Memory that a task was given.
#[derive(Clone, Copy)]
pub struct Given {
    pub area: Area,
    pub write: bool,
    /// Whether tasks wait for each other because of it.
    pub tracked: bool,
}

/// One task.
pub struct Task {
    /// Its kernel; `None` for the orchestration.
    pub kernel: Option<u32>,
    /// Where it is launched.
    pub at: Loc,
    pub blocks: u64,
    given: Vec<Given>,
    /// What it waits for, without what follows from others.
    waits: Vec<u32>,
}

/// The tasks of a launch in program order, and for the last one all that it waits for.
#[derive(Default)]
pub struct Tasks {
    all: Vec<Task>,
    before: FixedBitSet,
    /// The last time when the orchestration waited.
    host: Option<u32>,
}

impl Tasks {
    /// A task of `kernel` that waits for `deps`. In a manual scope it waits for nothing else.
    pub fn launch(&mut self, kernel: u32, at: Loc, blocks: u64, given: Vec<Given>, deps: &[u32], manual: bool) -> u32 {
        let deps: Vec<u32> = deps.iter().copied().chain(self.host).collect();
        self.begin(Task { kernel: Some(kernel), at, blocks, given, waits: Vec::new() }, &deps, !manual)
    }

    /// A task that only waits.
    pub fn dummy(&mut self, at: Loc, deps: &[u32]) -> u32 {
        self.begin(Task { kernel: None, at, blocks: 1, given: Vec::new(), waits: Vec::new() }, deps, false)
    }

    /// The orchestration reads or writes `area`.
    pub fn host(&mut self, at: Loc, area: Area, write: bool) -> u32 {
        let given = vec![Given { area, write, tracked: true }];
        let deps: Vec<u32> = self.host.into_iter().collect();
        let task = self.begin(Task { kernel: None, at, blocks: 1, given, waits: Vec::new() }, &deps, true);
        // Whatever comes later waits for it anyway.
        self.all[task as usize].given.clear();
        self.host = Some(task);
        task
    }

    fn begin(&mut self, task: Task, deps: &[u32], infers: bool) -> u32 {
        let number = self.all.len() as u32;
        self.all.push(task);
        self.before.clear();
        self.before.grow(number as usize + 1);
        for &dep in deps {
            self.wait(number, dep);
        }
        if infers {
            // From the last: most of what is further back follows from what is nearer.
            for earlier in (0..number).rev() {
                if !self.before.contains(earlier as usize) && self.meets(number, earlier) {
                    self.wait(number, earlier);
                }
            }
        }
        number
    }

    fn wait(&mut self, task: u32, dep: u32) {
        let mut open = vec![dep];
        if !self.before.contains(dep as usize) {
            self.all[task as usize].waits.push(dep);
        }
        while let Some(next) = open.pop() {
            if !self.before.put(next as usize) {
                open.extend(&self.all[next as usize].waits);
            }
        }
    }

    /// Whether a scheduler sees that both tasks use memory which one of them writes.
    fn meets(&self, task: u32, earlier: u32) -> bool {
        let (task, earlier) = (&self.all[task as usize], &self.all[earlier as usize]);
        // The orchestration waits for everything that it can see.
        let seen = |given: &Given| given.tracked || task.kernel.is_none();
        task.given.iter().filter(|given| given.tracked).any(|given| {
            let met =
                |other: &Given| seen(other) && (given.write || other.write) && given.area.common(&other.area).is_some();
            earlier.given.iter().any(met)
        })
    }

    /// Whether the last task waits for this one.
    pub fn is_before(&self, earlier: u32) -> bool {
        self.before.contains(earlier as usize)
    }

    /// All of them, for people.
    pub fn told(self) -> Vec<TaskOf> {
        let told = |Task { kernel, at, blocks, waits, .. }| TaskOf { kernel, at, blocks, waits };
        self.all.into_iter().map(told).collect()
    }

    /// A task by its number.
    pub fn get(&self, task: u32) -> &Task {
        &self.all[task as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(from: usize, to: usize, write: bool) -> Given {
        Given { area: Area::new(from, to - from, std::iter::empty()), write, tracked: true }
    }

    fn launch(tasks: &mut Tasks, given: &[Given], deps: &[u32], manual: bool) -> u32 {
        tasks.launch(0, Loc::default(), 1, given.to_vec(), deps, manual)
    }

    #[test]
    fn arguments_in_common_order_tasks_outside_manual_scopes_only() {
        let mut tasks = Tasks::default();
        let first = launch(&mut tasks, &[bytes(0, 8, true)], &[], false);
        launch(&mut tasks, &[bytes(8, 16, true)], &[], false);
        assert!(!tasks.is_before(first));
        launch(&mut tasks, &[bytes(4, 12, false)], &[], true);
        assert!(!tasks.is_before(first));
        launch(&mut tasks, &[bytes(4, 12, false)], &[], false);
        assert!(tasks.is_before(first));
    }

    #[test]
    fn declared_dependencies_reach_through_tasks_that_do_nothing() {
        let mut tasks = Tasks::default();
        let first = launch(&mut tasks, &[], &[], true);
        let second = launch(&mut tasks, &[], &[], true);
        let joined = tasks.dummy(Loc::default(), &[first, second]);
        launch(&mut tasks, &[], &[joined], true);
        assert!(tasks.is_before(first) && tasks.is_before(second));
    }

    #[test]
    fn untracked_memory_orders_nothing_and_the_orchestration_everything() {
        let mut tasks = Tasks::default();
        let untracked = Given { tracked: false, ..bytes(0, 8, true) };
        let first = launch(&mut tasks, &[untracked], &[], false);
        launch(&mut tasks, &[bytes(0, 8, false)], &[], false);
        assert!(!tasks.is_before(first));
        tasks.host(Loc::default(), bytes(0, 4, false).area, false);
        launch(&mut tasks, &[], &[], true);
        assert!(tasks.is_before(first));
    }
}
