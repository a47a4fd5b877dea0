//! What the memory of a worker looks like, as data and as text.

use super::buffer::Buffer;
use super::owner::Owner;
use super::tag::TagUse;
use std::fmt;
use std::sync::Arc;

/// A number of bytes that prints with a unit: `512 B`, `64 KiB`, `1.5 GiB`; with `{:#}` the exact number comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            let unit = if f.alternate() { "bytes" } else { "B" };
            return write!(f, "{} {unit}", self.0);
        }
        if f.alternate() {
            return write!(f, "{} bytes ({})", self.0, Bytes(self.0));
        }
        let unit = self.0.ilog2() / 10;
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
///
/// It prints as a table of the sums and of the largest live buffers; `{:.100}` prints up to 100 of them.
#[derive(Clone, Debug)]
pub struct MemoryReport {
    /// The worker.
    pub owner: Arc<Owner>,
    /// The most that can be allocated at once; 0 after close.
    pub capacity: u64,
    /// Address space taken from the machine.
    pub reserved: u64,
    /// Memory taken from the machine: pages that were touched.
    pub committed: u64,
    /// Sum of the user's live buffers, as asked for.
    pub live: u64,
    /// The largest value that `live` ever had.
    pub peak: u64,
    /// What registrations keep to stage host arguments.
    pub staging: u64,
    /// What registrations and launches keep as scratch memory.
    pub scratch: u64,
    /// What the worker keeps as packed forms of resident buffers.
    pub packed: u64,
    /// Not allocated. Blocks are multiples of 256 bytes, so this can be less than what the other sums leave.
    pub free: u64,
    /// The largest request that would succeed.
    pub largest_free: u64,
    /// What the user's buffers count for, in order of the first use.
    pub tags: Vec<TagUse>,
    /// The user's live buffers, largest first.
    pub live_buffers: Vec<Arc<Buffer>>,
}

impl MemoryReport {
    /// The memory of a worker that has none: after close.
    pub fn empty(owner: Arc<Owner>) -> Self {
        Self {
            owner,
            capacity: 0,
            reserved: 0,
            committed: 0,
            live: 0,
            peak: 0,
            staging: 0,
            scratch: 0,
            packed: 0,
            free: 0,
            largest_free: 0,
            tags: Vec::new(),
            live_buffers: Vec::new(),
        }
    }

    /// Number of the user's live buffers.
    pub fn count(&self) -> usize {
        self.live_buffers.len()
    }

    /// The share of free memory that the largest request cannot have: 0 when it is one hole, near 1 when it is crumbs.
    pub fn fragmentation(&self) -> f64 {
        if self.free == 0 { 0.0 } else { 1.0 - self.largest_free as f64 / self.free as f64 }
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, bytes, more: fmt::Arguments<'_>| {
            writeln!(f, "  {name:<16}{:>10}   {more}", Bytes(bytes).to_string())
        };
        writeln!(f, "device memory of {}", self.owner)?;
        let (reserved, committed) = (Bytes(self.reserved), Bytes(self.committed));
        row(f, "capacity", self.capacity, format_args!("reserved {reserved}, committed {committed}"))?;
        let buffers = if self.count() == 1 { "buffer" } else { "buffers" };
        row(f, "live", self.live, format_args!("{} {buffers}, peak {}", self.count(), Bytes(self.peak)))?;
        let [staging, scratch, packed] = [self.staging, self.scratch, self.packed].map(Bytes);
        let kept = self.staging + self.scratch + self.packed;
        row(
            f,
            "kept by launches",
            kept,
            format_args!("staging {staging}, scratch {scratch}, packed weights {packed}"),
        )?;
        let (largest, percent) = (Bytes(self.largest_free), 100.0 * self.fragmentation());
        row(f, "free", self.free, format_args!("largest block {largest}, fragmentation {percent:.0}%"))?;
        for tag in &self.tags {
            row(f, &format!("tag {}", tag.name), tag.live, format_args!("peak {}", Bytes(tag.peak)))?;
        }
        let shown = f.precision().unwrap_or(20);
        for buffer in self.live_buffers.iter().take(shown) {
            writeln!(f, "  {buffer}")?;
        }
        match self.count().saturating_sub(shown) {
            0 => Ok(()),
            more => writeln!(f, "  ... and {more} smaller"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_with_a_unit() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (65536, "64 KiB"), (1_610_612_736, "1.5 GiB"), (u64::MAX, "16.0 EiB")];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(format!("{:#} {:#}", Bytes(12), Bytes(2048)), "12 bytes 2048 bytes (2 KiB)");
    }

    #[test]
    fn an_empty_report_is_readable() {
        let owner = Arc::new(Owner::new(Some("w".into())));
        let text = MemoryReport::empty(owner.clone()).to_string();
        assert!(text.starts_with(&format!("device memory of {owner}\n  capacity               0 B")), "{text}");
        assert!(text.contains("0 buffers, peak 0 B"), "{text}");
    }
}
