//! A worker: one opened device with its memory and its registrations.
//!
//! | file        | what it holds                                                                       |
//! |-------------|-------------------------------------------------------------------------------------|
//! | `memory`    | the user's memory: allocate, free, copy                                             |
//! | `register`  | programs made ready, once, keyed by content                                         |
//! | `value`     | what a launch is given                                                              |
//! | `bind`      | the one validator of arguments; `scalar` narrows numbers, `ranges` finds overlaps,  |
//! |             | `mismatch` words refusals                                                           |
//! | `residency` | host arguments that do not change: counted, and kept on the device where asked for   |
//! | `packed`    | packed forms beside resident weights                                                |
//! | `prepared`  | arguments that are checked once, for many launches                                  |
//! | `check`     | what `bind` says about arguments, without a launch                                  |
//! | `launch`    | bind, copies in, the device's work, copies out; `workspace` lends memory            |
//! | `close`     | the end, in the order that the contract sets                                        |
//! | `line`      | who is let in next, for callers that must not block on the worker's lock            |
//! | `queue`     | launches that wait for their turn, and the two threads that serve them               |
//!
//! One mutex keeps everything apart that happens on a worker; nothing that two workers share is locked on the way of a
//! launch. A finer lock would let a second thread allocate while the device works, but then freeing a buffer that a
//! launch uses would need its own protocol; freeing behind the launch comes for nothing this way.

mod bind;
mod check;
mod close;
mod counters;
mod error;
mod launch;
mod line;
mod memory;
mod mismatch;
mod packed;
mod prepared;
mod profile;
mod queue;
mod ranges;
mod register;
mod residency;
mod scalar;
mod stale;
mod value;
mod workspace;

pub use close::CloseReport;
pub use counters::Counters;
pub use error::WorkerError;
pub use line::{Line, Ticket};
pub use memory::FreeOutcome;
pub use prepared::Prepared;
pub use queue::{Progress, Queue};
pub use register::{Registration, ResidencyReport};
pub use residency::{NO_VERSION, ProgramUse, ResidencyMode, UploadUse};
pub use value::{HostTensor, Kept, Value};

use crate::arena::{Arena, Buffer, BufferSpec, MemoryReport, Owner, Site};
use crate::device::Device;
use crate::error::Result;
use crate::fork;
use crate::id::{DeviceAddr, WorkerId};
use crate::program::Program;
use crate::trace;
use counters::Tally;
use packed::PackedForms;
use register::Registry;
use residency::Residency;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use workspace::WorkspacePool;

/// How to open a worker.
pub struct WorkerConfig {
    /// What messages call it.
    pub name: Option<String>,
    /// The device. It is dropped at close.
    pub device: Box<dyn Device>,
    /// Bytes of device memory.
    pub capacity: u64,
    /// Whether new memory is filled with NaN patterns, and the end of each buffer guarded and checked.
    pub poison: bool,
    /// The share of the capacity that packed forms of resident buffers may take: 0 for none.
    pub packed_share: f64,
    /// What to do about host arguments that do not change.
    pub residency: ResidencyMode,
}

/// One opened device.
///
/// All methods can be called from any thread. Those that use the device enter the worker, and so may wait for a launch of
/// another thread. A caller that must not wait, because it holds the Python lock that the other one needs, tries
/// [`Worker::try_enter`] first, and where that gives `None` releases its lock and calls the method here.
pub struct Worker {
    owner: Arc<Owner>,
    platform: &'static str,
    /// The process that opened it, see [`crate::fork`].
    generation: u32,
    tally: Tally,
    open: Mutex<Option<Open>>,
}

/// What an open worker has. Fields that another one relies on are closed after it; see [`close`].
struct Open {
    device: Box<dyn Device>,
    arena: Arena,
    registry: Registry,
    workspace: WorkspacePool,
    packed: PackedForms,
    residency: Option<Box<Residency>>,
    /// For recordings.
    live_bytes: Arc<trace::Gauge>,
}

/// The worker, entered: nobody else uses its device until this is dropped.
pub struct Session<'a> {
    worker: &'a Worker,
    /// What the user called, for messages.
    operation: &'static str,
    open: MutexGuard<'a, Option<Open>>,
    /// What the next launch records beside its own spans.
    notes: Option<Box<Notes>>,
}

/// What a launch records beside its own spans. Nearly always there is nothing, and a `Vec` of nothing has three words: the
/// processor stumbles over each move of it, which stores two and loads them as one (5 ns of a launch of 160).
pub type Notes = Vec<Note>;

/// A number that a launch has with it and nothing reads, and the span that it is recorded as.
pub type Note = (trace::Name, u64);

impl Worker {
    /// Opens a worker.
    ///
    /// # Errors
    /// [`crate::arena::ArenaError`] where the capacity is 0 or the machine has no such address space.
    pub fn open(config: WorkerConfig) -> Result<Arc<Worker>> {
        let WorkerConfig { name, device, capacity, poison, packed_share, residency } = config;
        let owner = Arc::new(Owner::new(name));
        let arena = Arena::new(owner.clone(), capacity, poison)?;
        let platform = device.platform();
        let (registry, workspace) = (Registry::default(), WorkspacePool::default());
        let packed = PackedForms::new((capacity as f64 * packed_share.clamp(0.0, 1.0)) as u64);
        let residency = Residency::new(residency, capacity, poison);
        let live_bytes = trace::Gauge::new(trace::names::LIVE_BYTES, owner.id().get() as u32);
        live_bytes.set(0);
        let open = Mutex::new(Some(Open { device, arena, registry, workspace, packed, residency, live_bytes }));
        Ok(Arc::new(Worker { owner, platform, generation: fork::generation(), tally: Tally::default(), open }))
    }

