//! What the device tells about launches: the time of steps, and tasks with what they wait for.

use super::Session;
use super::error::WorkerError;
use super::register::{Registration, check_registration};
use crate::device::Executable;
use crate::device::profile::{Profile, TaskOf};
use crate::error::Result;

impl Session<'_> {
    /// The profile of the launches of a registration since it was asked for last; `None` where the device does not profile.
    ///
    /// # Errors
    /// [`WorkerError::ForeignRegistration`], [`WorkerError::Closed`].
    pub fn take_profile(&mut self, registration: &Registration) -> Result<Option<Profile>> {
        Ok(self.executable(registration)?.take_profile())
    }

    /// The tasks of the last launch of a registration; `None` where the device does not follow them.
    ///
    /// # Errors
    /// [`WorkerError::ForeignRegistration`], [`WorkerError::Closed`].
    pub fn take_tasks(&mut self, registration: &Registration) -> Result<Option<Vec<TaskOf>>> {
        Ok(self.executable(registration)?.take_tasks())
    }

    fn executable(&mut self, registration: &Registration) -> Result<&mut dyn Executable> {
        let owner = &self.worker.owner;
        check_registration(registration, owner)?;
        let open = self.open.as_mut().filter(|_| owner.is_open());
        let open = open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })?;
        Ok(open.registry.entries[registration.cid() as usize].loaded.executable.as_mut())
    }
}
