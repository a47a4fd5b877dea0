//! Who owns a piece of device memory: one opened worker, as far as messages and checks need to know it.

use crate::id::WorkerId;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The identity of one opened worker. Buffers, errors and address leases share it, and it outlives the worker, so that
/// an object that survives its worker can still say where it came from.
#[derive(Debug)]
pub struct Owner {
    id: WorkerId,
    name: String,
    open: AtomicBool,
}

impl Owner {
    /// A new owner with the next identity of the process. `name` is what messages call it.
    pub fn new(name: Option<String>) -> Self {
        let id = WorkerId::next();
        Self { id, name: name.unwrap_or_default(), open: AtomicBool::new(true) }
    }

    /// The identity.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The name that the user chose; empty where there is none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the worker still has its device.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_closed(&self) {
        self.open.store(false, Ordering::Relaxed);
    }
}

/// `worker #3`, `worker #3 (decode)`, `worker #3 (decode, closed)`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        match (self.name.is_empty(), self.is_open()) {
            (true, true) => Ok(()),
            (true, false) => f.write_str(" (closed)"),
            (false, true) => write!(f, " ({})", self.name),
            (false, false) => write!(f, " ({}, closed)", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_the_name_and_whether_it_is_closed() {
        let owner = Owner::new(Some("decode".into()));
        let id = owner.id();
        assert_eq!(owner.to_string(), format!("{id} (decode)"));
        owner.mark_closed();
        assert_eq!(owner.to_string(), format!("{id} (decode, closed)"));
        assert_eq!(Owner::new(None).to_string().split('#').next(), Some("worker "));
    }
}
