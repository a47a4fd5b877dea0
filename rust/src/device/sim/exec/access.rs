//! From a box of a view to addresses, checked against the memory behind the view.
#![allow(unsafe_code)] // copies elements of checked boxes by address

use super::frame::{Frame, View};
use crate::device::sim::code::{BoxSpec, Window};
use crate::dtype::DType;
use crate::program::Operand;
use crate::shape::MAX_RANK;

/// A checked box: `rows x cols` elements.
pub(super) struct BoxMem {
    pub data: *mut u8,
    pub rank: usize,
    pub extents: [u64; MAX_RANK],
    /// Bytes from one index to the next.
    pub strides: [i64; MAX_RANK],
}

/// A box of a matrix with adjacent columns as an address and the bytes from row to row, checked as by
/// [`BoxMem::evaluate`]; `None` where that has to look closer. This is the form of nearly every access, and it touches no
/// arrays.
#[inline]
pub(super) fn plain_matrix(spec: &BoxSpec, frame: &Frame, rows: u64, cols: u64) -> Option<(*mut u8, isize)> {
    let view = &frame.tensors[spec.tensor as usize];
    let ([row, col], [height, width]) = (&spec.offsets[..], &spec.extents[..]) else { return None };
    let (row, col, height, width) = (frame.int(*row), frame.int(*col), frame.int(*height), frame.int(*width));
    let inside = |offset: i64, extent: u64, limit: u64| {
        offset >= 0 && (offset as u64).checked_add(extent).is_some_and(|end| end <= limit)
    };
    let fits = height as u64 == rows
        && width as u64 == cols
        && view.strides[1] == 1
        && inside(row, rows, view.limits[0])
        && inside(col, cols, view.limits[1]);
    let size = spec.dtype.size() as i64;
    let distance = || (row * view.strides[0] + col) * size;
    fits.then(|| (view.data.wrapping_offset(distance() as isize), (view.strides[0] * size) as isize))
}

impl BoxMem {
    /// Evaluates a box and checks it: every element exists, and there are `rows x cols` of them.
    pub fn evaluate(spec: &BoxSpec, frame: &Frame, rows: u64, cols: u64) -> Result<Self, String> {
        let view = &frame.tensors[spec.tensor as usize];
        let size = spec.dtype.size() as i64;
        let mut mem = BoxMem { data: view.data, rank: view.rank, extents: [1; MAX_RANK], strides: [0; MAX_RANK] };
        let mut distance = 0;
        let mut merged = 1u64;
        for axis in 0..view.rank {
            let (offset, extent) = (frame.int(spec.offsets[axis]), frame.int(spec.extents[axis]));
            let end = offset.checked_add(extent);
            let inside = offset >= 0 && extent >= 0 && end.is_some_and(|end| end as u64 <= view.limits[axis]);
            let empty = extent == 0 && offset >= 0;
            if !inside && !empty {
                return Err(outside(axis, offset, extent, view));
            }
            mem.extents[axis] = extent as u64;
            mem.strides[axis] = view.strides[axis] * size;
            // An empty extent may begin anywhere; no element of it is used.
            distance += offset.min(view.limits[axis] as i64) * mem.strides[axis];
            if axis + 1 < view.rank {
                merged = merged.saturating_mul(extent as u64);
            }
        }
        let last = mem.extents[view.rank - 1];
        if (merged, last) != (rows, cols) && rows != 0 && cols != 0 {
            return Err(format!("a box of {merged} x {last} elements for a region of {rows} x {cols}"));
        }
        mem.data = view.data.wrapping_offset(distance as isize);
        Ok(mem)
    }

    /// Bytes from row to row, if the box is a matrix with adjacent columns.
    pub fn row_stride(&self, size: usize) -> Option<isize> {
        let last = self.rank - 1;
        if self.extents[last] > 1 && self.strides[last] != size as i64 {
            return None;
        }
        // Leading axes merge when each steps over exactly the whole of the next.
        let mut merged: Option<(i64, u64)> = None;
        for axis in (0..last).rev().filter(|&axis| self.extents[axis] != 1) {
            match merged {
                None => merged = Some((self.strides[axis], self.extents[axis])),
                Some((stride, extent)) if self.strides[axis] == stride * extent as i64 => {
                    merged = Some((stride, extent * self.extents[axis]));
                }
                Some(_) => return None,
            }
        }
        Some(merged.map_or(0, |(stride, _)| stride as isize))
    }

