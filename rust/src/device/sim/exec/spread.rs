//! Work in pieces that touch nothing of each other, for all cores.

use super::Stop;
use super::interpret::Core;
use fastrand::Rng;
use std::sync::{Mutex, PoisonError};

/// Nanoseconds of work for which it is worth to wake other cores: one that sleeps takes 10-60 us.
const WORTH_NS: u64 = 30_000;

/// Nanoseconds of a piece that is put together of shorter work: taking one costs 0.05 us, and more where many cores ask.
const PIECE_NS: u64 = 1_000;
/// So many pieces for each core even out what they take.
const PIECES: usize = 8;

/// How pieces are spread over the cores.
#[derive(Default)]
pub(super) struct Spread {
    /// Shuffles the pieces.
    random: Option<Rng>,
    /// In which order they run, where that is not theirs.
    order: Vec<usize>,
}

impl Spread {
    /// With a `seed`, pieces run in a random order.
    pub fn new(seed: Option<u64>) -> Self {
        Self { random: seed.map(Rng::with_seed), ..Self::default() }
    }

    /// Whether work that takes `ns` nanoseconds on one core is worth several. With a random order it always is: that is for
    /// tests.
    pub fn is_worth(&self, ns: u64) -> bool {
        ns >= WORTH_NS || self.random.is_some()
    }

    /// How many of `count` equal works make a piece, where all take `ns` nanoseconds.
    pub fn piece(&self, count: usize, ns: u64, cores: usize) -> usize {
        let most = if self.random.is_some() { 1 } else { count / (PIECES * cores) };
        (count as u64 * PIECE_NS / ns.max(1)).clamp(1, most.max(1) as u64) as usize
    }

    /// Runs the pieces `0..count`, on all cores where it is `worth` that; else one by one on `core`, with all cores for the
    /// steps of each. What stopped the first of them, in their order, is the result.
    pub fn run(
        &mut self,
        core: &mut Core<'_>,
        count: usize,
        worth: bool,
        piece: &(dyn Fn(usize, &mut Core<'_>) -> Result<(), Stop> + Sync),
    ) -> Result<(), Stop> {
        let (context, cores) = (core.context, core.context.pool.cores());
        // The last round of few pieces would leave cores idle: those run one by one.
        let together = if count < 4 * cores { count - count % cores } else { count };
        let together = if worth { together } else { 0 };
        self.order.clear();
        if let Some(random) = &mut self.random {
            self.order.extend(0..count);
            random.shuffle(&mut self.order);
        }
        let order = &self.order;
        let turn = |at: usize| order.get(at).copied().unwrap_or(at);
        let failed = Mutex::new(None::<(usize, Stop)>);
        let part = |part: usize, number: usize| {
            let at = turn(part);
            // Each piece has a budget of its own, so it may be too short to look around.
            let stop = if number == 0 { context.poller.poll() } else { context.poller.stopped() };
            let result = if stop { Err(Stop::Interrupted) } else { piece(at, &mut Core::new(context, number, false)) };
            if let Err(stop) = result {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|&(first, _)| at < first) {
                    *failed = Some((at, stop));
                }
            }
        };
        context.pool.run_watched(together, &part, &mut || {
            context.poller.poll();
        });
        let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        for at in (together..count).map(turn) {
            // In a random order, one before it may still fail.
            if failed.as_ref().is_none_or(|&(first, _)| at < first) {
                failed = piece(at, core).err().map(|stop| (at, stop)).or(failed);
            }
        }
        failed.map_or(Ok(()), |(_, stop)| Err(stop))
    }
}
