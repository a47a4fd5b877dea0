//! A launch under sanitizers: in order, on one core, with a look at each access before it happens.
#![allow(unsafe_code)] // the device contract passes addresses

use super::frame::{Frame, View};
use super::interpret::{Context, Core, Element, Host};
use super::poll::Poller;
use super::report::Reporter;
use super::script::StepId;
use super::{ENTRY, Prepared, Refusal, State, Stop, entry};
use crate::device::findings::Action;
use crate::device::profile::TaskOf;
use crate::device::sim::code::{Param, Source, Step};
use crate::device::sim::lower::Lowered;
use crate::device::sim::sanitize::Sanitizers;
use crate::device::sim::sanitize::area::Area;
use crate::device::sim::sanitize::log::{Log, Touch};
use crate::device::sim::sanitize::shadow::Shadow;
use crate::device::sim::sanitize::tasks::{Given, Tasks};
use crate::device::{DeviceError, Launch, Workspace};
use crate::dtype::DType;
use crate::kernels::settle_streams;
use crate::program::{Direction, FnParam, Function, LaunchArg, Loc, Operand, OrderRule, Program, TaskRef};

/// What a checked launch goes by.
pub(in crate::device::sim) struct Rules<'a> {
    pub program: &'a Program,
    pub sanitizers: Sanitizers,
    pub shadow: &'a mut Shadow,
    /// Where the tasks of the launch go.
    pub tasks: &'a mut Vec<TaskOf>,
}

/// Runs `launch` once, in order, and reports what the sanitizers find.
///
/// # Safety
/// As for [`super::launch`].
pub(in crate::device::sim) unsafe fn launch_checked(
    prepared: &Prepared<'_>,
    state: &mut State,
    launch: Launch<'_>,
    rules: Rules<'_>,
) -> Result<(), DeviceError> {
    let &Prepared { lowered, plan, pool, .. } = prepared;
    let State { entry: frame, lanes, paces, .. } = state;
    plan.lay_out(lanes, launch.scratch);
    let poller = Poller::new(launch.poll);
    let context = Context {
        lowered,
        pool,
        poller: &poller,
        paces,
        packed: &[],
        tensors: launch.tensors,
        lanes: lanes.as_mut_ptr(),
        invocation: 0,
    };
    super::bind(&lowered.entry, frame, launch.tensors, launch.scalars);
    let mut checker = Checker {
        program: rules.program,
        lowered,
        sanitizers: rules.sanitizers,
        shadow: rules.shadow,
        workspace: launch.workspace,
        report: Reporter::new(rules.program),
        tasks: Tasks::default(),
        log: Log::default(),
        ids: rules.program.entry.source.tasks.iter().map(|&extent| vec![None; extent as usize]).collect(),
        next: None,
        running: None,
        at: Loc::default(),
        skipped: None,
        valid: Vec::new(),
    };
    for (param, tensor) in lowered.entry.params.iter().zip(&rules.program.entry.params) {
        if let (Param::Tensor(slot), FnParam::Tensor { .. }) = (param, tensor) {
            checker.report.adds(*slot, &frame.tensors[*slot as usize]);
        }
    }
    let core = &mut Core::new(&context, 0, true);
    let result = core.code(ENTRY, &lowered.entry, frame, &mut checker);
    settle_streams();
    *rules.tasks = checker.tasks.told();
    let report = checker.report;
    let fault = match result.map_err(|stop| prepared.error(stop)) {
        Ok(()) => None,
        Err(DeviceError::Fault { at, file, message, .. }) if report.is_some() => {
            Some(format!("{file}:{}: {message}", at.1))
        }
        Err(other) => return Err(other),
    };
    report.end(fault).map_or(Ok(()), |findings| Err(DeviceError::Sanitizer(Box::new(findings))))
}

/// What is declared about the launch that comes next.
struct Next {
    dst: Option<(u32, usize)>,
    deps: Vec<u32>,
    manual: bool,
    no_dep: Vec<u32>,
}

/// The block of a task that runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub kernel: u32,
    pub task: u32,
    pub block: u64,
}