    /// Bytes from row to row of the transpose, if that is a matrix with adjacent columns.
    pub fn turned(&self, size: usize) -> Option<isize> {
        let last = self.rank.checked_sub(2)?;
        let flat = (0..last).all(|axis| self.extents[axis] == 1);
        (flat && self.strides[last] == size as i64).then(|| self.strides[last + 1] as isize)
    }

    /// Copies the box to dense rows at `dense`, or from there.
    ///
    /// # Safety
    /// `dense` is valid for all elements of the box, which lies in live device memory.
    pub unsafe fn copy_dense(&self, dense: *mut u8, size: usize, to_dense: bool) {
        let extents = &self.extents[..self.rank];
        let mut index = [0u64; MAX_RANK];
        let count: u64 = extents.iter().product();
        let mut at = self.data;
        for element in 0..count as usize {
            // SAFETY: `at` is an element of the box, which `evaluate` checked; the caller vouches for `dense`.
            unsafe {
                let packed = dense.add(element * size);
                if to_dense {
                    std::ptr::copy_nonoverlapping(at, packed, size);
                } else {
                    std::ptr::copy_nonoverlapping(packed, at, size);
                }
            }
            for axis in (0..self.rank).rev() {
                index[axis] += 1;
                at = at.wrapping_offset(self.strides[axis] as isize);
                if index[axis] < extents[axis] {
                    break;
                }
                at = at.wrapping_offset(-(self.strides[axis] * index[axis] as i64) as isize);
                index[axis] = 0;
            }
        }
    }
}

/// A window of a tile as it lies now: which of its rows and columns the tile has.
pub(super) struct WindowMem {
    /// The first element that exists.
    data: *mut u8,
    row_stride: usize,
    extents: [usize; 2],
    /// Rows and columns of the window that exist.
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
}

impl WindowMem {
    /// The window of `span` elements of `size` bytes.
    pub fn evaluate(window: &Window, frame: &Frame, span: [u64; 2], size: usize, tiles: *mut u8) -> Self {
        let tile = &window.tile;
        // Indices of the window that fall on indices below `limit` of the tile.
        let existing = |start: i64, extent: u64, limit: u32| {
            let from = start.saturating_neg().max(0).min(extent as i64);
            let to = i64::from(limit).saturating_sub(start).clamp(from, extent as i64);
            from as usize..to as usize
        };
        let (row, col) = (frame.int(window.row), frame.int(window.col));
        let (rows, cols) = (existing(row, span[0], tile.rows), existing(col, span[1], tile.cols));
        let row_stride = tile.row_stride as usize;
        let first = match rows.is_empty() || cols.is_empty() {
            true => 0,
            false => (row.max(0) as usize) * row_stride + (col.max(0) as usize) * size,
        };
        let data = tiles.wrapping_add(tile.home as usize + first);
        Self { data, row_stride, extents: span.map(|extent| extent as usize), rows, cols }
    }

    /// The first element, if all exist.
    pub fn inside(&self) -> Option<*mut u8> {
        (self.rows == (0..self.extents[0]) && self.cols == (0..self.extents[1])).then_some(self.data)
    }

    /// Copies what exists to its place in dense rows at `dense`, which are 0 elsewhere, or from there.
    ///
    /// # Safety
    /// `dense` is valid for all elements of the window, whose tile lies in live scratch memory.
    pub unsafe fn copy_dense(&self, dense: *mut u8, size: usize, to_dense: bool) {
        let [rows, cols] = self.extents;
        if to_dense {
            // SAFETY: the caller vouches for `dense`.
            unsafe { dense.write_bytes(0, rows * cols * size) };
        }
        let bytes = self.cols.len() * size;
        for (at, row) in self.rows.clone().enumerate() {
            // SAFETY: the row exists in the tile, and in the dense rows.
            unsafe {
                let (tile, packed) =
                    (self.data.add(at * self.row_stride), dense.add((row * cols + self.cols.start) * size));
                if to_dense {
                    std::ptr::copy_nonoverlapping(tile, packed, bytes);
                } else {
                    std::ptr::copy_nonoverlapping(packed, tile, bytes);
                }
            }
        }
    }
}

