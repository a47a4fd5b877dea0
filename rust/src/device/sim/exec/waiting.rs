//! Blocks of tasks that wait to run, with their arguments; and what the cores write down of them.
#![allow(unsafe_code)] // looks into the lanes of all cores

use super::entry::ALONE_NS;
use super::frame::{Frame, View};
use super::interpret::{Context, Core, Kernel};
use super::script::Script;
use super::{Stop, span};
use crate::device::sim::code::Param;
use crate::program::LaunchArg;
use crate::trace::{Track, names, now, ticks_to_ns};
use std::{mem, slice};

/// One block of a task.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub kernel: u32,
    pub block: [u64; 2],
    /// Where its arguments begin.
    pub views: usize,
    pub scalars: usize,
}

/// Blocks that wait, and their arguments.
#[derive(Default)]
pub(super) struct Waiting {
    pub units: Vec<Unit>,
    pub views: Vec<View>,
    scalars: Vec<u64>,
}

impl Waiting {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.units.clear();
        self.views.clear();
        self.scalars.clear();
    }

    /// Keeps the arguments of a task, and says where.
    pub fn arguments(&mut self, args: &[LaunchArg], caller: &Frame) -> (usize, usize) {
        let at = (self.views.len(), self.scalars.len());
        for arg in args {
            match *arg {
                LaunchArg::Tensor(slot) => self.views.push(caller.tensors[slot as usize]),
                LaunchArg::Scalar(value) => self.scalars.push(caller.bits(value)),
            }
        }
        at
    }

    /// Gives `frame` the arguments of `unit`.
    pub fn bind(&self, unit: Unit, frame: &mut Frame, context: &Context<'_>) {
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

    /// Runs one unit on `core`, and writes it down where a launch `is_recording`.
    pub fn run(&self, at: usize, core: &mut Core<'_>, is_recording: bool) -> Result<(), Stop> {
        let unit = self.units[at];
        let code = &core.context.lowered.kernels[unit.kernel as usize];
        let mut frame = core.take_frame(unit.kernel);
        self.bind(unit, &mut frame, core.context);
        if is_recording {
            core.recording = Some(mem::take(&mut core.lane().written.script));
        }
        let begin = now();
        let result = core.code(unit.kernel, code, &mut frame, &mut Kernel);
        let (end, invocation) = (now(), core.context.invocation);
        let ticks = end.saturating_sub(begin);
        core.context.paces[unit.kernel as usize].took(ticks, 1);
        if let Some(mut script) = core.recording.take() {
            let ns = ticks_to_ns(ticks);
            script.task_ends(unit.kernel, ns >= ALONE_NS);
            let written = &mut core.lane().written;
            written.script = script;
            written.units.push((at, ns));
        }
        if invocation != 0 {
            span(names::TASK, Track::core(core.number), invocation, begin, end, unit.kernel.into());
        }
        core.put_frame(unit.kernel, frame);
        result
    }
}

/// What one core wrote down of a wave.
#[derive(Default)]
pub(super) struct Written {
    script: Script,
    /// For each of its tasks the unit, and how long that took in nanoseconds.
    units: Vec<(usize, u64)>,
}

impl Written {
    /// Adds what all cores wrote down to `script`, in the order of the units; gives how long all of them took in
    /// nanoseconds.
    pub fn take_over(script: &mut Script, context: &Context<'_>) -> u64 {
        // SAFETY: there is a lane for each core, and the other cores have nothing to do.
        let lanes = unsafe { slice::from_raw_parts_mut(context.lanes, context.pool.cores()) };
        let all: Vec<Self> = lanes.iter_mut().map(|lane| mem::take(&mut lane.written)).collect();
        let mut order: Vec<(usize, usize, usize)> = Vec::new();
        for (core, written) in all.iter().enumerate() {
            order.extend(written.units.iter().enumerate().map(|(task, &(unit, _))| (unit, core, task)));
        }
        order.sort_unstable();
        script.has_gaps |= all.iter().any(|core| core.script.has_gaps);
        for (_, core, task) in order {
            script.add(&all[core].script, task);
        }
        all.iter().flat_map(|core| &core.units).map(|&(_, ns)| ns).sum()
    }
}
