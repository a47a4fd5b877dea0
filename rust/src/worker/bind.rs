//! Checks the arguments of a launch against the parameters of its program: one validator for host and resident tensors.
//!
//! Everything is written into vectors that the registration keeps, so that binding allocates nothing after the first
//! launch. Texts are made only when something is wrong.

use super::error::WorkerError;
use super::mismatch::{Expected, parameter, wrong_count};
use super::ranges::{Range, Ranges};
use super::scalar;
use super::stale::Stale;
use super::value::{HostTensor, Kept, Value};
use crate::arena::{Arena, Buffer, BufferState, GRANULE, Owner};
use crate::device::TensorArg;
use crate::dtype::DType;
use crate::id::WorkerId;
use crate::program::{Dim, Direction, Number, ParamKind, Program};
use crate::shape::Shape;
use std::ptr;
use std::sync::Arc;

/// The address of what has no bytes: aligned, and no memory.
pub(super) const NO_MEMORY: *mut u8 = ptr::without_provenance_mut(GRANULE as usize);

/// The arguments of one launch as the device takes them. They stay until the next binding, which has less to check where
/// arguments have the extents that they had: nothing but who owns a buffer, and whether memory overlaps.
#[derive(Clone, Default, Debug)]
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
    /// Memory of the tensors, in their order.
    ranges: Ranges,
    /// The resident ones that nobody wrote yet.
    pub stale: Stale,
    /// What is known about each parameter since the last binding, if that was accepted.
    known: Vec<Known>,
    is_accepted: bool,
    /// A number for the extents and scalars: it changes with them, so that a launch whose number is the one that the
    /// device saw last repeats that launch. Bindings of one registration with the same number have the same of both.
    pub version: u64,
}

/// What the last binding found out about a parameter. It still holds for an argument of the same kind, type and extents.
#[derive(Clone, Copy, Debug)]
enum Known {
    Scalar {
        /// Index into [`Bound::scalars`].
        scalar: u32,
        dtype: DType,
        baked: Option<Number>,
    },
    Resident {
        /// Index into [`Bound::tensors`].
        tensor: u32,
        dtype: DType,
        bytes: u64,
    },
    Host {
        /// Index into [`Bound::staged`].
        staged: u32,
        dtype: DType,
    },
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
    /// See [`HostTensor::version`].
    pub version: u64,
    /// Its place in device memory where that is not in the staging memory; else null.
    pub kept: *mut u8,
    /// Its bytes are in that place already.
    pub is_fresh: bool,
}

// SAFETY: the addresses are used within one launch only, under the lock of the worker.
#[allow(unsafe_code)]
unsafe impl Send for Bound {}

