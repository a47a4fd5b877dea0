//! The cores of the simulated chip: threads that take the parts of a task.
#![allow(unsafe_code)] // promises the hand-off that one thread at a time runs

mod cpus;
mod handoff;
mod seats;

use crate::fork;
use crate::sync::global::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle, Thread};
use crate::sync::{Arc, Mutex, lock};
use handoff::{Handoff, Part, Wait};
use seats::Seats;
use std::cell::Cell;
use std::mem;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

pub use cpus::{CoresError, MAX_CORES, default_cores};

/// How long a core goes on looking for work after work. A core that looks answers in 0.3 us, one that sleeps in 10-60 us
/// (the more the longer its CPU has slept), so looking wastes about what one wake costs.
const SPIN: Duration = Duration::from_micros(50);
/// Turns of a spin loop between two looks at the clock: about a microsecond of `pause`.
const TURNS_PER_LOOK: u32 = 32;

/// Core threads of all pools that are awake: at work or looking for it.
static AWAKE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The pool whose part this thread runs (its number, 0 for none) and as which core.
    static INSIDE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// A fixed number of cores. Core 0 is whoever calls [`CorePool::run`]; the others are threads that start with the first
/// run that can use them and end when the pool is dropped.
pub struct CorePool {
    /// Tells pools apart.
    number: usize,
    cores: usize,
    /// The process that has the threads.
    generation: u32,
    /// Locked during a run: one run at a time.
    crew: Mutex<Option<Crew>>,
}

struct Crew {
    handoff: Arc<Handoff>,
    threads: Vec<Thread>,
    joins: Vec<JoinHandle<()>>,
    patience: Patience,
    seats: Option<Seats>,
}

impl CorePool {
    /// A pool of `cores` cores (0 counts as 1). It has no threads yet and costs nothing.
    pub fn new(cores: usize) -> CorePool {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        CorePool { number, cores: cores.max(1), generation: fork::generation(), crew: Mutex::new(None) }
    }

    /// The number of cores; core numbers are below it.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Calls `part(number, core)` once for every number below `parts` and returns when all calls have returned. Parts
    /// are taken in ascending order by whichever core is free, so which core gets which is not fixed. No two parts run on
    /// one core at once.
    ///
    /// With one part or one core this is a plain loop on the caller. Concurrent runs of one pool wait for each other.
    /// A run from inside a part of the same pool is a loop on the core that asks, and in a forked child, which has none of
    /// the threads, a loop on the caller.
    ///
    /// # Panics
    /// When a part panicked: parts that had not begun are left out, and the first panic goes on here. The pool stays usable.
    pub fn run(&self, parts: usize, part: &(dyn Fn(usize, usize) + Sync)) {
        self.run_watched(parts, part, &mut || {});
    }

    /// As [`CorePool::run`], and calls `waiting` on the calling thread at least every 10 ms while that has no part
    /// left and waits for other cores. Looking around between and inside parts is up to the parts. A panic of `waiting` goes
    /// on here when the cores have finished their parts.
    pub fn run_watched(&self, parts: usize, part: &(dyn Fn(usize, usize) + Sync), waiting: &mut dyn FnMut()) {
        if parts <= 1 || self.cores == 1 {
            (0..parts).for_each(|number| part(number, 0));
        } else {
            self.run_on_cores(parts, part, waiting);
        }
    }

    fn run_on_cores(&self, parts: usize, part: &Part<'_>, waiting: &mut dyn FnMut()) {
        let (pool, core) = INSIDE.get();
        if pool == self.number {
            return (0..parts).for_each(|number| part(number, core));
        }
        if fork::generation() != self.generation {
            return (0..parts).for_each(|number| part(number, 0));
        }
        // A panic of a part passes through here and leaves the crew as it was.
        let mut crew = lock(&self.crew);
        let crew = crew.get_or_insert_with(|| Crew::start(self.cores, self.number));
        let _inside = Inside::enter(self.number, 0);
        let mut wake = |core: usize| {
            if let Some(seats) = &mut crew.seats {
                seats.make_way();
            }
            crew.threads[core - 1].unpark();
        };
        // SAFETY: the lock is held, so this is the only caller; the threads serve the cores in their order.
        unsafe { crew.handoff.run(crew.threads.len(), parts, part, &crew.patience, &mut wake, waiting) };
    }
}

