//! What the source declares valid of device memory, and what is accessed beyond it.

use super::beyond::site;
use super::checked::Checker;
use super::frame::{Frame, View};
use super::interpret::Element;
use crate::device::findings::Action;
use crate::device::sim::code::Source;
use crate::program::Operand;

/// A box of a tensor that is about to be accessed.
pub(super) struct Reach<'a> {
    pub slot: u32,
    pub view: &'a View,
    pub offsets: &'a [i64],
    pub extents: &'a [i64],
    pub action: Action,
}

impl Reach<'_> {
    /// The first axis along which it ends behind `limits`; `None` where it does not, or has no elements.
    pub fn beyond(&self, limits: &[i64]) -> Option<usize> {
        let end = |axis: usize| self.offsets[axis].saturating_add(self.extents[axis]);
        if self.extents.contains(&0) {
            return None;
        }
        (0..self.view.rank).find(|&axis| self.offsets[axis] < 0 || end(axis) > limits[axis])
    }
}

impl Checker<'_> {
    /// How much of a tensor is declared valid, where that is not all of it.
    pub fn declared_valid(&self, slot: u32, frame: &Frame) -> Option<Vec<i64>> {
        let valid = &self.function().source.valid;
        let declared = valid.iter().find(|declared| declared.tensor == slot)?;
        Some(declared.extents.iter().map(|&extent| frame.int(extent)).collect())
    }

    /// Reports a box of which some is not valid, though it exists.
    pub fn check_valid(&mut self, reach: &Reach<'_>, frame: &Frame) {
        let Some(valid) = self.declared_valid(reach.slot, frame) else { return };
        let dims = &reach.view.dims;
        if let Some(axis) = (0..reach.view.rank).find(|&axis| !(0..=dims[axis] as i64).contains(&valid[axis])) {
            self.report.too_much_valid(site!(self), reach, axis, valid[axis]);
        } else if let Some(axis) = reach.beyond(&valid) {
            self.report.beyond_valid(site!(self), reach, axis, valid[axis]);
        }
    }

    /// The same for one element, which may be one of a tile.
    pub fn check_valid_element(&mut self, element: &Element<'_>, frame: &Frame, action: Action) {
        match element.place {
            Source::Tensor(slot) => {
                on_element(slot, element.index, frame, action, |reach| self.check_valid(reach, frame))
            }
            Source::Tile { slot, .. } => {
                let at = in_tile(element.index, frame);
                let valid = &mut self.valid[slot as usize];
                if action == Action::Write {
                    // As for `Insert`: the smallest region with both.
                    *valid = [valid[0].max(at[0] + 1), valid[1].max(at[1] + 1)];
                } else if at[0] >= valid[0] || at[1] >= valid[1] {
                    self.report.invalid_element(site!(self), slot, at, self.valid[slot as usize]);
                }
            }
        }
    }

    /// Reports an element that does not exist.
    pub fn check_missing_element(&mut self, place: Source, index: &[Operand], frame: &Frame, action: Action) {
        match place {
            Source::Tensor(slot) => on_element(slot, index, frame, action, |reach| {
                self.report.outside(site!(self), reach);
            }),
            Source::Tile { slot, .. } => {
                let at = in_tile(index, frame);
                self.report.missing_element(site!(self), slot, at, action);
            }
        }
    }
}

/// One element of a tensor as a box.
fn on_element(slot: u32, index: &[Operand], frame: &Frame, action: Action, look: impl FnOnce(&Reach<'_>)) {
    let offsets: Vec<i64> = index.iter().map(|&at| frame.int(at)).collect();
    let extents = vec![1; offsets.len()];
    look(&Reach { slot, view: &frame.tensors[slot as usize], offsets: &offsets, extents: &extents, action });
}

/// Row and column of an element of a tile.
fn in_tile(index: &[Operand], frame: &Frame) -> [i64; 2] {
    [frame.int(index[0]), frame.int(index[1])]
}
