//! What the memory of a worker looks like, as data and as text.

use super::buffer::Buffer;
use std::fmt;
use std::sync::Arc;

/// A number of bytes that prints with a unit: `512 B`, `64 KiB`, `1.5 GiB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let unit = (self.0.ilog2() / 10).min(6);
        let scale = 1u64 << (10 * unit);
        let name = UNITS[unit as usize - 1];
        if self.0.is_multiple_of(scale) {
            write!(f, "{} {name}", self.0 / scale)
        } else {
            write!(f, "{:.1} {name}", self.0 as f64 / scale as f64)
        }
    }
}

/// The memory of one worker at one moment. All sizes are bytes.
#[derive(Clone, Debug)]
pub struct MemoryReport {
    /// The most that can be live at once.
    pub capacity: u64,
    /// Address space taken from the machine.
    pub reserved: u64,
    /// Memory taken from the machine: pages that were touched.
    pub committed: u64,
    /// Allocated now, as asked for: user buffers and what launches keep.
    pub live: u64,
    /// The part of `live` that belongs to user buffers.
    pub buffers: u64,
    /// The part of `live` that registrations keep to stage host arguments.
    pub staging: u64,
    /// The part of `live` that registrations and launches keep as scratch memory.
    pub scratch: u64,
    /// The largest value that `live` ever had.
    pub peak: u64,
    /// Not allocated.
    pub free: u64,
    /// The largest request that would succeed.
    pub largest_free: u64,
    /// Number of user buffers.
    pub count: usize,
    /// The user buffers, largest first.
    pub live_buffers: Vec<Arc<Buffer>>,
}

impl MemoryReport {
    /// The share of free memory that the largest request cannot have, 0 to 1.
    pub fn fragmentation(&self) -> f64 {
        if self.free == 0 { 0.0 } else { 1.0 - self.largest_free as f64 / self.free as f64 }
    }
}
