//! Spans as `[STRACE]` lines, the text form that PyPTO's tools read.
//!
//! ```text
//! [mono_ns=<ns>][T0x<tid>][TIMING] <func>: [STRACE] v=1 pid=<n> tid=<n> inv=<n> hid=<hex> depth=<n> name=<dotted> ts=<ns> dur=<ns>[ k=v ...]
//! [mono_ns=<ns>][T0x<tid>][TIMING] <func>: [CLOCK_ANCHOR] v=1 pid=<n> mono_ns=<ns> wall_ns=<ns>
//! ```
//!
//! A line stands for the moment at which its span ended, so children come before parents. `ts` is `CLOCK_MONOTONIC` on
//! the host; device spans end with `clk=dev` and count from the begin of their launch's `device_wall`. `timed_with=8` says
//! that a task was timed together with seven others and has an eighth of the time. The lines of one launch are written
//! together, when its outermost span has ended, because that span alone knows the `hid`.

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
        // A drain has one thread's spans after the other's: those of a core may come behind the root of their launch.
        let mut ended = Vec::new();
        for span in &drained.spans {
            self.pending.entry(span.invocation).or_default().push(*span);
            match (span.name.depth(), span.invocation) {
                (0, 0) => self.write_launch(0, drained.pid, out),
                (0, invocation) => ended.push(invocation),
                _ => (),
            }
        }
        for invocation in ended {
            self.write_launch(invocation, drained.pid, out);
        }
        while self.pending.len() > MAX_PENDING {
            let oldest = *self.pending.keys().next().expect("not empty");
            self.write_launch(oldest, drained.pid, out);
        }
    }

    fn write_launch(&mut self, invocation: u32, pid: u32, out: &mut String) {
        let mut spans: Vec<(usize, SpanRecord)> =
            self.pending.remove(&invocation).into_iter().flatten().map(|span| (span.name.depth(), span)).collect();
        let hid = spans.iter().find(|(depth, root)| *depth == 0 && root.name.attribute().is_none());
        let hid = hid.map_or(0, |(_, root)| root.arg);
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
    let SpanRecord { duration_ns, arg, timed_with, invocation, tid, name, track, .. } = *span;
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
    if timed_with > 1 {
        let _ = write!(out, " timed_with={timed_with}");
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

#[cfg(test)]
mod tests {
    use super::super::{Name, Track, intern};
    use super::*;

    const PID: u32 = 77;

    fn span(name: Name, track: Track, begin_ns: u64, duration_ns: u64, arg: u64) -> SpanRecord {
        SpanRecord { begin_ns, duration_ns, arg, timed_with: 1, invocation: 5, tid: 0xab, name, track }
    }

    fn drained(spans: &[SpanRecord]) -> Drained {
        Drained { spans: spans.to_vec(), pid: PID, ..Drained::default() }
    }

    /// The lines of a drain without the clock anchor, which has the time of the test in it.
    fn lines(strace: &mut Strace, drained: &Drained) -> Vec<String> {
        let mut out = String::new();
        strace.write(drained, &mut out);
        out.lines().filter(|line| !line.contains("[CLOCK_ANCHOR]")).map(str::to_owned).collect()
    }

    #[test]
    fn a_launch_is_written_in_the_grammar_of_the_contract() {
        let spans = [
            span(names::CHIP_RUN, Track::HOST, 1_000, 900, 0xc0ffee),
            span(names::H2D, Track::HOST, 1_100, 50, 4096),
            span(names::DEVICE_WALL, Track::DEVICE, 1_200, 300, 0),
            span(names::TASK, Track::core(2), 1_210, 280, 9),
        ];
        // The root ends last, so it comes last.
        let spans = [spans[1], spans[3], spans[2], spans[0]];
        assert_eq!(
            lines(&mut Strace::new(true), &drained(&spans)),
            [
                "[mono_ns=1150][T0xab][TIMING] trace: [STRACE] v=1 pid=77 tid=171 inv=5 hid=c0ffee depth=1 \
                 name=chip.run.h2d ts=1100 dur=50 bytes=4096",
                "[mono_ns=1490][T0xab][TIMING] trace: [STRACE] v=1 pid=77 tid=171 inv=5 hid=c0ffee depth=3 \
                 name=chip.run.runner_run.device_wall.task ts=10 dur=280 kernel=9 core=2 clk=dev",
                "[mono_ns=1500][T0xab][TIMING] trace: [STRACE] v=1 pid=77 tid=171 inv=5 hid=c0ffee depth=2 \
                 name=chip.run.runner_run.device_wall ts=0 dur=300 clk=dev",
                "[mono_ns=1900][T0xab][TIMING] trace: [STRACE] v=1 pid=77 tid=171 inv=5 hid=c0ffee depth=0 \
                 name=chip.run ts=1000 dur=900",
            ]
        );
    }

    #[test]
    fn children_come_before_parents_that_end_at_the_same_nanosecond() {
        let spans = [
            span(names::BIND, Track::HOST, 10, 90, 0),
            span(names::BIND_ARGS, Track::HOST, 20, 80, 3),
            span(names::CHIP_RUN, Track::HOST, 0, 100, 1),
        ];
        let names: Vec<String> = lines(&mut Strace::new(true), &drained(&spans))
            .iter()
            .map(|line| line.split("name=").nth(1).unwrap().split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["chip.run.bind.args", "chip.run.bind", "chip.run"]);
    }

    #[test]
    fn a_launch_waits_for_its_root_over_several_drains() {
        let mut strace = Strace::new(true);
        let early = [span(names::H2D, Track::HOST, 1, 2, 3)];
        assert_eq!(lines(&mut strace, &drained(&early)), [""; 0]);
        let root = [span(names::CHIP_RUN, Track::HOST, 0, 9, 0xf)];
        let written = lines(&mut strace, &drained(&root));
        assert_eq!(written.len(), 2);
        assert!(written.iter().all(|line| line.contains(" inv=5 hid=f ")), "{written:?}");
    }

    #[test]
    fn spans_of_other_threads_that_a_drain_has_behind_the_root_belong_to_its_launch() {
        let spans = [
            span(names::CHIP_RUN, Track::HOST, 0, 100, 0xf),
            SpanRecord { tid: 0xac, ..span(names::TASK, Track::core(1), 10, 20, 0) },
        ];
        let written = lines(&mut Strace::new(true), &drained(&spans));
        assert_eq!(written.len(), 2);
        assert!(written.iter().all(|line| line.contains(" inv=5 hid=f ")), "{written:?}");
    }

    #[test]
    fn launches_that_lost_their_root_are_written_without_hid_and_do_not_pile_up() {
        let mut strace = Strace::new(true);
        let orphans: Vec<SpanRecord> = (1..=MAX_PENDING as u32 + 2)
            .map(|invocation| SpanRecord { invocation, ..span(names::H2D, Track::HOST, 1, 2, 3) })
            .collect();
        let written = lines(&mut strace, &drained(&orphans));
        assert_eq!(written.len(), 2);
        assert!(written[0].contains(" inv=1 hid=0 ") && written[1].contains(" inv=2 hid=0 "), "{written:?}");
        assert_eq!(strace.pending.len(), MAX_PENDING);
    }

    #[test]
    fn the_clock_is_anchored_once_for_each_process() {
        let mut strace = Strace::new(true);
        let mut anchors = |pid| {
            let mut out = String::new();
            strace.write(&Drained { pid, ..Drained::default() }, &mut out);
            out
        };
        let first = anchors(1);
        let (mono, wall) = (clock::monotonic_ns(), clock::wall_ns());
        assert_eq!(anchors(1), "");
        assert!(anchors(2).contains("[CLOCK_ANCHOR] v=1 pid=2 mono_ns="));
        let value = |key: &str| -> u64 {
            let text = first.split(key).nth(1).unwrap();
            text[..text.find(|c: char| !c.is_ascii_digit()).unwrap()].parse().unwrap()
        };
        assert!(first.starts_with("[mono_ns=") && first.ends_with('\n'), "{first}");
        assert!(first.contains("][T0x1][TIMING] trace: [CLOCK_ANCHOR] v=1 pid=1 mono_ns="), "{first}");
        // Both clocks were read before ours; an hour allows for any pause and still tells one clock from the other.
        assert!(mono - value(" mono_ns=") < 3_600_000_000_000);
        assert!(wall - value("wall_ns=") < 3_600_000_000_000);
    }

    #[test]
    fn device_spans_can_be_left_out() {
        let spans = [
            span(names::DEVICE_WALL, Track::DEVICE, 1, 3, 0),
            span(names::RUNNER_RUN, Track::HOST, 1, 4, 0),
            span(names::CHIP_RUN, Track::HOST, 0, 9, 0),
        ];
        let written = lines(&mut Strace::new(false), &drained(&spans));
        assert_eq!(written.len(), 2);
        assert!(written.iter().all(|line| !line.contains("clk=dev")), "{written:?}");
    }

    #[test]
    fn lost_spans_are_reported() {
        let lost = Drained { dropped: 12, pid: PID, ..Drained::default() };
        let written = lines(&mut Strace::new(true), &lost);
        assert_eq!(written.len(), 1);
        assert!(
            written[0].ends_with("][T0x4d][WARN] trace: 12 spans were lost because a trace buffer was full"),
            "{written:?}"
        );
    }

    #[test]
    fn names_cannot_break_the_line() {
        let encoded = |text: &str| {
            let mut out = String::new();
            encode(text, &mut out);
            out
        };
        assert_eq!(encoded("a b=c%\n[ä]~"), "a%20b%3Dc%25%0A%5B%C3%A4%5D%7E");
        assert_eq!(encoded(&"x".repeat(MAX_VALUE)), "x".repeat(MAX_VALUE));
        assert_eq!(encoded(&"x".repeat(MAX_VALUE + 1)), "x".repeat(MAX_VALUE) + "~");
        let name = intern("strace test");
        let written = lines(&mut Strace::new(true), &drained(&[span(name, Track::HOST, 1, 2, 3)]));
        assert!(written[0].contains(" name=strace%20test ts=1 dur=2"), "{written:?}");
    }
}
