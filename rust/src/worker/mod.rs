//! One opened device with its memory, its registrations and its clock. (API skeleton: signatures are final, bodies follow.)
#![allow(unsafe_code, unused_variables, clippy::missing_safety_doc)]

mod error;
mod value;

pub use error::WorkerError;
pub use value::{HostTensor, Value};

use crate::arena::{Buffer, BufferSpec, MemoryReport, Owner, Site};
use crate::device::Device;
use crate::error::Result;
use crate::id::{DeviceAddr, WorkerId};
use crate::program::Program;
use std::marker::PhantomData;
use std::sync::Arc;

/// How to open a worker.
pub struct WorkerConfig {
    /// What messages call it.
    pub name: Option<String>,
    /// The device; dropped at close.
    pub device: Box<dyn Device>,
    /// Bytes of device memory.
    pub capacity: u64,
    /// Fill new memory with NaN patterns and guard the end of each buffer.
    pub poison: bool,
}

/// One opened device. All methods can be called from any thread; each one enters the worker (one mutex) and may wait for a
/// running launch. A caller that must not wait (it holds the Python lock) asks [`Worker::try_enter`] first.
pub struct Worker {
    owner: Arc<Owner>,
}

/// The worker, entered: nobody else uses its device while this lives. Same operations as [`Worker`].
pub struct Session<'a> {
    worker: &'a Worker,
    /// Holds a mutex guard: not `Send`.
    guard: PhantomData<*const ()>,
}

/// A program that is ready to run on one worker.
pub struct Registration {
    cid: u64,
    program: Arc<Program>,
}

/// What `free` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeOutcome {
    /// The memory was given back.
    Freed,
    /// There was nothing to do: it was freed before, or its worker was closed.
    AlreadyFreed,
}

/// What `close` found.
#[derive(Clone, Default, Debug)]
pub struct CloseReport {
    /// User buffers that were still live, in order of allocation.
    pub leaked: Vec<Arc<Buffer>>,
}

/// What a worker did since it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Launches that ran to their end.
    pub launches: u64,
    /// Bytes copied from host to device.
    pub h2d_bytes: u64,
    /// Bytes copied from device to host.
    pub d2h_bytes: u64,
    /// Distinct programs registered.
    pub registrations: u64,
}

