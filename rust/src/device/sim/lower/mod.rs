//! From a verified [`Program`] to what the chip runs. Done once, at registration.
//!
//! Control flow becomes jumps; every straight-line run of statements becomes a [`graph`] of values and then, by the
//! [`schedule`], a few fused steps:
//!
//! ```text
//! statements ── graph ──► values with uses ── schedule ──► groups ── chain ──► steps ── emit ──► code with scratch layout
//! ```

mod alias;
mod build;
mod chain;
mod emit;
mod functions;
mod graph;
mod group;
mod liveness;
mod parts;
mod schedule;

pub(super) use functions::{element_bits, lane_bits};

use super::code::{Checked, Code, Inst, Mem, Param, Source, Step};
use crate::device::DeviceError;
use crate::kernels::Isa;
use crate::program::{
    FnParam, Function, Loc, Operand, Program, ProgramError, ScalarOp, ScalarRule, ScalarType, Stmt, StmtKind,
};
use alias::Alias;
use emit::Emitter;
use fixedbitset::FixedBitSet;
use liveness::{LoopLive, block_back, loop_live};

/// The entry and the kernels of a program, ready to run.
pub(super) struct Lowered {
    pub entry: Code,
    pub kernels: Vec<Code>,
}

/// What the code is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Launches,
    /// Launches that are checked: every statement is lowered by itself, so that each access has its place in the source, and
    /// the code says what the source says.
    Checks,
    /// Launches of which each step is timed: the code says what each step does for the source.
    Profiles,
}

/// Lowers a program that [`crate::program::verify`] accepted.
pub(super) fn lower(program: &Program, isa: Isa, purpose: Purpose) -> Result<Lowered, DeviceError> {
    program.walked(|| lower_here(program, isa, purpose))?
}

fn lower_here(program: &Program, isa: Isa, purpose: Purpose) -> Result<Lowered, DeviceError> {
    let entry_alias = Alias::of_entry(&program.entry);
    let kernel_alias = Alias::of_kernels(program, &entry_alias);
    let place = |function: &Function, error: DeviceError| match error {
        DeviceError::Program(ProgramError::Unsupported { at, message, .. }) => ProgramError::Unsupported {
            function: function.name.clone(),
            file: program.files.get(at.0 as usize).cloned().unwrap_or_default(),
            at,
            message,
        }
        .into(),
        other => other,
    };
    let entry = function(&program.entry, &entry_alias, isa, purpose).map_err(|error| place(&program.entry, error))?;
    let kernels = program.kernels.iter().zip(&kernel_alias);
    let kernels = kernels
        .map(|(kernel, alias)| function(kernel, alias, isa, purpose).map_err(|error| place(kernel, error)))
        .collect::<Result<_, _>>()?;
    Ok(Lowered { entry, kernels })
}

/// Something that this chip cannot do; the caller adds the function and the file.
fn unsupported(at: Loc, message: String) -> DeviceError {
    let message = format!("{message} is not supported by the simulated chip");
    ProgramError::Unsupported { function: String::new(), file: String::new(), at, message }.into()
}

