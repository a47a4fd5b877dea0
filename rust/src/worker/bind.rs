//! Checks the arguments of a launch against the parameters of its program: one validator for host and resident tensors.
//!
//! Everything is written into vectors that the registration keeps, so that binding allocates nothing after the first
//! launch. Texts are made only when something is wrong.

use super::error::WorkerError;
use super::scalar;
use super::value::{HostTensor, Value};
use crate::arena::{Arena, Buffer, BufferState, GRANULE, Owner};
use crate::device::TensorArg;
use crate::dtype::DType;
use crate::program::{Dim, Direction, Param, ParamKind, Program};
use crate::shape::Shape;
use std::ptr;
use std::sync::Arc;

/// The arguments of one launch as the device takes them.
#[derive(Default, Debug)]
pub(super) struct Bound {
    /// The tensor parameters. The address of a staged one is filled in when its place is known.
    pub tensors: Vec<TensorArg>,
    /// The scalar parameters.
    pub scalars: Vec<u64>,
    /// The host tensors among the parameters.
    pub staged: Vec<Staged>,
    /// Bytes of staging memory that `staged` needs.
    pub staging_bytes: u64,
    /// Extent of each symbol, and the parameter that said it first.
    symbols: Vec<Option<(u64, u32)>>,
    ranges: Vec<Range>,
}

/// A host tensor on its way through staging memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    /// First byte in host memory.
    pub host: *mut u8,
    /// Its size.
    pub bytes: u64,
    /// Where it lies in the staging memory of the registration.
    pub offset: u64,
    /// Index into [`Bound::tensors`].
    pub tensor: u32,
    /// Index into the parameters.
    pub param: u32,
    /// Which copies it needs.
    pub direction: Direction,
}

/// Memory that an argument occupies. Host and resident tensors share the list: both are addresses of this process.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: usize,
    end: usize,
    param: u32,
    written: bool,
}

// SAFETY: the addresses are used within one launch only, under the lock of the worker.
#[allow(unsafe_code)]
unsafe impl Send for Bound {}

/// Whether the arguments have the ranks, types and static extents that the program declares: all that an estimate of its
/// work relies on.
pub(super) fn shapes_match(program: &Program, args: &[Value<'_>]) -> bool {
    args.len() == program.params.len()
        && program.params.iter().zip(args).all(|(param, arg)| match (&param.kind, tensor_of(arg)) {
            (ParamKind::Tensor { dtype, dims, .. }, Some((shape, actual))) => {
                actual == *dtype && dims_match(dims, shape.dims())
            }
            (ParamKind::Scalar { .. }, None) => true,
            _ => false,
        })
}

fn tensor_of<'v>(value: &'v Value<'_>) -> Option<(&'v Shape, DType)> {
    match value {
        Value::Host(HostTensor { shape, dtype, .. }) | Value::Resident { shape, dtype, .. } => Some((shape, *dtype)),
        _ => None,
    }
}

fn dims_match(dims: &[Dim], shape: &[u64]) -> bool {
    dims.len() == shape.len()
        && dims.iter().zip(shape).all(|(dim, &extent)| match dim {
            Dim::Const(expected) => *expected == extent,
            Dim::Symbol(_) => true,
        })
}

impl Bound {
    /// Room for every launch of `program`.
    pub fn for_program(program: &Program) -> Self {
        let count = program.params.len();
        Self {
            tensors: Vec::with_capacity(count),
            scalars: Vec::with_capacity(count),
            staged: Vec::with_capacity(count),
            staging_bytes: 0,
            symbols: Vec::with_capacity(program.symbols.len()),
            ranges: Vec::with_capacity(count),
        }
    }

