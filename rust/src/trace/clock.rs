//! The clock of spans: raw ticks while recording, `CLOCK_MONOTONIC` nanoseconds when read.
//!
//! A tick is one count of the processor's time stamp counter when the kernel itself trusts it (it keeps time with it,
//! and the processor says that the counter neither stops nor changes speed), otherwise one nanosecond of
//! `CLOCK_MONOTONIC`. Reading the counter costs 10.6 ns in a virtual machine where `Instant::now` costs 23.4, which is
//! the difference between keeping and missing 25 ns for a span. `rdtscp` or a fence before the read (18.6 ns) would
//! keep the processor from moving the read by a few instructions, which no span is short enough to notice.
//!
//! Nobody publishes the frequency of the counter, so it is measured: a first pair of both clocks is taken when the
//! clock is first used, and each later [`Anchor`] pairs them again. The distance between the pairs gives the rate (a
//! pair is good to about 50 ns, so 5 ms give 10 ppm and each second of use improves it), and conversion follows the newest
//! pair ([`super::scale`]), so that an error of the rate does not grow with the age of the process.
#![allow(unsafe_code)] // reads the counter and calls clock_gettime

use super::forks;
use crate::sync::global::{self, AtomicU8, AtomicU64, Mutex, MutexGuard, Ordering};

const UNKNOWN: u8 = 0;
const COUNTER: u8 = 1;
const MONOTONIC: u8 = 2;

/// Which clock [`now`] reads. Set once.
static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Bits of the binary64 that holds nanoseconds per tick; 0 until measured.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
/// Where the measurement of the rate starts.
static BASELINE: Mutex<Option<Pair>> = Mutex::new(None);

/// Least distance of two pairs that gives a rate.
const MIN_BASELINE_NS: u64 = 5_000_000;
/// Rates that differ by more than this do not belong to one baseline: the machine slept or moved between them, and
/// the counter went on while `CLOCK_MONOTONIC` stood. NTP slews by at most 500 ppm.
const MAX_RATE_CHANGE: f64 = 0.002;

/// The present moment in ticks. Ticks of different threads can be compared.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SOURCE.load(Ordering::Relaxed) == COUNTER {
        return counter();
    }
    now_slow()
}

#[cold]
fn now_slow() -> u64 {
    match source() {
        #[cfg(target_arch = "x86_64")]
        COUNTER => counter(),
        _ => monotonic_ns(),
    }
}

/// The length of `ticks` in nanoseconds. The first use within 5 ms of the first use of the clock waits for them to pass.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    if source() == MONOTONIC {
        return ticks;
    }
    (ticks as f64 * ns_per_tick()).round() as u64
}

/// The length of `ns` nanoseconds in ticks; waits as [`ticks_to_ns`] does.
pub fn ns_to_ticks(ns: u64) -> u64 {
    if source() == MONOTONIC {
        return ns;
    }
    (ns as f64 / ns_per_tick()).round() as u64
}

fn ns_per_tick() -> f64 {
    match NS_PER_TICK.load(Ordering::Relaxed) {
        0 => Anchor::take().ns_per_tick,
        bits => f64::from_bits(bits),
    }
}

/// The time of `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// The time of day in nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Both clocks at one moment, and the rate between them.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// The counter.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC` at that count.
    pub ns: u64,
    /// Nanoseconds per tick.
    pub ns_per_tick: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    ticks: u64,
    ns: u64,
}

impl Anchor {
    /// Reads both clocks. The first use within 5 ms of the first use of the clock waits for them to pass.
    pub fn take() -> Anchor {
        if source() == MONOTONIC {
            let ns = monotonic_ns();
            return Anchor { ticks: ns, ns, ns_per_tick: 1.0 };
        }
        let mut baseline = lock();
        let start = *baseline.get_or_insert_with(Pair::read);
        let mut pair = Pair::read();
        let known = NS_PER_TICK.load(Ordering::Relaxed);
        if pair.ns - start.ns < MIN_BASELINE_NS {
            if known != 0 {
                return pair.with_rate(f64::from_bits(known));
            }
            std::thread::sleep(std::time::Duration::from_nanos(MIN_BASELINE_NS - (pair.ns - start.ns)));
            pair = Pair::read();
        }
        let mut rate = (pair.ns - start.ns) as f64 / (pair.ticks.saturating_sub(start.ticks)).max(1) as f64;
        if known != 0 && (rate / f64::from_bits(known) - 1.0).abs() > MAX_RATE_CHANGE {
            rate = f64::from_bits(known);
            *baseline = Some(pair);
        }
        NS_PER_TICK.store(rate.to_bits(), Ordering::Relaxed);
        pair.with_rate(rate)
    }

