//! The queue of launches of one worker, and how the two threads that serve it pass them on.
//!
//! One thread launches, in the order of submission; the other tells whoever waits for a result. This knows neither what a
//! launch is nor how somebody is told: `J` is a launch, `O` how it ended.

use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait, wait_timeout};
use std::collections::VecDeque;
use std::time::Duration;

/// A queue, empty at first.
pub struct Queue<J, O> {
    inner: Mutex<Inner<J, O>>,
    /// The launcher has something to do.
    submitted: Condvar,
    /// The teller has something to do.
    launched: Condvar,
    /// Somebody's launch is over.
    told: Condvar,
}

struct Inner<J, O> {
    jobs: VecDeque<J>,
    over: Vec<(J, O)>,
    progress: Progress,
    launcher_waits: bool,
    launcher_ended: bool,
    teller_waits: bool,
}

/// How far a queue is.
#[derive(Clone, Copy, Default, Debug)]
pub struct Progress {
    /// Launches since the queue was made.
    pub submitted: u64,
    /// Those that are over and told.
    pub told: u64,
    /// Whether later launches are refused.
    pub ending: bool,
    /// Whether the teller has nothing left to do.
    pub ended: bool,
}

impl Progress {
    /// Launches that are not told.
    pub fn open(&self) -> u64 {
        self.submitted - self.told
    }
}

impl<J, O> Default for Queue<J, O> {
    fn default() -> Self {
        let (jobs, over, progress) = (VecDeque::new(), Vec::new(), Progress::default());
        let inner = Inner { jobs, over, progress, launcher_waits: false, launcher_ended: false, teller_waits: false };
        Self { inner: Mutex::new(inner), submitted: Condvar::new(), launched: Condvar::new(), told: Condvar::new() }
    }
}

