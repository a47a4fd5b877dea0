//! The recorder of feature `trace-off`: nothing is recorded, and the compiler removes what would have been.

use super::gauge::Gauge;
use super::{Drained, Record};
use std::sync::Arc;

/// Whether anybody records: nobody.
#[inline(always)]
pub const fn is_enabled() -> bool {
    false
}

/// Records nothing.
#[inline(always)]
pub fn record(_: Record) {}

/// Records nothing.
#[inline(always)]
pub(super) fn record_all(_: impl ExactSizeIterator<Item = Record>, _: u64) {}

/// Whether anybody records: nobody.
pub(super) const fn is_watched() -> bool {
    false
}

/// Nobody will look at it.
pub(super) fn add_gauge(_: &Arc<Gauge>) {}

/// Stands for the guard of a recorder that is not there.
#[must_use = "spans are recorded while the guard lives"]
#[derive(Debug)]
pub struct Enabled(());

/// A guard that records nothing.
pub fn enable() -> Enabled {
    Enabled(())
}

impl Enabled {
    /// Nothing.
    pub fn drain(&self) -> Drained {
        Drained { pid: std::process::id(), ..Drained::default() }
    }
}

/// There is nothing to keep out of.
pub(super) type Locks = ();

/// There is nothing to lock.
pub(super) fn lock_all() -> Locks {}

/// There is nothing to forget.
pub(super) fn forget(_: Locks) {}