    /// Its identity, which no other worker of the process ever has.
    pub fn id(&self) -> WorkerId {
        self.owner.id()
    }

    /// Its identity with its name.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Its name; empty where it has none.
    pub fn name(&self) -> &str {
        self.owner.name()
    }

    /// The name of its device in `RunConfig.platform`.
    pub fn platform(&self) -> &'static str {
        self.platform
    }

    /// Whether it takes calls: nobody has begun to close it.
    pub fn is_open(&self) -> bool {
        self.owner.is_open()
    }

    /// Enters the worker; waits for whoever is in it. `operation` is what the user called, for messages.
    ///
    /// # Errors
    /// [`WorkerError::Forked`], without waiting. A closed worker can be entered; its operations say that it is closed.
    pub fn enter(&self, operation: &'static str) -> Result<Session<'_>> {
        self.check_process(operation)?;
        // A panic of a kernel leaves nothing half done that the next call would rely on.
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Session { worker: self, operation, open, notes: None })
    }

    /// Enters the worker unless somebody is in it.
    ///
    /// # Errors
    /// As for [`Worker::enter`].
    #[inline(always)]
    pub fn try_enter(&self, operation: &'static str) -> Result<Option<Session<'_>>> {
        self.check_process(operation)?;
        let open = match self.open.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        Ok(Some(Session { worker: self, operation, open, notes: None }))
    }

    #[inline]
    fn check_process(&self, operation: &'static str) -> Result<(), WorkerError> {
        if fork::generation() == self.generation {
            return Ok(());
        }
        Err(WorkerError::Forked { operation, owner: self.owner.clone() })
    }

    /// See [`Session::allocate`].
    pub fn allocate(&self, spec: BufferSpec) -> Result<Arc<Buffer>> {
        self.enter("alloc_tensor")?.allocate(spec)
    }

    /// See [`Session::allocate_from`].
    ///
    /// # Safety
    /// As there.
    #[allow(unsafe_code)]
    pub unsafe fn allocate_from(&self, spec: BufferSpec, src: *const u8) -> Result<Arc<Buffer>> {
        // SAFETY: the caller vouches for it.
        unsafe { self.enter("alloc_tensor")?.allocate_from(spec, src, &mut || true) }
    }

    /// See [`Session::malloc`].
    pub fn malloc(&self, bytes: u64, site: Option<Site>) -> Result<DeviceAddr> {
        self.enter("malloc")?.malloc(bytes, site, None)
    }

    /// See [`Session::free_raw`].
    pub fn free_raw(&self, addr: DeviceAddr) -> Result<()> {
        self.enter("free")?.free_raw(addr)
    }

    /// See [`Session::free`].
    pub fn free(&self, buffer: &Arc<Buffer>) -> Result<FreeOutcome> {
        self.enter("free_tensor")?.free(buffer)
    }

    /// See [`Session::copy_to`].
    ///
    /// # Safety
    /// As there.
    #[allow(unsafe_code)]
    pub unsafe fn copy_to(&self, dst: DeviceAddr, src: *const u8, bytes: u64) -> Result<()> {
        // SAFETY: the caller vouches for it.
        unsafe { self.enter("copy_to")?.copy_to(dst, src, bytes, &mut || true) }
    }

    /// See [`Session::copy_from`].
    ///
    /// # Safety
    /// As there.
    #[allow(unsafe_code)]
    pub unsafe fn copy_from(&self, dst: *mut u8, src: DeviceAddr, bytes: u64) -> Result<()> {
        // SAFETY: the caller vouches for it.
        unsafe { self.enter("copy_from")?.copy_from(dst, src, bytes, &mut || true) }
    }

    /// See [`Session::find`].
    pub fn find(&self, addr: DeviceAddr) -> Result<(Arc<Buffer>, u64)> {
        self.enter("find")?.find(addr)
    }

    /// See [`Session::register`].
    pub fn register(&self, program: Arc<Program>) -> Result<Arc<Registration>> {
        self.enter("register")?.register(program)
    }

    /// See [`Session::unregister`].
    pub fn unregister(&self, registration: &Registration) -> Result<()> {
        self.enter("unregister")?.unregister(registration)
    }

    /// See [`Session::launch`].
    ///
    /// # Safety
    /// As there.
    #[allow(unsafe_code)]
    pub unsafe fn launch(
        &self,
        registration: &Registration,
        args: &[Value<'_>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        // SAFETY: the caller vouches for it.
        unsafe { self.enter("run")?.launch(registration, args, poll) }
    }

    /// The memory now; of a worker that is closed, or belongs to a parent process, that it has none.
    pub fn memory_report(&self) -> MemoryReport {
        let empty = |_| MemoryReport::empty(self.owner.clone());
        self.enter("memory_report").map_or_else(empty, |session| session.memory_report())
    }

    /// What it did so far. Does not wait for anybody.
    pub fn counters(&self) -> Counters {
        self.tally.read()
    }
}

#[cfg(test)]
mod tests;
