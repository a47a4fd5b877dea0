//! A device that fails where it is told to, in the middle of what it does.

use super::fake::program;
use crate::device::{Device, DeviceError, Executable, Launch, Packable, PackedForm, TensorArg};
use crate::dtype::DType;
use crate::program::{Dim, Direction, Loc, Program};
use crate::shape::Shape;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of each tensor: the least that gets a packed form.
pub const LENGTH: usize = 64 << 10;

/// Bytes of scratch memory of each program.
pub const SCRATCH: u64 = 4096;

const PACKABLE: [Packable; 1] = [Packable { tensor: 1, form: PackedForm { dtype: DType::U8, transposed: false } }];

/// What can fail. Requests for memory are refused by the arena and not by the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Allocate,
    Copy,
    Kernel,
    Compile,
}

/// What fails when: the n-th of a kind, from 0.
#[derive(Default)]
pub struct Faults {
    planned: Vec<(Step, u64)>,
    seen: Mutex<[u64; 4]>,
    fired: Mutex<Vec<Step>>,
    /// Executables that were made and not dropped.
    loaded: AtomicUsize,
}

impl Faults {
    pub fn new(planned: Vec<(Step, u64)>) -> Arc<Self> {
        Arc::new(Self { planned, ..Self::default() })
    }

    /// Those that are refused by the arena.
    pub fn refusals(&self) -> Vec<u64> {
        self.planned.iter().filter(|(step, _)| *step == Step::Allocate).map(|(_, n)| *n).collect()
    }

    pub fn planned(&self) -> usize {
        self.planned.len()
    }

    /// Those of the device that happened, in order.
    pub fn fired(&self) -> Vec<Step> {
        self.fired.lock().unwrap().clone()
    }

    pub fn loaded(&self) -> usize {
        self.loaded.load(Ordering::SeqCst)
    }

    /// The text of the failure, where this one fails.
    fn hit(&self, step: Step) -> Option<String> {
        let mut seen = self.seen.lock().unwrap();
        let n = seen[step as usize];
        seen[step as usize] += 1;
        if !self.planned.contains(&(step, n)) {
            return None;
        }
        self.fired.lock().unwrap().push(step);
        Some(format!("{step:?} {n} fails"))
    }

    /// Copies, or copies half and fails.
    unsafe fn copy(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        let fault = self.hit(Step::Copy);
        let bytes = if fault.is_some() { bytes / 2 } else { bytes };
        // SAFETY: the caller's promise.
        unsafe { dst.copy_from_nonoverlapping(src, bytes) };
        fault.map_or(Ok(()), |text| Err(DeviceError::Transfer(text)))
    }
}

/// A device whose programs compute `c = a + b` on bytes, the one called `second` 100 more. The packed form of `b` is its
/// complement.
pub struct Failing(pub Arc<Faults>);

struct Adding {
    faults: Arc<Faults>,
    name: String,
    more: u8,
}

impl Device for Failing {
    fn platform(&self) -> &'static str {
        "failing"
    }

    fn cores(&self) -> usize {
        1
    }

    fn compile(&self, program: &Program) -> Result<Box<dyn Executable>, DeviceError> {
        if let Some(text) = self.0.hit(Step::Compile) {
            return Err(DeviceError::Unavailable(text));
        }
        self.0.loaded.fetch_add(1, Ordering::SeqCst);
        let more = if program.name == "second" { 100 } else { 0 };
        Ok(Box::new(Adding { faults: self.0.clone(), name: program.name.clone(), more }))
    }

    fn packed_bytes(&self, _: PackedForm, shape: &Shape) -> u64 {
        shape.elements().unwrap()
    }

    unsafe fn pack(&self, _: PackedForm, matrix: &TensorArg, dst: *mut u8) {
        for at in 0..LENGTH {
            // SAFETY: both have this many bytes.
            unsafe { dst.add(at).write(!matrix.data.add(at).read()) };
        }
    }

    unsafe fn copy_in(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the contract.
        unsafe { self.0.copy(dst, src, bytes) }
    }

    unsafe fn copy_out(&self, dst: *mut u8, src: *const u8, bytes: usize) -> Result<(), DeviceError> {
        // SAFETY: the contract.
        unsafe { self.0.copy(dst, src, bytes) }
    }
}

impl Executable for Adding {
    fn scratch_bytes(&self) -> u64 {
        SCRATCH
    }

    fn estimated_ns(&self) -> u64 {
        0
    }

    fn packable(&self) -> &[Packable] {
        &PACKABLE
    }

    unsafe fn launch(&mut self, launch: Launch<'_>) -> Result<(), DeviceError> {
        // Overwrites what the last program left in memory that nobody promised to keep.
        // SAFETY: as many bytes as were asked for.
        unsafe { launch.scratch.write_bytes(0xee, SCRATCH as usize) };
        let sums = launch.workspace.reserve(LENGTH as u64)?;
        let [a, b, c] = [0, 1, 2].map(|tensor| launch.tensors[tensor].data);
        let fault = self.faults.hit(Step::Kernel);
        let length = if fault.is_some() { LENGTH / 2 } else { LENGTH };
        let packed = launch.packed.first().copied().filter(|packed| !packed.is_null());
        for at in 0..length {
            // SAFETY: tensors, packed form and workspace have this many bytes.
            unsafe {
                let b = packed.map_or_else(|| b.add(at).read(), |packed| !packed.add(at).read());
                sums.add(at).write(a.add(at).read().wrapping_add(b).wrapping_add(self.more));
            }
        }
        // SAFETY: as above; the workspace is nobody's tensor.
        unsafe { c.copy_from_nonoverlapping(sums, length) };
        let (program, file) = (self.name.clone(), "kernel.py".into());
        fault.map_or(Ok(()), |message| Err(DeviceError::Fault { program, file, at: Loc(0, 3, 0), message }))
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        self.faults.loaded.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The program of this number.
pub fn numbered(number: usize) -> Arc<Program> {
    let dims = [Dim::Const(LENGTH as u64)];
    let param = |name, direction| super::fake::tensor(name, DType::U8, &dims, direction);
    let params = vec![param("a", Direction::In), param("b", Direction::In), param("c", Direction::Out)];
    program(["first", "second"][number], params)
}
