//! What [`TaskRow`] says of tasks whose true times are known.

use super::tasks::{MOST, Reader, Recorder, TaskRow};
use super::{Record, Track};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// A clock that stands until a test moves it, and what was written.
#[derive(Clone, Default)]
struct Fake(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    now: u64,
    readings: Vec<u64>,
    records: Vec<Record>,
    /// How many spans the records were said to stand for.
    told: usize,
}

impl Recorder for Fake {
    fn now(&mut self) -> u64 {
        let mut state = self.0.borrow_mut();
        let now = state.now;
        state.readings.push(now);
        now
    }

    fn write(&mut self, records: impl ExactSizeIterator<Item = Record>, tasks: usize) {
        let mut state = self.0.borrow_mut();
        state.records.extend(records);
        state.told += tasks;
    }
}

const SHORT: u64 = 500;
const LONG: u64 = 1500;

impl Fake {
    fn row(&self) -> TaskRow<Fake> {
        self.pass(1000);
        TaskRow::with(self.clone(), [SHORT, LONG], 7, Track::core(3))
    }

    fn pass(&self, ticks: u64) -> u64 {
        let mut state = self.0.borrow_mut();
        state.now += ticks;
        state.now
    }

    /// The spans so far, each with how many it was timed with.
    fn spans(&self) -> Vec<(Record, u32)> {
        let (mut reader, mut spans) = (Reader::default(), Vec::new());
        for record in &self.0.borrow().records {
            reader.read(*record, |record, with| spans.push((record, with)));
        }
        spans
    }

    fn readings(&self) -> Vec<u64> {
        self.0.borrow().readings.clone()
    }
}

/// Something that a core does.
#[derive(Clone, Copy, Debug)]
enum Did {
    Task { kernel: u32, ticks: u64 },
    Alone { kernel: u32, ticks: u64 },
    Else { ticks: u64 },
}

fn did() -> impl Strategy<Value = Did> {
    let ticks = || prop_oneof![8 => 1u64..120, 1 => 300u64..5000];
    let kernel = || prop_oneof![3 => Just(1u32), 1 => 0u32..3, 1 => Just(u32::MAX - 1)];
    prop_oneof![
        16 => (kernel(), ticks()).prop_map(|(kernel, ticks)| Did::Task { kernel, ticks }),
        1 => (kernel(), ticks()).prop_map(|(kernel, ticks)| Did::Alone { kernel, ticks }),
        1 => ticks().prop_map(|ticks| Did::Else { ticks }),
    ]
}

/// Kernel, begin and end of each task.
type Tasks = Vec<(u32, u64, u64)>;

/// Does it all; gives the tasks, and begin and end of everything else.
fn run(fake: &Fake, row: &mut TaskRow<Fake>, all: &[Did]) -> (Tasks, Vec<(u64, u64)>) {
    let (mut tasks, mut others) = (Vec::new(), Vec::new());
    for did in all {
        match *did {
            Did::Task { kernel, ticks } => {
                row.begins();
                tasks.push((kernel, fake.pass(0), fake.pass(ticks)));
                row.ended(kernel);
            }
            Did::Alone { kernel, ticks } => {
                row.begins_alone();
                tasks.push((kernel, fake.pass(0), fake.pass(ticks)));
                row.ended_alone(kernel);
            }
            Did::Else { ticks } => {
                row.pause();
                others.push((fake.pass(0), fake.pass(ticks)));
            }
        }
    }
    row.pause();
    (tasks, others)
}