/// The host of a checked entry and of its kernels.
pub(super) struct Checker<'a> {
    pub program: &'a Program,
    lowered: &'a Lowered,
    pub sanitizers: Sanitizers,
    shadow: &'a mut Shadow,
    workspace: &'a mut dyn Workspace,
    pub report: Reporter<'a>,
    pub tasks: Tasks,
    log: Log,
    /// The tasks that the slots of task ids name.
    ids: Vec<Vec<Option<u32>>>,
    next: Option<Next>,
    /// `None` for the entry.
    pub running: Option<Running>,
    pub at: Loc,
    /// The operation of which the steps are left out, because an access of it does not exist.
    skipped: Option<usize>,
    /// Of each tile of the kernel, rows and columns that were computed or loaded.
    pub valid: Vec<[i64; 2]>,
}

impl Checker<'_> {
    /// What runs.
    pub fn function(&self) -> &Function {
        self.running.map_or(&self.program.entry, |running| &self.program.kernels[running.kernel as usize])
    }

    pub fn dtype(&self, slot: u32) -> DType {
        self.function().tensors[slot as usize].dtype
    }

    /// An access to device memory that exists.
    pub fn access(&mut self, area: Area, action: Action) {
        if area.is_empty() {
            return;
        }
        let Some(object) = self.report.object_of(&area) else { return };
        let (task, block) = match self.running {
            Some(Running { task, block, .. }) => (task, block),
            None => (self.tasks.host(self.at, area, action != Action::Read), 0),
        };
        let touch = Touch { task, block, action, area, at: self.at };
        if self.sanitizers.race {
            for other in self.log.note(object, touch, &self.tasks) {
                self.report.race(object, &other, &touch, &self.tasks);
            }
        }
        if self.sanitizers.uninit
            && action != Action::Write
            && let Some(byte) = self.shadow.hole(&area)
        {
            self.report.unwritten(object, byte, &touch, &self.tasks);
        }
        if action != Action::Read {
            self.shadow.write(&area);
        }
    }

    fn named(&self, ids: &TaskRef, frame: &Frame) -> Vec<u32> {
        let slot = &self.ids[ids.slot as usize];
        match ids.index {
            None => slot.iter().flatten().copied().collect(),
            Some(index) => usize::try_from(frame.int(index)).ok().and_then(|at| *slot.get(at)?).into_iter().collect(),
        }
    }

    fn all_named(&self, ids: &[TaskRef], frame: &Frame) -> Vec<u32> {
        ids.iter().flat_map(|ids| self.named(ids, frame)).collect()
    }

    fn place_of(ids: &TaskRef, frame: &Frame) -> (u32, usize) {
        (ids.slot, ids.index.map_or(0, |index| frame.int(index).max(0) as usize))
    }

    fn set(&mut self, (slot, at): (u32, usize), task: Option<u32>) {
        if let Some(id) = self.ids[slot as usize].get_mut(at) {
            *id = task;
        }
    }
}

