//! Timelines against the rules of the importers, with spans that no real recording would have.

use super::labels::{Labels, set_labels};
use super::timeline::{Group, Sink, Slice, Timeline};
use super::{Drained, Name, SpanRecord, Track, names};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Keeps what it is told.
#[derive(Default, Debug)]
struct Kept {
    tracks: Vec<(Group, String)>,
    slices: Vec<(u32, String, u64, u64)>,
    leaving: Vec<u64>,
    arriving: Vec<u64>,
    counters: Vec<(String, u32, u64, u64)>,
}

impl Sink for Kept {
    fn track(&mut self, id: u32, group: Group, name: &str) {
        assert_eq!(id as usize, self.tracks.len(), "numbers rise one by one");
        self.tracks.push((group, name.to_owned()));
    }

    fn slice(&mut self, slice: &Slice<'_>) {
        assert!((slice.track as usize) < self.tracks.len(), "a track is announced first");
        self.slices.push((slice.track, slice.name.to_owned(), slice.begin_ns, slice.begin_ns + slice.duration_ns));
        self.leaving.extend(slice.flows_out.clone());
        self.arriving.extend(slice.flow_in);
    }

    fn counter(&mut self, name: &str, worker: u32, at_ns: u64, value: u64) {
        self.counters.push((name.to_owned(), worker, at_ns, value));
    }
}

fn span(name: Name, track: Track, begin_ns: u64, end_ns: u64, invocation: u32) -> SpanRecord {
    SpanRecord { begin_ns, duration_ns: end_ns - begin_ns, arg: 0, timed_with: 1, invocation, tid: 7, name, track }
}

fn timeline(drains: &[Vec<SpanRecord>]) -> Kept {
    let mut timeline = Timeline::new(Kept::default());
    for spans in drains {
        timeline.add(&Drained { spans: spans.clone(), pid: 7, ..Drained::default() });
    }
    timeline.finish(7);
    std::mem::take(timeline.sink())
}

fn nested(kept: &Kept) -> bool {
    let mut by_track: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for (track, _, begin, end) in &kept.slices {
        by_track.entry(*track).or_default().push((*begin, *end));
    }
    by_track.values_mut().all(|slices| {
        slices.sort_by_key(|&(begin, end)| (begin, u64::MAX - end));
        let mut open: Vec<u64> = Vec::new();
        slices.iter().all(|&(begin, end)| {
            while open.last().is_some_and(|&outer| outer <= begin) {
                open.pop();
            }
            let fits = open.last().is_none_or(|&outer| end <= outer);
            open.push(end);
            fits
        })
    })
}

#[test]
fn a_launch_that_another_drain_reads_as_earlier_begins_where_the_last_one_ended() {
    let drains = [
        vec![span(names::CHIP_RUN, Track::HOST, 100, 200, 1)],
        // The clock was read anew: this launch came later and seems to begin 3 ns before the other's end.
        vec![span(names::BIND, Track::HOST, 197, 250, 2), span(names::CHIP_RUN, Track::HOST, 197, 300, 2)],
    ];
    let kept = timeline(&drains);
    let slices: Vec<_> = kept.slices.iter().map(|(_, name, begin, end)| (name.as_str(), *begin, *end)).collect();
    assert_eq!(slices, [("chip.run", 100, 200), ("chip.run", 200, 300), ("bind", 200, 250)]);
    assert_eq!(kept.tracks, [(Group::Host, "main thread".to_owned())]);
}

#[test]
fn each_task_has_an_arrow_from_its_launch() {
    let core = |n| Track::core(n);
    let spans = vec![
        span(names::TASK, core(0), 20, 30, 1),
        span(names::TASK, core(1), 20, 35, 1),
        span(names::RUNNER_RUN, Track::HOST, 10, 40, 1),
        span(names::CHIP_RUN, Track::HOST, 0, 50, 1),
    ];
    let kept = timeline(&[spans]);
    assert_eq!(kept.leaving, [1, 2]);
    assert_eq!(kept.arriving, [1, 2]);
    let names: Vec<&str> = kept.tracks.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["main thread", "core 0", "core 1"]);
}

#[test]
fn tasks_that_a_drain_has_behind_the_root_belong_to_its_launch() {
    const CONTENT: u64 = 0x7461_736b; // of no other test: labels are kept for the process
    let kernels = vec![("half".to_owned(), "file.py:3".to_owned())];
    set_labels(CONTENT, Labels { program: "halves".to_owned(), kernels });
    let spans = vec![
        span(names::RUNNER_RUN, Track::HOST, 10, 40, 1),
        SpanRecord { arg: CONTENT, ..span(names::CHIP_RUN, Track::HOST, 0, 50, 1) },
        SpanRecord { tid: 8, ..span(names::TASK, Track::core(1), 20, 35, 1) },
    ];
    let kept = timeline(&[spans]);
    let names: Vec<&str> = kept.slices.iter().map(|(_, name, _, _)| name.as_str()).collect();
    assert_eq!(names, ["chip.run", "runner_run", "half"]);
    assert_eq!((kept.leaving, kept.arriving), (vec![1], vec![1]));
}

#[test]
fn launches_without_an_end_are_written_when_the_recording_ends() {
    let kept = timeline(&[vec![span(names::TASK, Track::core(0), 20, 30, 9)]]);
    assert_eq!(kept.slices.len(), 1);
    assert!(kept.leaving.is_empty() && kept.arriving.is_empty(), "no arrow comes from nowhere");
}

#[test]
fn counters_keep_their_worker() {
    let mut timeline = Timeline::new(Kept::default());
    let live = SpanRecord { arg: 4096, ..span(names::LIVE_BYTES, Track::HOST, 5, 5, 3) };
    timeline.add(&Drained { counters: vec![live], pid: 7, ..Drained::default() });
    assert_eq!(timeline.sink().counters, [("live_bytes".to_owned(), 3, 5, 4096)]);
}

proptest! {
    #[test]
    fn slices_nest_whatever_the_clocks_say(
        raw in prop::collection::vec((0..4_u32, 0..5_usize, 0..200_u64, 0..60_u64, 0..2_u32), 1..60),
        cut in 0..60_usize,
    ) {
        let kinds = [names::BIND, names::H2D, names::RUNNER_RUN, names::TASK, names::CHIP_RUN];
        let spans: Vec<SpanRecord> = raw
            .iter()
            .map(|&(invocation, kind, begin, length, tid)| {
                let track = if kind == 3 { Track::core(tid as usize) } else { Track::HOST };
                SpanRecord { tid, ..span(kinds[kind], track, begin, begin + length, invocation) }
            })
            .collect();
        let cut = cut.min(spans.len());
        let kept = timeline(&[spans[..cut].to_vec(), spans[cut..].to_vec()]);
        prop_assert_eq!(kept.slices.len(), spans.len(), "nothing is lost");
        prop_assert!(nested(&kept), "{:?}", kept.slices);
        prop_assert_eq!(kept.leaving.len(), kept.arriving.len());
    }
}
