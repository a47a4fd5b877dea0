//! A look ahead: what a task will touch, without doing it.
//!
//! The scalar part of a kernel (offsets, loops, views, conditions) runs as ever, and each step leaves the boxes that it
//! would read and write. That is exact where an analysis at registration would have to guess (strided loops over blocks,
//! block tables, run-time lengths), and costs what the scalar part of the task costs. What depends on values that the task itself computes cannot be known ahead; such a task counts as
//! touching all it was given.

use super::Stop;
use super::access::BoxMem;
use super::frame::{Frame, View};
use super::interpret::{Core, Element, Host};
use super::script::StepId;
use crate::device::sim::code::{BlockMem, Mem, MemUse, Source, Step};

/// More boxes or rounds than this are not looked at: the task then counts as touching all it was given.
const MOST_BOXES: usize = 256;
const MOST_ROUNDS: usize = 4096;

/// Memory that a task touches: `rows` runs of `width` bytes, `stride` bytes apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Region {
    begin: usize,
    end: usize,
    width: usize,
    stride: usize,
    pub write: bool,
}

impl Region {
    fn run(begin: usize, bytes: usize, write: bool) -> Self {
        Self { begin, end: begin.saturating_add(bytes), width: bytes, stride: 0, write }
    }

    /// The memory behind a view, all that can be reached through it.
    pub fn view(view: &View, size: usize, write: bool) -> Self {
        let axes = || (0..view.rank).map(|axis| (view.limits[axis], view.strides[axis].saturating_mul(size as i64)));
        Self::rows(view.data as usize, axes(), size, write)
    }

    fn of(mem: &BoxMem, size: usize, write: bool) -> Self {
        let axes = (0..mem.rank).map(|axis| (mem.extents[axis], mem.strides[axis]));
        Self::rows(mem.data as usize, axes, size, write)
    }

    /// `axes` are extents and byte strides, outermost first. A matrix keeps its rows apart; what has more axes with gaps
    /// becomes one run from its first to its last byte.
    fn rows(begin: usize, axes: impl DoubleEndedIterator<Item = (u64, i64)>, size: usize, write: bool) -> Self {
        let mut region = Self::run(begin, size, write);
        let (mut width, mut stride, mut rows) = (size as u64, 0u64, 1u64);
        for (extent, step) in axes.rev() {
            if extent == 0 {
                return Self::run(begin, 0, write);
            }
            if extent == 1 {
                continue;
            }
            let step = step.unsigned_abs();
            if rows == 1 && step == width {
                width = width.saturating_mul(extent);
            } else if rows == 1 {
                (stride, rows) = (step, extent);
            } else if step == stride.saturating_mul(rows) {
                rows = rows.saturating_mul(extent);
            } else {
                let whole = stride.saturating_mul(rows - 1).saturating_add(width);
                (width, stride, rows) = (step.saturating_mul(extent - 1).saturating_add(whole), 0, 1);
            }
        }
        region.width = width as usize;
        region.stride = if rows == 1 { 0 } else { stride as usize };
        region.end = begin.saturating_add(stride.saturating_mul(rows - 1).saturating_add(width) as usize);
        region
    }

    fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Whether both may have a byte in common and one writes it.
    pub fn conflicts(&self, other: &Self) -> bool {
        if !(self.write || other.write) || self.begin >= other.end || other.begin >= self.end {
            return false;
        }
        if self.is_empty() || other.is_empty() {
            return false;
        }
        // Columns of one matrix interleave: rows of the same stride meet only where their columns do.
        let stride = self.stride.max(other.stride);
        let comparable = |region: &Self| region.stride == stride || region.stride == 0;
        if stride == 0 || !comparable(self) || !comparable(other) || self.width + other.width > stride {
            return true;
        }
        let distance = (other.begin as i128 - self.begin as i128).rem_euclid(stride as i128) as usize;
        distance < self.width || distance + other.width > stride
    }
}

/// What a look ahead found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    /// The regions are all that the task touches.
    Clear,
    /// A value on which it depends comes from a task that has not run yet.
    Pending,
    /// It cannot be known ahead.
    Blind,
}

/// The host of a look ahead.
pub(super) struct Probe<'a> {
    /// Where boxes go.
    regions: &'a mut Vec<Region>,
    /// What tasks that have not run yet touch.
    pending: &'a [Region],
    rounds: usize,
}

impl<'a> Probe<'a> {
    /// Fills `regions` with what a run of `kernel` would touch.
    pub fn look(
        regions: &'a mut Vec<Region>,
        pending: &'a [Region],
        core: &mut Core<'_>,
        kernel: u32,
        frame: &mut Frame,
    ) -> Sight {
        regions.clear();
        let code = &core.context.lowered.kernels[kernel as usize];
        match core.code(kernel, code, frame, &mut Self { regions, pending, rounds: 0 }) {
            Ok(()) => Sight::Clear,
            Err(Stop::Pending) => Sight::Pending,
            // A fault comes again, in its turn, when the task runs.
            Err(_) => Sight::Blind,
        }
    }

    fn add(&mut self, region: Region) -> Result<(), Stop> {
        if self.regions.len() == MOST_BOXES {
            return Err(Stop::Blind);
        }
        self.regions.push(region);
        Ok(())
    }

