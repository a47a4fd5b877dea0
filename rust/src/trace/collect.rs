//! Gathers what the threads recorded and hands it to everyone who records.
//!
//! Several may record at once (a benchmark in one thread, the log in another), so each guard has a store of its own and
//! a drain of one takes nothing from the others. One drain for all would be simpler, and two benchmarks in two threads
//! would then steal each other's samples.
//!
//! The rings live outside their threads: what a thread recorded outlasts it, and its ring goes with the first drain
//! after its end.
#![allow(unsafe_code)] // gettid

use super::gauge::Gauge;
use super::ring::{Consumer, Producer, ring};
use super::scale::Scale;
use super::{Drained, Record, SpanRecord, clock, forks, tasks};
use crate::sync::global::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Weak};

/// Records of one thread between two drains: 1 MiB, touched as far as it is used.
const RING_RECORDS: usize = 1 << 15;
/// Threads whose records are kept. Threads may come and go without anybody draining; beyond this many they record nothing.
const MAX_RINGS: usize = 1024;
/// Spans kept for a guard that does not drain while others do: 40 MiB.
const MAX_STORED: usize = 1 << 20;

/// How many guards live.
static ENABLED: AtomicU32 = AtomicU32::new(0);
/// Spans of threads that have no ring.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Rings of threads that recorded for the first time. Apart from the collector, so that no thread waits for a drain.
static NEW: Mutex<Vec<Source>> = Mutex::new(Vec::new());
static COLLECTOR: Mutex<Collector> = Mutex::new(Collector {
    scale: Scale::new(),
    sources: Vec::new(),
    roots: Vec::new(),
    stores: BTreeMap::new(),
    last_store: 0,
    gauges: Vec::new(),
});

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local::New) };
}

/// A thread's end of its ring.
enum Local {
    New,
    Recording(Producer),
    /// There were [`MAX_RINGS`] already.
    Refused,
}

/// The collector's end of a thread's ring.
pub(super) struct Source {
    consumer: Consumer,
    reader: tasks::Reader,
    tid: u32,
}

pub(super) struct Collector {
    scale: Scale,
    sources: Vec<Source>,
    /// Roots that wait for the next drain; see [`Collector::collect`].
    roots: Vec<SpanRecord>,
    /// What was collected for each living guard.
    stores: BTreeMap<u64, Store>,
    last_store: u64,
    /// All that live, and some that do not any more.
    gauges: Vec<Weak<Gauge>>,
}

#[derive(Default)]
struct Store {
    spans: Vec<SpanRecord>,
    counters: Vec<SpanRecord>,
    dropped: u64,
}

/// Whether anybody records. One relaxed load: ask before taking time stamps by hand.
#[inline(always)]
pub fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed) != 0
}

/// As [`is_enabled`], in one order with all that is sequentially consistent.
pub(super) fn is_watched() -> bool {
    ENABLED.load(Ordering::SeqCst) != 0
}

/// Shows a gauge to recordings that begin later.
pub(super) fn add_gauge(gauge: &Arc<Gauge>) {
    forks::survive();
    let mut collector = lock(&COLLECTOR);
    collector.gauges.retain(|one| one.strong_count() > 0);
    collector.gauges.push(Arc::downgrade(gauge));
}

/// Writes one span with stamps of its own, as devices do; does nothing while nobody records. Never waits, except that the
/// first record of a thread makes its ring.
#[inline]
pub fn record(record: Record) {
    record_all(std::iter::once(record), 1);
}

/// As [`record`], for records that stand for `spans` together: all of them come in one drain, or none does.
#[inline(always)]
pub(super) fn record_all(records: impl ExactSizeIterator<Item = Record>, spans: u64) {
    if !is_enabled() {
        return;
    }
    let pushed = LOCAL.try_with(|local| match &mut *local.borrow_mut() {
        Local::Recording(producer) => producer.push(records, spans),
        local => record_first(local, &mut { records }, spans),
    });
    if pushed.is_err() {
        // The thread is past the end of its ring: a span in a destructor of another thread-local value.
        LOST.fetch_add(spans, Ordering::Relaxed);
    }
}

#[cold]
fn record_first(local: &mut Local, records: &mut dyn ExactSizeIterator<Item = Record>, spans: u64) {
    if matches!(local, Local::New) {
        *local = Local::Refused;
        let mut new = lock(&NEW);
        if new.len() < MAX_RINGS {
            let (mut producer, consumer) = ring(RING_RECORDS);
            producer.push(records, spans);
            *local = Local::Recording(producer);
            // SAFETY: it takes nothing, touches nothing and cannot fail.
            let tid = unsafe { libc::gettid() } as u32;
            new.push(Source { consumer, reader: tasks::Reader::default(), tid });
            return;
        }
    }
    LOST.fetch_add(spans, Ordering::Relaxed);
}

/// Spans are recorded while any such guard lives. It sees what ends while it lives; [`Enabled::drain`] takes it.
#[must_use = "spans are recorded while the guard lives"]
#[derive(Debug)]
pub struct Enabled {
    store: u64,
}

