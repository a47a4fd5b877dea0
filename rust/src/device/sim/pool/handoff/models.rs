//! Models of the hand-off: loom runs each under every order of its steps (with at most two preemptions, see
//! `tools/sanitize.sh`), and a sleep that nobody ends shows as a deadlock.

use super::*;
use crate::sync::thread::JoinHandle;

/// Spins for so many turns, then sleeps.
struct Turns(u32);

impl Wait for Turns {
    fn spins(&self, turn: u32) -> bool {
        turn < self.0
    }
}

/// The cores of a model, and what parts count.
struct Model {
    handoff: Arc<Handoff>,
    joins: Vec<JoinHandle<()>>,
    threads: Vec<Thread>,
    turns: u32,
}

impl Model {
    fn start(cores: usize, turns: u32) -> Model {
        let handoff = Handoff::new(cores);
        let joins: Vec<_> = (1..cores)
            .map(|core| {
                let handoff = handoff.clone();
                thread::spawn(move || handoff.serve(core, &Turns(turns)))
            })
            .collect();
        let threads = joins.iter().map(|join| join.thread().clone()).collect();
        Model { handoff, joins, threads, turns }
    }

    fn run(&self, parts: usize, part: &Part<'_>) {
        let mut wake = |core: usize| self.threads[core - 1].unpark();
        // SAFETY: the model has one caller.
        unsafe { self.handoff.run(self.threads.len(), parts, part, &Turns(self.turns), &mut wake, &mut || {}) };
    }

    /// Runs `parts` parts that write without any synchronisation of their own, and reads what they wrote: loom
    /// fails the model if a part runs twice, not at all, or unseen by the caller.
    fn run_and_check(&self, parts: usize) {
        let written: Vec<UnsafeCell<usize>> = (0..parts).map(|_| UnsafeCell::new(0)).collect();
        let cells = Cells(&written);
        self.run(parts, &|number, _| {
            cells.at(number).with_mut(|cell| {
                // SAFETY: loom checks that nobody else accesses the cell.
                unsafe { *cell += number + 1 }
            });
        });
        for (number, cell) in written.iter().enumerate() {
            cell.with(|cell| {
                // SAFETY: as above.
                assert_eq!(unsafe { *cell }, number + 1);
            });
        }
    }

    fn close(self) {
        self.handoff.close(&self.threads);
        for join in self.joins {
            join.join().unwrap();
        }
    }
}

/// Lets parts of several threads reach the cells.
struct Cells<'a>(&'a [UnsafeCell<usize>]);

impl Cells<'_> {
    fn at(&self, number: usize) -> &UnsafeCell<usize> {
        &self.0[number]
    }
}

// SAFETY: loom checks that no two threads access one cell at once.
unsafe impl Sync for Cells<'_> {}

#[test]
fn loom_a_core_that_sleeps_at_once_never_misses_a_post() {
    loom::model(|| {
        let model = Model::start(2, 0);
        model.run_and_check(2);
        model.close();
    });
}

#[test]
fn loom_a_core_that_spins_before_it_sleeps_never_misses_a_post() {
    loom::model(|| {
        let model = Model::start(2, 1);
        model.run_and_check(2);
        model.close();
    });
}

#[test]
fn loom_a_run_never_sees_the_job_of_the_run_before() {
    loom::model(|| {
        let model = Model::start(2, 0);
        model.run_and_check(2);
        model.run_and_check(3);
        model.close();
    });
}

#[test]
fn loom_two_cores_and_the_caller_share_the_parts() {
    loom::model(|| {
        let model = Model::start(3, 0);
        model.run_and_check(3);
        model.close();
    });
}

#[test]
fn loom_a_hand_off_closes_while_cores_fall_asleep() {
    loom::model(|| Model::start(3, 1).close());
}

#[test]
fn loom_callers_of_different_threads_are_woken_each_by_its_own_run() {
    loom::model(|| {
        let model = Arc::new(Model::start(2, 0));
        let first = model.clone();
        thread::spawn(move || first.run_and_check(2)).join().unwrap();
        model.run_and_check(2);
        Arc::try_unwrap(model).ok().expect("the other caller has ended").close();
    });
}

#[test]
fn loom_a_panic_of_a_part_reaches_the_caller_and_the_next_run_works() {
    loom::model(|| {
        let model = Model::start(2, 0);
        let broken =
            AssertUnwindSafe(|| model.run(2, &|number, _| _ = (number == 1).then(|| resume_unwind(Box::new(7)))));
        assert_eq!(*catch_unwind(broken).unwrap_err().downcast::<i32>().unwrap(), 7);
        model.run_and_check(2);
        model.close();
    });
}
