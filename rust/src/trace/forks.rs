//! Carries the trace through a fork.
//!
//! The fork happens under all locks of this module, so that no thread that the child lacks holds one there for ever, and
//! the child forgets what its parent recorded: it would come out twice.
#![allow(unsafe_code)] // pthread_atfork

use super::{clock, collect, labels, names};
use crate::sync::global::Once;
use std::cell::RefCell;

/// Every lock, in the order in which they are taken.
type Locks = (collect::Locks, names::Lock, clock::Lock, labels::Lock);

thread_local! {
    static HELD: RefCell<Option<Locks>> = const { RefCell::new(None) };
}

/// Called before the first lock is ever taken.
pub fn survive() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers take and release locks of this module. The C library has made its allocator usable in
        // the child before it calls them.
        let code = unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        assert_eq!(code, 0, "pthread_atfork has no memory left");
    });
}

unsafe extern "C" fn before() {
    let locks = (collect::lock_all(), names::lock(), clock::lock(), labels::lock());
    HELD.with(|held| *held.borrow_mut() = Some(locks));
}

unsafe extern "C" fn after_in_parent() {
    HELD.with(|held| *held.borrow_mut() = None);
}

unsafe extern "C" fn after_in_child() {
    if let Some((collected, ..)) = HELD.with(|held| held.borrow_mut().take()) {
        collect::forget(collected);
    }
}
