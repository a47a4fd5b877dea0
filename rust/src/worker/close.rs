//! The end of a worker.

use super::{Open, Worker};
use crate::arena::{ArenaError, Buffer};
use crate::error::Result;
use std::sync::{Arc, PoisonError};

/// What `close` found.
#[derive(Default, Debug)]
pub struct CloseReport {
    /// User buffers that were still live, in order of allocation. They are freed; each knows its site.
    pub leaked: Vec<Arc<Buffer>>,
    /// Poison mode: the first overwritten guard. Everything was closed nevertheless.
    pub damage: Option<ArenaError>,
}

impl Worker {
    /// Closes the worker: frees what the user forgot, then the registrations, then the device. Waits for a running launch;
    /// calls that wait for the worker, and later ones, get the closed error. A second close does nothing and its report is
    /// empty.
    ///
    /// # Errors
    /// [`super::WorkerError::Forked`] only.
    pub fn close(&self) -> Result<CloseReport> {
        self.check_process("close")?;
        // First, so that launches which wait for the lock do not go before.
        self.owner.mark_closed();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(open.map(shut).unwrap_or_default())
    }
}

/// Ends everything in the order that the contract sets.
fn shut(open: Open) -> CloseReport {
    let Open { device, mut arena, registry, workspace: _, packed: _, residency: _, live_bytes } = open;
    let damage = arena.check_guards(|| "found at close".into()).err();
    let leaked = arena.close_buffers();
    live_bytes.set(0);
    drop(registry);
    drop(device);
    CloseReport { leaked, damage }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let inherited = self.check_process("close").is_err();
        self.owner.mark_closed();
        let Some(open) = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if inherited {
            // The threads of the device do not exist in this process, so ending them would wait for ever.
            std::mem::forget(open);
        } else {
            shut(open);
        }
    }
}
