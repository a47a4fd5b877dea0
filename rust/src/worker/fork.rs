//! Recognises a forked child. Its copy of a worker has no threads behind it and may have copied a lock that is held for
//! ever, so every call must fail before it waits for anything.
#![allow(unsafe_code)] // It registers a handler with the C library.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the first process and this one. A handler counts them because the check is on every launch:
/// `getpid()` is a system call of 40 ns and more, this is one load.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The generation of this process; a worker whose generation differs belongs to an ancestor.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Makes forks count. Called before the first generation is remembered.
pub fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the handler only touches an atomic, which is allowed between fork and exec. The library is never unloaded.
        let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(status, 0, "the C library refuses a fork handler only without memory");
    });
}