fn function(function: &Function, alias: &Alias, isa: Isa, purpose: Purpose) -> Result<Code, DeviceError> {
    let mut lowering = Lowering {
        function,
        alias,
        isa,
        out: Emitter::new(function, purpose == Purpose::Profiles),
        hidden: function.scalars.len(),
        loops: Vec::new(),
        checked: (purpose == Purpose::Checks).then(Checked::default),
    };
    let nothing = FixedBitSet::with_capacity(function.tiles.len());
    lowering.block(&function.body, &nothing, None)?;
    let tile_bytes = lowering.out.layout();
    let Emitter { insts, at, steps, accounts, .. } = lowering.out;
    let mems = |step: &Step| match step {
        Step::Chain(chain) => chain.mems.len(),
        Step::MatMul(_) | Step::Block(_) => 0,
    };
    let scalars = |step: &Step| match step {
        Step::Chain(chain) => chain.scalars.len(),
        Step::MatMul(_) | Step::Block(_) => 0,
    };
    Ok(Code {
        scalars: lowering.hidden,
        tensors: function.tensors.iter().map(|tensor| tensor.dtype).collect(),
        written: written(function.tensors.len(), &insts, &steps),
        params: function
            .params
            .iter()
            .map(|param| match *param {
                FnParam::Tensor { slot, .. } => Param::Tensor(slot),
                FnParam::Scalar(slot) => Param::Scalar(slot),
            })
            .collect(),
        max_mems: steps.iter().map(mems).max().unwrap_or(0),
        max_scalars: steps.iter().map(scalars).max().unwrap_or(0),
        insts,
        at,
        steps,
        tile_bytes,
        checked: lowering.checked,
        accounts: accounts.unwrap_or_default(),
    })
}

/// Which tensor slots are written through, views included.
fn written(slots: usize, insts: &[Inst], steps: &[Step]) -> Vec<bool> {
    let mut written = vec![false; slots];
    let boxes = steps.iter().flat_map(Step::mems).filter(|operand| operand.write);
    for operand in boxes {
        if let Mem::Box(spec) = &operand.mem {
            written[spec.tensor as usize] = true;
        }
    }
    for tensor in steps.iter().filter_map(Step::tensor) {
        written[tensor.slot as usize] |= tensor.write;
    }
    for inst in insts {
        if let Inst::Write { dst: Source::Tensor(slot), .. } = inst {
            written[*slot as usize] = true;
        }
    }
    // A slot may be assigned more than once, in loops also before its source in the text.
    loop {
        let mut changed = false;
        for inst in insts {
            if let Inst::View { dst, src, .. } = inst
                && written[*dst as usize]
                && !std::mem::replace(&mut written[*src as usize], true)
            {
                changed = true;
            }
        }
        if !changed {
            return written;
        }
    }
}

struct Lowering<'a> {
    function: &'a Function,
    alias: &'a Alias,
    isa: Isa,
    out: Emitter,
    /// Scalar slots so far; loops add hidden ones.
    hidden: usize,
    loops: Vec<Loop>,
    checked: Option<Checked>,
}

/// Jumps of an open loop that do not know their target yet.
#[derive(Default)]
struct Loop {
    to_exit: Vec<usize>,
    to_next: Vec<usize>,
}

