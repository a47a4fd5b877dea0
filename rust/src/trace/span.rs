//! The guard that measures a scope.

use super::{Name, Record, Track, is_enabled, now, record};

/// Measures from its creation to its end; see [`span`].
#[must_use = "a span ends where it is dropped"]
#[derive(Debug)]
pub struct Span {
    /// 0 while nobody records: the span began unseen and will not be recorded.
    begin: u64,
    arg: u64,
    invocation: u32,
    name: Name,
}

/// Begins a span on the host, which ends when the guard is dropped. `invocation` is the launch it belongs to (0 outside
/// launches) and `arg` one number more, see [`names`](super::names). Costs one relaxed load while nobody records.
#[inline]
pub fn span(name: Name, invocation: u32, arg: u64) -> Span {
    let begin = if is_enabled() { now() } else { 0 };
    Span { begin, arg, invocation, name }
}

impl Span {
    /// Changes the argument, for a number that is known only at the end.
    #[inline]
    pub fn set_arg(&mut self, arg: u64) {
        self.arg = arg;
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.begin != 0 {
            let Span { begin, arg, invocation, name } = *self;
            record(Record { begin, end: now(), arg, invocation, name, track: Track::HOST });
        }
    }
}
