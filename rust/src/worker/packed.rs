//! Packed forms beside resident buffers.
//!
//! A matrix that products use again and again as it is keeps a second, packed form: with it the device works 0.65 ms on
//! x[16, 1024] @ W[1024, 4096] in FP16, without it 1.4 ms (`examples/runtime/resident_weight.py`, two cores). It is made in the second launch that finds the buffer unchanged, so that a
//! buffer that is written between launches costs nothing, and it is dropped when the buffer is written or freed, or when a
//! user's tensor needs the memory.
#![allow(unsafe_code)] // It hands addresses to the device.

use crate::arena::{Arena, Chunk, Purpose};
use crate::device::{Device, Packable, PackedForm, TensorArg};
use crate::shape::Shape;
use crate::trace::{self, names};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr;

/// Smaller matrices stay near the cores however they lie.
const LEAST_BYTES: u64 = 64 << 10;

/// The packed forms of one worker.
pub(super) struct PackedForms {
    /// By the address of the matrix.
    forms: HashMap<usize, Beside>,
    /// Bytes that they may take together.
    limit: u64,
    used: u64,
    /// Those of the launch that runs, one for each tensor that its executable names; null where there is none.
    of_launch: Vec<*const u8>,
}

// SAFETY: the addresses are of the launch that runs, and one launch of a worker runs at a time.
unsafe impl Send for PackedForms {}

/// What is known about a matrix, the form that a program asked for first.
struct Beside {
    form: PackedForm,
    shape: Shape,
    state: State,
}

enum State {
    /// A launch used it; the next one packs it.
    Seen,
    Packed(Chunk),
    /// There was no room, until the memory is given back.
    Refused,
}

impl PackedForms {
    /// Forms that take at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { forms: HashMap::new(), limit, used: 0, of_launch: Vec::new() }
    }

    /// Begins the list of a launch.
    pub fn begin_launch(&mut self) {
        self.of_launch.clear();
    }

    /// The list of the launch.
    pub fn of_launch(&self) -> &[*const u8] {
        &self.of_launch
    }

    /// Adds the packed form of a matrix to the list of the launch; `None` is one that is not resident.
    pub fn add(
        &mut self,
        packable: &Packable,
        matrix: Option<&TensorArg>,
        device: &dyn Device,
        arena: &mut Arena,
        invocation: u32,
    ) {
        let form = matrix.map_or(ptr::null(), |matrix| self.find(packable, matrix, device, arena, invocation));
        self.of_launch.push(form);
    }

    /// The packed form of a resident matrix, null where there is none; makes it where it is time to.
    fn find(
        &mut self,
        packable: &Packable,
        matrix: &TensorArg,
        device: &dyn Device,
        arena: &mut Arena,
        invocation: u32,
    ) -> *const u8 {
        let form = packable.form;
        let bytes = matrix.shape.elements().unwrap_or(0).saturating_mul(form.dtype.size() as u64);
        if self.limit == 0 || bytes < LEAST_BYTES {
            return ptr::null();
        }
        let known = self.forms.entry(matrix.data as usize);
        let Entry::Occupied(mut known) = known else {
            known.or_insert(Beside { form, shape: matrix.shape, state: State::Seen });
            return ptr::null();
        };
        let known = known.get_mut();
        if known.form != form || known.shape != matrix.shape {
            return ptr::null();
        }
        if let State::Seen = known.state {
            let bytes = device.packed_bytes(form, &matrix.shape);
            let room = bytes > 0 && self.used.saturating_add(bytes) <= self.limit;
            let chunk = room.then(|| arena.reserve(bytes, Purpose::Packed).ok()).flatten();
            known.state = match chunk {
                Some(chunk) => {
                    self.used += chunk.bytes();
                    let _pack = trace::span(names::PACK, invocation, chunk.bytes());
                    // SAFETY: the matrix is a live buffer, checked by the binding; the chunk is fresh and large enough.
                    unsafe { device.pack(form, matrix, arena.chunk_pointer(&chunk)) };
                    State::Packed(chunk)
                }
                None => State::Refused,
            };
        }
        match &known.state {
            State::Packed(chunk) => arena.chunk_pointer(chunk),
            _ => ptr::null(),
        }
    }

    /// Whether nothing is known about any matrix.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// The bytes at `matrix` are about to change, or to belong to nobody.
    #[inline]
    pub fn forget(&mut self, matrix: *const u8, arena: &mut Arena) {
        if !self.forms.is_empty()
            && let Some(known) = self.forms.remove(&(matrix as usize))
        {
            self.release(known, arena);
        }
    }

    /// Gives all memory back; matrices may be packed again.
    pub fn forget_all(&mut self, arena: &mut Arena) {
        for known in std::mem::take(&mut self.forms).into_values() {
            self.release(known, arena);
        }
    }

    fn release(&mut self, known: Beside, arena: &mut Arena) {
        if let State::Packed(chunk) = known.state {
            self.used -= chunk.bytes();
            arena.release(chunk);
        }
    }
}
