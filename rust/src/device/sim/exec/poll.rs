//! Interruption: the calling thread asks the host now and then whether to go on; the other cores see the answer.
#![allow(unsafe_code)] // promises that only the calling thread polls

use crate::trace::{now, ticks_to_ns};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, Ordering};

/// Time between two questions. The answer takes a Python lock, so it must not be asked for often; the contract is 50 ms.
const INTERVAL_NS: u64 = 20_000_000;

/// Asks, remembers, and tells the cores.
pub(super) struct Poller<'a> {
    ask: UnsafeCell<&'a mut dyn FnMut() -> bool>,
    /// When it was asked last, or first could have been; 0 before.
    last: Cell<u64>,
    stop: AtomicBool,
}

// SAFETY: `ask` and `last` are used by `poll` only, which runs on the calling thread (core 0) and nowhere else; `stop` is
// atomic.
unsafe impl Sync for Poller<'_> {}

impl<'a> Poller<'a> {
    /// Reads no clock: that would be a tenth of a small launch. Time counts from the first [`Poller::poll`].
    pub fn new(ask: &'a mut dyn FnMut() -> bool) -> Self {
        Self { ask: UnsafeCell::new(ask), last: Cell::new(0), stop: AtomicBool::new(false) }
    }

    /// Whether the launch must stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks if it is time to, and returns whether the launch must stop. On the calling thread only.
    pub fn poll(&self) -> bool {
        if self.stopped() {
            return true;
        }
        let now = now();
        if self.last.get() == 0 {
            self.last.set(now);
        }
        if ticks_to_ns(now.saturating_sub(self.last.get())) < INTERVAL_NS {
            return false;
        }
        // SAFETY: only the calling thread gets here, and the callback does not come back to this launch.
        let go_on = unsafe { (*self.ask.get())() };
        self.last.set(crate::trace::now());
        if !go_on {
            self.stop.store(true, Ordering::Relaxed);
        }
        !go_on
    }
}