    /// The `CLOCK_MONOTONIC` time of a tick. A later tick never gives an earlier time.
    pub fn to_monotonic_ns(&self, ticks: u64) -> u64 {
        let distance = ticks.wrapping_sub(self.ticks) as i64;
        let ns = (distance as f64 * self.ns_per_tick).round() as i64;
        self.ns.saturating_add_signed(ns)
    }
}

impl Pair {
    fn with_rate(self, ns_per_tick: f64) -> Anchor {
        let Pair { ticks, ns } = self;
        Anchor { ticks, ns, ns_per_tick }
    }

    /// Both clocks, from the attempt in which the reads of the counter around the kernel's clock were closest.
    fn read() -> Pair {
        let attempt = || {
            let before = now();
            let ns = monotonic_ns();
            let after = now();
            (after.wrapping_sub(before), Pair { ticks: before + after.wrapping_sub(before) / 2, ns })
        };
        let best = (0..8).map(|_| attempt()).min_by_key(|(width, _)| *width);
        best.expect("eight attempts were made").1
    }
}

/// The start of the measurement, while nobody else may touch it.
pub(super) type Lock = MutexGuard<'static, Option<Pair>>;

/// Keeps others from measuring; a fork happens under it, so that the child can measure.
pub(super) fn lock() -> Lock {
    forks::survive();
    global::lock(&BASELINE)
}

/// The clock that [`now`] reads, chosen at the first call.
fn source() -> u8 {
    let known = SOURCE.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let clocksource = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let chosen =
        if is_counter_trusted(is_counter_invariant(), clocksource.ok().as_deref()) { COUNTER } else { MONOTONIC };
    // Two threads may both come here; they choose the same.
    SOURCE.store(chosen, Ordering::Relaxed);
    if chosen == COUNTER {
        lock().get_or_insert_with(Pair::read);
    }
    chosen
}

/// The processor promises a counter of constant speed; the kernel checked that all processors agree on it, and uses it.
fn is_counter_trusted(invariant: bool, clocksource: Option<&str>) -> bool {
    invariant && clocksource.is_some_and(|name| name.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
fn is_counter_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn is_counter_invariant() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction. Linux allows it unless a process asked to be denied it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes. The call fails only for unknown clocks, and both of ours exist on any Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_used_only_when_processor_and_kernel_both_trust_it() {
        assert!(is_counter_trusted(true, Some("tsc\n")));
        assert!(!is_counter_trusted(false, Some("tsc\n")));
        assert!(!is_counter_trusted(true, Some("kvm-clock\n")));
        assert!(!is_counter_trusted(true, Some("hpet\n")));
        assert!(!is_counter_trusted(true, None));
    }

    #[test]
    fn a_tick_converts_to_the_monotonic_time_at_which_it_was_read() {
        let anchor = Anchor::take();
        // The thread can lose its processor between two reads, so the bounds are reads around it. 50 us allow for the
        // error of the rate (10 ppm) over the time since the anchor, even when that was seconds.
        let before = monotonic_ns();
        let ticks = now();
        let after = monotonic_ns();
        let converted = anchor.to_monotonic_ns(ticks);
        assert!(converted + 50_000 >= before && converted <= after + 50_000, "{before} {converted} {after}");
    }

    #[test]
    fn a_duration_in_ticks_is_as_long_as_the_kernel_says() {
        let (ticks_before, ns_before) = (now(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (ns_after, ticks_after) = (monotonic_ns(), now());
        let kernel = ns_after - ns_before;
        let ours = ticks_to_ns(ticks_after - ticks_before);
        // Ours encloses the kernel's, so it is longer by a preemption at most; it is never shorter than by the error of
        // the rate, for which 100 ppm are plenty.
        assert!(ours + kernel / 10_000 >= kernel, "{ours} {kernel}");
        assert!(ours < 2 * kernel, "{ours} {kernel}");
    }

    #[test]
    fn conversion_keeps_the_order_of_ticks() {
        let anchor = Anchor { ticks: 1_000_000, ns: 500_000, ns_per_tick: 0.4 };
        let times: Vec<u64> = (999_000..1_001_000).map(|ticks| anchor.to_monotonic_ns(ticks)).collect();
        assert!(times.is_sorted());
        assert_eq!(anchor.to_monotonic_ns(1_000_000), 500_000);
        assert_eq!(anchor.to_monotonic_ns(1_000_010), 500_004);
        assert_eq!(anchor.to_monotonic_ns(999_990), 499_996);
    }

    #[test]
    fn a_tick_before_the_clock_began_converts_to_zero() {
        let anchor = Anchor { ticks: 1_000_000, ns: 5, ns_per_tick: 1.0 };
        assert_eq!(anchor.to_monotonic_ns(10), 0);
    }
}
