//! The tasks of one core, timed at a cost that follows from how long they take.
//!
//! A reading of the clock takes 7 ns and a task of 16x16 numbers 43. So a core whose tasks are short reads the clock once
//! for a group of them: as many as fill a fraction of a microsecond, found by doubling. Each task still has its own span.
//! The group begins and ends at readings, its tasks share the time between them evenly, and their spans say with how many
//! they were timed ([`SpanRecord::timed_with`](super::SpanRecord::timed_with)). A group that takes long shows that something
//! in it did, and the tasks after it are timed one by one again. One span for the whole group would cost a little less, and
//! everybody who counts tasks would have to know of it.
//!
//! A group ends where its core does something else. In the ring it is one [`Record`], behind [`names::KERNELS`] where its
//! tasks are of different kernels: writing one record for each task costs 5 ns, most of it for the memory.

use super::{Record, Track, clock, names, record_all};

/// Kernels that a record has room for instead of its own fields.
const LISTED: usize = 7;
/// Most tasks that are timed together.
pub const MOST: usize = 2 * LISTED;
/// Room for them, and a power of two: no place in it needs a check.
const SLOTS: usize = 16;
const _: () = assert!(MOST <= SLOTS);
/// A full group that took less than this doubles. A reading, the record and the group's own account take 10 to 25 ns.
const SHORT_NS: u64 = 500;
/// A group that took longer has something slow in it: twice what a group doubles to, and a pause of the processor.
const LONG_NS: u64 = 1500;

/// Stands for the kernel of a group whose kernels are listed in the records before.
const VARIOUS: u32 = u32::MAX;

/// Where the readings come from and the records go.
pub trait Recorder {
    /// The present moment in ticks, never 0.
    fn now(&mut self) -> u64;
    /// Takes the records of a group of `tasks`.
    fn write(&mut self, records: impl ExactSizeIterator<Item = Record>, tasks: usize);
}

/// The clock and the ring of this thread.
#[derive(Clone, Copy, Debug)]
pub struct Live;

impl Recorder for Live {
    #[inline(always)]
    fn now(&mut self) -> u64 {
        clock::now()
    }

    #[inline(always)]
    fn write(&mut self, records: impl ExactSizeIterator<Item = Record>, tasks: usize) {
        record_all(records, tasks as u64);
    }
}

/// Times the tasks that a core runs one after the other.
///
/// What each group needs is one cache line, as the tasks in between throw it out.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct TaskRow<R = Live> {
    /// Where the open group begins, or the next one would: 0 where the core does something else before.
    begin: u64,
    /// How many tasks of the open group have ended, and how many make it full.
    count: usize,
    size: usize,
    /// The bounds in ticks.
    short: u64,
    long: u64,
    /// Begin of the first task, 0 before, and end of the last.
    extent: [u64; 2],
    invocation: u32,
    track: Track,
    recorder: R,
    /// What the tasks of the open group were.
    kernels: [u32; SLOTS],
    /// 0 where they are all of one kernel, and that of the last task before them.
    differs: u32,
    last: u32,
}

impl TaskRow {
    /// For the tasks of a launch on `track`. Nothing is asked of the clock before the first of them.
    pub fn new(invocation: u32, track: Track) -> Self {
        let [short, long] = if invocation == 0 { [0; 2] } else { [SHORT_NS, LONG_NS].map(clock::ns_to_ticks) };
        Self::with(Live, [short, long], invocation, track)
    }
}

impl<R: Recorder> TaskRow<R> {
    pub(super) fn with(recorder: R, [short, long]: [u64; 2], invocation: u32, track: Track) -> Self {
        Self {
            begin: 0,
            count: 0,
            size: 1,
            short,
            long,
            extent: [0; 2],
            invocation,
            track,
            recorder,
            kernels: [0; SLOTS],
            differs: 0,
            last: 0,
        }
    }

