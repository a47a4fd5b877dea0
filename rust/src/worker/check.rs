//! The checks of a launch without the launch.

use super::error::WorkerError;
use super::register::{Registered, Registration, check_registration};
use super::value::Value;
use super::{Open, Session};
use crate::error::Result;

impl Session<'_> {
    /// Checks `args` as a launch would, and gives the scalars among them as the device takes them: 64 bits each, in order.
    ///
    /// # Errors
    /// Those that a launch has for its arguments.
    pub fn check(&mut self, registration: &Registration, args: &[Value<'_>]) -> Result<Vec<u64>> {
        let owner = &self.worker.owner;
        check_registration(registration, owner)?;
        let open = self.open.as_mut().filter(|_| owner.is_open());
        let open = open.ok_or_else(|| WorkerError::Closed { operation: self.operation, owner: owner.clone() })?;
        let Open { arena, registry, .. } = open;
        let Registered { loaded, bound } = &mut registry.entries[registration.cid() as usize];
        bound.bind(registration.program(), args, arena, owner, &mut loaded.versions)?;
        Ok(bound.scalars.clone())
    }
}
