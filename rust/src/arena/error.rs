//! What can go wrong with device memory.

use super::buffer::{Buffer, BufferState};
use super::owner::Owner;
use super::report::Bytes;
use super::tag::{Holders, Tag};
use crate::dtype::DType;
use crate::error::ErrorKind;
use crate::id::DeviceAddr;
use crate::shape::Shape;
use std::fmt;
use std::sync::Arc;

/// Device memory that cannot be had, or an address that is not what it claims to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// No hole is large enough. Nothing was changed. Free something or open the worker with a larger capacity; where
    /// `free` is larger than `requested`, the memory is fragmented.
    #[error(
        "malloc failed: out of device memory on {owner}: requested {:#}, live {:#}, kept by launches {:#}, free {:#}, largest free block \
         {:#}, capacity {:#}. Free tensors that are no longer needed with free_tensor(), or open the worker with more memory: \
         RunConfig(device_memory=...)",
        Bytes(*requested), Bytes(*live), Bytes(*kept), Bytes(*free), Bytes(*largest_free), Bytes(*capacity)
    )]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes of live buffers.
        live: u64,
        /// Bytes that registrations and launches hold.
        kept: u64,
        /// Bytes not allocated.
        free: u64,
        /// The largest request that would succeed.
        largest_free: u64,
        /// The most that can be live at once.
        capacity: u64,
        /// The worker asked.
        owner: Arc<Owner>,
    },
    /// The allocation would exceed a budget of `memory_budget()`. Free something of the tag, or raise the budget.
    #[error(
        "the memory budget of tag {:?} is {:#}: it has {:#} live in {} allocations, and {:#} more were requested{holders}",
        tag.name(), Bytes(*budget), Bytes(tag.live()), holders.0.len(), Bytes(*requested)
    )]
    OverBudget {
        /// Whose budget.
        tag: Arc<Tag>,
        /// The most bytes that the tag may have.
        budget: u64,
        /// Bytes asked for.
        requested: u64,
        /// Its live buffers, largest first.
        holders: Holders,
    },
    /// More bytes than any memory has: no capacity would be enough. Look at the extents.
    #[error("{} tensor of shape {shape} needs more bytes than fit 64 bits", dtype.with_article())]
    TooLarge {
        /// Extents asked for.
        shape: Shape,
        /// Element type.
        dtype: DType,
    },
    /// A size of zero. Zero-sized allocations and copies do not exist: leave the call out.
    #[error("nbytes must be a positive int: zero-sized device memory cannot be allocated or copied")]
    ZeroSize,
    /// A capacity of zero. Pass `RunConfig(device_memory=...)` in bytes.
    #[error("device memory must be a positive number of bytes, got {0}: pass RunConfig(device_memory=...)")]
    InvalidCapacity(u64),
    /// The machine refused the address space. Pass a smaller `RunConfig(device_memory=...)`.
    #[error("cannot reserve {} of address space for device memory: {error}. Pass a smaller RunConfig(device_memory=...)", Bytes(*capacity))]
    Reserve {
        /// Bytes asked for.
        capacity: u64,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// All 2^63 device addresses of the process are used up, because none is handed out twice. Start a new process.
    #[error("the process has used all of its 2^63 device addresses; start a new process")]
    AddressesExhausted,
    /// No allocation ever had this address. Pass what `malloc()` returned, or the `data_ptr` of a tensor.
    #[error(
        "{addr} is not an allocation base of {owner}, nor an interior pointer of any of its allocations: it was never handed out{}",
        Behind(behind)
    )]
    UnknownAddress {
        /// The address.
        addr: DeviceAddr,
        /// The worker asked.
        owner: Arc<Owner>,
        /// The buffer that ends shortly before it, and how far.
        behind: Option<(Arc<Buffer>, u64)>,
    },
    /// The address belongs to memory that was freed. Do not use an address after `free()`.
    #[error("{addr} is no longer an allocation base of {}, nor an interior pointer: it belongs to {buffer}, which was freed", buffer.owner())]
    FreedAddress {
        /// The address.
        addr: DeviceAddr,
        /// What was there.
        buffer: Arc<Buffer>,
    },
    /// The address belongs to memory that was freed, so many frees ago that what was there is forgotten. Do not use an
    /// address after `free()`.
    #[error(
        "{addr} is no longer an allocation base of {owner}, nor an interior pointer: what it belongs to was freed long ago. Addresses are never handed out a second time"
    )]
    ForgottenAddress {
        /// The address.
        addr: DeviceAddr,
        /// The worker asked.
        owner: Arc<Owner>,
    },
    /// The address belongs to another worker. Use it there, or allocate on this one.
    #[error(
        "{addr} is not an allocation base of {owner}, nor an interior pointer of one: it belongs to {}{other}. Only the worker that allocated memory can use it",
        OfBuffer(buffer)
    )]
    ForeignAddress {
        /// The address.
        addr: DeviceAddr,
        /// The worker asked.
        owner: Arc<Owner>,
        /// The worker that handed it out.
        other: Arc<Owner>,
        /// What it handed out there, unless it is closed or has forgotten.
        buffer: Option<Arc<Buffer>>,
    },
    /// The address lies inside a live allocation where its base is needed. Only copies take a part of an allocation.
    #[error("{addr} is an interior pointer, not an allocation base: it points {offset} bytes into {buffer} of {}", buffer.owner())]
    InteriorPointer {
        /// The address.
        addr: DeviceAddr,
        /// Distance from the base.
        offset: u64,
        /// The allocation.
        buffer: Arc<Buffer>,
    },
    /// A copy that starts in a live allocation and ends behind it. Mind the offset of its begin.
    #[error("an access of {bytes} bytes at offset {offset} exceeds the {}-byte backing of {buffer} of {}", buffer.bytes(), buffer.owner())]
    OutOfRange {
        /// Distance from the base.
        offset: u64,
        /// Length of the access.
        bytes: u64,
        /// The allocation.
        buffer: Arc<Buffer>,
    },
    /// Poison mode: somebody wrote behind the end of an allocation. Look at who writes the buffer that the text names.
    #[error("{found}: memory behind the end of {buffer} of {} was overwritten; the first bad byte is {offset} bytes from its base, {} behind its end", buffer.owner(), offset - buffer.bytes())]
    GuardViolated {
        /// When it was found: `after the launch of 'k'`, `at free`, `at close`.
        found: String,
        /// The allocation before the bad byte.
        buffer: Arc<Buffer>,
        /// Distance of the first bad byte from the base.
        offset: u64,
    },
}