impl Lowering<'_> {
    /// Lowers a block. `after` holds the tile slots that are read after it; `at_loop` those at the edges of the innermost loop.
    fn block(&mut self, body: &[Stmt], after: &FixedBitSet, at_loop: Option<&FixedBitSet>) -> Result<(), DeviceError> {
        // From the end, what is live after each part; then the parts in order.
        let parts = if self.checked.is_some() { body.chunks(1).collect() } else { split(body) };
        let mut live_after = Vec::with_capacity(parts.len());
        let mut live = after.clone();
        for part in parts.iter().rev() {
            live_after.push(live.clone());
            block_back(part, &mut live, LoopLive(at_loop));
        }
        for (part, live) in parts.into_iter().zip(live_after.into_iter().rev()) {
            match part {
                [Stmt { at, kind }] if is_control(kind) => self.control(*at, kind, &live, at_loop)?,
                run => self.run(run, &live)?,
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &[Stmt], live: &FixedBitSet) -> Result<(), DeviceError> {
        let live = |slot| live.contains(slot as usize);
        let graph = build::build(self.function, self.alias, run, &mut self.hidden, live);
        let scalars = &self.function.scalars;
        let first = self.out.steps.len() as u32;
        schedule::schedule(self.function, &graph, self.alias, self.isa, &mut self.out, &mut |out, stmt| {
            out.push(plain(&stmt.kind, scalars), stmt.at);
        })?;
        let steps = first..self.out.steps.len() as u32;
        if let (Some(checked), [Stmt { kind: StmtKind::Tile(op), .. }], false) =
            (&mut self.checked, run, steps.is_empty())
        {
            checked.ops.push((steps, op.clone()));
        }
        Ok(())
    }

    fn control(
        &mut self,
        at: Loc,
        kind: &StmtKind,
        live: &FixedBitSet,
        at_loop: Option<&FixedBitSet>,
    ) -> Result<(), DeviceError> {
        match kind {
            StmtKind::If { cond, then, orelse } => {
                let to_else = self.out.push(Inst::JumpUnless { cond: *cond, target: 0 }, at);
                self.block(then, live, at_loop)?;
                if orelse.is_empty() {
                    self.patch(to_else);
                } else {
                    let to_end = self.out.push(Inst::Jump(0), at);
                    self.patch(to_else);
                    self.block(orelse, live, at_loop)?;
                    self.patch(to_end);
                }
            }
            StmtKind::For { var, start, stop, step, parallel: _, body } => {
                let edges = loop_live(&[], body, live);
                let stop = self.fix(*stop, at);
                let step = self.fix(*step, at);
                // The count is a slot of its own, so that a body which assigns `var` does not change the number of rounds.
                let count = self.hidden();
                let args = [*start, Operand::Int(0)];
                self.out.push(Inst::Scalar { dst: count, op: ScalarOp::Copy, kind: ScalarType::Int, args }, at);
                let head = self.out.push(Inst::LoopTest { count, var: *var, stop, step, exit: 0 }, at);
                self.loops.push(Loop { to_exit: vec![head], to_next: Vec::new() });
                self.block(body, &edges, Some(&edges))?;
                let next = self.out.push(Inst::LoopNext { count, step, head: head as u32, exit: 0 }, at);
                self.loops.last_mut().expect("pushed above").to_exit.push(next);
                self.end_loop(head, next);
            }
            StmtKind::While { head: tests, cond, body } => {
                let edges = loop_live(tests, body, live);
                let start = self.out.insts.len();
                let mut before_body = edges.clone();
                block_back(body, &mut before_body, LoopLive(Some(&edges)));
                before_body.union_with(live);
                self.block(tests, &before_body, at_loop)?;
                let test = self.out.push(Inst::JumpUnless { cond: *cond, target: 0 }, at);
                self.loops.push(Loop { to_exit: vec![test], to_next: Vec::new() });
                self.block(body, &edges, Some(&edges))?;
                let next = self.out.push(Inst::Jump(start as u32), at);
                self.end_loop(start, next);
            }
            StmtKind::Break => {
                let jump = self.out.push(Inst::Jump(0), at);
                self.loops.last_mut().expect("verified: break is in a loop").to_exit.push(jump);
            }
            StmtKind::Continue => {
                let jump = self.out.push(Inst::Jump(0), at);
                self.loops.last_mut().expect("verified: continue is in a loop").to_next.push(jump);
            }
            StmtKind::Order { scalars, rule } => {
                if self.checked.is_some() {
                    self.block(scalars, live, at_loop)?;
                    let checked = self.checked.as_mut().expect("asked above");
                    checked.orders.push(rule.clone());
                    let number = checked.orders.len() as u32 - 1;
                    self.out.push(Inst::Order(number), at);
                }
            }
            other => unreachable!("{other:?} is no control flow"),
        }
        Ok(())
    }

    /// The value of a loop bound now, whatever the body does to the slot.
    fn fix(&mut self, bound: Operand, at: Loc) -> Operand {
        let Operand::Var(_) = bound else { return bound };
        let dst = self.hidden();
        let args = [bound, Operand::Int(0)];
        self.out.push(Inst::Scalar { dst, op: ScalarOp::Copy, kind: ScalarType::Int, args }, at);
        Operand::Var(dst)
    }

    /// A scalar slot that the program does not name.
    fn hidden(&mut self) -> u32 {
        self.hidden += 1;
        (self.hidden - 1) as u32
    }

    /// Closes the loop that begins at `start` and whose rounds go on at `next`.
    fn end_loop(&mut self, start: usize, next: usize) {
        let Loop { to_exit, to_next } = self.loops.pop().expect("pushed by the caller");
        for jump in to_next {
            self.patch_to(jump, next);
        }
        let end = self.out.insts.len();
        for jump in to_exit {
            self.patch_to(jump, end);
        }
        self.out.close_loop(start, end);
    }

    fn patch(&mut self, jump: usize) {
        let end = self.out.insts.len();
        self.patch_to(jump, end);
    }

    fn patch_to(&mut self, jump: usize, to: usize) {
        match &mut self.out.insts[jump] {
            Inst::Jump(target) | Inst::JumpUnless { target, .. } => *target = to as u32,
            Inst::LoopTest { exit, .. } | Inst::LoopNext { exit, .. } => *exit = to as u32,
            _ => unreachable!("only jumps are patched"),
        }
    }
}

fn is_control(kind: &StmtKind) -> bool {
    use StmtKind::{Break, Continue, For, If, Order, While};
    matches!(kind, For { .. } | While { .. } | If { .. } | Order { .. } | Break | Continue)
}

/// A block as straight-line runs and single control statements. What follows `break` or `continue` never runs.
fn split(body: &[Stmt]) -> Vec<&[Stmt]> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, stmt) in body.iter().enumerate() {
        if is_control(&stmt.kind) {
            if start < at {
                parts.push(&body[start..at]);
            }
            parts.push(&body[at..=at]);
            start = at + 1;
            if matches!(stmt.kind, StmtKind::Break | StmtKind::Continue) {
                return parts;
            }
        }
    }
    if start < body.len() {
        parts.push(&body[start..]);
    }
    parts
}

