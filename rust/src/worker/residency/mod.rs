//! Host arguments that could stay on the device: noticed, counted, and kept there where the user asks for it.
//!
//! | file          | what it holds                                                                |
//! |---------------|------------------------------------------------------------------------------|
//! | `record`      | what was uploaded although it had not changed, and what that cost            |
//! | `kept`        | copies on the device that a launch uses instead of uploading the same again  |
//! | `fingerprint` | a quick guess whether bytes changed                                          |
//!
//! Nothing of this exists while it is off: a launch looks at one pointer. While it is on, an argument costs a few hundred
//! nanoseconds for its fingerprint.
#![allow(unsafe_code)] // It reads host memory that the caller of a launch vouches for.

mod fingerprint;
mod kept;
mod record;

pub use record::{ProgramUse, UploadUse};

use super::bind::Bound;
use super::packed::PackedForms;
use crate::arena::Arena;
use crate::device::Device;
use crate::program::Direction;
use fingerprint::fingerprint;
use kept::Kept;
use record::{Record, Upload};
use std::time::Instant;

/// What a worker does about host arguments that do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResidencyMode {
    /// Nothing, at no cost.
    Off,
    /// It counts them.
    Advise,
    /// It counts them, and keeps them on the device.
    Auto,
}

/// The version of a host tensor whose owner counts none.
pub const NO_VERSION: u64 = u64::MAX;

/// The share of the device memory that kept arguments may take.
const KEPT_SHARE: f64 = 0.25;

/// What a worker knows about its host arguments.
pub(super) struct Residency {
    record: Record,
    kept: Option<Kept>,
    /// Of the launch that runs, for each host tensor that is uploaded.
    uploads: Vec<Upload>,
}

/// When the parts of a launch began and ended.
pub(super) struct Times {
    /// The launch.
    pub began: Instant,
    /// How long the copies in took, in nanoseconds.
    pub upload_ns: u64,
    /// How long the copies out took.
    pub download_ns: u64,
}

impl Residency {
    /// What `mode` asks for.
    pub fn new(mode: ResidencyMode, capacity: u64, poison: bool) -> Option<Box<Self>> {
        if mode == ResidencyMode::Off {
            return None;
        }
        // Poison mode looks behind each argument for writes, so each goes through its own guarded memory there.
        let keeps = mode == ResidencyMode::Auto && !poison;
        let kept = keeps.then(|| Kept::new((capacity as f64 * KEPT_SHARE) as u64));
        Some(Box::new(Self { record: Record::default(), kept, uploads: Vec::new() }))
    }

    /// Looks at the host tensors that are about to be uploaded, and lets the launch use what is kept of them.
    ///
    /// # Safety
    /// The bound host tensors are valid for reads.
    pub unsafe fn before(
        &mut self,
        cid: u64,
        bound: &mut Bound,
        device: &dyn Device,
        arena: &mut Arena,
        packed: &mut PackedForms,
    ) {
        self.uploads.clear();
        self.kept.iter_mut().for_each(Kept::begin_launch);
        for staged in &mut bound.staged {
            (staged.kept, staged.is_fresh) = (std::ptr::null_mut(), false);
            if staged.direction == Direction::Out {
                continue;
            }
            // SAFETY: the caller vouches for it.
            let print = unsafe { fingerprint(staged.host, staged.bytes) };
            let upload = self.record.upload(cid, staged, print);
            if let Some(kept) = self.kept.as_mut().filter(|_| staged.direction == Direction::In) {
                // SAFETY: as above.
                unsafe { kept.place(staged, print, device, arena, packed) };
            }
            self.uploads.push(upload);
        }
    }

    /// Counts what the launch did.
    ///
    /// # Safety
    /// The bound host tensors are valid for reads.
    pub unsafe fn after(&mut self, cid: u64, bound: &Bound, times: &Times) {
        self.record.launched(cid, &self.uploads, &bound.staged, times);
        for staged in bound.staged.iter().filter(|staged| staged.direction != Direction::In) {
            // SAFETY: the caller vouches for it.
            let print = unsafe { fingerprint(staged.host, staged.bytes) };
            self.record.download(staged, print);
        }
    }

    /// Gives the memory of kept arguments back.
    pub fn release(&mut self, arena: &mut Arena, packed: &mut PackedForms) {
        if let Some(kept) = &mut self.kept {
            kept.release_all(arena, packed);
        }
    }

    /// What was counted.
    pub fn record(&self) -> &Record {
        &self.record
    }
}
