//! How work reaches the cores, and how the caller knows that it is done.
//!
//! Each core has a mailbox, one atomic word:
//!
//! ```text
//!            post                accept              finish
//!   Idle ─────────────► Posted ───────────► Running ────────► Idle
//!    ▲ │ park             │ ▲                 │ await            ▲
//!    │ └─────► Parked ────┼─┘ post + unpark   └────► Awaited ────┘ finish + unpark the caller
//!    └────────────────────┘ retract
//! ```
//!
//! The caller posts, takes parts itself until there are none left, and then *retracts* from the cores that have not
//! accepted yet: a core that is slow to wake (20 us from a park) costs the caller nothing. It waits only for cores
//! that are in the middle of a part. Each step is one read-modify-write of one word, so the race of "the core parks" with
//! "the caller posts" is decided by the order of that word alone. The usual pair of flags would need sequentially
//! consistent accesses or fences, of which loom does not model the former, nor ThreadSanitizer the latter.
#![allow(unsafe_code)] // the job and the caller's handle pass between threads under the mailbox's protocol

use crate::kernels::settle_streams;
use crate::sync::thread::{self, Thread};
use crate::sync::{
    Arc, AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering, UnsafeCell, lock, park_timeout, spin_loop,
};
use crossbeam_utils::CachePadded;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

const IDLE: u32 = 0;
const POSTED: u32 = 1;
const RUNNING: u32 = 2;
const AWAITED: u32 = 3;
const PARKED: u32 = 4;
const CLOSED: u32 = 5;

/// How long the caller sleeps at most before it looks around while it waits for a core.
const LOOK_AROUND: Duration = Duration::from_millis(10);

/// How a thread waits.
pub trait Wait {
    /// Whether to go on spinning at this turn (0, 1, 2 ...) rather than to sleep.
    fn spins(&self, turn: u32) -> bool;
    /// The thread goes to sleep.
    fn sleeps(&self) {}
    /// The thread was woken.
    fn wakes(&self) {}
}

/// What a part is: its number and the core that runs it.
pub type Part<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// What the caller and the cores share.
pub struct Handoff {
    /// One for each core but core 0, which is the caller.
    mailboxes: Box<[CachePadded<AtomicU32>]>,
    /// The next part that nobody has taken.
    next: CachePadded<AtomicUsize>,
    /// Written by the caller while no core runs, read by cores that run.
    job: UnsafeCell<Option<Job>>,
    /// Written by the caller before the first `AWAITED` of a run, read by cores that find themselves awaited.
    caller: UnsafeCell<Option<Thread>>,
    /// Set beside `panic`, so that a run without panics takes no lock.
    panicked: AtomicBool,
    /// What the first part that panicked panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// One run. The lifetime of `part` is erased: it is used only between the begin and the end of [`Handoff::run`].
#[derive(Clone, Copy)]
struct Job {
    part: *const Part<'static>,
    parts: usize,
}

// SAFETY: `part` is `Sync`, and the cells are accessed as their documentation says.
unsafe impl Send for Handoff {}
// SAFETY: as above.
unsafe impl Sync for Handoff {}

impl Handoff {
    /// Mailboxes for `cores` cores, of which the caller is one.
    pub fn new(cores: usize) -> Arc<Handoff> {
        Arc::new(Handoff {
            mailboxes: (1..cores).map(|_| CachePadded::new(AtomicU32::new(IDLE))).collect(),
            next: CachePadded::new(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            caller: UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        })
    }

    /// Runs every part once, on the caller and on the cores `1..=helpers`, and returns when all have ended. If a
    /// part panics, parts that nobody has taken are left out, and the panic goes on in the caller.
    ///
    /// `wake(core)` unparks the thread of a core and does not panic. `wait` says how the caller waits for cores; `waiting` is
    /// called at least every 10 ms meanwhile. A panic of it goes on when the cores have finished.
    ///
    /// # Safety
    /// One thread at a time runs.
    pub unsafe fn run(
        &self,
        helpers: usize,
        parts: usize,
        part: &Part<'_>,
        wait: &impl Wait,
        wake: &mut dyn FnMut(usize),
        waiting: &mut dyn FnMut(),
    ) {
        let part: *const Part<'_> = part;
        // SAFETY: only the lifetime changes. No core keeps the pointer beyond the last `settle` below, which is passed
        // on every way out of this function.
        let part = unsafe { std::mem::transmute::<*const Part<'_>, *const Part<'static>>(part) };
        let job = Job { part, parts };
        self.job.with_mut(|cell| {
            // SAFETY: the last run settled with every core, so none reads the job, and there is one caller.
            unsafe { *cell = Some(job) }
        });
        self.next.store(0, Ordering::Relaxed);

        settle_streams();
        let helpers = helpers.min(parts.saturating_sub(1));
        for (mailbox, core) in self.mailboxes[..helpers].iter().zip(1..) {
            if mailbox.swap(POSTED, Ordering::AcqRel) == PARKED {
                wake(core);
            }
        }
        self.take_parts(job, 0);
        let mut registered = false;
        for mailbox in &self.mailboxes[..helpers] {
            self.settle(mailbox, &mut registered, wait, waiting);
        }

        if self.panicked.load(Ordering::Relaxed) {
            self.panicked.store(false, Ordering::Relaxed);
            let panic = lock(&self.panic).take();
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        }
    }

    /// Serves `core` (1 or more) until the hand-off is closed. `wait` says how the core waits for work.
    pub fn serve(&self, core: usize, wait: &impl Wait) {
        let mailbox = &self.mailboxes[core - 1];
        while self.accept(mailbox, wait) {
            let job = self.job.with(|cell| {
                // SAFETY: this core runs, so the caller does not write the job until it has settled with this core.
                unsafe { *cell }
            });
            self.take_parts(job.expect("written before the post"), core);
            self.finish(mailbox);
        }
    }

    /// Ends all [`Handoff::serve`]. Nobody may run any more.
    pub fn close(&self, threads: &[Thread]) {
        for (mailbox, thread) in self.mailboxes.iter().zip(threads) {
            if mailbox.swap(CLOSED, Ordering::AcqRel) == PARKED {
                thread.unpark();
            }
        }
    }

    /// Waits for work and accepts it; `false` when the hand-off is closed.
    fn accept(&self, mailbox: &AtomicU32, wait: &impl Wait) -> bool {
        let mut turn = 0;
        loop {
            match mailbox.load(Ordering::Relaxed) {
                // The caller may have retracted in between.
                POSTED if change(mailbox, POSTED, RUNNING).is_ok() => return true,
                CLOSED => return false,
                IDLE if wait.spins(turn) => {
                    spin_loop();
                    turn += 1;
                }
                IDLE if change(mailbox, IDLE, PARKED).is_ok() => {
                    wait.sleeps();
                    while mailbox.load(Ordering::Relaxed) == PARKED {
                        thread::park();
                    }
                    wait.wakes();
                    // A post that was retracted wakes the core too: it spins anew, ready for the next.
                    turn = 0;
                }
                _ => {}
            }
        }
    }

    /// Takes parts until there are none; what they wrote is there for all cores then.
    fn take_parts(&self, job: Job, core: usize) {
        // SAFETY: `run` waits for this core before it returns, and the reference it got lives until then.
        let part = unsafe { &*job.part };
        let work = || {
            loop {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                if number >= job.parts {
                    return;
                }
                part(number, core);
            }
        };
        // The parts are the caller's; after a panic it gets the panic and nothing else, so it sees no broken state
        // that it would not see from a plain loop.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.next.store(job.parts, Ordering::Relaxed);
            self.keep(panic);
        }
        settle_streams();
    }

