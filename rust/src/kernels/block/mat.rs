//! Matrices by address.

use crate::shape::MAX_RANK;

/// A matrix in memory, of any alignment.
#[derive(Clone, Copy, Debug)]
pub struct Mat {
    /// The first element.
    pub data: *mut u8,
    /// Bytes from one row to the next; 0 where one row stands for all.
    pub row: isize,
    /// Bytes from one column to the next: the size of an element, or 0 where one stands for the whole row.
    pub col: isize,
    /// Rows that may be used.
    pub rows: usize,
    /// Columns that may be used.
    pub cols: usize,
}

impl Mat {
    /// No matrix.
    pub const NONE: Self = Self { data: std::ptr::null_mut(), row: 0, col: 0, rows: 0, cols: 0 };

    /// Without the rows before `first`.
    pub(super) fn skip_rows(&self, first: usize) -> Self {
        let data = self.data.wrapping_offset(first as isize * self.row);
        Self { data, rows: self.rows.saturating_sub(first), ..*self }
    }

    /// Without the columns before `first`.
    pub(super) fn skip_cols(&self, first: usize) -> Self {
        let data = self.data.wrapping_offset(first as isize * self.col);
        Self { data, cols: self.cols.saturating_sub(first), ..*self }
    }

    /// The address of an element.
    #[inline(always)]
    pub(super) fn at<T>(&self, row: usize, col: usize) -> *mut T {
        self.data.wrapping_offset(row as isize * self.row + col as isize * self.col).cast()
    }

    /// The address of an element, if it exists.
    #[inline(always)]
    pub(super) fn find<T>(&self, row: i64, col: i64) -> Option<*mut T> {
        let exists = row >= 0 && col >= 0 && (row as u64) < self.rows as u64 && (col as u64) < self.cols as u64;
        exists.then(|| self.at(row as usize, col as usize))
    }

    /// An element.
    ///
    /// # Safety
    /// It exists.
    #[inline(always)]
    pub(super) unsafe fn get<T: Copy>(&self, row: usize, col: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.at::<T>(row, col).read_unaligned() }
    }

    /// Sets an element.
    ///
    /// # Safety
    /// It exists, and nobody else uses it.
    #[inline(always)]
    pub(super) unsafe fn set<T: Copy>(&self, row: usize, col: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.at::<T>(row, col).write_unaligned(value) }
    }
}

/// A tensor that elements are gathered from or scattered to.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// The first element.
    pub data: *mut u8,
    /// Number of extents.
    pub rank: usize,
    /// Extents, outermost first.
    pub dims: [u64; MAX_RANK],
    /// Elements from one index to the next along each axis.
    pub strides: [i64; MAX_RANK],
    /// Indices along each axis that are backed by memory.
    pub limits: [u64; MAX_RANK],
}

impl Whole {
    /// No tensor.
    pub const NONE: Self = Self {
        data: std::ptr::null_mut(),
        rank: 0,
        dims: [0; MAX_RANK],
        strides: [0; MAX_RANK],
        limits: [0; MAX_RANK],
    };

    /// The address of the element that has `index` elements before it in row-major order, if it exists.
    #[inline]
    pub(super) fn find<T>(&self, index: i64) -> Option<*mut T> {
        let mut rest = u64::try_from(index).ok()?;
        let mut distance = 0;
        for axis in (0..self.rank).rev() {
            let dim = self.dims[axis];
            if dim == 0 {
                return None;
            }
            // The outermost axis takes all that is left, so that an index beyond the end is found to be one.
            let at = if axis == 0 { rest } else { rest % dim };
            rest /= dim;
            if at >= dim || at >= self.limits[axis] {
                return None;
            }
            distance += at as i64 * self.strides[axis];
        }
        Some(self.data.cast::<T>().wrapping_offset(distance as isize))
    }
}

/// What an operation works on.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    /// Rows of the region.
    pub rows: usize,
    /// Columns of the region.
    pub cols: usize,
    /// The matrices in the order of the operation.
    pub mats: &'a [Mat],
    /// The scalars: integers, or elements as they lie in memory.
    pub scalars: &'a [u64],
    /// The tensor, where the operation has one.
    pub tensor: Option<&'a Whole>,
    /// Memory for the operation alone, as much as [`super::Block::scratch_bytes`] says.
    pub scratch: *mut u8,
}

impl Args<'_> {
    /// An integer argument.
    #[inline(always)]
    pub(super) fn int(&self, at: usize) -> i64 {
        self.scalars[at] as i64
    }

    /// An integer argument as a number of things of which there are at most `most`.
    #[inline(always)]
    pub(super) fn count(&self, at: usize, most: usize) -> usize {
        usize::try_from(self.int(at).max(0)).unwrap_or(usize::MAX).min(most)
    }
}