fn outside(axis: usize, offset: i64, extent: i64, view: &View) -> String {
    format!(
        "the access [{offset} : {}] along axis {axis} leaves the tensor, which has {} elements there; make the box smaller, \
         or pass valid_shape with the extent that exists",
        offset.saturating_add(extent),
        view.limits[axis]
    )
}

/// The address of one element, or `None` outside the tensor.
pub(super) fn element(view: &View, index: &[Operand], frame: &Frame, size: usize) -> Option<*mut u8> {
    let mut distance = 0;
    for (axis, &at) in index.iter().enumerate() {
        let at = frame.int(at);
        if at < 0 || at as u64 >= view.limits[axis] {
            return None;
        }
        distance += at * view.strides[axis];
    }
    Some(view.data.wrapping_offset((distance * size as i64) as isize))
}

/// The element at `from` as the bits of a scalar slot.
///
/// # Safety
/// `from` is a live element of type `dtype`.
pub(super) unsafe fn read_element(from: *const u8, dtype: DType) -> u64 {
    // SAFETY: the caller's promise; elements need not be aligned.
    unsafe {
        match dtype {
            DType::F32 => u64::from(from.cast::<u32>().read_unaligned()),
            DType::F16 => u64::from(half::f16::from_bits(from.cast::<u16>().read_unaligned()).to_f32().to_bits()),
            DType::BF16 => u64::from(half::bf16::from_bits(from.cast::<u16>().read_unaligned()).to_f32().to_bits()),
            DType::I8 => i64::from(from.cast::<i8>().read()) as u64,
            DType::I16 => i64::from(from.cast::<i16>().read_unaligned()) as u64,
            DType::I32 => i64::from(from.cast::<i32>().read_unaligned()) as u64,
            DType::I64 | DType::U64 | DType::F64 => from.cast::<u64>().read_unaligned(),
            DType::U8 => u64::from(from.read()),
            DType::U16 => u64::from(from.cast::<u16>().read_unaligned()),
            DType::U32 => u64::from(from.cast::<u32>().read_unaligned()),
            DType::Bool => u64::from(from.read() != 0),
            _ => unreachable!("verified: no program has a {dtype}"),
        }
    }
}

/// Writes the bits of a scalar slot as an element: floats are rounded, integers lose high bits.
///
/// # Safety
/// `to` is a live element of type `dtype`, and nobody else uses it.
pub(super) unsafe fn write_element(to: *mut u8, dtype: DType, bits: u64) {
    let float = f32::from_bits(bits as u32);
    // SAFETY: the caller's promise; elements need not be aligned.
    unsafe {
        match dtype {
            DType::F32 | DType::I32 | DType::U32 => to.cast::<u32>().write_unaligned(bits as u32),
            DType::F16 => to.cast::<u16>().write_unaligned(half::f16::from_f32(float).to_bits()),
            DType::BF16 => to.cast::<u16>().write_unaligned(half::bf16::from_f32(float).to_bits()),
            DType::I16 | DType::U16 => to.cast::<u16>().write_unaligned(bits as u16),
            DType::I64 | DType::U64 | DType::F64 => to.cast::<u64>().write_unaligned(bits),
            DType::I8 | DType::U8 => to.write(bits as u8),
            DType::Bool => to.write(u8::from(bits != 0)),
            _ => unreachable!("verified: no program has a {dtype}"),
        }
    }
}

/// Writes `count` elements as [`write_element`] does.
///
/// # Safety
/// `to` is valid for `count` elements of type `dtype`, and nobody else uses them.
pub(super) unsafe fn write_element_all(to: *mut u8, dtype: DType, count: usize, bits: u64) {
    if count == 0 {
        return;
    }
    let total = count * dtype.size();
    let mut done = dtype.size();
    // SAFETY: each copy doubles what is written and stays within `total` bytes.
    unsafe {
        write_element(to, dtype, bits);
        while done < total {
            let next = done.min(total - done);
            std::ptr::copy_nonoverlapping(to, to.add(done), next);
            done += next;
        }
    }
}
