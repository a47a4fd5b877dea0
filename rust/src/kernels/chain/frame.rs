//! The frame: everything a run works on beyond registers and operands, in the scratch memory that the caller gives.
//!
//! ```text
//! entries: mems, mems of the next row, mems of the row before, temps, row buffers
//! words: first column, row, constants, scalars, slots
//! accumulators | temps | row buffers
//! ```
//!
//! Offsets are fixed when the program is compiled, except for the row buffers, whose length is that of the row.

/// Lanes of the largest chunk of any instruction set.
pub(super) const MAX_CHUNK: usize = 128;

/// Bytes of one chunk of 32-bit lanes.
pub(super) const CHUNK_BYTES: usize = MAX_CHUNK * 4;

/// A place in memory that instructions read and write by column.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Entry {
    /// Column 0 of the row at work.
    pub base: *mut u8,
    /// Bytes to the row that this frame is for next, whether it exists or not; 0 where all rows are one.
    pub advance: isize,
    /// Whether stores go past the caches.
    pub stream: bool,
}

/// The state of one reduction during a pass: 16 lanes, and whether a NaN has been seen.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Accumulator {
    pub lanes: [u32; 16],
    pub nan: bool,
}

/// Where things are in the frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    pub mems: u32,
    /// Memory operands again, for the next row.
    pub ahead: u32,
    /// The same for the row before.
    pub behind: u32,
    pub temps: u32,
    pub row_bufs: u32,
    pub consts: u32,
    pub scalars: u32,
    pub slots: u32,
    pub accumulators: u32,
}

const ENTRY: u32 = size_of::<Entry>() as u32;
const ACCUMULATOR: u32 = size_of::<Accumulator>() as u32;

impl Layout {
    pub fn entries(&self) -> u32 {
        self.rows() + self.temps + self.row_bufs
    }

    /// Entries that move from row to row.
    pub fn rows(&self) -> u32 {
        self.mems + self.ahead + self.behind
    }

    pub fn mem(&self, index: u32) -> u32 {
        debug_assert!(index < self.mems);
        index * ENTRY
    }

    pub fn ahead(&self, index: u32) -> u32 {
        debug_assert!(index < self.ahead);
        (self.mems + index) * ENTRY
    }

    pub fn behind(&self, index: u32) -> u32 {
        debug_assert!(index < self.behind);
        (self.mems + self.ahead + index) * ENTRY
    }

    pub fn temp(&self, index: u32) -> u32 {
        debug_assert!(index < self.temps);
        (self.rows() + index) * ENTRY
    }

    pub fn row_buf(&self, index: u32) -> u32 {
        debug_assert!(index < self.row_bufs);
        (self.rows() + self.temps + index) * ENTRY
    }

    /// The index of the first column.
    pub fn first_col(&self) -> u32 {
        self.entries() * ENTRY
    }

    /// The index of the row at work.
    pub fn row(&self) -> u32 {
        self.entries() * ENTRY + 4
    }

    /// Where words begin that have no place of their own.
    fn words(&self) -> u32 {
        self.entries() * ENTRY + 8
    }

    pub fn constant(&self, index: u32) -> u32 {
        debug_assert!(index < self.consts);
        self.words() + index * 4
    }

    pub fn scalar(&self, index: u32) -> u32 {
        debug_assert!(index < self.scalars);
        self.words() + (self.consts + index) * 4
    }

    pub fn slot(&self, index: u32) -> u32 {
        debug_assert!(index < self.slots);
        self.words() + (self.consts + self.scalars + index) * 4
    }

    pub fn accumulator(&self, index: u32) -> u32 {
        let words = self.consts + self.scalars + self.slots;
        (self.words() + words * 4).next_multiple_of(64) + index * ACCUMULATOR
    }

    pub fn temp_data(&self, index: u32) -> usize {
        self.accumulator(self.accumulators) as usize + index as usize * CHUNK_BYTES
    }

    pub fn row_buf_data(&self, index: u32, cols: usize) -> usize {
        self.temp_data(self.temps) + index as usize * cols.next_multiple_of(MAX_CHUNK) * 4
    }

    /// Bytes of the whole frame for rows of `cols` columns.
    pub fn bytes(&self, cols: usize) -> usize {
        self.row_buf_data(self.row_bufs, cols)
    }
}