proptest! {
    #[test]
    fn every_task_has_one_span_between_two_readings(all in prop::collection::vec(did(), 0..200)) {
        let fake = Fake::default();
        let mut row = fake.row();
        let (tasks, others) = run(&fake, &mut row, &all);
        let (spans, readings) = (fake.spans(), fake.readings());
        let kernels: Vec<u64> = tasks.iter().map(|&(kernel, ..)| kernel.into()).collect();
        prop_assert_eq!(spans.iter().map(|(span, _)| span.arg).collect::<Vec<_>>(), kernels);
        prop_assert_eq!(fake.0.borrow().told, tasks.len());
        prop_assert!(spans.iter().all(|(span, _)| span.track == Track::core(3) && span.invocation == 7));
        prop_assert!(spans.iter().all(|(span, _)| span.begin <= span.end));
        prop_assert!(spans.is_sorted_by(|(a, _), (b, _)| a.end <= b.begin), "they overlap: {:?}", spans);
        // Group by group: its ends are readings and those of its tasks, and its tasks have equal shares.
        let mut at = 0;
        while let Some(&(first, with)) = spans.get(at) {
            let end = at + with as usize;
            prop_assert!(with as usize <= MOST && end <= spans.len());
            prop_assert!(spans[at..end].iter().all(|&(_, other)| other == with));
            let last = spans[end - 1].0;
            prop_assert!(readings.contains(&first.begin) && readings.contains(&last.end));
            prop_assert_eq!((first.begin, last.end), (tasks[at].1, tasks[end - 1].2));
            let share = (last.end - first.begin) / u64::from(with);
            prop_assert!(spans[at..end].iter().all(|(span, _)| (share..=share + 1).contains(&(span.end - span.begin))));
            at = end;
        }
        for &(from, to) in &others {
            prop_assert!(spans.iter().all(|(span, _)| span.end <= from || span.begin >= to), "a wait lies in a task");
        }
        let extent = tasks.first().map(|first| (first.1, tasks[tasks.len() - 1].2));
        prop_assert_eq!(row.extent(), extent);
    }

    #[test]
    fn what_is_known_before_is_recorded_like_what_is_not(
        kernels in prop::collection::vec(0u32..3, 0..100),
        ticks in 1u64..300,
    ) {
        let (fake, known) = (Fake::default(), Fake::default());
        let tasks: Vec<Did> = kernels.iter().map(|&kernel| Did::Task { kernel, ticks }).collect();
        run(&fake, &mut fake.row(), &tasks);
        let mut row = known.row();
        row.begins();
        let mut left = &kernels[..];
        while !left.is_empty() {
            let (group, rest) = left.split_at(row.size().min(left.len()));
            known.pass(ticks * group.len() as u64);
            let alike = group.iter().all(|kernel| *kernel == group[0]);
            row.ended_together(group.len(), alike, |at| group[at]);
            left = rest;
        }
        prop_assert_eq!(known.spans(), fake.spans());
    }
}

#[test]
fn short_tasks_share_readings_and_longer_ones_do_not() {
    let readings_for = |ticks: u64| {
        let fake = Fake::default();
        run(&fake, &mut fake.row(), &[Did::Task { kernel: 0, ticks }; 1000]);
        fake.readings().len()
    };
    // Groups of 1, 2, 4 and 8 come first, and the first task needs a reading for its begin.
    assert_eq!(readings_for(40), 1 + 4 + (1000usize - 15).div_ceil(MOST));
    assert_eq!(readings_for(SHORT / 2), 1 + 1 + 999usize.div_ceil(2));
    assert_eq!(readings_for(SHORT), 1001);
}

#[test]
fn a_slow_task_among_short_ones_shows_and_the_next_are_timed_alone() {
    let fake = Fake::default();
    let mut tasks = [Did::Task { kernel: 0, ticks: 40 }; 200];
    tasks[100] = Did::Task { kernel: 0, ticks: 10_000 };
    run(&fake, &mut fake.row(), &tasks);
    let spans = fake.spans();
    let with = spans[100].1 as usize;
    let first = spans.iter().position(|(span, _)| span.end - span.begin > 100).expect("it shows");
    let group = &spans[first..first + with];
    assert!((first..first + with).contains(&100));
    assert_eq!(group[with - 1].0.end - group[0].0.begin, 10_000 + 40 * (with as u64 - 1));
    assert_eq!(spans[first + with].1, 1);
    assert!(spans[..first].iter().chain(&spans[first + with..]).all(|(span, _)| span.end - span.begin == 40));
}

#[test]
fn a_task_that_is_long_for_all_is_known_has_ends_of_its_own() {
    let fake = Fake::default();
    let mut tasks = [Did::Task { kernel: 0, ticks: 40 }; 200];
    tasks[100] = Did::Alone { kernel: 5, ticks: 700 };
    run(&fake, &mut fake.row(), &tasks);
    let spans = fake.spans();
    let (span, with) = spans[100];
    assert_eq!((span.arg, span.end - span.begin, with), (5, 700, 1));
    assert!(spans.iter().filter(|(span, _)| span.arg == 0).all(|(span, _)| span.end - span.begin == 40));
}

#[test]
fn a_launch_is_not_timed_with_another() {
    let fake = Fake::default();
    for _ in 0..3 {
        run(&fake, &mut fake.row(), &[Did::Task { kernel: 0, ticks: 40 }; 10]);
    }
    let with: Vec<u32> = fake.spans().iter().map(|&(_, with)| with).collect();
    assert_eq!(with, [1, 2, 2, 4, 4, 4, 4, 3, 3, 3].repeat(3));
}

#[test]
fn a_reading_taken_for_another_reason_ends_and_begins_tasks() {
    let fake = Fake::default();
    let mut row = fake.row();
    run(&fake, &mut row, &[Did::Task { kernel: 0, ticks: 40 }; 3]);
    let before = fake.readings().len();
    row.begins_at(fake.pass(5));
    row.ended_at(9, fake.pass(30));
    assert_eq!(fake.readings().len(), before);
    let (span, with) = *fake.spans().last().unwrap();
    assert_eq!((span.arg, span.end - span.begin, with), (9, 30, 1));
}