    /// Checks `args` and fills the vectors in. Resident buffers that nobody wrote yet are cleared.
    pub fn bind(
        &mut self,
        program: &Program,
        args: &[Value<'_>],
        arena: &mut Arena,
        owner: &Arc<Owner>,
    ) -> Result<(), WorkerError> {
        self.tensors.clear();
        self.scalars.clear();
        self.staged.clear();
        self.ranges.clear();
        self.symbols.clear();
        self.symbols.resize(program.symbols.len(), None);
        self.staging_bytes = 0;
        if args.len() != program.params.len() {
            return Err(wrong_count(program, args.len()));
        }
        let mut writes = false;
        for (index, (param, arg)) in program.params.iter().zip(args).enumerate() {
            match &param.kind {
                ParamKind::Scalar { dtype, baked } => {
                    self.scalars.push(bind_scalar(program, param, arg, *dtype, *baked)?)
                }
                ParamKind::Tensor { dtype, dims, direction } => {
                    writes |= *direction != Direction::In;
                    let expected =
                        Expected { program, param, index: index as u32, dtype: *dtype, dims, direction: *direction };
                    self.bind_tensor(&expected, arg, arena, owner)?;
                }
            }
        }
        if writes { self.refuse_overlaps(program) } else { Ok(()) }
    }

    fn bind_tensor(
        &mut self,
        expected: &Expected<'_>,
        arg: &Value<'_>,
        arena: &mut Arena,
        owner: &Arc<Owner>,
    ) -> Result<(), WorkerError> {
        let Some((shape, dtype)) = tensor_of(arg) else { return Err(expected.no_tensor(arg)) };
        if dtype != expected.dtype {
            return Err(expected.wrong_dtype(dtype));
        }
        if !dims_match(expected.dims, shape.dims()) {
            return Err(expected.wrong_shape(shape));
        }
        if !dtype.is_dispatchable() {
            return Err(expected
                .value(format!("Unsupported tensor dtype {dtype}: it can be stored, but no program can use it")));
        }
        for (axis, (dim, &extent)) in expected.dims.iter().zip(shape.iter()).enumerate() {
            if let Dim::Symbol(symbol) = dim {
                match &mut self.symbols[*symbol as usize] {
                    Some((known, first)) if *known != extent => {
                        return Err(expected.wrong_symbol(*symbol, axis, extent, *known, *first));
                    }
                    slot => _ = slot.get_or_insert((extent, expected.index)),
                }
            }
        }
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(dtype.size() as u64));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as u64);
        let bytes =
            bytes.ok_or_else(|| expected.value(format!("a tensor of shape {shape} does not fit any memory")))?;
        if bytes == 0 {
            let fix = "Zero-sized tensors cannot be passed: skip the launch where there is nothing to do";
            return Err(expected.value(format!("the tensor of shape {shape} has no elements. {fix}")));
        }
        let written = expected.direction != Direction::In;
        let data = match arg {
            Value::Resident { buffer, .. } => {
                check_owner(buffer, owner, || expected.what())?;
                if bytes > buffer.bytes() {
                    let text = format!(
                        "a {dtype} view of shape {shape} needs {bytes} bytes and exceeds the {}-byte backing of {buffer}",
                        buffer.bytes()
                    );
                    return Err(expected.value(text));
                }
                // Also of an output: a kernel may leave parts of it alone.
                arena.clear_stale(buffer);
                arena.pointer(buffer)
            }
            Value::Host(tensor) => {
                if written && !tensor.writable {
                    let fix = "Pass a writable tensor, for example a copy";
                    return Err(
                        expected.value(format!("the program writes it, but the host tensor is read-only. {fix}"))
                    );
                }
                let (tensor_index, offset) = (self.tensors.len() as u32, self.staging_bytes);
                let staged = Staged {
                    host: tensor.data,
                    bytes,
                    offset,
                    tensor: tensor_index,
                    param: expected.index,
                    direction: expected.direction,
                };
                self.staged.push(staged);
                // Adding cannot overflow: each tensor is memory of this process or at most half of its address space, and
                // a sum that large does not fit the arena anyway.
                self.staging_bytes = self.staging_bytes.saturating_add(staging_size(bytes, arena.is_poisoned()));
                tensor.data
            }
            _ => unreachable!("scalars were refused"),
        };
        let start = data as usize;
        self.ranges.push(Range { start, end: start.saturating_add(bytes as usize), param: expected.index, written });
        let data = if matches!(arg, Value::Host(_)) { ptr::null_mut() } else { data };
        self.tensors.push(TensorArg { data, shape: *shape });
        Ok(())
    }

    /// Bytes of the host tensors whose direction is not `except`, or `None` where there are no such tensors.
    pub fn copied(&self, except: Direction) -> Option<u64> {
        let copied = self.staged.iter().filter(|staged| staged.direction != except);
        copied.map(|staged| staged.bytes).reduce(|sum, bytes| sum + bytes)
    }

    /// A tensor that the program writes may overlap no other argument. Sorting keeps this near linear: 142 arguments that
    /// are all written would be 10,000 comparisons pair by pair.
    fn refuse_overlaps(&mut self, program: &Program) -> Result<(), WorkerError> {
        self.ranges.sort_unstable_by_key(|range| range.start);
        let mut furthest: Option<Range> = None;
        let mut furthest_written: Option<Range> = None;
        for range in &self.ranges {
            let before = if range.written { furthest } else { furthest_written };
            if let Some(before) = before.filter(|before| range.start < before.end) {
                return Err(overlap(program, *range, before));
            }
            let further = |slot: &Option<Range>| slot.is_none_or(|slot| slot.end < range.end);
            if further(&furthest) {
                furthest = Some(*range);
            }
            if range.written && further(&furthest_written) {
                furthest_written = Some(*range);
            }
        }
        Ok(())
    }
}

/// Bytes of staging memory for a host tensor. In poison mode the rest of the last granule and one more are a guard.
pub(super) fn staging_size(bytes: u64, poison: bool) -> u64 {
    bytes.next_multiple_of(GRANULE) + if poison { GRANULE } else { 0 }
}

