//! Spans: who did what, from when to when, on the host and on the device.
//!
//! Each thread writes fixed 32-byte [`Record`]s into a ring of its own, without locks and without
//! waiting; a full ring counts what it refuses. Whoever wants the spans holds an [`Enabled`] and drains it. While no
//! such guard lives, a span costs one relaxed load.
//!
//! ```
//! use _pypto::trace::{self, names};
//!
//! let recording = trace::enable();
//! let invocation = trace::next_invocation();
//! {
//!     let _launch = trace::span(names::CHIP_RUN, invocation, 0xc0ffee);
//!     let _copy = trace::span(names::H2D, invocation, 4096);
//! }
//! let drained = recording.drain();
//! # #[cfg(not(feature = "trace-off"))]
//! assert_eq!(trace::tree(&drained.spans), "chip.run\n  h2d bytes=4096\n");
//! ```
//!
//! The spans of one launch share an invocation number, and the span of depth 0 (`chip.run`) carries the content id of
//! the registration as its argument. That is how exports learn the `hid` of every span: the number costs nothing on
//! the other spans, and no side record is needed.
//!
//! The feature `trace-off` compiles the recorder out; everything here stays callable and does nothing.

pub mod chrome;
pub mod clock;
#[cfg(not(feature = "trace-off"))]
mod collect;
#[cfg(feature = "trace-off")]
#[path = "off.rs"]
mod collect;
mod forks;
mod gauge;
mod labels;
pub mod names;
pub mod perfetto;
#[cfg(not(feature = "trace-off"))]
mod ring;
#[cfg(not(feature = "trace-off"))]
mod scale;
mod span;
pub mod strace;
mod tasks;
#[cfg(all(test, not(feature = "trace-off")))]
mod tasks_tests;
pub mod timeline;
#[cfg(test)]
mod timeline_tests;
mod tree;

use crate::sync::global::{AtomicU32, Ordering};

pub use clock::{now, ticks_to_ns};
use collect::record_all;
pub use collect::{Enabled, enable, is_enabled, record};
pub use gauge::Gauge;
pub use labels::{Labels, labels, set_labels};
pub use names::intern;
pub use span::{Span, span};
pub use tasks::{MOST as MOST_TOGETHER, TaskRow};
pub use tree::tree;

/// The number of a span name; see [`names`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Name(u16);

/// Where a span happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Track(u16);

impl Track {
    /// On the host, in the thread that recorded it.
    pub const HOST: Track = Track(0);
    /// On the device as a whole.
    pub const DEVICE: Track = Track(1);

    /// On one core of the device. Cores from 65,533 on share a track.
    pub fn core(core: usize) -> Track {
        Track(u16::try_from(core).unwrap_or(u16::MAX).saturating_add(2))
    }

    /// The device stamped it, not the host.
    pub fn is_device(self) -> bool {
        self != Track::HOST
    }

    /// The core, when it was one core.
    pub fn core_index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(2)
    }
}

/// One span as its thread writes it: 32 bytes, in ticks of [`clock`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// First moment.
    pub begin: u64,
    /// Last moment.
    pub end: u64,
    /// One number that says more; see the documentation of each name.
    pub arg: u64,
    /// The launch it belongs to, 0 outside launches.
    pub invocation: u32,
    /// What happened.
    pub name: Name,
    /// Where.
    pub track: Track,
}

const _: () = assert!(size_of::<Record>() == 32, "two records fill a cache line");

/// One span as a drain gives it: in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanRecord {
    /// First moment.
    pub begin_ns: u64,
    /// Length.
    pub duration_ns: u64,
    /// One number that says more; see the documentation of each name.
    pub arg: u64,
    /// 1 where both ends were read from the clock. Tasks may be timed together, when they are short: this many then share
    /// the time between two readings evenly.
    pub timed_with: u32,
    /// The launch it belongs to, 0 outside launches.
    pub invocation: u32,
    /// The kernel's number of the thread that recorded it.
    pub tid: u32,
    /// What happened.
    pub name: Name,
    /// Where.
    pub track: Track,
}

impl SpanRecord {
    /// Last moment.
    pub fn end_ns(&self) -> u64 {
        self.begin_ns + self.duration_ns
    }
}

/// What a drain took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// The spans. Those of one thread are in the order in which they ended. The span of depth 0 of a launch comes
    /// in the same drain as the last of its other spans, or in a later one, never earlier.
    pub spans: Vec<SpanRecord>,
    /// Values of counters: the value is `arg`, the worker `invocation`, the time `begin_ns`. The first drain has what
    /// each [`Gauge`] showed when the recording began.
    pub counters: Vec<SpanRecord>,
    /// How many spans were lost since the last drain because a ring or the guard's own store was full.
    pub dropped: u64,
    /// The process that recorded them. A forked child begins with nothing of its parent's.
    pub pid: u32,
}

/// The number of a new launch: 1, 2, 3 ... in this process.
pub fn next_invocation() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}
