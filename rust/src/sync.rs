//! The primitives of concurrent code, in one place, so that `--cfg loom` swaps them for loom's.
//!
//! Concurrent modules take atomics, cells, threads and spin hints from here and never from `std`. What lives in a
//! `static` comes from [`global`]: loom cannot model statics, so those stay `std` under every configuration, and no
//! model relies on them.
#![allow(unsafe_code)] // forwards the raw pointer of an `UnsafeCell`

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

#[cfg(not(loom))]
pub use global::lock;
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

/// Sleeps until the thread is unparked or `timeout` is over. Loom has no time, so there only the former wakes it.
pub fn park_timeout(timeout: std::time::Duration) {
    #[cfg(not(loom))]
    thread::park_timeout(timeout);
    #[cfg(loom)]
    {
        let _ = timeout;
        thread::park();
    }
}

/// Waits until `condvar` is notified; `guard` is of `mutex`.
///
/// ThreadSanitizer sees neither how the standard library gives the lock back nor how it takes it again, so for that (see
/// [`global::lock`]) a wait is a wake-up for no reason, which is allowed.
pub fn wait<'a, T>(condvar: &Condvar, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    if cfg!(tsan) {
        return wait_timeout(condvar, mutex, guard, std::time::Duration::from_millis(1));
    }
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits until `condvar` is notified or `timeout` is over; `guard` is of `mutex`. Loom has no time, so there only the
/// former ends the wait. For ThreadSanitizer see [`wait`].
pub fn wait_timeout<'a, T>(
    condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    timeout: std::time::Duration,
) -> MutexGuard<'a, T> {
    if cfg!(tsan) {
        drop(guard);
        std::thread::sleep(timeout.min(std::time::Duration::from_micros(100)));
        return lock(mutex);
    }
    let waited = condvar.wait_timeout(guard, timeout);
    waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// Locks, whether or not somebody panicked under the lock: for data that is whole at every step.
#[cfg(loom)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Atomics and locks for process-wide state.
pub mod global {
    pub use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use std::sync::{Mutex, MutexGuard, Once};
    use std::sync::{PoisonError, TryLockError};

    /// Locks, whether or not somebody panicked under the lock: for data that is whole at every step.
    ///
    /// The standard library comes compiled without ThreadSanitizer, which therefore does not see a lock that had to be
    /// waited for. `tools/sanitize.sh` sets `--cfg tsan`; then only the attempt that succeeds counts, and that one is
    /// compiled here.
    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        while cfg!(tsan) {
            match mutex.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `std`'s cell behind loom's interface: access goes through a closure, so that loom can see when it begins and ends.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer for reading. What the pointer may do is up to the caller, as with `std`'s cell.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing. What the pointer may do is up to the caller, as with `std`'s cell.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
