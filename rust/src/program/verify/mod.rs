//! The rules that a program keeps. Everything after [`verify`] relies on them, so that it needs no checks of its own:
//! slots exist and have the right type, tensor slots are assigned before they are used, regions fit into tiles, calls
//! match their kernels. What depends on run-time values (offsets, dynamic extents) is checked by the device as it runs.

#[cfg(test)]
mod tests;
mod tile;

use super::depth::SHALLOW;
use super::signature::ScalarRule;
use super::{
    Dim, FnParam, Function, LaunchArg, Loc, Operand, OrderRule, ParamKind, Place, Program, ScalarOp, ScalarType, Stmt,
    StmtKind, TaskRef, TileSlot, ViewKind,
};
use crate::dtype::{DType, DTypeKind};
use crate::error::ErrorKind;
use crate::shape::MAX_RANK;

/// The largest tile in bytes. It keeps every offset within scratch memory far from overflow.
const MAX_TILE_BYTES: u64 = 1 << 31;
/// The largest number of slots of one kind in a function.
const MAX_SLOTS: usize = 1 << 20;

/// A program that breaks a rule. The frontend never makes one; it comes from hand-written or damaged data.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A statement, slot or parameter breaks a rule.
    #[error("invalid program {program:?}, function {function:?}, {file}:{line}: {message}", line = at.1)]
    Invalid {
        /// Name of the program.
        program: String,
        /// Name of the function.
        function: String,
        /// Source file of the place.
        file: String,
        /// The place.
        at: Loc,
        /// Which rule.
        message: String,
    },
    /// The program is right, but the device that it is registered on lacks what it uses.
    #[error("{function}: {file}:{line}: {message}", line = at.1)]
    Unsupported {
        /// Name of the function.
        function: String,
        /// Source file of the place.
        file: String,
        /// The place.
        at: Loc,
        /// What is missing.
        message: String,
    },
    /// The bytes are no encoded program of this version.
    #[error("{0}")]
    Undecodable(String),
    /// A program that nests deep is made ready on a thread of its own, with a stack of 16 MiB, and the system started none.
    /// Raise the limit of threads or of memory (`ulimit -u`, `ulimit -v`), or end some.
    #[error(
        "the program nests more than {SHALLOW} levels deep, so that it is made ready on a thread of its own, and the system \
         started none: {0}. Raise the limit of threads or memory, or nest less"
    )]
    NoThread(String),
}

impl ProgramError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ProgramError::Invalid { .. } | ProgramError::Unsupported { .. } | ProgramError::Undecodable(_) => {
                ErrorKind::Value
            }
            ProgramError::NoThread(_) => ErrorKind::Runtime,
        }
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            ProgramError::Invalid { .. } => "invalid_program",
            ProgramError::Unsupported { .. } => "unsupported_by_device",
            ProgramError::Undecodable(_) => "undecodable_program",
            ProgramError::NoThread(_) => "no_thread",
        }
    }
}

/// A broken rule, before it is told where.
struct Broken {
    at: Loc,
    message: String,
}

type Check<T = ()> = Result<T, Broken>;

macro_rules! rule {
    ($holds:expr, $at:expr, $($message:tt)+) => {
        if !$holds {
            return Err(Broken { at: $at, message: format!($($message)+) });
        }
    };
}

use rule;

/// Checks every rule that the rest of the crate relies on. Any value is either accepted or refused; none panics.
pub fn verify(program: &Program) -> Result<(), ProgramError> {
    program.walked(|| verify_here(program))?
}

fn verify_here(program: &Program) -> Result<(), ProgramError> {
    let locate = |function: &Function, broken: Broken| ProgramError::Invalid {
        program: program.name.clone(),
        function: function.name.clone(),
        file: program.files.get(broken.at.0 as usize).cloned().unwrap_or_default(),
        at: broken.at,
        message: broken.message,
    };
    verify_params(program).map_err(|broken| locate(&program.entry, broken))?;
    Checker::new(program, &program.entry, true).check().map_err(|broken| locate(&program.entry, broken))?;
    for kernel in &program.kernels {
        Checker::new(program, kernel, false).check().map_err(|broken| locate(kernel, broken))?;
    }
    Ok(())
}

