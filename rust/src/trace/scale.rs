//! Ticks to nanoseconds for all that one process records: what is converted later fits what was converted before.
//!
//! Each pair of the clocks is off by up to 50 ns. Converting what a drain takes by a pair of its own made a task begin up to
//! that much before the end of the one before it, where a drain fell between their ends, and importers refuse such slices.
//! So the past keeps its conversion, and a newer pair only bends what comes.

use super::clock::Anchor;
use std::collections::VecDeque;

/// Differences up to here are those of the pairs themselves.
const NOISE_NS: i64 = 100;
/// A larger difference is worked off in this time: up to it, time never runs backwards.
const BEND_NS: u64 = 10_000_000;
/// A difference from here on is none of the rate: the machine slept. Time jumps, as it did.
const JUMP_NS: i64 = 1_000_000;
/// Pieces that are kept; what is older continues the oldest.
const MAX_KNOTS: usize = 64;

/// A function of the ticks, in straight pieces that join.
#[derive(Debug)]
pub(super) struct Scale {
    knots: VecDeque<Anchor>,
}

impl Scale {
    pub const fn new() -> Self {
        Self { knots: VecDeque::new() }
    }

    /// Takes a new pair of the clocks into account.
    pub fn advance(&mut self) {
        self.follow(Anchor::take());
    }

    /// What was converted up to `now` stays as it is; from there on, this comes near to what `now` says.
    fn follow(&mut self, now: Anchor) {
        if self.knots.is_empty() {
            return self.knots.push_back(now);
        }
        let ns = self.to_monotonic_ns(now.ticks);
        let ahead = ns.wrapping_sub(now.ns) as i64;
        if ahead.abs() <= NOISE_NS {
            return;
        }
        // Nothing was converted yet by what lies in the future.
        while self.knots.back().is_some_and(|last| last.ticks >= now.ticks) {
            self.knots.pop_back();
        }
        if ahead.abs() >= JUMP_NS {
            self.knots.push_back(now);
        } else {
            let length = BEND_NS as f64 / now.ns_per_tick;
            let bent = (BEND_NS as i64 - ahead) as f64 / length;
            let bend = Anchor { ticks: now.ticks, ns, ns_per_tick: bent };
            let ticks = now.ticks + length as u64;
            self.knots.push_back(bend);
            self.knots.push_back(Anchor { ticks, ns: bend.to_monotonic_ns(ticks), ..now });
        }
        while self.knots.len() > MAX_KNOTS {
            self.knots.pop_front();
        }
    }

    /// The `CLOCK_MONOTONIC` time of a tick: always the same, and never earlier for a later tick.
    pub fn to_monotonic_ns(&self, ticks: u64) -> u64 {
        let piece = self.knots.iter().rev().find(|knot| knot.ticks <= ticks).or(self.knots.front());
        piece.expect("it follows the clocks before anything is converted").to_monotonic_ns(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 0.4;

    /// A pair at this time, with the monotonic clock off by so much.
    fn pair(ms: u64, off_ns: i64, rate: f64) -> Anchor {
        let ticks = 1_000_000_000 + (ms as f64 * 1e6 / RATE) as u64;
        Anchor { ticks, ns: (ms * 1_000_000).saturating_add_signed(off_ns), ns_per_tick: rate }
    }

    #[test]
    fn what_was_converted_stays_when_pairs_of_the_clocks_disagree() {
        let mut scale = Scale::new();
        scale.follow(pair(10, 0, RATE));
        let mut known: Vec<(u64, u64)> = Vec::new();
        // Noise, an offset that stays for a while, rates that are wrong, and pairs within the bend of the one before.
        let offs = [40, -40, 5_000, 5_000, -3_000, 400_000, -400_000, 0, 150, -150, 0];
        for (at, off) in (1..).zip(offs.iter().cycle().take(200)) {
            let ms = if at % 3 == 0 { 10 * at } else { 10 * at + 3 };
            let now = pair(10 + ms, *off, RATE * (1.0 + f64::from(at as u32 % 5) * 1e-5));
            let before = now.ticks - 1;
            let early = scale.to_monotonic_ns(before);
            scale.follow(now);
            assert_eq!(scale.to_monotonic_ns(before), early);
            for ticks in [now.ticks - 3, now.ticks - 2, before, now.ticks, now.ticks + 1, now.ticks + 2] {
                known.push((ticks, scale.to_monotonic_ns(ticks)));
            }
            assert!(known.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
        }
    }

    #[test]
    fn a_difference_is_worked_off_and_noise_is_not_followed() {
        let mut scale = Scale::new();
        scale.follow(pair(0, 0, RATE * 1.000_02));
        let error = |scale: &Scale, ms| scale.to_monotonic_ns(pair(ms, 0, RATE).ticks) as i64 - ms as i64 * 1_000_000;
        assert_eq!(error(&scale, 1000), 20_000);
        scale.follow(pair(1000, 0, RATE));
        // What was recorded before the pair keeps its time.
        assert_eq!(error(&scale, 1000), 20_000);
        assert_eq!(error(&scale, 500), 10_000);
        assert!(error(&scale, 1010).abs() <= 1);
        assert!(error(&scale, 60_000).abs() <= 1);
        scale.follow(pair(60_000, 90, RATE));
        assert!(error(&scale, 60_000).abs() <= 1);
    }

    #[test]
    fn a_machine_that_slept_is_at_its_own_time_at_once() {
        let mut scale = Scale::new();
        scale.follow(pair(0, 0, RATE));
        let woken = Anchor { ns: 4_000_000_000, ..pair(1000, 0, RATE) };
        scale.follow(woken);
        assert_eq!(scale.to_monotonic_ns(woken.ticks), 4_000_000_000);
        assert_eq!(scale.to_monotonic_ns(pair(500, 0, RATE).ticks), 500_000_000);
    }

    #[test]
    fn old_pieces_are_let_go() {
        let mut scale = Scale::new();
        for at in 0..1000 {
            scale.follow(pair(100 * at, if at % 2 == 0 { 0 } else { 10_000 }, RATE));
        }
        assert_eq!(scale.knots.len(), MAX_KNOTS);
        assert_eq!(scale.to_monotonic_ns(0), 0);
    }
}
