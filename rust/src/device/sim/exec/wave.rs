//! Tasks that wait to run at once: each touches nothing that another writes.
//!
//! The entry runs in order and hands over one task after the other. A block of a task that touches what a waiting one
//! writes, or writes what a waiting one touches, lets the wave run first; so the results are those of one task after the
//! other, whatever the order within a wave. A graph with an edge for each such pair would let a task start as soon as its own
//! predecessors have ended; it needs a queue between the cores and knows nothing better where, as in model kernels,
//! tasks come in rows of equals.
//!
//! A launch that is written down keeps its waves for those that repeat it: they run at once what ran at once, and look for
//! nothing.

use super::frame::Frame;
use super::interpret::Core;
use super::probe::{Probe, Region, Sight};
use super::script::{Cursor, Script, Task, Together};
use super::spread::Spread;
use super::waiting::{Unit, Waiting, Written};
use super::{Stop, span};
use crate::device::sim::code::Param;
use crate::program::LaunchArg;
use crate::trace::{Track, names, now};
use std::slice;

/// Waiting blocks for each core: enough that uneven ones even out, few enough that looking for conflicts stays cheap.
const DEPTH: usize = 32;
/// The same where later launches take over what was found, and a bound for what each block is compared with: the one launch
/// that is written down then spends 1-2 ms on 2,000 blocks of two boxes.
const DEPTH_OF_SCRIPTS: usize = 256;
const REGIONS_OF_SCRIPTS: usize = 2048;

/// The waiting tasks; the lists keep their memory from launch to launch.
#[derive(Default)]
pub(super) struct Wave {
    waiting: Waiting,
    spread: Spread,
    /// Nanoseconds that they take one after the other, as far as is known.
    ns: u64,
    /// What the units touch.
    regions: Vec<Region>,
    /// What the unit that is being looked at touches.
    own: Vec<Region>,
    /// Begin of the first task and end of the last, in ticks.
    pub tasks: Option<(u64, u64)>,
}

impl Wave {
    /// An empty one. With a `seed`, what waits together runs in a random order.
    pub fn new(seed: Option<u64>) -> Self {
        Self { spread: Spread::new(seed), ..Self::default() }
    }

    /// Forgets what an earlier launch left.
    pub fn reset(&mut self) {
        self.clear();
        self.tasks = None;
    }

    fn clear(&mut self) {
        self.ns = 0;
        self.regions.clear();
        self.waiting.clear();
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
        let mut at = self.waiting.arguments(args, caller);
        for block in 0..blocks {
            if self.is_full(core) {
                self.run(core)?;
                at = self.waiting.arguments(args, caller);
            }
            let mut unit = Unit { kernel, block: [block, blocks], views: at.0, scalars: at.1 };
            self.look(core, unit)?;
            if self.own.iter().any(|own| self.regions.iter().any(|other| own.conflicts(other))) {
                self.run(core)?;
                at = self.waiting.arguments(args, caller);
                (unit.views, unit.scalars) = at;
            }
            self.ns = self.ns.saturating_add(core.context.paces[kernel as usize].ns());
            self.waiting.units.push(unit);
            self.regions.extend_from_slice(&self.own);
        }
        Ok(())
    }

    /// Whether what waits should run before more is added.
    fn is_full(&self, core: &Core<'_>) -> bool {
        let (units, cores) = (self.waiting.units.len(), core.context.pool.cores());
        let room = core.is_recording() && self.regions.len() < REGIONS_OF_SCRIPTS;
        units >= cores * if room { DEPTH_OF_SCRIPTS } else { DEPTH }
    }

    /// Finds what `unit` touches.
    fn look(&mut self, core: &mut Core<'_>, unit: Unit) -> Result<(), Stop> {
        let code = &core.context.lowered.kernels[unit.kernel as usize];
        loop {
            let mut frame = core.take_frame(unit.kernel);
            self.waiting.bind(unit, &mut frame, core.context);
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
                    let mut views = self.waiting.views[unit.views..].iter();
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

    /// Runs what waits and forgets it.
    pub fn run(&mut self, core: &mut Core<'_>) -> Result<(), Stop> {
        let result = self.run_units(core);
        self.clear();
        result
    }

    fn run_units(&mut self, core: &mut Core<'_>) -> Result<(), Stop> {
        let count = self.waiting.units.len();
        if count == 0 {
            return Ok(());
        }
        let begin = self.begins(core);
        let is_recording = core.is_recording();
        // Each core writes down what it does itself.
        let mut script = core.recording.take();
        let (waiting, worth) = (&self.waiting, self.spread.is_worth(self.ns));
        let result = self.spread.run(core, count, worth, &|at, core| waiting.run(at, core, is_recording));
        if let (true, Some(script)) = (is_recording, &mut script) {
            let first = script.tasks.len();
            let ns = Written::take_over(script, core.context);
            if count > 1 && self.spread.is_worth(ns) {
                let piece = self.spread.piece(count, ns, core.context.pool.cores());
                script.tasks[first..].iter_mut().for_each(|task| task.alone = true);
                script.waves.push(Together { tasks: first..script.tasks.len(), piece });
            }
        }
        core.recording = script;
        self.ended(core, begin);
        self.waiting.units.clear();
        self.regions.clear();
        self.ns = 0;
        result
    }

    /// Runs tasks of a script that touch nothing of each other.
    pub fn again(&mut self, core: &mut Core<'_>, script: &Script, together: &Together) -> Result<(), Stop> {
        let begin = self.begins(core);
        let Together { tasks, piece } = together;
        let run = |at: usize, core: &mut Core<'_>| {
            let first = tasks.start + at * piece;
            let (last, mut at) = ((first + piece).min(tasks.end), script.begin_of(first));
            let tasks = &script.tasks[first..last];
            if core.context.invocation == 0 {
                core.tasks_again(script, tasks, &mut at)
            } else {
                timed(core, script, tasks, &mut at)
            }
        };
        let result = self.spread.run(core, tasks.len().div_ceil(*piece), true, &run);
        self.ended(core, begin);
        result
    }

    /// When tasks begin, where they are recorded.
    fn begins(&self, core: &Core<'_>) -> u64 {
        if core.context.invocation == 0 { 0 } else { now() }
    }

    /// The tasks ended that began at `begin`.
    fn ended(&mut self, core: &Core<'_>, begin: u64) {
        if core.context.invocation != 0 {
            self.tasks = Some((self.tasks.map_or(begin, |(first, _)| first), now()));
        }
    }
}

/// Runs tasks of a script and records the span of each.
fn timed(core: &mut Core<'_>, script: &Script, tasks: &[Task], at: &mut Cursor) -> Result<(), Stop> {
    let mut begin = now();
    for task in tasks {
        core.tasks_again(script, slice::from_ref(task), at)?;
        let end = now();
        span(names::TASK, Track::core(core.number), core.context.invocation, begin, end, task.kernel.into());
        begin = end;
    }
    Ok(())
}