/// Whether `owner` may use the buffer: two loads, however many buffers are live.
pub(super) fn check_owner(
    buffer: &Arc<Buffer>,
    owner: &Arc<Owner>,
    what: impl Fn() -> String,
) -> Result<(), WorkerError> {
    let state = buffer.state();
    if state == BufferState::Live && buffer.worker() == owner.id() {
        return Ok(());
    }
    let (what, buffer, asked) = (what(), buffer.clone(), owner.clone());
    Err(match state {
        BufferState::Freed => WorkerError::FreedBuffer { what, buffer, asked },
        BufferState::WorkerClosed => WorkerError::StaleBuffer { what, buffer, asked },
        BufferState::Live => WorkerError::ForeignBuffer { what, buffer, asked },
    })
}

fn bind_scalar(
    program: &Program,
    param: &Param,
    arg: &Value<'_>,
    dtype: DType,
    baked: bool,
) -> Result<u64, WorkerError> {
    let bits = scalar::encode(arg, dtype, || parameter(program, param));
    match bits {
        // The program does not look at it, so only its type must make sense.
        Err(WorkerError::ScalarRange(_)) if baked => Ok(0),
        bits => bits,
    }
}

fn parameter(program: &Program, param: &Param) -> String {
    format!("Parameter '{}' of '{}'", param.name, program.name)
}

fn wrong_count(program: &Program, got: usize) -> WorkerError {
    let names: Vec<_> = program.params.iter().map(|param| format!("'{}'", param.name)).collect();
    let (program, expected) = (program.name.clone(), program.params.len());
    WorkerError::ArgumentCount { program, expected, got, parameters: names.join(", ") }
}

fn overlap(program: &Program, a: Range, b: Range) -> WorkerError {
    let (written, other) = if a.written { (a, b) } else { (b, a) };
    let [written, other] = [written, other].map(|range| &program.params[range.param as usize]);
    WorkerError::ArgumentValue(format!(
        "{} is written by the program, but its memory overlaps that of parameter '{}'. Pass separate memory for it",
        parameter(program, written),
        other.name
    ))
}

/// A tensor parameter, for messages.
struct Expected<'a> {
    program: &'a Program,
    param: &'a Param,
    index: u32,
    dtype: DType,
    dims: &'a [Dim],
    direction: Direction,
}

impl Expected<'_> {
    fn what(&self) -> String {
        parameter(self.program, self.param)
    }

    /// The declared shape as Python would print it, with the names of symbols: `(M, 1024)`.
    fn shape(&self) -> String {
        let mut text = String::from("(");
        for (axis, dim) in self.dims.iter().enumerate() {
            text += if axis > 0 { ", " } else { "" };
            match dim {
                Dim::Const(extent) => text += &extent.to_string(),
                Dim::Symbol(symbol) => text += &self.program.symbols[*symbol as usize],
            }
        }
        text + if self.dims.len() == 1 { ",)" } else { ")" }
    }

    fn value(&self, text: String) -> WorkerError {
        WorkerError::ArgumentValue(format!("{}: {text}", self.what()))
    }

    fn no_tensor(&self, arg: &Value<'_>) -> WorkerError {
        let got = match arg {
            Value::Int(value) => format!("the int {value}"),
            Value::Float(value) => format!("the float {value}"),
            _ => "a bool".into(),
        };
        let (what, dtype, shape) = (self.what(), self.dtype, self.shape());
        WorkerError::ArgumentType(format!(
            "{what} expects a {dtype} tensor of shape {shape}, got {got}. Pass a torch.Tensor or a DeviceTensor"
        ))
    }

    fn wrong_dtype(&self, got: DType) -> WorkerError {
        let (what, dtype) = (self.what(), self.dtype);
        let fix = match self.direction {
            Direction::In => format!("Convert it with .to(torch.{})", dtype.torch_name()),
            _ => format!("Allocate it as torch.{}", dtype.torch_name()),
        };
        WorkerError::ArgumentType(format!(
            "{what} expects dtype {dtype} (torch.{}), got {got} (torch.{}). {fix}",
            dtype.torch_name(),
            got.torch_name()
        ))
    }

    fn wrong_shape(&self, got: &Shape) -> WorkerError {
        let (what, shape) = (self.what(), self.shape());
        let detail = if got.len() == self.dims.len() {
            let differs = |(axis, dim): (usize, &Dim)| match dim {
                Dim::Const(extent) if *extent != got[axis] => Some((axis, *extent)),
                _ => None,
            };
            let (axis, extent) = self.dims.iter().enumerate().find_map(differs).unwrap_or_default();
            format!("Axis {axis} must be {extent}, not {}", got[axis])
        } else {
            format!(
                "It must have {} axes, not {}; .reshape() it where that is what you mean",
                self.dims.len(),
                got.len()
            )
        };
        WorkerError::ArgumentType(format!("{what} expects shape {shape}, got {got}. {detail}"))
    }

    fn wrong_symbol(&self, symbol: u32, axis: usize, got: u64, known: u64, first: u32) -> WorkerError {
        let name = &self.program.symbols[symbol as usize];
        let first = &self.program.params[first as usize].name;
        self.value(format!(
            "axis {axis} is {got}, but {name} is {known} in this launch (said by parameter '{first}'). Pass tensors that agree on {name}"
        ))
    }
}
