//! What the device tells about the time of a program's steps.

use super::Session;
use super::error::WorkerError;
use super::register::{Registration, check_registration};
use crate::device::profile::Profile;
use crate::error::Result;

impl Session<'_> {
    /// The profile of the launches of a registration since it was asked for last; `None` where the device does not profile.
    ///
    /// # Errors
    /// [`WorkerError::ForeignRegistration`], [`WorkerError::Closed`].
    pub fn take_profile(&mut self, registration: &Registration) -> Result<Option<Profile>> {
        let owner = &self.worker.owner;
        check_registration(registration, owner)?;
        let open = self.open.as_mut().filter(|_| owner.is_open());
        let open = open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })?;
        Ok(open.registry.entries[registration.cid() as usize].loaded.executable.take_profile())
    }
}
