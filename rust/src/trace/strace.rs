//! Spans as `[STRACE]` lines, the text form that PyPTO's tools read.
//!
//! ```text
//! [mono_ns=<ns>][T0x<tid>][TIMING] <func>: [STRACE] v=1 pid=<n> tid=<n> inv=<n> hid=<hex> depth=<n> name=<dotted> ts=<ns> dur=<ns>[ k=v ...]
//! [mono_ns=<ns>][T0x<tid>][TIMING] <func>: [CLOCK_ANCHOR] v=1 pid=<n> mono_ns=<ns> wall_ns=<ns>
//! ```
//!
//! A line stands for the moment at which its span ended, so children come before parents. `ts` is `CLOCK_MONOTONIC` on
//! the host; device spans end with `clk=dev` and count from the begin of their launch's `device_wall`. The lines of one
//! launch are written together, when its outermost span has ended, because that span alone knows the `hid`.

use super::{Drained, SpanRecord, clock, names};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Launches whose outermost span is awaited. More are in flight only if outermost spans were lost; the oldest is then
/// written without `hid`.
const MAX_PENDING: usize = 64;
/// Characters of a value that are kept.
const MAX_VALUE: usize = 200;

/// Writes `[STRACE]` lines for one drain after the other.
#[derive(Debug, Default)]
pub struct Strace {
    without_device: bool,
    /// The process whose clock anchor was written.
    anchored: Option<u32>,
    /// Spans of launches that have not ended, by invocation.
    pending: BTreeMap<u32, Vec<SpanRecord>>,
}

impl Strace {
    /// A writer. `device_spans = false` leaves out the spans of the device, as `SIMPLER_DEVICE_STRACE_ENABLE=0` asks.
    pub fn new(device_spans: bool) -> Strace {
        Strace { without_device: !device_spans, ..Strace::default() }
    }

    /// Appends the lines of all launches that ended, and a line about lost spans if there are any.
    pub fn write(&mut self, drained: &Drained, out: &mut String) {
        if self.anchored != Some(drained.pid) {
            self.anchored = Some(drained.pid);
            self.pending.clear();
            write_anchor(drained.pid, out);
        }
        if drained.dropped > 0 {
            prefix(clock::monotonic_ns(), drained.pid, "WARN", out);
            let _ = writeln!(out, "{} spans were lost because a trace buffer was full", drained.dropped);
        }
        for span in &drained.spans {
            self.pending.entry(span.invocation).or_default().push(*span);
            if span.name.depth() == 0 {
                self.write_launch(span.invocation, drained.pid, out);
            }
        }
        while self.pending.len() > MAX_PENDING {
            let oldest = *self.pending.keys().next().expect("not empty");
            self.write_launch(oldest, drained.pid, out);
        }
    }

    fn write_launch(&mut self, invocation: u32, pid: u32, out: &mut String) {
        let mut spans: Vec<(usize, SpanRecord)> =
            self.pending.remove(&invocation).into_iter().flatten().map(|span| (span.name.depth(), span)).collect();
        let hid = spans.iter().find(|(depth, _)| *depth == 0).map_or(0, |(_, root)| root.arg);
        let device = || spans.iter().map(|(_, span)| span).filter(|span| span.track.is_device());
        let origin =
            device().find(|span| span.name == names::DEVICE_WALL).or_else(|| device().min_by_key(|span| span.begin_ns));
        let origin = origin.map_or(0, |span| span.begin_ns);
        spans.sort_by_key(|(depth, span)| (span.end_ns(), usize::MAX - depth));
        for (depth, span) in spans {
            if !(self.without_device && span.track.is_device()) {
                write_span(&span, depth, hid, origin, pid, out);
            }
        }
    }
}

fn write_span(span: &SpanRecord, depth: usize, hid: u64, device_origin: u64, pid: u32, out: &mut String) {
    let SpanRecord { duration_ns, arg, invocation, tid, name, track, .. } = *span;
    let origin = if track.is_device() { device_origin } else { 0 };
    let ts = span.begin_ns.saturating_sub(origin);
    prefix(span.end_ns(), tid, "TIMING", out);
    let _ = write!(out, "[STRACE] v=1 pid={pid} tid={tid} inv={invocation} hid={hid:x} depth={depth} name=");
    encode(name.text(), out);
    let _ = write!(out, " ts={ts} dur={duration_ns}");
    if let Some(word) = name.attribute() {
        let _ = write!(out, " {word}={arg}");
    }
    if let Some(core) = track.core_index() {
        let _ = write!(out, " core={core}");
    }
    out.push_str(if track.is_device() { " clk=dev\n" } else { "\n" });
}

fn write_anchor(pid: u32, out: &mut String) {
    let (mono, wall) = (clock::monotonic_ns(), clock::wall_ns());
    prefix(mono, pid, "TIMING", out);
    let _ = writeln!(out, "[CLOCK_ANCHOR] v=1 pid={pid} mono_ns={mono} wall_ns={wall}");
}

fn prefix(mono_ns: u64, tid: u32, level: &str, out: &mut String) {
    let _ = write!(out, "[mono_ns={mono_ns}][T0x{tid:x}][{level}] trace: ");
}

/// Appends a value: what could end it or be read as something else is percent-encoded, and what is too long ends in `~`.
fn encode(value: &str, out: &mut String) {
    let end = out.len() + MAX_VALUE;
    for byte in value.bytes() {
        if out.len() >= end {
            out.push('~');
            return;
        }
        match byte {
            b'%' | b'=' | b'~' | b'[' | b']' | 0..=b' ' | 0x7f.. => _ = write!(out, "%{byte:02X}"),
            _ => out.push(byte as char),
        }
    }
}
