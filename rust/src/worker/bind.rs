//! Checks the arguments of a launch against the parameters of its program: one validator for host and resident tensors.
//!
//! Everything is written into vectors that the registration keeps, so that binding allocates nothing after the first
//! launch. Texts are made only when something is wrong.

use super::error::WorkerError;
use super::mismatch::{Expected, parameter, wrong_count};
use super::scalar;
use super::value::{HostTensor, Value};
use crate::arena::{Arena, Buffer, BufferState, GRANULE, Owner};
use crate::device::TensorArg;
use crate::dtype::DType;
use crate::program::{Dim, Direction, Param, ParamKind, Program};
use crate::shape::Shape;
use std::ptr;
use std::sync::Arc;

/// The address of what has no bytes: aligned, and no memory.
pub(super) const NO_MEMORY: *mut u8 = ptr::without_provenance_mut(GRANULE as usize);

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
    /// A tensor has no elements.
    is_empty: bool,
    /// A tensor that the program writes has elements.
    has_results: bool,
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
            is_empty: false,
            has_results: false,
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
        (self.is_empty, self.has_results) = (false, false);
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
        self.bind_symbols(expected, shape)?;
        let bytes = shape.elements().and_then(|elements| elements.checked_mul(dtype.size() as u64));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as u64);
        let bytes =
            bytes.ok_or_else(|| expected.value(format!("a tensor of shape {shape} does not fit any memory")))?;
        if bytes == 0 {
            // A batch without rows: declared extents are at least 1. Nobody reads or writes at its address.
            self.is_empty = true;
            self.tensors.push(TensorArg { data: NO_MEMORY, shape: *shape });
            return Ok(());
        }
        self.has_results |= expected.is_written();
        let (occupied, data) = match arg {
            Value::Resident { buffer, .. } => {
                let data = place_resident(expected, buffer, bytes, arena, owner)?;
                (data, data)
            }
            Value::Host(tensor) => {
                self.stage(expected, tensor, bytes, arena.is_poisoned())?;
                (tensor.data, ptr::null_mut())
            }
            Value::Int(_) | Value::Float(_) | Value::Bool(_) => unreachable!("scalars were refused"),
        };
        let (start, written) = (occupied as usize, expected.is_written());
        let end = start.saturating_add(bytes as usize);
        self.ranges.push(Range { start, end, param: expected.index, written });
        self.tensors.push(TensorArg { data, shape: *shape });
        Ok(())
    }

    /// Equal symbols have equal extents in one launch.
    fn bind_symbols(&mut self, expected: &Expected<'_>, shape: &Shape) -> Result<(), WorkerError> {
        for (axis, (dim, &extent)) in expected.dims.iter().zip(shape.iter()).enumerate() {
            let Dim::Symbol(symbol) = *dim else { continue };
            match &mut self.symbols[symbol as usize] {
                Some((known, first)) if *known != extent => {
                    return Err(expected.wrong_symbol(symbol, axis, extent, *known, *first));
                }
                slot => _ = slot.get_or_insert((extent, expected.index)),
            }
        }
        Ok(())
    }

    /// Gives a host tensor its place in the staging memory.
    fn stage(
        &mut self,
        expected: &Expected<'_>,
        host: &HostTensor,
        bytes: u64,
        poison: bool,
    ) -> Result<(), WorkerError> {
        if expected.is_written() && !host.writable {
            let fix = "Pass a writable tensor, for example a copy";
            return Err(expected.value(format!("the program writes it, but the host tensor is read-only. {fix}")));
        }
        self.staged.push(Staged {
            host: host.data,
            bytes,
            offset: self.staging_bytes,
            tensor: self.tensors.len() as u32,
            param: expected.index,
            direction: expected.direction,
        });
        // A sum that saturates is larger than any arena, so it is refused there.
        self.staging_bytes = self.staging_bytes.saturating_add(staging_size(bytes, poison));
        Ok(())
    }

    /// Whether the launch has nothing to do: a tensor has no elements, and every result would be empty too. A program that
    /// reduces an empty batch has a result, and runs.
    pub fn is_noop(&self) -> bool {
        self.is_empty && !self.has_results
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

/// Where a resident tensor lies, if this worker may use it.
fn place_resident(
    expected: &Expected<'_>,
    buffer: &Arc<Buffer>,
    bytes: u64,
    arena: &mut Arena,
    owner: &Arc<Owner>,
) -> Result<*mut u8, WorkerError> {
    check_owner(buffer, owner, || expected.what())?;
    if bytes > buffer.bytes() {
        let backing = buffer.bytes();
        return Err(expected.value(format!("a view of {bytes} bytes exceeds the {backing}-byte backing of {buffer}")));
    }
    // Also of an output: a program may leave parts of it alone.
    arena.clear_stale(buffer);
    Ok(arena.pointer(buffer))
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

fn overlap(program: &Program, a: Range, b: Range) -> WorkerError {
    let (written, other) = if a.written { (a, b) } else { (b, a) };
    let [written, other] = [written, other].map(|range| &program.params[range.param as usize]);
    WorkerError::ArgumentValue(format!(
        "{} is written by the program, but its memory overlaps that of parameter '{}'. Pass separate memory for it",
        parameter(program, written),
        other.name
    ))
}