fn tensor_of<'v>(value: &'v Value<'_>) -> Option<(&'v Shape, DType)> {
    match value {
        Value::Host(HostTensor { shape, dtype, .. }) => Some((shape, *dtype)),
        Value::Resident { shape, dtype, .. } => Some((shape, *dtype)),
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
            symbols: Vec::with_capacity(program.symbols.len()),
            ranges: Ranges::with_capacity(count),
            stale: Stale::with_capacity(count),
            known: Vec::with_capacity(count),
            ..Self::default()
        }
    }

    /// Checks `args` and fills the vectors in. `versions` is the last [`Bound::version`] that was given to a binding of the
    /// registration.
    pub fn bind(
        &mut self,
        program: &Program,
        args: &[Value<'_>],
        arena: &Arena,
        owner: &Arc<Owner>,
        versions: &mut u64,
    ) -> Result<(), WorkerError> {
        self.stale.forget();
        let alike = if self.is_accepted { self.bind_alike(args, arena, owner.id()) } else { None };
        // Until this binding is accepted.
        self.is_accepted = false;
        match alike {
            Some(Alike { moved: true, .. }) => self.refuse_overlaps(program)?,
            Some(_) => {}
            None => self.bind_anew(program, args, arena, owner)?,
        }
        // An empty tensor is not among what is known.
        self.is_accepted = !self.is_empty;
        if !alike.is_some_and(|alike| alike.scalars) {
            *versions += 1;
            self.version = *versions;
        }
        Ok(())
    }

    /// Binds arguments that are like those of the last binding. `None` where one is not, or is wrong.
    fn bind_alike(&mut self, args: &[Value<'_>], arena: &Arena, owner: WorkerId) -> Option<Alike> {
        if args.len() != self.known.len() {
            return None;
        }
        let mut alike = Alike { moved: false, scalars: true };
        for (known, arg) in self.known.iter().zip(args) {
            let (tensor, occupied) = match (known, arg) {
                (
                    &Known::Resident { tensor, dtype, bytes },
                    Value::Resident { buffer, offset, shape, dtype: actual },
                ) => {
                    let bound = &mut self.tensors[tensor as usize];
                    let is_like = *actual == dtype && **shape == bound.shape && fits(bytes, *offset, buffer);
                    if !is_like || buffer.state() != BufferState::Live || buffer.worker() != owner {
                        return None;
                    }
                    self.stale.note(tensor, bytes, buffer);
                    bound.data = arena.pointer(buffer).wrapping_add(*offset as usize);
                    (tensor, bound.data)
                }
                (&Known::Host { staged, dtype }, Value::Host(host)) => {
                    let staged = &mut self.staged[staged as usize];
                    let shape = &self.tensors[staged.tensor as usize].shape;
                    let is_like = host.dtype == dtype && host.shape == *shape;
                    if !is_like || (staged.direction != Direction::In && !host.writable) {
                        return None;
                    }
                    (staged.host, staged.version) = (host.data, host.version);
                    (staged.tensor, host.data)
                }
                (&Known::Scalar { scalar, dtype, baked }, arg) => {
                    let bits = scalar::bind(arg, dtype, baked, String::new).ok()?;
                    let slot = &mut self.scalars[scalar as usize];
                    alike.scalars &= std::mem::replace(slot, bits) == bits;
                    continue;
                }
                _ => return None,
            };
            alike.moved |= self.ranges.move_to(tensor as usize, occupied as usize);
        }
        Some(alike)
    }

    /// Whether the next binding has less to check: all that is known about the arguments is in `known`.
    pub fn is_accepted(&self) -> bool {
        self.is_accepted
    }

    /// Replaces addresses and versions of the host tensors; `hosts` has them in the order of their parameters. `false` where one is
    /// not like the one before, or overlaps another argument: then some are replaced and some are not.
    #[inline]
    pub fn move_hosts(&mut self, hosts: &[(usize, HostTensor)]) -> bool {
        if self.staged.len() != hosts.len() {
            return false;
        }
        let (mut moved, mut last) = (0, 0);
        for (staged, (param, host)) in self.staged.iter_mut().zip(hosts) {
            let tensor = staged.tensor as usize;
            let Known::Host { dtype, .. } = self.known[staged.param as usize] else { return false };
            let is_like =
                *param == staged.param as usize && host.dtype == dtype && host.shape == self.tensors[tensor].shape;
            if !is_like || (staged.direction != Direction::In && !host.writable) {
                return false;
            }
            (staged.host, staged.version) = (host.data, host.version);
            if self.ranges.move_to(tensor, host.data as usize) {
                (moved, last) = (moved + 1, tensor);
            }
        }
        match moved {
            0 => true,
            1 => !self.ranges.meets_another(last),
            _ => self.ranges.overlap().is_none(),
        }
    }

    /// Replaces arguments, by parameter, with others that are like them; `false`, and nothing is replaced, where one is not
    /// like the one before, or is wrong. `versions` as for [`Bound::bind`].
    pub fn replace(&mut self, changes: &[(usize, Kept)], arena: &Arena, owner: WorkerId, versions: &mut u64) -> bool {
        let mut moves = Vec::with_capacity(changes.len());
        let mut numbers = Vec::new();
        for (param, arg) in changes {
            match (self.known[*param], arg) {
                (Known::Resident { tensor, dtype, bytes }, Kept::Resident { buffer, offset, shape, dtype: actual }) => {
                    let is_like = *actual == dtype && *shape == self.tensors[tensor as usize].shape;
                    let is_usable = buffer.state() == BufferState::Live && buffer.worker() == owner;
                    if !is_like || !is_usable || !fits(bytes, *offset, buffer) {
                        return false;
                    }
                    self.stale.note(tensor, bytes, buffer);
                    moves.push((tensor as usize, arena.pointer(buffer).wrapping_add(*offset as usize)));
                }
                (Known::Scalar { scalar, dtype, baked }, Kept::Other(value)) => {
                    let Ok(bits) = scalar::bind(value, dtype, baked, String::new) else { return false };
                    numbers.push((scalar as usize, bits));
                }
                _ => return false,
            }
        }
        let swap = |bound: &mut Self, moves: &mut [(usize, *mut u8)]| {
            for (tensor, data) in moves {
                bound.ranges.move_to(*tensor, *data as usize);
                std::mem::swap(&mut bound.tensors[*tensor].data, data);
            }
        };
        swap(self, &mut moves);
        if moves.iter().any(|(tensor, _)| self.ranges.meets_another(*tensor)) {
            // Backwards, because a parameter may be among the changes twice.
            moves.reverse();
            swap(self, &mut moves);
            return false;
        }
        let mut is_new = false;
        for (scalar, bits) in numbers {
            is_new |= std::mem::replace(&mut self.scalars[scalar], bits) != bits;
        }
        if is_new {
            *versions += 1;
            self.version = *versions;
        }
        true
    }

    fn bind_anew(
        &mut self,
        program: &Program,
        args: &[Value<'_>],
        arena: &Arena,
        owner: &Arc<Owner>,
    ) -> Result<(), WorkerError> {
        self.tensors.clear();
        self.scalars.clear();
        self.staged.clear();
        self.ranges.clear();
        self.known.clear();
        self.symbols.clear();
        self.symbols.resize(program.symbols.len(), None);
        self.staging_bytes = 0;
        (self.is_empty, self.has_results) = (false, false);
        if args.len() != program.params.len() {
            return Err(wrong_count(program, args.len()));
        }
        for (index, (param, arg)) in program.params.iter().zip(args).enumerate() {
            match &param.kind {
                ParamKind::Scalar { dtype, baked } => {
                    let (scalar, dtype, baked) = (self.scalars.len() as u32, *dtype, *baked);
                    self.scalars.push(scalar::bind(arg, dtype, baked, || parameter(program, param))?);
                    self.known.push(Known::Scalar { scalar, dtype, baked });
                }
                ParamKind::Tensor { dtype, dims, direction } => {
                    let expected =
                        Expected { program, param, index: index as u32, dtype: *dtype, dims, direction: *direction };
                    self.bind_tensor(&expected, arg, arena, owner)?;
                }
            }
        }
        self.refuse_overlaps(program)
    }

    fn bind_tensor(
        &mut self,
        expected: &Expected<'_>,
        arg: &Value<'_>,
        arena: &Arena,
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
            return Err(expected.value(format!(
                "Unsupported DeviceTensor dtype {dtype}: it can be stored, but no program can use it"
            )));
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
            &Value::Resident { buffer, offset, .. } => {
                let data = place_resident(expected, buffer, offset, bytes, arena, owner)?;
                let tensor = self.tensors.len() as u32;
                self.stale.note(tensor, bytes, buffer);
                self.known.push(Known::Resident { tensor, dtype, bytes });
                (data, data)
            }
            Value::Host(tensor) => {
                self.known.push(Known::Host { staged: self.staged.len() as u32, dtype });
                self.stage(expected, tensor, bytes, arena.is_poisoned())?;
                (tensor.data, ptr::null_mut())
            }
            Value::Int(_) | Value::Large(_) | Value::Float(_) | Value::Bool(_) => unreachable!("scalars were refused"),
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
            version: host.version,
            kept: ptr::null_mut(),
            is_fresh: false,
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
        let copied = self.staged.iter().filter(|staged| staged.direction != except && !staged.is_fresh);
        copied.map(|staged| staged.bytes).reduce(|sum, bytes| sum + bytes)
    }

    fn refuse_overlaps(&mut self, program: &Program) -> Result<(), WorkerError> {
        match self.ranges.overlap() {
            None => Ok(()),
            Some(params) => Err(overlap(program, params)),
        }
    }
}

/// How arguments that are like the last ones differ from them.
#[derive(Clone, Copy)]
struct Alike {
    /// A tensor lies elsewhere.
    moved: bool,
    /// The scalars are the same.
    scalars: bool,
}

/// Where a resident tensor lies, if this worker may use it.
fn place_resident(
    expected: &Expected<'_>,
    buffer: &Arc<Buffer>,
    offset: u64,
    bytes: u64,
    arena: &Arena,
    owner: &Arc<Owner>,
) -> Result<*mut u8, WorkerError> {
    let is_view = offset != 0 || bytes != buffer.bytes();
    check_owner(buffer, owner, || expected.what() + if is_view { ", a view of what follows" } else { "" })?;
    if !fits(bytes, offset, buffer) {
        let (backing, at) = (buffer.bytes(), if offset == 0 { String::new() } else { format!(" at byte {offset}") });
        let text = format!("a view of {bytes} bytes{at} exceeds the {backing}-byte backing of {buffer}");
        return Err(expected.value(text));
    }
    Ok(arena.pointer(buffer).wrapping_add(offset as usize))
}

/// Whether a view lies in its buffer.
fn fits(bytes: u64, offset: u64, buffer: &Buffer) -> bool {
    bytes.saturating_add(offset) <= buffer.bytes()
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

fn overlap(program: &Program, params: [u32; 2]) -> WorkerError {
    let [written, other] = params.map(|param| &program.params[param as usize]);
    WorkerError::ArgumentValue(format!(
        "{} is written by the program, but its memory overlaps that of parameter '{}'. Pass separate memory for it",
        parameter(program, written),
        other.name
    ))
}