/// `: it lies 0 bytes behind the end of FP32 (16, 16) ...`.
struct Behind<'a>(&'a Option<(Arc<Buffer>, u64)>);

impl fmt::Display for Behind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((buffer, bytes)) => write!(f, ", it lies {bytes} bytes behind the end of {buffer}{}", freed(buffer)),
            None => Ok(()),
        }
    }
}

/// `FP32 (16, 16) ..., which was freed, of `.
struct OfBuffer<'a>(&'a Option<Arc<Buffer>>);

impl fmt::Display for OfBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(buffer) => write!(f, "{buffer}{}, of ", freed(buffer)),
            None => Ok(()),
        }
    }
}

fn freed(buffer: &Buffer) -> &'static str {
    if buffer.state() == BufferState::Live { "" } else { ", which was freed" }
}

impl ArenaError {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ArenaError::OutOfMemory { .. }
            | ArenaError::OverBudget { .. }
            | ArenaError::TooLarge { .. }
            | ArenaError::Reserve { .. }
            | ArenaError::AddressesExhausted => ErrorKind::Memory,
            ArenaError::ZeroSize
            | ArenaError::InvalidCapacity(_)
            | ArenaError::UnknownAddress { .. }
            | ArenaError::FreedAddress { .. }
            | ArenaError::ForgottenAddress { .. }
            | ArenaError::ForeignAddress { .. }
            | ArenaError::InteriorPointer { .. }
            | ArenaError::OutOfRange { .. } => ErrorKind::Value,
            ArenaError::GuardViolated { .. } => ErrorKind::Runtime,
        }
    }

    /// The stable name of the error.
    pub fn code(&self) -> &'static str {
        match self {
            ArenaError::OutOfMemory { .. } => "out_of_memory",
            ArenaError::OverBudget { .. } => "over_memory_budget",
            ArenaError::TooLarge { .. } => "allocation_too_large",
            ArenaError::ZeroSize => "zero_size",
            ArenaError::InvalidCapacity(_) => "invalid_capacity",
            ArenaError::Reserve { .. } => "reserve_failed",
            ArenaError::AddressesExhausted => "addresses_exhausted",
            ArenaError::UnknownAddress { .. } => "unknown_address",
            ArenaError::FreedAddress { .. } => "freed_address",
            ArenaError::ForgottenAddress { .. } => "forgotten_address",
            ArenaError::ForeignAddress { .. } => "foreign_address",
            ArenaError::InteriorPointer { .. } => "interior_pointer",
            ArenaError::OutOfRange { .. } => "out_of_range",
            ArenaError::GuardViolated { .. } => "guard_violated",
        }
    }
}