impl Host for Checker<'_> {
    const PLACES: bool = true;

    fn at(&mut self, at: Loc) {
        self.at = at;
    }

    fn step(&mut self, core: &mut Core<'_>, id: StepId, step: &Step, frame: &Frame) -> Result<(), Stop> {
        let lowered = self.lowered;
        let ops = &lowered.kernels[id.kernel as usize].checked.as_ref().expect("lowered for checks").ops;
        let at = ops.partition_point(|(steps, _)| steps.end <= id.step);
        let found = ops.get(at).filter(|(steps, _)| steps.contains(&id.step));
        if let Some((steps, op)) = found {
            if steps.start == id.step {
                self.skipped = (!self.check(core, op, step, frame)).then_some(at);
            }
            if self.skipped == Some(at) {
                // One finding is enough: what would have been loaded counts as valid.
                if let Some(out) = op.out {
                    self.valid[out as usize] = self.result(op, frame);
                }
                return Ok(());
            }
        }
        core.step(id, step, frame).map_err(Stop::Message)?;
        if let Some((steps, op)) = found
            && steps.end == id.step + 1
            && let Some(out) = op.out
        {
            self.valid[out as usize] = self.result(op, frame);
        }
        core.look_around()
    }

    fn touches(&mut self, _: &mut Core<'_>, element: Element<'_>, frame: &Frame, write: bool) -> Result<(), Stop> {
        let action = if write { Action::Write } else { Action::Read };
        if self.sanitizers.bounds {
            self.check_valid_element(&element, frame, action);
        }
        if let Source::Tensor(_) = element.place {
            self.access(Area::new(element.at as usize, element.bytes, std::iter::empty()), action);
        }
        Ok(())
    }

    fn misses(&mut self, place: Source, index: &[Operand], frame: &Frame, write: bool) -> bool {
        if self.sanitizers.bounds {
            self.check_missing_element(place, index, frame, if write { Action::Write } else { Action::Read });
        }
        self.sanitizers.bounds
    }

    fn order(&mut self, rule: u32, frame: &Frame) {
        let lowered = self.lowered;
        let rules = &lowered.entry.checked.as_ref().expect("lowered for checks").orders;
        match &rules[rule as usize] {
            OrderRule::Assign { dst, src } => {
                let ids = src.as_ref().map_or(Vec::new(), |src| self.named(src, frame));
                match (dst.index, src) {
                    // A whole array becomes another, or is emptied.
                    (None, Some(src)) if self.ids[dst.slot as usize].len() > 1 => {
                        self.ids[dst.slot as usize] = self.ids[src.slot as usize].clone();
                    }
                    (None, None) => self.ids[dst.slot as usize].fill(None),
                    _ => self.set(Self::place_of(dst, frame), ids.first().copied()),
                }
            }
            OrderRule::Dummy { dst, deps } => {
                let deps = self.all_named(deps, frame);
                let task = self.tasks.dummy(self.at, &deps);
                self.set(Self::place_of(dst, frame), Some(task));
            }
            OrderRule::Next { dst, deps, manual, no_dep } => {
                let dst = dst.as_ref().map(|dst| Self::place_of(dst, frame));
                let deps = self.all_named(deps, frame);
                self.next = Some(Next { dst, deps, manual: *manual, no_dep: no_dep.clone() });
            }
            OrderRule::Untracked { tensor } => self.report.untrack(&frame.tensors[*tensor as usize]),
        }
    }

    fn launch(
        &mut self,
        core: &mut Core<'_>,
        kernel: u32,
        args: &[LaunchArg],
        blocks: Operand,
        frame: &Frame,
    ) -> Result<(), Stop> {
        let blocks = frame.int(blocks).max(0) as u64;
        let next = self.next.take().unwrap_or(Next { dst: None, deps: Vec::new(), manual: false, no_dep: Vec::new() });
        let function = &self.program.kernels[kernel as usize];
        let mut given = Vec::new();
        for ((position, arg), param) in (0..).zip(args).zip(&function.params) {
            let (LaunchArg::Tensor(slot), FnParam::Tensor { slot: inner, direction }) = (arg, param) else { continue };
            let view = &frame.tensors[*slot as usize];
            let size = function.tensors[*inner as usize].dtype.size();
            let axes = (0..view.rank)
                .map(|axis| (view.dims[axis].min(view.limits[axis]), view.strides[axis].saturating_mul(size as i64)));
            let area = Area::new(view.data as usize, size, axes);
            let tracked = !next.no_dep.contains(&position) && self.report.is_tracked(view);
            given.push(Given { area, write: *direction != Direction::In, tracked });
        }
        let task = self.tasks.launch(kernel, self.at, blocks, given, &next.deps, next.manual);
        if let Some(dst) = next.dst {
            self.set(dst, Some(task));
        }
        let code = &self.lowered.kernels[kernel as usize];
        let mut inner = core.take_frame(kernel);
        let (at, mut result) = (self.at, Ok(()));
        for block in 0..blocks {
            entry::bind(code, &mut inner, args, frame);
            inner.block = [block, blocks];
            self.running = Some(Running { kernel, task, block });
            // A tile that nothing has assigned holds what was there: no matter of bounds.
            self.valid.clear();
            self.valid.extend(function.tiles.iter().map(|tile| [i64::from(tile.rows), i64::from(tile.cols)]));
            result = core.code(kernel, code, &mut inner, self);
            if result.is_err() {
                break;
            }
        }
        (self.running, self.at) = (None, at);
        core.put_frame(kernel, inner);
        result
    }

    fn create(
        &mut self,
        slot: u32,
        dtype: DType,
        dims: &[Operand],
        fill: Option<f64>,
        frame: &Frame,
    ) -> Result<View, Refusal> {
        let view = entry::create(self.workspace, dtype, dims, fill, frame)?;
        let object = self.report.adds(slot, &view);
        let bytes = self.report.bytes_of(object);
        self.shadow.forget(view.data as usize, bytes);
        if fill.is_some() {
            self.shadow.written(view.data as usize, bytes);
        }
        Ok(view)
    }
}