impl Drop for CorePool {
    fn drop(&mut self) {
        let Some(crew) = self.crew.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if fork::generation() != self.generation {
            // Joining or detaching a thread that this process does not have is undefined.
            mem::forget(crew);
            return;
        }
        crew.handoff.close(&crew.threads);
        for join in crew.joins {
            // Parts that panic are caught, so a thread ends by returning.
            let _ = join.join();
        }
    }
}

impl Crew {
    /// Starts the threads. If the system refuses one, the crew is smaller: parts are taken by whoever is there.
    fn start(cores: usize, pool: usize) -> Crew {
        forget_threads_of_parent();
        let handoff = Handoff::new(cores);
        let usable = cpus::usable();
        let spins = cores <= usable;
        let seats = if spins { Seats::new(cores) } else { None };
        let joins: Vec<JoinHandle<()>> = (1..cores)
            .map_while(|core| {
                let handoff = handoff.clone();
                let seat = seats.as_ref().map(|seats| seats.seat(core));
                let serve = move || {
                    if let Some(seat) = seat {
                        seat.take();
                    }
                    let _inside = Inside::enter(pool, core);
                    let patience = Patience::new(spins, usable);
                    patience.wakes();
                    handoff.serve(core, &patience);
                    patience.sleeps();
                };
                thread::Builder::new().name(format!("pypto-core-{core}")).spawn(serve).ok()
            })
            .collect();
        let threads = joins.iter().map(|join| join.thread().clone()).collect();
        Crew { handoff, threads, joins, patience: Patience::new(spins, usable), seats }
    }
}

/// A forked child counts its own threads only.
fn forget_threads_of_parent() {
    static COUNTED: AtomicU32 = AtomicU32::new(0);
    let generation = fork::generation();
    if COUNTED.swap(generation, Ordering::Relaxed) != generation {
        AWAKE.store(0, Ordering::Relaxed);
    }
}

/// How long a thread spins.
struct Patience {
    /// There is a CPU for every core.
    spins: bool,
    usable: usize,
    /// When the spinning began, as far as the clock was looked at.
    since: Cell<Option<Instant>>,
}

impl Patience {
    fn new(spins: bool, usable: usize) -> Patience {
        Patience { spins, usable, since: Cell::new(None) }
    }
}

impl Wait for Patience {
    #[inline]
    fn spins(&self, turn: u32) -> bool {
        if !self.spins || !turn.is_multiple_of(TURNS_PER_LOOK) {
            return self.spins;
        }
        if turn == 0 {
            // Work often comes within the first turns, so they do not read the clock (23 ns).
            self.since.set(None);
            return true;
        }
        // Another pool is at work and needs the CPU more than this thread, which only looks. The caller is awake too.
        if AWAKE.load(Ordering::Relaxed) >= self.usable {
            return false;
        }
        match self.since.get() {
            Some(since) => since.elapsed() < SPIN,
            None => {
                self.since.set(Some(Instant::now()));
                true
            }
        }
    }

    fn sleeps(&self) {
        AWAKE.fetch_sub(1, Ordering::Relaxed);
    }

    fn wakes(&self) {
        AWAKE.fetch_add(1, Ordering::Relaxed);
    }
}

/// Remembers that the thread works for a pool, and puts back what was remembered before.
struct Inside((usize, usize));

impl Inside {
    fn enter(pool: usize, core: usize) -> Inside {
        Inside(INSIDE.replace((pool, core)))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
