//! Tasks that wait to run at once: each touches nothing that another writes.
//!
//! The entry runs in order and hands over one task after the other. A block of a task that touches what a waiting one
//! writes, or writes what a waiting one touches, lets the wave run first; so the results are those of one task after the
//! other, whatever the order within a wave. A graph with an edge for each such pair would let a task start as soon as its own
//! predecessors have ended; it needs a queue between the cores and knows nothing better where, as in model kernels,
//! tasks come in rows of equals.
#![allow(unsafe_code)] // gives each core its lane

use super::frame::{Frame, View};
use super::interpret::{Context, Core, Kernel};
use super::probe::{Probe, Region, Sight};
use super::{Stop, span};
use crate::device::sim::code::Param;
use crate::program::LaunchArg;
use crate::trace::{Track, names, now};
use fastrand::Rng;
use std::sync::{Mutex, PoisonError};

/// Waiting blocks for each core: enough that uneven ones even out, few enough that looking for conflicts stays cheap.
const DEPTH: usize = 32;

/// Nanoseconds of what waits together for which it is worth to wake other cores: one that sleeps takes 10-60 us.
const WORTH_NS: u64 = 30_000;

/// One block of a task.
#[derive(Clone, Copy)]
struct Unit {
    kernel: u32,
    block: [u64; 2],
    /// Where its arguments begin.
    views: usize,
    scalars: usize,
}

/// The waiting tasks; the lists keep their memory from launch to launch.
#[derive(Default)]
pub(super) struct Wave {
    units: Vec<Unit>,
    views: Vec<View>,
    scalars: Vec<u64>,
    /// Nanoseconds that they take one after the other, as far as is known.
    ns: u64,
    /// What the units touch.
    regions: Vec<Region>,
    /// What the unit that is being looked at touches.
    own: Vec<Region>,
    /// Shuffles the units.
    random: Option<Rng>,
    /// In which order they run, where that is not theirs.
    order: Vec<usize>,
    /// Begin of the first task and end of the last, in ticks.
    pub tasks: Option<(u64, u64)>,
}

impl Wave {
    /// An empty one. With a `seed`, what waits together runs in a random order.
    pub fn new(seed: Option<u64>) -> Self {
        Self { random: seed.map(Rng::with_seed), ..Self::default() }
    }

    /// Forgets what an earlier launch left.
    pub fn reset(&mut self) {
        self.clear();
        self.tasks = None;
    }

    fn clear(&mut self) {
        self.ns = 0;
        self.units.clear();
        self.views.clear();
        self.scalars.clear();
        self.regions.clear();
    }

    /// Takes up the blocks of a task; runs what has to run before it.
    pub fn add(
        &mut self,
        core: &mut Core<'_>,
        kernel: u32,
        args: &[LaunchArg],
        blocks: u64,
        caller: &Frame,
    ) -> Result<(), Stop> {
        let mut at = self.arguments(args, caller);
        for block in 0..blocks {
            if self.units.len() >= DEPTH * core.context.pool.cores() {
                self.run(core)?;
                at = self.arguments(args, caller);
            }
            let mut unit = Unit { kernel, block: [block, blocks], views: at.0, scalars: at.1 };
            self.look(core, unit)?;
            if self.own.iter().any(|own| self.regions.iter().any(|other| own.conflicts(other))) {
                self.run(core)?;
                at = self.arguments(args, caller);
                (unit.views, unit.scalars) = at;
            }
            self.ns = self.ns.saturating_add(core.context.paces[kernel as usize].ns());
            self.units.push(unit);
            self.regions.extend_from_slice(&self.own);
        }
        Ok(())
    }

    /// Keeps the arguments of a task, and says where.
    fn arguments(&mut self, args: &[LaunchArg], caller: &Frame) -> (usize, usize) {
        let at = (self.views.len(), self.scalars.len());
        for arg in args {
            match *arg {
                LaunchArg::Tensor(slot) => self.views.push(caller.tensors[slot as usize]),
                LaunchArg::Scalar(value) => self.scalars.push(caller.bits(value)),
            }
        }
        at
    }