    /// Whether tasks are recorded: the launch has a number.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.invocation != 0
    }

    /// Begin of the first task and end of the last, in ticks.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let [first, last] = self.extent;
        (first != 0).then_some((first, last))
    }

    /// A task begins. Where the core did nothing else since the last one ended, that was the moment.
    #[inline(always)]
    pub fn begins(&mut self) {
        if self.begin == 0 {
            self.begin = self.recorder.now();
        }
    }

    /// A task begins that is long enough to be timed alone.
    pub fn begins_alone(&mut self) {
        self.close_open();
        self.begins();
    }

    /// A task begins at a reading that was taken for another reason.
    pub fn begins_at(&mut self, now: u64) {
        if self.count != 0 {
            self.close(now);
        }
        self.begin = now;
    }

    /// A task ended.
    #[inline(always)]
    pub fn ended(&mut self, kernel: u32) {
        self.kernels[self.count % SLOTS] = kernel;
        // The one before, rather than the first, which lies where the line above may have written: 4 ns for each task.
        self.differs |= kernel ^ self.last;
        self.last = kernel;
        self.count += 1;
        if self.count >= self.size {
            self.close_open();
        }
    }

    /// The task ended that had begun alone.
    pub fn ended_alone(&mut self, kernel: u32) {
        let now = self.recorder.now();
        self.ended_at(kernel, now);
    }

    /// A task that had begun alone ended at a reading that was taken for another reason.
    pub fn ended_at(&mut self, kernel: u32, now: u64) {
        self.write(now, 1, kernel, true);
    }

    /// How many tasks to time together where it is known what comes: 1 to [`MOST`]. For [`TaskRow::ended_together`].
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.size
    }

    /// `tasks` tasks ended since the last group did, with the kernels that `kernel` tells; `alike`: all have that of the first.
    /// No group may be open. Costs nothing while the tasks run.
    #[inline]
    pub fn ended_together(&mut self, tasks: usize, alike: bool, kernel: impl Fn(usize) -> u32) {
        let now = self.recorder.now();
        if !alike {
            for (at, to) in self.kernels[..tasks].iter_mut().enumerate() {
                *to = kernel(at);
            }
        }
        self.write(now, tasks, kernel(0), alike);
    }

    /// The core does something else: what comes next begins at a reading of its own.
    #[inline(always)]
    pub fn pause(&mut self) {
        self.close_open();
        self.begin = 0;
    }

    #[inline(always)]
    fn close_open(&mut self) {
        if self.count != 0 {
            let now = self.recorder.now();
            self.close(now);
        }
    }

    /// The open group ends at `now`.
    fn close(&mut self, now: u64) {
        let alike = self.differs == 0 || self.count == 1;
        self.write(now, self.count, self.kernels[0], alike);
        (self.count, self.differs) = (0, 0);
    }

    /// `of` tasks ended at `now`, where the next group begins. They are of `kernel` or, where they are not `alike`, as in
    /// `kernels`.
    #[inline(never)]
    fn write(&mut self, now: u64, of: usize, kernel: u32, alike: bool) {
        let begin = self.begin;
        // The counters of two processors may disagree by a few ticks.
        let now = now.max(begin);
        let ticks = now - begin;
        if ticks > self.long {
            self.size = 1;
        } else if of == self.size && ticks < self.short {
            self.size = (2 * self.size).min(MOST);
        }
        if self.extent[0] == 0 {
            self.extent[0] = begin;
        }
        (self.extent[1], self.begin) = (now, now);
        let (invocation, track) = (self.invocation, self.track);
        let group = |kernel| Group { kernel, tasks: of as u32 }.record(begin, now, invocation, track);
        // Made one by one where they are written: what is stored by its fields and then loaded whole, to be copied, makes the
        // processor wait.
        if alike {
            self.recorder.write((0..1).map(|_| group(kernel)), of);
        } else {
            let (first, rest) = (&self.kernels[..LISTED], &self.kernels[LISTED..MOST]);
            let records = (0..3).map(|at| match at {
                0 => list(first),
                1 => list(rest),
                _ => group(VARIOUS),
            });
            self.recorder.write(records, of);
        }
    }
}

/// The argument of a record of tasks. That of a task that was timed alone is the number of its kernel and nothing else.
struct Group {
    kernel: u32,
    tasks: u32,
}

impl Group {
    fn record(self, begin: u64, end: u64, invocation: u32, track: Track) -> Record {
        let together = if self.tasks > 1 { u64::from(self.tasks) << 32 } else { 0 };
        Record { begin, end, arg: together | u64::from(self.kernel), invocation, name: names::TASK, track }
    }

    #[cfg(not(feature = "trace-off"))]
    fn of(record: &Record) -> Option<Group> {
        let tasks = (record.arg >> 32) as u32;
        (record.name == names::TASK && tasks > 1).then_some(Group { kernel: record.arg as u32, tasks })
    }
}

/// A record that holds the numbers of kernels.
fn list(kernels: &[u32]) -> Record {
    let pair = |at: usize| u64::from(kernels[at]) | u64::from(kernels[at + 1]) << 32;
    let (begin, end, arg, invocation) = (pair(0), pair(2), pair(4), kernels[6]);
    Record { begin, end, arg, invocation, name: names::KERNELS, track: Track::HOST }
}

/// Makes spans of the records of one ring.
#[cfg(not(feature = "trace-off"))]
#[derive(Debug, Default)]
pub(super) struct Reader {
    listed: Vec<u32>,
}

#[cfg(not(feature = "trace-off"))]
impl Reader {
    /// Gives each span that the next record stands for, with how many tasks it was timed.
    pub fn read(&mut self, record: Record, mut receive: impl FnMut(Record, u32)) {
        let Record { begin, end, arg, invocation, name, .. } = record;
        if name == names::KERNELS {
            self.listed.extend([begin, end, arg].iter().flat_map(|&pair| [pair as u32, (pair >> 32) as u32]));
            self.listed.push(invocation);
            return;
        }
        let Some(Group { kernel, tasks }) = Group::of(&record) else { return receive(record, 1) };
        let moment = |task: u32| begin + (end - begin) * u64::from(task) / u64::from(tasks);
        for task in 0..tasks {
            let kernel = if kernel == VARIOUS { self.listed[task as usize] } else { kernel };
            receive(Record { begin: moment(task), end: moment(task + 1), arg: kernel.into(), ..record }, tasks);
        }
        self.listed.clear();
    }
}
