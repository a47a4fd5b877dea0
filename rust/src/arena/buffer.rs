//! One allocation of device memory, and what is known about it.

use super::owner::Owner;
use super::suballocator::Block;
use super::tag::Scope;
use crate::dtype::DType;
use crate::id::{DeviceAddr, WorkerId};
use crate::shape::Shape;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A line of the user's source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Path as Python reports it.
    pub file: Arc<str>,
    /// Line, 1-based.
    pub line: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What to allocate. The size is the product of the extents times the size of an element.
#[derive(Clone, Debug)]
pub struct BufferSpec {
    /// Extents; all positive.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// The user's line that asks.
    pub site: Option<Site>,
    /// What it counts for.
    pub scope: Option<Arc<Scope>>,
}

/// Whether a buffer may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum BufferState {
    /// It holds memory.
    Live = 0,
    /// The user freed it.
    Freed = 1,
    /// Its worker was closed while it was live.
    WorkerClosed = 2,
}

/// What a buffer was allocated as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferKind {
    /// A tensor of the user.
    Tensor,
    /// Bytes without a type that the user holds by address (`malloc`).
    Raw,
}

/// One allocation, bound for ever to the worker that made it. It stays inspectable after it is freed.
pub struct Buffer {
    /// Also in `owner`; here it is in the cache line that a launch reads anyway.
    worker: WorkerId,
    owner: Arc<Owner>,
    addr: DeviceAddr,
    bytes: u64,
    shape: Shape,
    dtype: DType,
    kind: BufferKind,
    site: Option<Site>,
    scope: Option<Arc<Scope>>,
    block: Block,
    state: AtomicU8,
    /// How many leading bytes still hold what an earlier allocation left there.
    stale: AtomicU64,
}

impl Buffer {
    pub(super) fn new(
        owner: Arc<Owner>,
        addr: DeviceAddr,
        bytes: u64,
        kind: BufferKind,
        spec: BufferSpec,
        block: Block,
        stale: u64,
    ) -> Self {
        Self {
            worker: owner.id(),
            owner,
            addr,
            bytes,
            shape: spec.shape,
            dtype: spec.dtype,
            kind,
            site: spec.site,
            scope: spec.scope,
            block,
            state: AtomicU8::new(BufferState::Live as u8),
            stale: AtomicU64::new(stale),
        }
    }

    /// The worker that made it.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The worker that made it, with its name.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Its address on the device.
    pub fn addr(&self) -> DeviceAddr {
        self.addr
    }

    /// Its size in bytes, as asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The extents it was allocated with.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The element type it was allocated with.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// What it was allocated as.
    pub fn kind(&self) -> BufferKind {
        self.kind
    }

    /// The user's line that allocated it.
    pub fn site(&self) -> Option<&Site> {
        self.site.as_ref()
    }

    /// What it counts for.
    pub fn scope(&self) -> Option<&Arc<Scope>> {
        self.scope.as_ref()
    }

    /// Whether it may be used.
    pub fn state(&self) -> BufferState {
        match self.state.load(Ordering::Relaxed) {
            0 => BufferState::Live,
            1 => BufferState::Freed,
            _ => BufferState::WorkerClosed,
        }
    }

    /// Text that identifies the buffer in a message: `FP32 (16, 16) at 0x1000 (1 KiB), allocated at model.py:12`.
    pub fn describe(&self) -> String {
        self.to_string()
    }

    pub(super) fn block(&self) -> Block {
        self.block
    }

    pub(super) fn set_state(&self, state: BufferState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(super) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Whether it holds what an earlier allocation left.
    pub fn is_stale(&self) -> bool {
        self.stale() != 0
    }

    pub(super) fn mark_written(&self) {
        self.stale.store(0, Ordering::Relaxed);
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = super::report::Bytes(self.bytes);
        match self.kind {
            BufferKind::Tensor => write!(f, "{} {} at {} ({size})", self.dtype, self.shape, self.addr)?,
            BufferKind::Raw => write!(f, "raw memory at {} ({size})", self.addr)?,
        }
        match &self.site {
            Some(site) => write!(f, ", allocated at {site}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({self}, {:?}, {})", self.state(), self.owner)
    }
}