    fn operand(&mut self, operand: &MemUse, span: [u64; 2], frame: &Frame) -> Result<(), Stop> {
        let Mem::Box(spec) = &operand.mem else { return Ok(()) };
        let mem = BoxMem::evaluate(spec, frame, span[0], span[1]).map_err(Stop::Message)?;
        self.add(Region::of(&mem, operand.dtype.size(), operand.write))
    }
}

impl Host for Probe<'_> {
    fn step(&mut self, _: &mut Core<'_>, _: StepId, step: &Step, frame: &Frame) -> Result<(), Stop> {
        match step {
            Step::Chain(chain) => {
                let [rows, cols] = super::step::region(chain.region, chain.bound, frame).map_err(Stop::Message)?;
                for operand in &chain.mems {
                    let span = [if operand.extent.rows { rows } else { 1 }, if operand.extent.cols { cols } else { 1 }];
                    self.operand(operand, span, frame)?;
                }
            }
            Step::MatMul(product) => {
                let [m, n, k] = super::step::extents(product, frame).map_err(Stop::Message)?;
                let turned = |span: [u64; 2], trans: bool| if trans { [span[1], span[0]] } else { span };
                self.operand(&product.a, turned([m, k], product.trans[0]), frame)?;
                self.operand(&product.b, turned([k, n], product.trans[1]), frame)?;
                self.operand(&product.c, [m, n], frame)?;
                if let Some(acc) = &product.acc {
                    self.operand(acc, [m, n], frame)?;
                }
            }
            Step::Block(block) => {
                for operand in &block.mems {
                    if let BlockMem::Mem { mem, span, bound } = operand {
                        let span = super::step::region(*span, *bound, frame).map_err(Stop::Message)?;
                        self.operand(mem, span, frame)?;
                    }
                }
                if let Some(tensor) = block.tensor {
                    let view = &frame.tensors[tensor.slot as usize];
                    self.add(Region::view(view, tensor.dtype.size(), tensor.write))?;
                }
            }
        }
        Ok(())
    }

    fn round(&mut self, _: &mut Core<'_>) -> Result<(), Stop> {
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS { Err(Stop::Blind) } else { Ok(()) }
    }

    fn touches(&mut self, _: &mut Core<'_>, element: Element<'_>, _: &Frame, write: bool) -> Result<(), Stop> {
        let Source::Tensor(_) = element.place else { return if write { Ok(()) } else { Err(Stop::Blind) } };
        let region = Region::run(element.at as usize, element.bytes, write);
        let met = |regions: &[Region]| !write && regions.iter().any(|other| other.conflicts(&region));
        if met(self.regions) {
            // The task writes this itself before it reads it.
            return Err(Stop::Blind);
        }
        if met(self.pending) {
            return Err(Stop::Pending);
        }
        self.add(region)
    }

    fn writes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(region: &[(u64, i64)], begin: usize, size: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (begin..begin + size).collect();
        for &(extent, stride) in region {
            all =
                (0..extent as i64).flat_map(|at| all.iter().map(move |&byte| byte + (at * stride) as usize)).collect();
        }
        all
    }

    proptest! {
        #[test]
        fn boxes_without_a_conflict_have_no_byte_in_common(
            a in (0usize..40, prop::collection::vec((0u64..4, 0i64..20), 0..4)),
            b in (0usize..40, prop::collection::vec((0u64..4, 0i64..20), 0..4)),
            same in any::<bool>(),
        ) {
            let b = if same { (b.0, b.1.iter().zip(&a.1).map(|(b, a)| (b.0, a.1)).collect()) } else { b };
            let region = |part: &(usize, Vec<(u64, i64)>), write| Region::rows(part.0, part.1.iter().copied(), 2, write);
            let (first, second) = (region(&a, true), region(&b, false));
            if !first.conflicts(&second) {
                let (mine, theirs) = (bytes(&a.1, a.0, 2), bytes(&b.1, b.0, 2));
                prop_assert!(!mine.iter().any(|byte| theirs.contains(byte)), "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn neighbouring_columns_and_rows_of_a_matrix_do_not_conflict() {
        let matrix = |row: usize, col: usize, rows: u64, cols: u64| {
            Region::rows(1000 + row * 400 + col * 4, [(rows, 400i64), (cols, 4)].into_iter(), 4, true)
        };
        assert!(!matrix(0, 0, 10, 50).conflicts(&matrix(0, 50, 10, 50)));
        assert!(!matrix(0, 0, 10, 100).conflicts(&matrix(10, 0, 10, 100)));
        assert!(!matrix(3, 7, 1, 5).conflicts(&matrix(0, 12, 10, 88)));
        assert!(matrix(0, 0, 10, 51).conflicts(&matrix(0, 50, 10, 50)));
        assert!(matrix(9, 0, 10, 100).conflicts(&matrix(0, 0, 10, 100)));
    }

    #[test]
    fn two_reads_never_conflict() {
        let read = Region::run(0, 100, false);
        assert!(!read.conflicts(&read));
        assert!(read.conflicts(&Region { write: true, ..read }));
    }
}