fn verify_params(program: &Program) -> Check {
    let entry = &program.entry;
    let at = entry.at;
    rule!(
        program.params.len() == entry.params.len(),
        at,
        "the program has {} parameters and its entry {}",
        program.params.len(),
        entry.params.len()
    );
    for (param, slot) in program.params.iter().zip(&entry.params) {
        match (&param.kind, slot) {
            (ParamKind::Tensor { dtype, dims, direction }, FnParam::Tensor { slot, direction: inner }) => {
                let Some(declared) = entry.tensors.get(*slot as usize) else {
                    return Err(Broken { at, message: format!("parameter {:?}: no tensor slot {slot}", param.name) });
                };
                rule!(
                    declared.dtype == *dtype && declared.rank as usize == dims.len(),
                    at,
                    "parameter {:?} is {dtype} of rank {}, its slot {} of rank {}",
                    param.name,
                    dims.len(),
                    declared.dtype,
                    declared.rank
                );
                rule!(direction == inner, at, "parameter {:?} has two directions", param.name);
                rule!(dtype.is_dispatchable(), at, "parameter {:?}: a kernel cannot use {dtype}", param.name);
                let mut elements = dtype.size() as u64;
                for dim in dims {
                    match *dim {
                        Dim::Symbol(symbol) => rule!(
                            (symbol as usize) < program.symbols.len(),
                            at,
                            "parameter {:?}: no symbol {symbol}",
                            param.name
                        ),
                        Dim::Const(extent) => {
                            rule!(extent > 0, at, "parameter {:?} has an extent of 0", param.name);
                            match elements.checked_mul(extent).filter(|&bytes| bytes <= i64::MAX as u64) {
                                Some(bytes) => elements = bytes,
                                None => {
                                    let message = format!("parameter {:?} exceeds the address space", param.name);
                                    return Err(Broken { at, message });
                                }
                            }
                        }
                    }
                }
            }
            (ParamKind::Scalar { dtype, .. }, FnParam::Scalar(_)) => {
                rule!(dtype.kind() != DTypeKind::Stored, at, "parameter {:?}: no scalar is {dtype}", param.name);
            }
            _ => {
                let message = format!("parameter {:?} is a tensor on one side and a scalar on the other", param.name);
                return Err(Broken { at, message });
            }
        }
    }
    Ok(())
}

/// Checks one function. `assigned` holds which tensor slots certainly have a value.
struct Checker<'a> {
    program: &'a Program,
    function: &'a Function,
    entry: bool,
    assigned: Vec<bool>,
    loops: usize,
}

impl<'a> Checker<'a> {
    fn new(program: &'a Program, function: &'a Function, entry: bool) -> Self {
        Self { program, function, entry, assigned: vec![false; function.tensors.len().min(MAX_SLOTS)], loops: 0 }
    }

    fn check(mut self) -> Check {
        let function = self.function;
        let at = function.at;
        for (kind, count) in
            [("scalar", function.scalars.len()), ("tensor", function.tensors.len()), ("tile", function.tiles.len())]
        {
            rule!(count <= MAX_SLOTS, at, "{count} {kind} slots, more than {MAX_SLOTS}");
        }
        rule!(!self.entry || function.tiles.is_empty(), at, "an entry has no tiles");
        for tensor in &function.tensors {
            let rank = tensor.rank as usize;
            rule!((1..=MAX_RANK).contains(&rank), at, "a tensor of rank {rank}; ranks are 1 to {MAX_RANK}");
        }
        for tile in &function.tiles {
            let bytes = u64::from(tile.rows) * u64::from(tile.cols) * tile.dtype.size() as u64;
            rule!(tile.rows > 0 && tile.cols > 0, at, "a tile of {} x {}", tile.rows, tile.cols);
            rule!(bytes <= MAX_TILE_BYTES, at, "a tile of {} x {} exceeds 2 GiB", tile.rows, tile.cols);
            // A tile may have a type that no tensor has: UINT64 is what `reinterpret` or `cast` makes.
            rule!(
                tile.dtype != DType::F64 && tile.dtype.kind() != DTypeKind::Stored,
                at,
                "a kernel cannot compute with {}",
                tile.dtype
            );
        }
        let mut scalars_seen = vec![false; function.scalars.len()];
        for param in &function.params {
            let fresh = match *param {
                FnParam::Tensor { slot, .. } => {
                    self.assigned.get_mut(slot as usize).map(|seen| !std::mem::replace(seen, true))
                }
                FnParam::Scalar(slot) => scalars_seen.get_mut(slot as usize).map(|seen| !std::mem::replace(seen, true)),
            };
            rule!(fresh == Some(true), at, "a parameter slot is missing or used twice");
        }
        for valid in &function.source.valid {
            let rank = self.tensor_slot(at, valid.tensor)?.rank;
            rule!(valid.extents.len() == rank as usize, at, "{} valid extents for rank {rank}", valid.extents.len());
            self.ints(at, &valid.extents)?;
        }
        self.block(&function.body)
    }

