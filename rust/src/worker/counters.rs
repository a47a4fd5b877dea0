//! What a worker did since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker did since it was opened. Failed launches count the bytes that they did copy, but where a copy itself failed
/// none of its direction.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Launches that ran to their end.
    pub launches: u64,
    /// Bytes copied from host to device, by launches and by calls.
    pub h2d_bytes: u64,
    /// Bytes copied from device to host, by launches and by calls.
    pub d2h_bytes: u64,
    /// Distinct programs made ready.
    pub registrations: u64,
}

/// [`Counters`] that can be read while the worker works.
#[derive(Default, Debug)]
pub(super) struct Tally {
    pub launches: Count,
    pub h2d_bytes: Count,
    pub d2h_bytes: Count,
    pub registrations: Count,
}

impl Tally {
    pub fn read(&self) -> Counters {
        Counters {
            launches: self.launches.get(),
            h2d_bytes: self.h2d_bytes.get(),
            d2h_bytes: self.d2h_bytes.get(),
            registrations: self.registrations.get(),
        }
    }
}

/// A number that only the holder of the worker's lock changes, and anybody reads.
#[derive(Default, Debug)]
pub(super) struct Count(AtomicU64);

impl Count {
    /// Adds. Not an atomic addition: the lock keeps writers apart, and this is on every launch.
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