    /// Keeps the first panic for the caller.
    fn keep(&self, panic: Box<dyn Any + Send>) {
        lock(&self.panic).get_or_insert(panic);
        self.panicked.store(true, Ordering::Relaxed);
    }

    /// Tells the caller that this core is done.
    fn finish(&self, mailbox: &AtomicU32) {
        if change(mailbox, RUNNING, IDLE).is_err() {
            let caller = self.caller.with(|cell| {
                // SAFETY: this core was awaited, so the handle was written, and it stays until the core is idle.
                unsafe { (*cell).clone() }
            });
            mailbox.store(IDLE, Ordering::Release);
            caller.expect("written before awaiting").unpark();
        }
    }

    /// Takes the post back, or waits until the core that accepted it has finished.
    fn settle(&self, mailbox: &AtomicU32, registered: &mut bool, wait: &impl Wait, waiting: &mut dyn FnMut()) {
        if change(mailbox, POSTED, IDLE).is_ok() {
            return;
        }
        let mut turn = 0;
        while is_at_work(mailbox) {
            if wait.spins(turn) {
                spin_loop();
                turn += 1;
                continue;
            }
            if !*registered {
                self.caller.with_mut(|cell| {
                    // SAFETY: no core is awaited yet in this run, and cores read the handle only when awaited.
                    unsafe { *cell = Some(thread::current()) }
                });
                *registered = true;
            }
            if change(mailbox, RUNNING, AWAITED).is_ok() {
                while is_at_work(mailbox) {
                    park_timeout(LOOK_AROUND);
                    // To unwind now would free what a core still uses.
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(&mut *waiting)) {
                        self.keep(panic);
                    }
                }
            }
        }
    }
}

/// The core is in the middle of a part. One that has finished may be parked already when the caller looks.
fn is_at_work(mailbox: &AtomicU32) -> bool {
    matches!(mailbox.load(Ordering::Acquire), RUNNING | AWAITED)
}

/// Moves the mailbox from one state to another, or says in which state it is instead.
fn change(mailbox: &AtomicU32, from: u32, to: u32) -> Result<u32, u32> {
    mailbox.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
}

#[cfg(all(test, loom))]
mod models;
