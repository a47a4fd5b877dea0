//! What a checked step is about to touch: boxes, elements by index, valid regions of tiles.
#![allow(unsafe_code)] // reads indices from tiles

use super::beyond::site;
use super::checked::Checker;
use super::frame::{Frame, View};
use super::interpret::Core;
use super::valid::Reach;
use crate::device::findings::Action;
use crate::device::sim::code::{BlockMem, Mem, Step};
use crate::device::sim::sanitize::area::Area;
use crate::program::{Arg, OpCode, TileOp, TileSlot};

/// What an index counts.
pub(super) enum Subject<'a> {
    Tensor(u32, &'a View),
    Tile(u32),
}

impl Checker<'_> {
    /// Looks at what an operation is about to access. `false` if some of it does not exist, so that it cannot run.
    pub fn check(&mut self, core: &mut Core<'_>, op: &TileOp, step: &Step, frame: &Frame) -> bool {
        let int = |at: usize| match op.args[at] {
            Arg::Scalar(operand) => frame.int(operand),
            _ => unreachable!("verified: a scalar"),
        };
        let region = op.region.map(|extent| frame.int(extent));
        let tensor = op.args.iter().enumerate().find_map(|(at, arg)| match arg {
            Arg::Tensor(slot) => Some((at, *slot)),
            _ => None,
        });
        match (op.op, tensor) {
            (OpCode::Load | OpCode::Store | OpCode::StoreAdd, Some((at, slot))) => {
                let action = match op.op {
                    OpCode::Load => Action::Read,
                    OpCode::Store => Action::Write,
                    _ => Action::Add,
                };
                if let (true, Arg::Tile(tile)) = (self.sanitizers.bounds, op.args[0]) {
                    let valid = self.valid[tile as usize];
                    if region[0] > 0 && region[1] > 0 && (region[0] > valid[0] || region[1] > valid[1]) {
                        self.report.invalid_tile(site!(self), tile, region, valid);
                    }
                }
                let rank = frame.tensors[slot as usize].rank;
                let offsets: Vec<i64> = (0..rank).map(|axis| int(at + 1 + axis)).collect();
                let extents: Vec<i64> = (0..rank).map(|axis| int(at + 1 + rank + axis)).collect();
                let view = frame.tensors[slot as usize];
                let reach = Reach { slot, view: &view, offsets: &offsets, extents: &extents, action };
                if !self.inside(&reach) {
                    return false;
                }
                if self.sanitizers.bounds {
                    self.check_valid(&reach, frame);
                }
                let size = self.dtype(slot).size();
                let first: i64 = (0..rank).map(|axis| offsets[axis] * view.strides[axis]).sum();
                let axes = (0..rank).map(|axis| (extents[axis].max(0) as u64, view.strides[axis] * size as i64));
                let area = Area::new(view.data as usize + first.max(0) as usize * size, size, axes);
                self.access(area, action);
                true
            }
            (OpCode::GatherTensor | OpCode::ScatterTensor, Some((_, slot))) => {
                let action = match op.op {
                    OpCode::GatherTensor => Action::Read,
                    _ if int(3) == 0 => Action::Write,
                    _ => Action::Add,
                };
                let view = frame.tensors[slot as usize];
                let indices = self.indices(core, step, 1, region);
                let dims = &view.dims[..view.rank];
                let count: u64 = dims.iter().product();
                self.in_range(&indices, count as i64, || Subject::Tensor(slot, &view));
                let size = self.dtype(slot).size();
                let partly = self.sanitizers.bounds && self.declared_valid(slot, frame).is_some();
                let (mut found, extents) = (Vec::<usize>::new(), vec![1; view.rank]);
                for index in indices.iter().filter(|&&index| (0..count as i64).contains(&index)) {
                    let (mut rest, mut at, mut offsets) = (*index, 0, vec![0; view.rank]);
                    for axis in (0..view.rank).rev() {
                        offsets[axis] = rest % dims[axis] as i64;
                        at += offsets[axis] * view.strides[axis];
                        rest /= dims[axis] as i64;
                    }
                    if partly {
                        self.check_valid(
                            &Reach { slot, view: &view, offsets: &offsets, extents: &extents, action },
                            frame,
                        );
                    }
                    found.push(view.data as usize + at as usize * size);
                }
                found.sort_unstable();
                found.dedup();
                for run in found.chunk_by(|a, b| a + size == *b) {
                    self.access(Area::new(run[0], size, [(run.len() as u64, size as i64)].into_iter()), action);
                }
                true
            }
            _ => {
                if self.sanitizers.bounds {
                    self.check_indices(core, op, step, frame, region);
                }
                true
            }
        }
    }

    /// Whether every element of a box exists; reports it where bounds are checked and where it does not.
    fn inside(&mut self, reach: &Reach<'_>) -> bool {
        let &Reach { view, offsets, extents, .. } = reach;
        let fits = |limits: &[u64]| {
            extents.contains(&0)
                || (0..view.rank).all(|axis| {
                    let end = offsets[axis].checked_add(extents[axis]);
                    offsets[axis] >= 0 && extents[axis] >= 0 && end.is_some_and(|end| end as u64 <= limits[axis])
                })
        };
        let exists = fits(&view.limits);
        if self.sanitizers.bounds && !(exists && fits(&view.dims)) {
            self.report.outside(site!(self), reach);
            return exists;
        }
        // Without bounds, the step itself refuses.
        true
    }

    /// Indices of operations between tiles.
    fn check_indices(&mut self, core: &mut Core<'_>, op: &TileOp, step: &Step, frame: &Frame, region: [i64; 2]) {
        let int = |at: usize| match op.args[at] {
            Arg::Scalar(operand) => frame.int(operand),
            _ => unreachable!("verified: a scalar"),
        };
        let tile = |at: usize| match op.args[at] {
            Arg::Tile(slot) => slot,
            _ => unreachable!("verified: a tile"),
        };
        // Which operand from the last has the indices, their region, what they count. An operation that changes its first
        // argument in place has one operand less, so they are counted from the end.
        let (operand, span, limit, subject) = match op.op {
            OpCode::GatherCols => (1, region, int(2), tile(0)),
            OpCode::GatherFlat => (1, region, int(2) * i64::from(self.slot(tile(0)).rows), tile(0)),
            OpCode::ScatterCols => (2, [int(3), int(4)], region[1], tile(0)),
            // Its indices are the first of the slot, row by row.
            OpCode::ScatterRows => (2, [i64::MAX; 2], region[0], tile(0)),
            OpCode::ScatterFlat => {
                let out = self.slot(tile(0));
                (1, [int(3), int(4)], i64::from(out.rows) * i64::from(out.cols), tile(0))
            }
            _ => return,
        };
        let mut indices = self.indices(core, step, operand, span);
        if op.op == OpCode::ScatterRows {
            indices.truncate(int(3).max(0) as usize);
        }
        self.in_range(&indices, limit, || Subject::Tile(subject));
    }

    fn in_range<'s>(&mut self, indices: &[i64], limit: i64, subject: impl Fn() -> Subject<'s>) {
        if let (true, Some(index)) = (self.sanitizers.bounds, indices.iter().find(|&&at| at < 0 || at >= limit)) {
            self.report.bad_index(site!(self), &subject(), *index, limit);
        }
    }

    /// The indices in a tile that is an operand of a step, the last but `back - 1`.
    fn indices(&self, core: &mut Core<'_>, step: &Step, back: usize, region: [i64; 2]) -> Vec<i64> {
        let Step::Block(block) = step else { return Vec::new() };
        let Some(BlockMem::Mem { mem, .. }) = block.mems.iter().nth_back(back - 1) else { return Vec::new() };
        let Mem::Tile(tile) = &mem.mem else { return Vec::new() };
        let first = core.lane().tiles.wrapping_add(tile.home as usize);
        let (rows, cols) = (region[0].clamp(0, tile.rows.into()), region[1].clamp(0, tile.cols.into()));
        let places = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
        let read = |(row, col): (i64, i64)| {
            let at = first.wrapping_add((row * i64::from(tile.row_stride) + col * mem.dtype.size() as i64) as usize);
            // SAFETY: the place is in the tile, which lies in live scratch memory.
            unsafe { super::access::read_element(at, mem.dtype) as i64 }
        };
        places.map(read).collect()
    }

    /// Which part of the result of an operation means something.
    pub fn result(&self, op: &TileOp, frame: &Frame) -> [i64; 2] {
        let region = op.region.map(|extent| frame.int(extent));
        let whole = |at: usize| match op.args[at] {
            Arg::Tile(slot) => self.valid[slot as usize],
            _ => region,
        };
        let cut = |valid: [i64; 2]| [region[0].min(valid[0]), region[1].min(valid[1])];
        match op.op {
            // Moves and elementwise work keep what there is.
            OpCode::Move | OpCode::Cast | OpCode::Exp | OpCode::Log | OpCode::Recip | OpCode::Sqrt | OpCode::Rsqrt => {
                cut(whole(0))
            }
            OpCode::Sin | OpCode::Cos | OpCode::Relu | OpCode::Neg | OpCode::Abs | OpCode::BitNot => cut(whole(0)),
            OpCode::Add | OpCode::Sub | OpCode::Mul | OpCode::Div | OpCode::Maximum | OpCode::Minimum => {
                let [rows, cols] = cut(whole(0));
                match op.args.get(1) {
                    Some(&Arg::Tile(second)) if self.is_as_large(op, second) => {
                        let valid = self.valid[second as usize];
                        [rows.min(valid[0]), cols.min(valid[1])]
                    }
                    // A number, or a column for all columns.
                    _ => [rows, cols],
                }
            }
            // What `set_validshape` becomes, which only says how much counts: what was there before stays.
            OpCode::Reinterpret if self.same_slots(op) => whole(0),
            OpCode::Insert => {
                let (base, int) = (whole(0), |at: usize| match op.args[at] {
                    Arg::Scalar(operand) => frame.int(operand),
                    _ => 0,
                });
                let end = [int(2).saturating_add(int(4)), int(3).saturating_add(int(5))];
                // The smallest region with both: what lies between is taken for valid.
                [base[0].max(end[0]), base[1].max(end[1])]
            }
            _ => region,
        }
    }

    /// Whether the result of an operation lies like its first argument.
    fn same_slots(&self, op: &TileOp) -> bool {
        match (op.out, op.args.first()) {
            (Some(out), Some(&Arg::Tile(from))) => self.slot(out) == self.slot(from),
            _ => false,
        }
    }

    /// Whether a tile has as many rows and columns as the result of an operation.
    fn is_as_large(&self, op: &TileOp, tile: u32) -> bool {
        let extents = |tile: u32| (self.slot(tile).rows, self.slot(tile).cols);
        op.out.is_some_and(|out| extents(out) == extents(tile))
    }

    /// A tile of the kernel that runs.
    fn slot(&self, tile: u32) -> &TileSlot {
        let kernel = self.running.expect("tiles are of kernels").kernel;
        &self.program.kernels[kernel as usize].tiles[tile as usize]
    }
}
