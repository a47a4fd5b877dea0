//! Whole-tile steps: their operands become matrices with checked extents.
#![allow(unsafe_code)] // calls the kernels with addresses that `step` and the layout of scratch memory vouch for

use super::frame::{Frame, View};
use super::interpret::{Core, Lane};
use super::step::{address, finish, region};
use crate::device::sim::code::{BlockMem, BlockStep, Mem};
use crate::device::sim::lower::element_bits;
use crate::kernels::block::{Args, Mat, Whole};

/// Most operands of a whole-tile step: the result and four arguments.
const MOST: usize = 5;

impl Core<'_> {
    pub(super) fn block(&mut self, step: &BlockStep, frame: &Frame) -> Result<(), String> {
        let [rows, cols] = region(step.region, step.bound, frame)?;
        let mut mats = [Mat::NONE; MOST];
        let Lane { bounce, bounced, tiles, .. } = self.lane();
        bounced.clear();
        // Elements that are given as scalars; operands point here.
        let mut elements = [0u64; MOST];
        for (at, operand) in step.mems.iter().enumerate() {
            mats[at] = match operand {
                BlockMem::Mem { mem, span, bound } => {
                    let [rows, cols] = region(*span, *bound, frame)?;
                    let (data, stride) = address(mem, [rows, cols], frame, *tiles, at, bounce, bounced)?;
                    let (rows, cols) = match &mem.mem {
                        Mem::Tile(tile) => (tile.rows as usize, tile.cols as usize),
                        _ => (rows as usize, cols as usize),
                    };
                    let row = if mem.extent.rows { stride } else { 0 };
                    let col = if mem.extent.cols { mem.dtype.size() as isize } else { 0 };
                    Mat { data, row, col, rows, cols }
                }
                BlockMem::Scalar(scalar) => {
                    elements[at] = element_bits(frame.bits(scalar.value), scalar.dtype);
                    let data = (&raw mut elements[at]).cast();
                    Mat { data, row: 0, col: 0, rows: usize::MAX, cols: usize::MAX }
                }
            };
        }
        let mut scalars = [0u64; 8];
        for (to, scalar) in scalars.iter_mut().zip(&step.scalars) {
            *to = element_bits(frame.bits(scalar.value), scalar.dtype);
        }
        let tensor = step.tensor.map(|tensor| {
            let View { data, rank, dims, strides, limits, .. } = frame.tensors[tensor.slot as usize];
            Whole { data, rank, dims, strides, limits }
        });
        self.budget -= (rows * cols * u64::from(step.block.cost())) as i64;
        let args = Args {
            rows: rows as usize,
            cols: cols as usize,
            mats: &mats[..step.mems.len()],
            scalars: &scalars[..step.scalars.len()],
            tensor: tensor.as_ref(),
        };
        // SAFETY: every operand was checked for its extents; results are in memory of their own, or are the first argument
        // of an operation that may change it.
        unsafe { step.block.run(&args) };
        let Lane { bounce, bounced, .. } = self.lane();
        finish(bounced, bounce);
        Ok(())
    }
}
