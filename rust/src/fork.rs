//! Notices that the process is a forked child: its other threads are gone, and what they held is as they left it.
//!
//! `getpid` costs a system call (60-100 ns) each time; a counter that the C library moves in the child costs one load.
#![allow(unsafe_code)] // pthread_atfork

use crate::sync::global::{AtomicU32, Once, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one that called this function first. Remember it beside threads,
/// locks and memory that do not survive a fork, and compare before using them.
pub fn generation() -> u32 {
    static WATCH: Once = Once::new();
    if !WATCH.is_completed() {
        WATCH.call_once(|| {
            // SAFETY: the handler touches one atomic, which is allowed in a forked child.
            let code = unsafe { libc::pthread_atfork(None, None, Some(count)) };
            assert_eq!(code, 0, "pthread_atfork has no memory left");
        });
    }
    GENERATION.load(Ordering::Relaxed)
}

unsafe extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_one_generation_further_than_its_parent() {
        let parent = generation();
        // SAFETY: the child calls only what is allowed after a fork: one atomic load and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let further = generation() == parent + 1;
            // SAFETY: ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!further)) };
        }
        assert!(child > 0, "fork failed");
        let mut status = -1;
        // SAFETY: `status` is valid for writes and `child` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(generation(), parent);
    }
}