/// The instruction of a statement that neither computes on tiles nor branches.
fn plain(kind: &StmtKind, scalars: &[ScalarType]) -> Inst {
    match kind {
        StmtKind::Scalar { dst, op, args } => {
            let type_of = |operand: &Operand| match *operand {
                Operand::Int(_) => ScalarType::Int,
                Operand::Float(_) => ScalarType::Float,
                Operand::Bool(_) => ScalarType::Bool,
                Operand::Var(slot) => scalars[slot as usize],
            };
            let kind = match op.rule() {
                ScalarRule::Query => ScalarType::Int,
                _ => args.first().map_or(ScalarType::Int, type_of),
            };
            let arg = |at: usize| args.get(at).copied().unwrap_or(Operand::Int(0));
            Inst::Scalar { dst: *dst, op: *op, kind, args: [arg(0), arg(1)] }
        }
        StmtKind::Dim { dst, tensor, axis } => Inst::Dim { dst: *dst, tensor: *tensor, axis: *axis },
        StmtKind::Read { dst, src, index } => {
            let tensor = Source::tensor(*src).expect("reads of tiles are emitted by the schedule");
            Inst::Read { dst: *dst, src: Source::Tensor(tensor), index: index.clone() }
        }
        StmtKind::Write { dst, index, value } => {
            let tensor = Source::tensor(*dst).expect("writes to tiles are emitted by the schedule");
            Inst::Write { dst: Source::Tensor(tensor), index: index.clone(), value: *value }
        }
        StmtKind::View { dst, src, kind } => Inst::View { dst: *dst, src: *src, kind: kind.clone() },
        StmtKind::Create { dst, dims, fill } => Inst::Create { dst: *dst, dims: dims.clone(), fill: *fill },
        StmtKind::Launch { kernel, args, blocks } => {
            Inst::Launch { kernel: *kernel, args: args.clone(), blocks: *blocks }
        }
        other => unreachable!("{other:?} is lowered elsewhere"),
    }
}
