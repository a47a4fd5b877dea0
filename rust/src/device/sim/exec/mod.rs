//! Runs lowered programs.
//!
//! ```text
//! entry ── tasks ──► wave ── blocks that touch nothing of each other ──► cores ── steps ──► kernels
//!                                                                          ▲    │
//!                                           launches that repeat the last one └ script
//! ```
#![allow(unsafe_code)] // the device contract passes addresses

mod access;
mod beyond;
mod block;
mod checked;
mod coverage;
mod entry;
mod frame;
mod grid;
mod inspect;
mod interpret;
mod pace;
mod packed;
mod poll;
mod probe;
mod profiled;
mod replay;
mod report;
mod scalar;
mod scratch;
mod script;
mod spread;
mod step;
mod valid;
mod waiting;
mod wave;

use super::code::{Code, Param};
use super::lower::Lowered;
use super::pool::CorePool;
use crate::device::{DeviceError, Launch, Packable, TensorArg};
use crate::kernels::settle_streams;
use crate::program::Loc;
use crate::trace::{self, Name, Record, Track, names};
pub(super) use checked::{Rules, launch_checked};
use entry::Entry;
pub(super) use entry::Waits;
use frame::Frame;
use interpret::{Context, Core, Lane};
pub(super) use pace::Pace;
use packed::Packed;
use poll::Poller;
pub(super) use profiled::{Tally, launch_profiled};
use replay::Replay;
pub(super) use scratch::ScratchPlan;
use waiting::Written;
use wave::Wave;

/// Stands for the number of a kernel.
const ENTRY: u32 = u32::MAX;

/// What launches of one executable use again and again.
pub(super) struct State {
    entry: Frame,
    lanes: Vec<Lane>,
    wave: Wave,
    paces: Vec<Pace>,
    packed: Vec<Packed>,
    replay: Replay,
    /// The scratch memory that the lanes have their shares of, by its address.
    shared_out: usize,
}

impl State {
    /// For `cores` cores, of which `task_cores` run tasks. `paces` are of the kernels; with a `seed`, tasks that wait
    /// together run in a random order.
    pub fn new(lowered: &Lowered, cores: usize, task_cores: usize, paces: Vec<Pace>, seed: Option<u64>) -> Self {
        let codes = || lowered.kernels.iter();
        let most_mems = codes().map(|code| code.max_mems).max().unwrap_or(0);
        let most_scalars = codes().map(|code| code.max_scalars).max().unwrap_or(0);
        let lane = |core: usize| Lane {
            frames: if core < task_cores {
                codes().map(|code| Some(Box::new(Frame::new(code)))).collect()
            } else {
                Vec::new()
            },
            mems: Vec::with_capacity(most_mems),
            part_mems: Vec::with_capacity(most_mems),
            scalars: Vec::with_capacity(most_scalars),
            bounce: Vec::new(),
            bounced: Vec::new(),
            tiles: std::ptr::null_mut(),
            scratch: std::ptr::null_mut(),
            written: Written::default(),
        };
        Self {
            entry: Frame::new(&lowered.entry),
            lanes: (0..cores).map(lane).collect(),
            wave: Wave::new(seed),
            paces,
            packed: Vec::new(),
            replay: Replay::new(lowered),
            shared_out: 0,
        }
    }

    /// What runs at once in launches that repeat the last one: how many rows of tasks. `None` where such launches do not
    /// run from a script.
    #[cfg(test)]
    pub fn waves(&self) -> Option<usize> {
        self.replay.script(true).map(|script| script.waves.len())
    }

    /// See [`crate::device::Executable::overwrites`].
    pub fn overwrites(&self, tensor: usize) -> bool {
        self.replay.overwrites(tensor)
    }
}

/// Why a function stopped early.
enum Stop {
    Interrupted,
    Fault(Loc, String),
    /// A fault whose place the caller adds.
    Message(String),
    Device(DeviceError),
    /// Of a look ahead: depends on a task that has not run yet.
    Pending,
    /// Of a look ahead: depends on what the task itself computes.
    Blind,
}

impl Stop {
    fn at(self, at: Loc) -> Self {
        match self {
            Stop::Message(message) => Stop::Fault(at, message),
            other => other,
        }
    }
}

/// Why memory could not be created.
enum Refusal {
    Message(String),
    Device(DeviceError),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Refusal::Message(message)
    }
}

