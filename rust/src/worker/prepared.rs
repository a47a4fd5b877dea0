//! Prepared launches: arguments that were checked once and are launched again and again.
//!
//! A plain launch finds out about every argument whether it is like the last one. A prepared launch keeps its own
//! binding, and what can go wrong with it between two launches is looked at in one number: whether the arena has freed
//! anything since. Only then the state of each buffer is read again.
#![allow(unsafe_code)] // State that only whoever is in the worker reaches; it hands addresses to the device.

use super::bind::Bound;
use super::error::WorkerError;
use super::launch::Begun;
use super::register::{Registered, Registration};
use super::value::{HostTensor, Kept, Value};
use super::{Open, Session, Worker};
use crate::arena::{Arena, BufferState};
use crate::error::Result;
use crate::trace::{self, names};
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;

/// The arguments of a registered program, checked. It keeps descriptions of resident buffers alive, not their memory.
pub struct Prepared {
    registration: Arc<Registration>,
    state: UnsafeCell<State>,
}

// SAFETY: `state` is reached by `Prepared::state` only, which wants the worker of the registration to be entered: one thread
// at a time is, and its lock orders what one thread leaves and the next one finds.
unsafe impl Sync for Prepared {}

/// What is known about the arguments.
struct State {
    /// One for each parameter. Of a host tensor, where it was in the last launch.
    args: Vec<Kept>,
    bound: Bound,
    /// What [`Arena::frees`] was when all buffers were live.
    frees: u64,
    /// Whether `bound` says everything about `args`. It does not after a launch that was refused, and never where a tensor
    /// has no elements.
    is_bound: bool,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("registration", &self.registration).finish_non_exhaustive()
    }
}

impl Prepared {
    /// The program.
    pub fn registration(&self) -> &Arc<Registration> {
        &self.registration
    }

    /// # Safety
    /// The caller is in the session of the worker of the registration, and has no other reference to the state.
    #[expect(clippy::mut_from_ref, reason = "the session is what is borrowed mutably")]
    unsafe fn state(&self) -> &mut State {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.state.get() }
    }
}

impl Session<'_> {
    /// Checks one argument for each parameter, for launches that follow.
    ///
    /// # Errors
    /// Those that a launch has for its arguments.
    pub fn prepare(&mut self, registration: &Arc<Registration>, args: Vec<Kept>) -> Result<Prepared> {
        let (open, worker) = self.launching(registration)?;
        let mut state = State { args, bound: Bound::default(), frees: 0, is_bound: false };
        state.bind(open, worker, registration)?;
        Ok(Prepared { registration: registration.clone(), state: UnsafeCell::new(state) })
    }

    /// Replaces arguments, by the index of their parameters. Where one is refused, nothing is replaced.
    ///
    /// # Errors
    /// Those that a launch has for its arguments.
    pub fn update(&mut self, prepared: &Prepared, changes: Vec<(usize, Kept)>) -> Result<()> {
        let registration = &prepared.registration;
        let (open, worker) = self.launching(registration)?;
        // SAFETY: `launching` made sure that this is the session of the registration's worker.
        let state = unsafe { prepared.state() };
        if state.is_bound {
            let versions = &mut open.registry.entries[registration.cid() as usize].loaded.versions;
            if state.bound.replace(&changes, &open.arena, worker.owner.id(), versions) {
                changes.into_iter().for_each(|(param, arg)| state.args[param] = arg);
                return Ok(());
            }
        }
        let mut args = state.args.clone();
        changes.into_iter().for_each(|(param, arg)| args[param] = arg);
        let mut changed = State { args, bound: Bound::default(), frees: 0, is_bound: false };
        changed.bind(open, worker, registration)?;
        *state = changed;
        Ok(())
    }

    /// Runs a prepared launch as [`Session::launch`] would. `hosts` are its host tensors as they are now, in the order of
    /// their parameters. `false`: they are not the parameters that have host tensors (an update came between), so nothing
    /// was launched.
    ///
    /// # Errors
    /// As for [`Session::launch`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn launch_prepared(
        &mut self,
        prepared: &Prepared,
        hosts: &[(usize, HostTensor)],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        let registration = &*prepared.registration;
        let notes = self.notes.take();
        let (open, worker) = self.launching(registration)?;
        // SAFETY: `launching` made sure that this is the session of the registration's worker.
        let state = unsafe { prepared.state() };
        let begun = Begun::new(registration, notes, open);
        let bind = trace::span(names::BIND, begun.invocation, 0);
        let bind_args = trace::span(names::BIND_ARGS, begun.invocation, hosts.len() as u64);
        if !state.is_current(hosts, &open.arena) {
            if !state.take_hosts(hosts) {
                return Ok(false);
            }
            state.bind(open, worker, registration)?;
        }
        drop(bind_args);
        // SAFETY: the caller vouches for the host tensors; the state is of this session's worker.
        unsafe { open.launch_bound(registration, Some(&mut state.bound), &worker.tally, poll, begun, bind)? };
        Ok(true)
    }
}

impl State {
    /// Whether the binding holds for a launch with these host tensors, which it then has.
    #[inline]
    fn is_current(&mut self, hosts: &[(usize, HostTensor)], arena: &Arena) -> bool {
        if !self.is_bound {
            return false;
        }
        if self.frees != arena.frees() {
            if !self.args.iter().all(Kept::is_usable) {
                return false;
            }
            self.frees = arena.frees();
        }
        // After a refusal `bound` is half moved.
        self.is_bound = self.bound.move_hosts(hosts);
        self.is_bound
    }

    /// Notes where the host tensors are; `false` where other parameters have host tensors.
    fn take_hosts(&mut self, hosts: &[(usize, HostTensor)]) -> bool {
        let known = self.args.iter().enumerate().filter(|(_, arg)| arg.is_host()).map(|(param, _)| param);
        if !known.eq(hosts.iter().map(|(param, _)| *param)) {
            return false;
        }
        hosts.iter().for_each(|&(param, host)| self.args[param] = Kept::Other(Value::Host(host)));
        true
    }

    /// Checks all arguments as a launch does. The binding is a copy of that of plain launches, so that prepared launches
    /// and plain ones of the same extents and scalars have one version, and repeat each other.
    fn bind(&mut self, open: &mut Open, worker: &Worker, registration: &Registration) -> Result<(), WorkerError> {
        self.is_bound = false;
        let Open { arena, registry, .. } = open;
        let Registered { loaded, bound } = &mut registry.entries[registration.cid() as usize];
        let values: Vec<Value<'_>> = self.args.iter().map(Kept::value).collect();
        bound.bind(registration.program(), &values, arena, &worker.owner, &mut loaded.versions)?;
        self.bound = bound.clone();
        self.frees = arena.frees();
        self.is_bound = self.bound.is_accepted();
        Ok(())
    }
}

impl Kept {
    fn is_host(&self) -> bool {
        matches!(self, Kept::Other(Value::Host(_)))
    }

    /// Whether it is no buffer that was freed.
    fn is_usable(&self) -> bool {
        !matches!(self, Kept::Resident { buffer, .. } if buffer.state() != BufferState::Live)
    }
}
