//! Values that last, such as live bytes: a recording has each from its first moment on, not from the first change.

use super::collect::{self, is_watched};
use super::{Name, Record, Track, now, record};
use crate::sync::global::{AtomicU64, Ordering};
use std::sync::Arc;

/// A gauge that was never set shows nothing: a worker that queues nothing has no empty counter.
const UNSET: u64 = u64::MAX;

/// The value that a counter of a worker has until it is set again. It ends when it is dropped.
#[derive(Debug)]
pub struct Gauge {
    name: Name,
    worker: u32,
    value: AtomicU64,
}

impl Gauge {
    /// A gauge without a value.
    pub fn new(name: Name, worker: u32) -> Arc<Gauge> {
        let gauge = Arc::new(Gauge { name, worker, value: AtomicU64::new(UNSET) });
        collect::add_gauge(&gauge);
        gauge
    }

    /// Gives it a value, which all recordings see: those that run by a record, later ones by [`Gauge::present`].
    pub fn set(&self, value: u64) {
        // Sequentially consistent, as are the enabling of a recording and its look at the gauges after that: one of the
        // two sees the other, so that no change falls between.
        let before = self.value.swap(value, Ordering::SeqCst);
        if before != value && is_watched() {
            record(self.at(now(), value));
        }
    }

    /// A record of the value that it has had since `begin` at least, where it has one.
    #[cfg(not(feature = "trace-off"))]
    pub(super) fn present(&self, begin: u64) -> Option<Record> {
        let value = self.value.load(Ordering::SeqCst);
        (value != UNSET).then(|| self.at(begin, value))
    }

    fn at(&self, at: u64, arg: u64) -> Record {
        Record { begin: at, end: at, arg, invocation: self.worker, name: self.name, track: Track::HOST }
    }
}