impl Refusal {
    fn at(self, at: Loc) -> Stop {
        match self {
            Refusal::Message(message) => Stop::Fault(at, message),
            Refusal::Device(error) => Stop::Device(error),
        }
    }
}

/// What stays the same from launch to launch.
pub(super) struct Prepared<'a> {
    pub lowered: &'a Lowered,
    pub packable: &'a [Packable],
    pub plan: ScratchPlan,
    pub pool: &'a CorePool,
    pub waits: Waits,
    /// For messages.
    pub files: &'a [String],
    pub name: &'a str,
}

/// Runs `launch` once.
///
/// # Safety
/// As for [`crate::device::Executable::launch`]; `scratch` is laid out by `prepared.plan`.
pub(super) unsafe fn launch(prepared: &Prepared<'_>, state: &mut State, launch: Launch<'_>) -> Result<(), DeviceError> {
    let &Prepared { lowered, packable, plan, pool, waits, .. } = prepared;
    let State { entry: frame, lanes, wave, paces, packed, replay, shared_out } = state;
    Packed::list(packed, packable, launch.tensors, launch.packed);
    if *shared_out != launch.scratch.addr() {
        *shared_out = launch.scratch.addr();
        plan.lay_out(lanes, launch.scratch);
    }
    wave.reset();
    let poller = Poller::new(launch.poll);
    let traced = launch.invocation != 0 && trace::is_enabled();
    let begin = if traced { trace::now() } else { 0 };
    let invocation = if traced { launch.invocation } else { 0 };
    let context = Context {
        lowered,
        pool,
        poller: &poller,
        paces,
        packed,
        tensors: launch.tensors,
        lanes: lanes.as_mut_ptr(),
        invocation,
    };
    let core = &mut Core::new(&context, 0, true);
    let host = &mut Entry::new(launch.workspace, wave, waits, invocation);
    let result = if let Some(script) = replay.script(launch.repeats) {
        host.again(core, script)
    } else {
        bind(&lowered.entry, frame, launch.tensors, launch.scalars);
        core.recording = replay.begin(launch.repeats);
        let result = core.code(ENTRY, &lowered.entry, frame, host).and_then(|()| host.wave.run(core));
        if let Some(script) = core.recording.take() {
            replay.end(script, result.is_ok(), lowered, launch.tensors);
        }
        result
    };
    settle_streams();
    if traced {
        host.tasks.pause();
        span(names::ORCH, Track::DEVICE, invocation, begin, trace::now(), 0);
        let extents = [host.tasks.extent(), host.wave.tasks].into_iter().flatten();
        if let Some((first, last)) = extents.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            span(names::SCHED, Track::DEVICE, invocation, first, last, 0);
        }
    }
    result.map_err(|stop| prepared.error(stop))
}

impl Prepared<'_> {
    fn error(&self, stop: Stop) -> DeviceError {
        let &Self { files, name, .. } = self;
        match stop {
            Stop::Interrupted => DeviceError::Interrupted { what: format!("the launch of {name:?}") },
            Stop::Fault(at, message) => DeviceError::Fault {
                program: name.to_owned(),
                file: files.get(at.0 as usize).cloned().unwrap_or_default(),
                at,
                message,
            },
            Stop::Device(error) => error,
            Stop::Message(_) | Stop::Pending | Stop::Blind => {
                unreachable!("placed by the core, or within a look ahead")
            }
        }
    }
}

fn span(name: Name, track: Track, invocation: u32, begin: u64, end: u64, arg: u64) {
    trace::record(Record { begin, end, arg, invocation, name, track });
}

fn bind(code: &Code, frame: &mut Frame, tensors: &[TensorArg], scalars: &[u64]) {
    // A scalar that is read before it is assigned is 0, not what the last launch left.
    frame.scalars.fill(0);
    let (mut tensors, mut scalars) = ((0..).zip(tensors), scalars.iter());
    for param in &code.params {
        match *param {
            Param::Tensor(slot) => {
                let (base, arg) = tensors.next().expect("the caller passes every tensor");
                frame.tensors[slot as usize].set_whole(arg.data, base, &arg.shape);
            }
            Param::Scalar(slot) => {
                frame.scalars[slot as usize] = *scalars.next().expect("the caller passes every scalar");
            }
        }
    }
}