impl Worker {
    /// Opens a worker.
    pub fn open(config: WorkerConfig) -> Result<Arc<Worker>> {
        todo!()
    }
    /// Identity.
    pub fn id(&self) -> WorkerId {
        self.owner.id()
    }
    /// Identity and name, for messages.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }
    /// Name.
    pub fn name(&self) -> &str {
        self.owner.name()
    }
    /// Name in `RunConfig.platform`.
    pub fn platform(&self) -> &'static str {
        todo!()
    }
    /// Whether it has its device.
    pub fn is_open(&self) -> bool {
        self.owner.is_open()
    }
    /// Enters the worker; waits for whoever is in it. Fails in a forked child only. Release the Python lock before.
    pub fn enter(&self, operation: &'static str) -> Result<Session<'_>> {
        todo!()
    }
    /// Enters the worker if nobody is in it, else `None`. Fails in a forked child only.
    pub fn try_enter(&self, operation: &'static str) -> Result<Option<Session<'_>>> {
        todo!()
    }
    /// Allocates a tensor.
    pub fn allocate(&self, spec: BufferSpec) -> Result<Arc<Buffer>> {
        todo!()
    }
    /// Allocates a tensor and fills it from the host; a failure leaves nothing behind.
    pub unsafe fn allocate_from(&self, spec: BufferSpec, src: *const u8) -> Result<Arc<Buffer>> {
        todo!()
    }
    /// Allocates raw bytes.
    pub fn malloc(&self, bytes: u64, site: Option<Site>) -> Result<DeviceAddr> {
        todo!()
    }
    /// Frees by base address.
    pub fn free_raw(&self, addr: DeviceAddr) -> Result<()> {
        todo!()
    }
    /// Frees a tensor. A live buffer of another worker is an error.
    pub fn free(&self, buffer: &Arc<Buffer>) -> Result<FreeOutcome> {
        todo!()
    }
    /// Copies to the device; any sub-range of one live allocation.
    pub unsafe fn copy_to(&self, dst: DeviceAddr, src: *const u8, bytes: u64) -> Result<()> {
        todo!()
    }
    /// Copies from the device; any sub-range of one live allocation.
    pub unsafe fn copy_from(&self, dst: *mut u8, src: DeviceAddr, bytes: u64) -> Result<()> {
        todo!()
    }
    /// The live allocation that an address lies in, and the distance from its base.
    pub fn find(&self, addr: DeviceAddr) -> Result<(Arc<Buffer>, u64)> {
        todo!()
    }
    /// Makes a program ready; equal programs share one registration.
    pub fn register(&self, program: Arc<Program>) -> Result<Arc<Registration>> {
        todo!()
    }
    /// Gives back the device memory that the registration keeps between launches; it can still launch.
    pub fn unregister(&self, registration: &Registration) -> Result<()> {
        todo!()
    }
    /// Runs a program once. `poll` is asked now and then on this thread; `false` stops the launch.
    pub unsafe fn launch(
        &self,
        registration: &Registration,
        args: &[Value<'_>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        todo!()
    }
    /// Estimate of a launch, copies included; `u64::MAX` where the worker is busy.
    pub fn launch_estimate_ns(&self, registration: &Registration, args: &[Value<'_>]) -> u64 {
        todo!()
    }
    /// Closes. Idempotent; the second report is empty.
    pub fn close(&self) -> Result<CloseReport> {
        todo!()
    }
    /// The memory now. A closed worker has none.
    pub fn memory_report(&self) -> MemoryReport {
        todo!()
    }
    /// What it did so far. Takes no lock.
    pub fn counters(&self) -> Counters {
        todo!()
    }
}

impl Session<'_> {
    /// See [`Worker::allocate`].
    pub fn allocate(&mut self, spec: BufferSpec) -> Result<Arc<Buffer>> {
        todo!()
    }
    /// See [`Worker::allocate_from`].
    pub unsafe fn allocate_from(&mut self, spec: BufferSpec, src: *const u8) -> Result<Arc<Buffer>> {
        todo!()
    }
    /// See [`Worker::malloc`].
    pub fn malloc(&mut self, bytes: u64, site: Option<Site>) -> Result<DeviceAddr> {
        todo!()
    }
    /// See [`Worker::free_raw`].
    pub fn free_raw(&mut self, addr: DeviceAddr) -> Result<()> {
        todo!()
    }
    /// See [`Worker::free`].
    pub fn free(&mut self, buffer: &Arc<Buffer>) -> Result<FreeOutcome> {
        todo!()
    }
    /// See [`Worker::copy_to`].
    pub unsafe fn copy_to(&mut self, dst: DeviceAddr, src: *const u8, bytes: u64) -> Result<()> {
        todo!()
    }
    /// See [`Worker::copy_from`].
    pub unsafe fn copy_from(&mut self, dst: *mut u8, src: DeviceAddr, bytes: u64) -> Result<()> {
        todo!()
    }
    /// See [`Worker::find`].
    pub fn find(&self, addr: DeviceAddr) -> Result<(Arc<Buffer>, u64)> {
        todo!()
    }
    /// See [`Worker::register`].
    pub fn register(&mut self, program: Arc<Program>) -> Result<Arc<Registration>> {
        todo!()
    }
    /// See [`Worker::unregister`].
    pub fn unregister(&mut self, registration: &Registration) -> Result<()> {
        todo!()
    }
    /// See [`Worker::launch`].
    pub unsafe fn launch(
        &mut self,
        registration: &Registration,
        args: &[Value<'_>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        todo!()
    }
    /// See [`Worker::launch_estimate_ns`].
    pub fn launch_estimate_ns(&mut self, registration: &Registration, args: &[Value<'_>]) -> u64 {
        todo!()
    }
    /// See [`Worker::memory_report`].
    pub fn memory_report(&self) -> MemoryReport {
        todo!()
    }
}

impl Registration {
    /// Number of the distinct program on its worker, from 0.
    pub fn cid(&self) -> u64 {
        self.cid
    }
    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
    /// The worker that made it.
    pub fn worker(&self) -> WorkerId {
        todo!()
    }
}
