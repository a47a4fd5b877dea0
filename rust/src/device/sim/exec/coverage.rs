//! Which arguments the steps of a launch write as a whole.

use super::script::{Place, TILES};
use crate::device::TensorArg;
use crate::device::sim::code::MemUse;

/// What is known about each tensor parameter. Kept from one use to the next, so that counting again allocates nothing.
#[derive(Default)]
pub(super) struct Coverage {
    /// Bytes that are written, none twice; `None` where one is read, or might be written twice.
    written: Vec<Option<u64>>,
    /// Bytes of the whole.
    whole: Vec<u64>,
    boxes: Vec<(u32, Rect)>,
}

impl Coverage {
    /// Forgets everything; nothing of `tensors` is written yet.
    pub fn begin(&mut self, tensors: &[TensorArg]) {
        self.boxes.clear();
        self.written.clear();
        self.written.resize(tensors.len(), Some(0));
        self.whole.clear();
        self.whole.resize(tensors.len(), 0);
    }

    /// Adds an operand of a step with these extents.
    pub fn add(&mut self, operand: &MemUse, place: &Place, extents: [u64; 3], tensors: &[TensorArg]) {
        if place.base == TILES {
            return;
        }
        let tensor = place.base as usize;
        let size = operand.dtype.size() as u64;
        let (cols, outer) = tensors[tensor].shape.split_last().unwrap_or((&1, &[]));
        let pitch = cols * size;
        self.whole[tensor] = outer.iter().product::<u64>() * pitch;
        let rows = if operand.extent.rows { extents[0] } else { 1 };
        let cols = if operand.extent.cols { extents[1] } else { 1 };
        let rect = Rect::new(place, [rows, cols * size], pitch).filter(|_| operand.write);
        let rect = rect.filter(|rect| !self.boxes.iter().any(|(of, other)| *of == place.base && other.meets(rect)));
        self.written[tensor] = self.written[tensor].zip(rect.as_ref()).map(|(sum, rect)| sum + rect.area());
        self.boxes.extend(rect.map(|rect| (place.base, rect)));
    }

    /// Something of `base` is read, or written so that nobody knows what remains.
    pub fn touch(&mut self, base: u32) {
        if base != TILES {
            self.written[base as usize] = None;
        }
    }

    /// Whether every byte of a tensor is written, and none is read.
    pub fn is_whole(&self, tensor: usize) -> bool {
        self.written[tensor] == Some(self.whole[tensor]) && self.whole[tensor] > 0
    }
}

/// Bytes of a tensor as ranges of rows and columns; the rows are those of the last axis.
struct Rect {
    rows: [u64; 2],
    cols: [u64; 2],
}

impl Rect {
    /// The bytes of a box of `rows` by `width` bytes at `place`; `None` where they are no rectangle.
    fn new(place: &Place, [rows, width]: [u64; 2], pitch: u64) -> Option<Self> {
        let offset = u64::try_from(place.offset).ok()?;
        let (row, col) = (offset / pitch, offset % pitch);
        let bytes = rows * width;
        let is_dense = rows == 1 || place.row_stride as u64 == width;
        if is_dense && col == 0 && bytes.is_multiple_of(pitch) {
            return Some(Self { rows: [row, row + bytes / pitch], cols: [0, pitch] });
        }
        let fits = col + width <= pitch && (rows == 1 || place.row_stride as u64 == pitch);
        fits.then_some(Self { rows: [row, row + rows], cols: [col, col + width] })
    }

    fn area(&self) -> u64 {
        (self.rows[1] - self.rows[0]) * (self.cols[1] - self.cols[0])
    }

    fn meets(&self, other: &Self) -> bool {
        let meet = |a: [u64; 2], b: [u64; 2]| a[0] < b[1] && b[0] < a[1];
        meet(self.rows, other.rows) && meet(self.cols, other.cols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::code::{BoxSpec, Extent, Mem};
    use crate::dtype::DType;
    use crate::shape::Shape;

    /// Whether boxes `(row, col, rows, cols, is_written)` of a 4x6 FP32 tensor cover it.
    fn covers(boxes: &[(isize, isize, u64, u64, bool)]) -> bool {
        let shape = Shape::new(&[2, 2, 6]).unwrap();
        let tensors = [TensorArg { data: std::ptr::null_mut(), shape }];
        let mut coverage = Coverage::default();
        // Twice, since what an earlier count left must not matter.
        for _ in 0..2 {
            coverage.begin(&tensors);
            for &(row, col, rows, cols, write) in boxes {
                let spec = BoxSpec { tensor: 0, dtype: DType::F32, offsets: vec![], extents: vec![] };
                let operand = MemUse { mem: Mem::Box(spec), dtype: DType::F32, extent: Extent::FULL, write };
                let place = Place { base: 0, offset: row * 24 + col * 4, row_stride: 24, stream: false };
                coverage.add(&operand, &place, [rows, cols, 0], &tensors);
            }
        }
        coverage.is_whole(0)
    }

    #[test]
    fn boxes_that_tile_a_tensor_cover_it_in_any_order() {
        assert!(covers(&[(0, 0, 4, 6, true)]));
        assert!(covers(&[(2, 0, 2, 6, true), (0, 3, 2, 3, true), (0, 0, 2, 3, true)]));
        assert!(covers(&[(0, 0, 1, 12, true), (2, 0, 1, 12, true)]), "two rows as one long row");
    }

    #[test]
    fn a_hole_an_overlap_and_a_read_each_leave_a_tensor_uncovered() {
        assert!(!covers(&[]));
        assert!(!covers(&[(0, 0, 4, 5, true)]));
        assert!(!covers(&[(0, 0, 3, 6, true), (2, 0, 1, 6, true)]), "as many elements as the tensor has");
        assert!(!covers(&[(0, 0, 4, 6, true), (0, 0, 4, 6, true)]));
        assert!(!covers(&[(0, 0, 4, 6, true), (0, 0, 1, 1, false)]));
        assert!(!covers(&[(0, 3, 1, 6, true), (1, 3, 3, 6, true), (0, 0, 1, 3, true)]), "a row across the edge");
    }
}
