//! How long a block of a kernel takes: whether it is worth to look for work that can run beside it.

use crate::trace::ticks_to_ns;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time of one block. Known at registration where every loop has constant bounds; else what the last block took.
pub(in crate::device::sim) struct Pace {
    ns: AtomicU64,
    varies: bool,
}

impl Pace {
    /// A kernel that takes between `least` and `most` nanoseconds a block.
    pub fn between(least: u64, most: u64) -> Self {
        Self { ns: AtomicU64::new(least), varies: least != most }
    }

    /// Nanoseconds of a block.
    pub fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    /// Whether it depends on arguments, so that measuring it says more than the estimate.
    pub fn varies(&self) -> bool {
        self.varies
    }

    /// Remembers what `blocks` blocks took.
    pub fn took(&self, ticks: u64, blocks: u64) {
        if self.varies && blocks != 0 {
            self.ns.store(ticks_to_ns(ticks) / blocks, Ordering::Relaxed);
        }
    }
}
