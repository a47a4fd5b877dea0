//! Spans as a timeline: slices on tracks, flows between them, counters. One form for every file format.
//!
//! There is a track for each host thread; for the copies, the device memory and the device's own phases of each; and for
//! each core. A thread does one thing at a time, so the slices of a track nest; where two clock
//! readings of different drains disagree by nanoseconds, the later slice gives way, because importers drop slices that
//! overlap without nesting.

use super::labels::labels;
use super::{Drained, SpanRecord, names};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// What a track belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    /// The process that launches.
    Host,
    /// The simulated chip.
    Device,
}

/// A word or a number that a slice carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// A word.
    Text(&'a str),
    /// A number.
    Number(u64),
}

/// Something that took time.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice<'a> {
    /// Where.
    pub track: u32,
    /// What.
    pub name: &'a str,
    /// First moment, `CLOCK_MONOTONIC`.
    pub begin_ns: u64,
    /// Length.
    pub duration_ns: u64,
    /// What else is known.
    pub arguments: &'a [(&'static str, Value<'a>)],
    /// Numbers of the flows that leave here.
    pub flows_out: Range<u64>,
    /// The flow that arrives here.
    pub flow_in: Option<u64>,
}

/// Writes a timeline in some format. Slices come in no particular order.
pub trait Sink {
    /// A track, before anything happens on it. Tracks with smaller numbers stand above.
    fn track(&mut self, id: u32, group: Group, name: &str);
    /// A slice.
    fn slice(&mut self, slice: &Slice<'_>);
    /// The value of a counter of a worker from `at_ns` on.
    fn counter(&mut self, name: &str, worker: u32, at_ns: u64, value: u64);
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Place {
    Thread(u32),
    Copies(u32),
    Arena(u32),
    Phases(u32),
    Core(usize, u32),
}

/// Launches whose outermost span is awaited; see [`super::strace`].
const MAX_PENDING: usize = 64;

/// Turns one drain after the other into a timeline.
#[derive(Debug)]
pub struct Timeline<S> {
    sink: S,
    tracks: HashMap<Place, (u32, u64)>,
    pending: BTreeMap<u32, Vec<SpanRecord>>,
    /// Flows so far.
    flows: u64,
}

impl<S: Sink> Timeline<S> {
    /// A timeline that is written to `sink`.
    pub fn new(sink: S) -> Self {
        Self { sink, tracks: HashMap::new(), pending: BTreeMap::new(), flows: 0 }
    }

    /// Where it is written to.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Adds what a drain took.
    pub fn add(&mut self, drained: &Drained) {
        for counter in &drained.counters {
            self.sink.counter(counter.name.text(), counter.invocation, counter.begin_ns, counter.arg);
        }
        // A drain has one thread's spans after the other's: those of a core may come behind the root of their launch.
        let mut ended = Vec::new();
        for span in &drained.spans {
            if span.invocation == 0 {
                self.write(&mut [*span], drained.pid);
                continue;
            }
            self.pending.entry(span.invocation).or_default().push(*span);
            if span.name.depth() == 0 {
                ended.push(span.invocation);
            }
        }
        ended.into_iter().for_each(|invocation| self.write_launch(invocation, drained.pid));
        while self.pending.len() > MAX_PENDING {
            let oldest = *self.pending.keys().next().expect("not empty");
            self.write_launch(oldest, drained.pid);
        }
    }

    /// Adds the launches that have not ended.
    pub fn finish(&mut self, pid: u32) {
        while let Some(&invocation) = self.pending.keys().next() {
            self.write_launch(invocation, pid);
        }
    }

    fn write_launch(&mut self, invocation: u32, pid: u32) {
        let mut spans = self.pending.remove(&invocation).unwrap_or_default();
        self.write(&mut spans, pid);
    }

    /// Writes spans of one launch, or one span of none.
    fn write(&mut self, spans: &mut [SpanRecord], pid: u32) {
        let root = spans.iter().find(|span| span.name.depth() == 0 && span.name.attribute().is_none());
        let words = root.and_then(|root| labels(root.arg));
        // Outer slices first: by begin, then by length, then by depth.
        spans.sort_by_key(|span| (span.begin_ns, u64::MAX - span.duration_ns, span.name.depth()));
        let tasks = spans.iter().filter(|span| span.name == names::TASK).count() as u64;
        let leaves = spans.iter().any(|span| span.name == names::RUNNER_RUN);
        let mut arriving = self.flows + 1..self.flows + 1 + if leaves { tasks } else { 0 };
        self.flows = arriving.end - 1;
        let mut leaving = Some(arriving.clone());
        let mut open: HashMap<Place, Vec<(u64, u64)>> = HashMap::new();
        // New tracks in a fixed order: which core ends its first task first is chance.
        let places: BTreeSet<Place> = spans.iter().map(place_of).collect();
        places.into_iter().for_each(|place| _ = self.track(place, pid));
        for span in spans.iter() {
            let place = place_of(span);
            let track = self.track(place, pid);
            let (begin_ns, end_ns) = self.nested(place, open.entry(place).or_default(), span);
            let mut arguments = Vec::with_capacity(5);
            if span.invocation != 0 {
                arguments.push(("launch", Value::Number(span.invocation.into())));
            }
            if let Some(words) = &words {
                arguments.push(("program", Value::Text(&words.program)));
            }
            if let Some(word) = span.name.attribute() {
                arguments.push((word, Value::Number(span.arg)));
            }
            let task = span.name == names::TASK;
            let kernel = words.as_ref().filter(|_| task).and_then(|words| words.kernels.get(span.arg as usize));
            arguments.extend(kernel.map(|(_, source)| ("source", Value::Text(source))));
            if span.timed_with > 1 {
                arguments.push(("timed_with", Value::Number(span.timed_with.into())));
            }
            self.sink.slice(&Slice {
                track,
                name: kernel.map_or(leaf(span), |(name, _)| name),
                begin_ns,
                duration_ns: end_ns - begin_ns,
                arguments: &arguments,
                flows_out: leaving.take_if(|_| span.name == names::RUNNER_RUN).unwrap_or(0..0),
                flow_in: if task { arriving.next() } else { None },
            });
        }
    }

    /// The number of a track, which the sink hears of when it is first used.
    fn track(&mut self, place: Place, pid: u32) -> u32 {
        let count = self.tracks.len() as u32;
        let namesakes = self.tracks.keys().filter(|other| alike(other, &place)).count();
        let (id, _) = *self.tracks.entry(place).or_insert_with(|| {
            let (group, name, tid) = match place {
                Place::Thread(tid) if tid == pid => (Group::Host, "main thread".to_owned(), tid),
                Place::Thread(tid) => (Group::Host, format!("thread {tid}"), tid),
                Place::Copies(tid) => (Group::Device, "copies".to_owned(), tid),
                Place::Arena(tid) => (Group::Device, "arena".to_owned(), tid),
                Place::Phases(tid) => (Group::Device, "launch".to_owned(), tid),
                Place::Core(core, tid) => (Group::Device, format!("core {core}"), tid),
            };
            let several = namesakes > 0 && group == Group::Device;
            let name = if several { format!("{name} (thread {tid})") } else { name };
            self.sink.track(count, group, &name);
            (count, 0)
        });
        id
    }

    /// Begin and end of a span, cut where they would cross an end of a slice around it or before it on its track. `open`
    /// are the slices around it.
    fn nested(&mut self, place: Place, open: &mut Vec<(u64, u64)>, span: &SpanRecord) -> (u64, u64) {
        let busy_until = &mut self.tracks.get_mut(&place).expect("made above").1;
        let (mut begin, mut end) = (span.begin_ns, span.end_ns());
        while open.last().is_some_and(|&(_, outer)| outer <= begin) {
            open.pop();
        }
        if let Some(&(outer_begin, outer_end)) = open.last() {
            begin = begin.max(outer_begin);
            end = end.min(outer_end).max(begin);
        } else {
            begin = begin.max(*busy_until);
            end = end.max(begin);
            *busy_until = end;
        }
        open.push((begin, end));
        (begin, end)
    }
}

fn place_of(span: &SpanRecord) -> Place {
    let text = span.name.text();
    if let Some(core) = span.track.core_index() {
        return Place::Core(core, span.tid);
    }
    if span.track.is_device() {
        return Place::Phases(span.tid);
    }
    let copies = ["chip.run.h2d.", "chip.run.d2h.", "chip.copy."];
    if copies.iter().any(|prefix| text.starts_with(prefix)) {
        return Place::Copies(span.tid);
    }
    if text.starts_with("chip.arena.") {
        return Place::Arena(span.tid);
    }
    Place::Thread(span.tid)
}

/// Whether two places have the same name.
fn alike(a: &Place, b: &Place) -> bool {
    match (a, b) {
        (Place::Core(a, _), Place::Core(b, _)) => a == b,
        (Place::Copies(_), Place::Copies(_))
        | (Place::Arena(_), Place::Arena(_))
        | (Place::Phases(_), Place::Phases(_)) => true,
        _ => false,
    }
}

/// What a slice is called: copies by direction and parameter, everything else by the last word of its path.
fn leaf(span: &SpanRecord) -> &'static str {
    let text = span.name.text();
    text.strip_prefix("chip.run.")
        .filter(|rest| rest.starts_with("h2d.") || rest.starts_with("d2h."))
        .unwrap_or_else(|| if span.name.depth() == 0 { text } else { span.name.leaf() })
}