    fn block(&mut self, body: &[Stmt]) -> Check {
        body.iter().try_for_each(|stmt| self.stmt(stmt.at, &stmt.kind))
    }

    /// Checks a body that may not run at all: what it assigns does not count afterwards.
    fn optional_block(&mut self, body: &[Stmt]) -> Check<Vec<bool>> {
        let before = self.assigned.clone();
        self.block(body)?;
        Ok(std::mem::replace(&mut self.assigned, before))
    }

    fn stmt(&mut self, at: Loc, kind: &StmtKind) -> Check {
        match kind {
            StmtKind::Scalar { dst, op, args } => self.scalar_op(at, *dst, *op, args),
            StmtKind::Dim { dst, tensor, axis } => {
                self.scalar_slot(at, *dst, ScalarType::Int)?;
                let rank = self.tensor(at, *tensor)?.rank;
                rule!(*axis < rank, at, "axis {axis} of a tensor of rank {rank}");
                Ok(())
            }
            StmtKind::Read { dst, src, index } => {
                let dtype = self.element(at, *src, index)?;
                self.scalar_slot(at, *dst, scalar_type(dtype))
            }
            StmtKind::Write { dst, index, value } => {
                let dtype = self.element(at, *dst, index)?;
                self.operand(at, *value, scalar_type(dtype))
            }
            StmtKind::View { dst, src, kind } => self.view(at, *dst, *src, kind),
            StmtKind::Create { dst, dims, fill: _ } => {
                rule!(self.entry, at, "device memory is created by the entry only");
                let declared = self.tensor_slot(at, *dst)?;
                rule!(dims.len() == declared.rank as usize, at, "{} extents for rank {}", dims.len(), declared.rank);
                rule!(declared.dtype.is_dispatchable(), at, "a kernel cannot use {}", declared.dtype);
                self.ints(at, dims)?;
                self.assigned[*dst as usize] = true;
                Ok(())
            }
            StmtKind::Launch { kernel, args, blocks } => self.launch(at, *kernel, args, *blocks),
            StmtKind::Tile(op) => self.tile_op(at, op),
            StmtKind::For { var, start, stop, step, parallel: _, body } => {
                self.scalar_slot(at, *var, ScalarType::Int)?;
                self.ints(at, &[*start, *stop, *step])?;
                rule!(*step != Operand::Int(0), at, "a loop with step 0");
                if certainly_runs(*start, *stop, *step) && !leaves_early(body) {
                    return self.looped(|this| this.block(body));
                }
                self.looped(|this| this.optional_block(body).map(drop))
            }
            StmtKind::While { head, cond, body } => {
                self.block(head)?;
                self.operand(at, *cond, ScalarType::Bool)?;
                self.looped(|this| this.optional_block(body).map(drop))
            }
            StmtKind::If { cond, then, orelse } => {
                self.operand(at, *cond, ScalarType::Bool)?;
                let then = self.optional_block(then)?;
                let orelse = self.optional_block(orelse)?;
                for (slot, (a, b)) in self.assigned.iter_mut().zip(then.into_iter().zip(orelse)) {
                    *slot = a && b;
                }
                Ok(())
            }
            StmtKind::Break | StmtKind::Continue => {
                rule!(self.loops > 0, at, "break or continue outside a loop");
                Ok(())
            }
            StmtKind::Order { scalars, rule } => {
                rule!(self.entry, at, "the order of tasks is declared by the entry only");
                let plain = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Scalar { .. });
                rule!(scalars.iter().all(plain), at, "a declaration of order computes more than scalars");
                self.block(scalars)?;
                self.order(at, rule)
            }
        }
    }

    fn order(&self, at: Loc, rule: &OrderRule) -> Check {
        let known = |ids: &TaskRef| {
            let declared = &self.function.source.tasks;
            rule!((ids.slot as usize) < declared.len(), at, "no slot {} of task ids", ids.slot);
            ids.index.map_or(Ok(()), |index| self.operand(at, index, ScalarType::Int))
        };
        match rule {
            OrderRule::Assign { dst, src } => [Some(dst), src.as_ref()].into_iter().flatten().try_for_each(known),
            OrderRule::Dummy { dst, deps } => deps.iter().chain([dst]).try_for_each(known),
            OrderRule::Next { dst, deps, manual: _, no_dep: _ } => deps.iter().chain(dst).try_for_each(known),
            OrderRule::Untracked { tensor } => self.tensor(at, *tensor).map(drop),
        }
    }

    fn looped(&mut self, check: impl FnOnce(&mut Self) -> Check) -> Check {
        self.loops += 1;
        let result = check(self);
        self.loops -= 1;
        result
    }

    fn scalar_op(&mut self, at: Loc, dst: u32, op: ScalarOp, args: &[Operand]) -> Check {
        let name = op.name();
        let (arity, types) = match op.rule() {
            ScalarRule::Query => (0, [].as_slice()),
            ScalarRule::Same(arity, types) => (arity, types),
            ScalarRule::Compare(types) => (2, types),
            ScalarRule::Convert(types, _) => (1, types),
        };
        rule!(args.len() == arity, at, "{name} takes {arity} arguments, not {}", args.len());
        let mut result = ScalarType::Int;
        if let Some(&first) = args.first() {
            result = self.operand_type(at, first)?;
            rule!(types.contains(&result), at, "{name} does not take {result:?}");
        }
        for &arg in args {
            self.operand(at, arg, result)?;
        }
        match op.rule() {
            ScalarRule::Compare(_) => result = ScalarType::Bool,
            ScalarRule::Convert(_, to) => result = to,
            ScalarRule::Query | ScalarRule::Same(..) => {}
        }
        self.scalar_slot(at, dst, result)
    }

    fn view(&mut self, at: Loc, dst: u32, src: u32, kind: &ViewKind) -> Check {
        let source = self.tensor(at, src)?;
        let target = self.tensor_slot(at, dst)?;
        let recast = matches!(kind, ViewKind::Reinterpret);
        rule!(recast || source.dtype == target.dtype, at, "a view of {} as {}", source.dtype, target.dtype);
        rule!(!recast || source.rank > 0, at, "a number has no axis that counts its bytes");
        let rank = match kind {
            ViewKind::Slice { offsets, extents, keep } => {
                let rank = source.rank as usize;
                rule!(offsets.len() == rank && extents.len() == rank, at, "a box needs {rank} offsets and extents");
                rule!(keep.windows(2).all(|pair| pair[0] < pair[1]), at, "kept axes are ascending");
                rule!(keep.iter().all(|&axis| axis < source.rank), at, "a kept axis exceeds the rank {rank}");
                self.ints(at, offsets)?;
                self.ints(at, extents)?;
                keep.len()
            }
            ViewKind::Reshape { dims } => {
                self.ints(at, dims)?;
                dims.len()
            }
            ViewKind::Transpose { a, b } => {
                rule!(*a < source.rank && *b < source.rank, at, "axes {a} and {b} of rank {}", source.rank);
                source.rank as usize
            }
            ViewKind::Reinterpret => source.rank as usize,
        };
        rule!(rank == target.rank as usize, at, "the view has rank {rank}, its slot {}", target.rank);
        self.assigned[dst as usize] = true;
        Ok(())
    }

    fn launch(&mut self, at: Loc, kernel: u32, args: &[LaunchArg], blocks: Operand) -> Check {
        rule!(self.entry, at, "kernels are launched by the entry only");
        let Some(callee) = self.program.kernels.get(kernel as usize) else {
            return Err(Broken { at, message: format!("no kernel {kernel}") });
        };
        self.operand(at, blocks, ScalarType::Int)?;
        rule!(
            args.len() == callee.params.len(),
            at,
            "{:?} takes {} arguments, not {}",
            callee.name,
            callee.params.len(),
            args.len()
        );
        for (arg, param) in args.iter().zip(&callee.params) {
            match (*arg, *param) {
                (LaunchArg::Tensor(slot), FnParam::Tensor { slot: inner, .. }) => {
                    let passed = self.tensor(at, slot)?;
                    let wanted = callee.tensors.get(inner as usize);
                    rule!(wanted == Some(&passed), at, "{:?}: a tensor argument has another type", callee.name);
                }
                (LaunchArg::Scalar(operand), FnParam::Scalar(inner)) => {
                    let Some(&wanted) = callee.scalars.get(inner as usize) else {
                        return Err(Broken { at, message: format!("{:?}: no scalar slot {inner}", callee.name) });
                    };
                    self.operand(at, operand, wanted)?;
                }
                _ => {
                    let message = format!("{:?}: tensor and scalar arguments are exchanged", callee.name);
                    return Err(Broken { at, message });
                }
            }
        }
        Ok(())
    }

    fn element(&self, at: Loc, place: Place, index: &[Operand]) -> Check<DType> {
        let (dtype, rank) = match place {
            Place::Tensor(slot) => {
                let tensor = self.tensor(at, slot)?;
                (tensor.dtype, tensor.rank as usize)
            }
            Place::Tile(slot) => (self.tile(at, slot)?.dtype, 2),
        };
        rule!(index.len() == rank, at, "{} indices for rank {rank}", index.len());
        rule!(dtype.is_dispatchable(), at, "a kernel cannot use {dtype}");
        self.ints(at, index)?;
        Ok(dtype)
    }

    fn tensor_slot(&self, at: Loc, slot: u32) -> Check<super::TensorSlot> {
        let found = self.function.tensors.get(slot as usize).copied();
        found.ok_or_else(|| Broken { at, message: format!("no tensor slot {slot}") })
    }

    fn tensor(&self, at: Loc, slot: u32) -> Check<super::TensorSlot> {
        let found = self.tensor_slot(at, slot)?;
        rule!(self.assigned[slot as usize], at, "tensor slot {slot} may be used before it is assigned");
        Ok(found)
    }

    fn tile(&self, at: Loc, slot: u32) -> Check<TileSlot> {
        let found = self.function.tiles.get(slot as usize).copied();
        found.ok_or_else(|| Broken { at, message: format!("no tile slot {slot}") })
    }

    fn scalar_slot(&self, at: Loc, slot: u32, wanted: ScalarType) -> Check {
        let found = self.function.scalars.get(slot as usize);
        rule!(found == Some(&wanted), at, "scalar slot {slot} is {found:?}, not {wanted:?}");
        Ok(())
    }

    fn operand_type(&self, at: Loc, operand: Operand) -> Check<ScalarType> {
        match operand {
            Operand::Int(_) => Ok(ScalarType::Int),
            Operand::Float(_) => Ok(ScalarType::Float),
            Operand::Bool(_) => Ok(ScalarType::Bool),
            Operand::Var(slot) => {
                let found = self.function.scalars.get(slot as usize).copied();
                found.ok_or_else(|| Broken { at, message: format!("no scalar slot {slot}") })
            }
        }
    }

    fn operand(&self, at: Loc, operand: Operand, wanted: ScalarType) -> Check {
        let found = self.operand_type(at, operand)?;
        rule!(found == wanted, at, "a scalar is {found:?}, not {wanted:?}");
        Ok(())
    }

    fn ints(&self, at: Loc, operands: &[Operand]) -> Check {
        operands.iter().try_for_each(|&operand| self.operand(at, operand, ScalarType::Int))
    }
}

/// Whether a loop has at least one round whatever the program is given, so that what it assigns is assigned.
const fn certainly_runs(start: Operand, stop: Operand, step: Operand) -> bool {
    match (start, stop, step) {
        (Operand::Int(start), Operand::Int(stop), Operand::Int(step)) => {
            if step > 0 {
                start < stop
            } else {
                start > stop
            }
        }
        _ => false,
    }
}

/// Whether a `break` or `continue` of the loop around it stands in a body.
fn leaves_early(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If { then, orelse, .. } => leaves_early(then) || leaves_early(orelse),
        _ => false,
    })
}

/// The scalar type that holds an element.
const fn scalar_type(dtype: DType) -> ScalarType {
    match dtype {
        DType::Bool => ScalarType::Bool,
        dtype if dtype.is_float() => ScalarType::Float,
        _ => ScalarType::Int,
    }
}