    /// Finds what `unit` touches.
    fn look(&mut self, core: &mut Core<'_>, unit: Unit) -> Result<(), Stop> {
        let code = &core.context.lowered.kernels[unit.kernel as usize];
        loop {
            let mut frame = core.take_frame(unit.kernel);
            self.bind(unit, &mut frame, core.context);
            let sight = Probe::look(&mut self.own, &self.regions, core, unit.kernel, &mut frame);
            core.put_frame(unit.kernel, frame);
            match sight {
                Sight::Clear => return Ok(()),
                Sight::Pending => {
                    // Its arguments stay while the others run.
                    self.run_units(core)?;
                }
                Sight::Blind => {
                    self.own.clear();
                    let mut views = self.views[unit.views..].iter();
                    for param in &code.params {
                        let Param::Tensor(slot) = *param else { continue };
                        let view = views.next().expect("kept with the unit");
                        let size = code.tensors[slot as usize].size();
                        self.own.push(Region::view(view, size, code.written[slot as usize]));
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Gives `frame` the arguments of `unit`.
    fn bind(&self, unit: Unit, frame: &mut Frame, context: &Context<'_>) {
        let code = &context.lowered.kernels[unit.kernel as usize];
        let (mut views, mut scalars) = (self.views[unit.views..].iter(), self.scalars[unit.scalars..].iter());
        frame.scalars.fill(0);
        for param in &code.params {
            match *param {
                Param::Tensor(slot) => {
                    frame.tensors[slot as usize].set(views.next().expect("kept with the unit"));
                }
                Param::Scalar(slot) => {
                    frame.scalars[slot as usize] = *scalars.next().expect("kept with the unit");
                }
            }
        }
        frame.block = unit.block;
    }

    /// Runs what waits and forgets it.
    pub fn run(&mut self, core: &mut Core<'_>) -> Result<(), Stop> {
        let result = self.run_units(core);
        self.clear();
        result
    }

    fn run_units(&mut self, core: &mut Core<'_>) -> Result<(), Stop> {
        let (count, cores) = (self.units.len(), core.context.pool.cores());
        if count == 0 {
            return Ok(());
        }
        let begin = if core.context.invocation == 0 { 0 } else { now() };
        // The last round of few blocks would leave cores idle: its blocks run one by one, their steps cut into parts.
        let together = if count < 4 * cores { count - count % cores } else { count };
        // With a random order every unit is worth it: that is for tests.
        let together = if self.ns >= WORTH_NS || self.random.is_some() { together } else { 0 };
        let failed = Mutex::new(None::<(usize, Stop)>);
        self.order.clear();
        if let Some(random) = &mut self.random {
            self.order.extend(0..count);
            random.shuffle(&mut self.order);
        }
        let this = &*self;
        let turn = |at: usize| this.order.get(at).copied().unwrap_or(at);
        let context = core.context;
        let part = |part: usize, number: usize| {
            let part = turn(part);
            if let Err(stop) = this.unit(part, &mut Core::new(context, number, false)) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|&(first, _)| part < first) {
                    *failed = Some((part, stop));
                }
            }
        };
        context.pool.run_watched(together, &part, &mut || {
            context.poller.poll();
        });
        let mut result =
            failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, stop)| Err(stop));
        for left in together..count {
            result = result.and_then(|()| this.unit(turn(left), core));
        }
        if core.context.invocation != 0 {
            self.tasks = Some((self.tasks.map_or(begin, |(first, _)| first), now()));
        }
        self.units.clear();
        self.regions.clear();
        self.ns = 0;
        result
    }

    /// Runs one unit on `core`.
    fn unit(&self, at: usize, core: &mut Core<'_>) -> Result<(), Stop> {
        let unit = self.units[at];
        let code = &core.context.lowered.kernels[unit.kernel as usize];
        let mut frame = core.take_frame(unit.kernel);
        self.bind(unit, &mut frame, core.context);
        let begin = now();
        let result = core.code(unit.kernel, code, &mut frame, &mut Kernel);
        let (end, invocation) = (now(), core.context.invocation);
        core.context.paces[unit.kernel as usize].took(end.saturating_sub(begin), 1);
        if invocation != 0 {
            span(names::TASK, Track::core(core.number), invocation, begin, end, unit.kernel.into());
        }
        core.put_frame(unit.kernel, frame);
        result
    }
}
