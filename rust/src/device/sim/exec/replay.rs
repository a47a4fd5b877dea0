//! What a launch did, kept for the launches that are like it.
//!
//! Where a program reads no elements, its extents and scalars decide everything that it does: which boxes lie where in
//! the arguments, how often loops go round. So the second launch with the same ones writes down its steps, with operands
//! as distances from the begin of their tensors, and from the third on the steps run from there: no view is set up, no box
//! evaluated, no loop counted. A launch of one addition of 16x16 tensors takes 65 ns where the interpreter takes 155, and each
//! of a thousand dependent ones 41 where it takes 173. Addresses may change from launch to launch, as when one program
//! serves the layers of a model.
//!
//! On several cores each core writes down what it does of a [wave](super::wave), and the script remembers which tasks ran
//! at once: later launches look for nothing. Softmax of 4096x1024 in 256 tasks takes 0.71 ms on two cores where the look
//! ahead and the ends of its waves made it 0.84; a thousand tasks of 0.6 us, too short to look ahead each time, 0.35 where
//! they took 0.65 on one core.

use super::coverage::Coverage;
use super::script::Script;
use crate::device::TensorArg;
use crate::device::sim::code::{Code, Inst, Step};
use crate::device::sim::lower::Lowered;
use std::mem;

/// The steps of the last launch, in order.
pub(super) struct Replay {
    /// Whether extents and scalars decide what the program does.
    is_possible: bool,
    progress: Progress,
    script: Script,
    coverage: Coverage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing was written down for the present extents and scalars.
    Nothing,
    Complete,
    /// They lead to something that cannot be kept.
    Unfit,
}

impl Replay {
    pub fn new(lowered: &Lowered) -> Self {
        let decided = |code: &Code| {
            !code.insts.iter().any(|inst| matches!(inst, Inst::Read { .. } | Inst::Write { .. } | Inst::Create { .. }))
        };
        Self {
            is_possible: decided(&lowered.entry) && lowered.kernels.iter().all(decided),
            progress: Progress::Nothing,
            script: Script::default(),
            coverage: Coverage::default(),
        }
    }

    /// What a launch that `repeats` the last one can run from.
    pub fn script(&self, repeats: bool) -> Option<&Script> {
        (repeats && self.progress == Progress::Complete).then_some(&self.script)
    }

    /// See [`crate::device::Executable::overwrites`].
    pub fn overwrites(&self, tensor: usize) -> bool {
        self.progress == Progress::Complete && self.coverage.is_whole(tensor)
    }

    /// Prepares for a launch that does not run from here; gives what to write it down in. `repeats`: as for the launch.
    pub fn begin(&mut self, repeats: bool) -> Option<Script> {
        if !repeats {
            self.progress = Progress::Nothing;
        }
        if !repeats || !self.is_possible || self.progress == Progress::Unfit {
            return None;
        }
        self.script.clear();
        Some(mem::take(&mut self.script))
    }

    /// Takes back what [`Replay::begin`] gave. `is_whole`: the launch has ended well.
    pub fn end(&mut self, script: Script, is_whole: bool, lowered: &Lowered, tensors: &[TensorArg]) {
        self.script = script;
        if self.script.has_gaps {
            self.progress = Progress::Unfit;
        } else if is_whole {
            self.progress = Progress::Complete;
            self.script.find_rows();
            self.find_coverage(lowered, tensors);
        }
    }

    /// Finds which arguments the steps write as a whole.
    fn find_coverage(&mut self, lowered: &Lowered, tensors: &[TensorArg]) {
        self.coverage.begin(tensors);
        let mut first = 0;
        for taken in &self.script.steps {
            let places = &self.script.operands[first..taken.operands];
            let step = taken.id.of(lowered);
            for (operand, place) in step.mems().zip(places) {
                match step {
                    // A whole-tile operation leaves alone what its arguments do not reach.
                    Step::Block(block) if !block.fills => self.coverage.touch(place.base),
                    Step::Block(_) if !operand.write => self.coverage.touch(place.base),
                    _ => self.coverage.add(operand, place, taken.extents, tensors),
                }
            }
            if let (Some(_), Some(place)) = (step.tensor(), places.last()) {
                self.coverage.touch(place.base);
            }
            first = taken.operands;
        }
    }
}