impl<J, O> Queue<J, O> {
    fn inner(&self) -> MutexGuard<'_, Inner<J, O>> {
        lock(&self.inner)
    }

    /// How far it is now.
    pub fn progress(&self) -> Progress {
        self.inner().progress
    }

    /// Appends a launch; `false` where the queue is ending. `make` runs while nobody else can append, and is given the number
    /// of launches that are not told, this one included.
    pub fn push(&self, make: impl FnOnce(u64) -> J) -> bool {
        let mut inner = self.inner();
        if inner.progress.ending {
            return false;
        }
        inner.progress.submitted += 1;
        let open = inner.progress.open();
        inner.jobs.push_back(make(open));
        let wake = inner.launcher_waits;
        drop(inner);
        // Waking nobody costs a system call too.
        if wake {
            self.submitted.notify_one();
        }
        true
    }

    /// What the thread that launches does, until the queue ends and is empty.
    pub fn serve(&self, mut launch: impl FnMut(&J) -> O) {
        while let Some(job) = self.next() {
            let outcome = launch(&job);
            let mut inner = self.inner();
            inner.over.push((job, outcome));
            let wake = inner.teller_waits;
            drop(inner);
            if wake {
                self.launched.notify_one();
            }
        }
    }

    fn next(&self) -> Option<J> {
        let mut inner = self.inner();
        loop {
            if let Some(job) = inner.jobs.pop_front() {
                return Some(job);
            }
            if inner.progress.ending {
                inner.launcher_ended = true;
                drop(inner);
                self.launched.notify_one();
                return None;
            }
            inner.launcher_waits = true;
            inner = wait(&self.submitted, &self.inner, inner);
            inner.launcher_waits = false;
        }
    }

    /// Launches that are over, for the thread that tells; it waits for some. None where no more will come.
    pub fn over(&self) -> Vec<(J, O)> {
        let mut inner = self.inner();
        while inner.over.is_empty() && !inner.launcher_ended {
            inner.teller_waits = true;
            inner = wait(&self.launched, &self.inner, inner);
            inner.teller_waits = false;
        }
        let over = std::mem::take(&mut inner.over);
        if over.is_empty() {
            inner.progress.ended = true;
            drop(inner);
            self.told.notify_all();
        }
        over
    }

    /// One of those launches is told. `seen` is given the number of launches that are not, in the order of changes.
    pub fn told(&self, seen: impl FnOnce(u64)) {
        let mut inner = self.inner();
        inner.progress.told += 1;
        seen(inner.progress.open());
        drop(inner);
        self.told.notify_all();
    }

    /// Waits until `is_so`, at most about `limit`; whether it is so.
    pub fn wait(&self, limit: Duration, is_so: impl Fn(&Progress) -> bool) -> bool {
        let inner = self.inner();
        if is_so(&inner.progress) {
            return true;
        }
        is_so(&wait_timeout(&self.told, &self.inner, inner, limit).progress)
    }

    /// Refuses later launches. Both threads end when everything that was submitted is over.
    pub fn end(&self) {
        self.inner().progress.ending = true;
        self.submitted.notify_one();
        self.told.notify_all();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::{Arc, thread};

    /// Loom has no time: a wake-up that is missed is a deadlock, which it reports.
    #[test]
    fn loom_what_was_submitted_is_told_in_order_and_then_both_threads_end() {
        loom::model(|| {
            let queue = Arc::new(Queue::<u32, u32>::default());
            let server = {
                let queue = queue.clone();
                thread::spawn(move || queue.serve(|job| job + 10))
            };
            let submitter = {
                let queue = queue.clone();
                thread::spawn(move || {
                    assert!(queue.push(|_| 0));
                    assert!(queue.push(|_| 1));
                    queue.end();
                    assert!(!queue.push(|_| unreachable!("it is ending")));
                })
            };
            let mut told = Vec::new();
            loop {
                let over = queue.over();
                if over.is_empty() {
                    break;
                }
                for (job, outcome) in over {
                    assert_eq!(outcome, job + 10);
                    told.push(job);
                    queue.told(|_| ());
                }
            }
            assert_eq!(told, [0, 1]);
            submitter.join().unwrap();
            server.join().unwrap();
        });
    }

    #[test]
    fn loom_whoever_waits_for_a_launch_is_woken_when_it_is_told() {
        loom::model(|| {
            let queue = Arc::new(Queue::<u32, u32>::default());
            assert!(queue.push(|_| 0));
            let server = {
                let queue = queue.clone();
                thread::spawn(move || {
                    queue.end();
                    queue.serve(|job| *job);
                    queue.over().iter().for_each(|_| queue.told(|_| ()));
                    assert!(queue.over().is_empty());
                })
            };
            while !queue.wait(Duration::from_secs(1), |progress| progress.told == 1) {}
            while !queue.wait(Duration::from_secs(1), |progress| progress.ended) {}
            server.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::worker::line::{Line, Ticket};
    use std::thread;

    const SUBMITTERS: usize = 3;
    const EACH: u64 = 400;
    const DEPTH: u64 = 8;
    const A_WHILE: Duration = Duration::from_millis(50);

    /// A place in the line, who submitted it, and the how manieth of that one it is.
    type Job = (Ticket, usize, u64);

    /// What a worker, its queue and those who use both are to each other.
    #[derive(Default)]
    struct Scene {
        queue: Queue<Job, u64>,
        line: Line,
        /// Stands for the device.
        launches: Mutex<Vec<(usize, u64)>>,
    }

    impl Scene {
        fn enter(&self, ticket: Ticket, who: (usize, u64)) -> u64 {
            let attempt = || Ok::<_, ()>(self.launches.try_lock().ok());
            let mut launches = self.line.wait(ticket, attempt, || Ok(())).unwrap();
            launches.push(who);
            let count = launches.len() as u64;
            drop(launches);
            self.line.next();
            count
        }

        fn submit(&self, who: usize) {
            for turn in 0..EACH {
                while !self.queue.wait(A_WHILE, |progress| progress.open() < DEPTH) {}
                assert!(self.queue.push(|_| (self.line.join(), who, turn)));
                if turn % 5 == 0 {
                    // A synchronous call in between.
                    self.enter(self.line.join(), (SUBMITTERS, 0));
                }
            }
        }

        fn tell(&self) -> Vec<(usize, u64)> {
            let mut told = Vec::new();
            let mut last = 0;
            loop {
                let over = self.queue.over();
                if over.is_empty() {
                    return told;
                }
                for ((_, who, turn), outcome) in over {
                    assert!(outcome > last, "launches are told in another order than they ran in");
                    last = outcome;
                    told.push((who, turn));
                    self.queue.told(|_| ());
                }
            }
        }
    }

    #[test]
    fn launches_of_several_threads_are_told_in_their_order_and_none_is_lost() {
        let scene = Scene::default();
        let told = thread::scope(|scope| {
            let server = scope.spawn(|| scene.queue.serve(|&(ticket, who, turn)| scene.enter(ticket, (who, turn))));
            let teller = scope.spawn(|| scene.tell());
            let submitters: Vec<_> = (0..SUBMITTERS)
                .map(|who| {
                    scope.spawn({
                        let scene = &scene;
                        move || scene.submit(who)
                    })
                })
                .collect();
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
            let all = SUBMITTERS as u64 * EACH;
            while !scene.queue.wait(A_WHILE, |progress| progress.told == all) {}
            scene.queue.end();
            while !scene.queue.wait(A_WHILE, |progress| progress.ended) {}
            server.join().unwrap();
            teller.join().unwrap()
        });
        for who in 0..SUBMITTERS {
            let turns = told.iter().filter(|(other, _)| *other == who).map(|(_, turn)| *turn);
            assert!(turns.eq(0..EACH), "launches of thread {who} are missing or out of order");
        }
        let launched = lock(&scene.launches);
        let queued: Vec<_> = launched.iter().filter(|(who, _)| *who < SUBMITTERS).copied().collect();
        assert_eq!(queued, told);
        assert!(scene.line.is_empty());
    }

    #[test]
    fn what_was_submitted_before_the_end_still_runs_and_nothing_after_it() {
        let queue = Queue::default();
        assert!(queue.push(|_| 1));
        queue.end();
        assert!(!queue.push(|_| 2));
        queue.serve(|job| job * 2);
        assert_eq!(queue.over(), [(1, 2)]);
        queue.told(|_| ());
        assert!(queue.over().is_empty());
        let progress = queue.progress();
        assert_eq!((progress.submitted, progress.told, progress.ending, progress.ended), (1, 1, true, true));
    }

    #[test]
    fn a_wait_ends_when_its_time_is_over() {
        let queue = Queue::<(), ()>::default();
        assert!(!queue.wait(Duration::from_millis(1), |progress| progress.ended));
    }
}