/// Turns recording on until the guard is dropped.
pub fn enable() -> Enabled {
    forks::survive();
    let mut collector = lock(&COLLECTOR);
    // What lies in the rings ended before this guard: it goes to the others.
    collector.collect();
    collector.last_store += 1;
    let store = collector.last_store;
    let begin = clock::now();
    ENABLED.fetch_add(1, Ordering::SeqCst);
    let present = collector.gauges.iter().filter_map(|gauge| gauge.upgrade()?.present(begin));
    let counters = present.map(|record| SpanRecord::new(&collector.scale, record, 1, 0)).collect();
    collector.stores.insert(store, Store { counters, ..Store::default() });
    Enabled { store }
}

impl Enabled {
    /// Takes the spans that ended since the last call, of all threads, those that ended included.
    pub fn drain(&self) -> Drained {
        let mut collector = lock(&COLLECTOR);
        // A forked child inherits the guard but not the store.
        collector.stores.entry(self.store).or_default();
        collector.collect();
        let Store { spans, counters, dropped } = mem::take(collector.stores.entry(self.store).or_default());
        Drained { spans, counters, dropped, pid: std::process::id() }
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        ENABLED.fetch_sub(1, Ordering::Relaxed);
        lock(&COLLECTOR).stores.remove(&self.store);
    }
}

impl Collector {
    /// Moves what the rings hold to all stores.
    ///
    /// Rings are read one after the other while threads go on, so a launch can end in between: its root would come out
    /// of a ring that is read late, and some of its tasks stay behind in a ring that was read early. So the rings are
    /// read up to a second cut, taken when the first cut of all rings is known. Everything that happened before a record
    /// of the first cut lies within the second; a root between the cuts waits for the next drain.
    fn collect(&mut self) {
        self.scale.advance();
        self.sources.append(&mut lock(&NEW));
        let mut first: Vec<usize> = self.sources.iter().map(|source| source.consumer.written()).collect();
        // A ring that appeared meanwhile holds what other rings may already need, and nothing of the first cut.
        self.sources.append(&mut lock(&NEW));
        first.resize(self.sources.len(), 0);
        // Whether a thread has ended must be asked before how much it wrote.
        let second: Vec<(bool, usize)> =
            self.sources.iter().map(|Source { consumer, .. }| (consumer.is_abandoned(), consumer.written())).collect();

        let scale = &self.scale;
        let mut spans = mem::take(&mut self.roots);
        let mut counters = Vec::new();
        let mut dropped = LOST.swap(0, Ordering::Relaxed);
        for ((Source { consumer, reader, tid }, first), (_, second)) in self.sources.iter_mut().zip(first).zip(&second)
        {
            let mut keep = |record: Record, timed_with: u32, roots: Option<&mut Vec<SpanRecord>>| {
                let span = SpanRecord::new(scale, record, timed_with, *tid);
                match roots {
                    _ if record.name.is_counter() => counters.push(span),
                    Some(roots) if record.name.depth() == 0 => roots.push(span),
                    _ => spans.push(span),
                }
            };
            consumer.take(first, |record| reader.read(record, |record, with| keep(record, with, None)));
            let roots = &mut self.roots;
            consumer.take(*second, |record| reader.read(record, |record, with| keep(record, with, Some(roots))));
            dropped += consumer.take_dropped();
        }
        let mut ended = second.iter().map(|(ended, _)| *ended);
        self.sources.retain(|_| !ended.next().expect("one flag for each source"));

        for store in self.stores.values_mut() {
            let room = MAX_STORED - store.spans.len();
            store.spans.extend_from_slice(&spans[..room.min(spans.len())]);
            store.dropped += dropped + spans.len().saturating_sub(room) as u64;
            // A counter that nobody takes is of no use to anybody, so that is not counted as lost.
            let room = MAX_STORED - store.counters.len();
            store.counters.extend_from_slice(&counters[..room.min(counters.len())]);
        }
    }
}

impl SpanRecord {
    fn new(scale: &Scale, record: Record, timed_with: u32, tid: u32) -> SpanRecord {
        let Record { begin, end, arg, invocation, name, track } = record;
        // Both ends are converted, rather than the length, so that nested spans stay nested after rounding.
        let begin_ns = scale.to_monotonic_ns(begin);
        let duration_ns = scale.to_monotonic_ns(end).saturating_sub(begin_ns);
        SpanRecord { begin_ns, duration_ns, arg, timed_with, invocation, tid, name, track }
    }
}

/// The locks of this file, in the order in which they are taken.
pub(super) type Locks = (MutexGuard<'static, Collector>, MutexGuard<'static, Vec<Source>>);

/// Keeps everybody out, for a fork.
pub(super) fn lock_all() -> Locks {
    (lock(&COLLECTOR), lock(&NEW))
}

/// Forgets what the parent of this process recorded.
pub(super) fn forget((mut collector, mut new): Locks) {
    collector.sources.clear();
    collector.roots.clear();
    collector.stores.clear();
    collector.gauges.clear();
    new.clear();
    LOST.store(0, Ordering::Relaxed);
    LOCAL.with(|local| *local.borrow_mut() = Local::New);
}
