//! Which core sits on which CPU.
//!
//! Each core has a CPU to itself, and none sits where the caller is. The caller moves as the kernel likes; when it is
//! found on the CPU of a core that is about to be woken, that core takes the CPU that the caller had before.
//!
//! Medians of a round trip that wakes the core, on a quiet virtual machine of two CPUs (60 us of it wake the CPU itself):
//!
//! | the core is                                                   | median   |
//! |---------------------------------------------------------------|----------|
//! | free, so that the kernel may wake it where the caller is busy | 2,850 us |
//! | pinned, and the caller happens to be on its CPU               | 2,890 us |
//! | pinned, and makes way for the caller                          | 64 us    |
//!
//! A core that spins answers in 0.26-0.31 us in each case, but the longest of 20,000 answers was 4 ms free and 0.08 ms
//! pinned.
#![allow(unsafe_code)] // sched_getaffinity, sched_setaffinity, sched_getcpu, gettid

use crate::sync::global::{AtomicU32, AtomicUsize, Ordering};
use std::mem;
use std::sync::Arc;

/// The seats of one pool. Without any, its threads run where the kernel puts them.
pub struct Seats {
    /// The CPU of each core. The first is where the caller was last seen.
    cpus: Vec<usize>,
    /// The kernel's numbers of the threads, 0 for one that has not sat down yet.
    tids: Arc<[AtomicU32]>,
}

/// The seat of one core at its start.
pub struct Seat {
    core: usize,
    cpu: usize,
    tids: Arc<[AtomicU32]>,
}

impl Seats {
    /// Seats for `cores` cores; `None` where there are fewer CPUs than cores.
    pub fn new(cores: usize) -> Option<Seats> {
        // Pools of one process, and processes, begin at different CPUs, lest all crowd on the first few.
        static TAKEN: AtomicUsize = AtomicUsize::new(0);
        let begin = (std::process::id() as usize).wrapping_add(TAKEN.fetch_add(cores, Ordering::Relaxed));
        let cpus = arrange(&allowed(), current()?, cores, begin)?;
        Some(Seats { tids: (0..cores).map(|_| AtomicU32::new(0)).collect(), cpus })
    }

    /// The seat of a core, for its thread to take.
    pub fn seat(&self, core: usize) -> Seat {
        Seat { core, cpu: self.cpus[core], tids: self.tids.clone() }
    }

    /// The calling thread is about to wake a core: makes sure that none sits on its CPU.
    pub fn make_way(&mut self) {
        let Some(cpu) = current() else { return };
        if cpu == self.cpus[0] {
            return;
        }
        if let Some(core) = self.cpus.iter().position(|taken| *taken == cpu) {
            let tid = self.tids[core].load(Ordering::Acquire);
            if tid == 0 {
                return;
            }
            self.cpus[core] = self.cpus[0];
            pin(tid, self.cpus[core]);
        }
        self.cpus[0] = cpu;
    }
}

impl Seat {
    /// Keeps the calling thread on the seat's CPU.
    pub fn take(self) {
        pin(0, self.cpu);
        // SAFETY: it takes nothing, touches nothing and cannot fail.
        let tid = unsafe { libc::gettid() } as u32;
        // Released after the pin, so that it never undoes a move.
        self.tids[self.core].store(tid, Ordering::Release);
    }
}

/// CPUs for `cores` cores: the caller's, then others in turn, starting with the one of number `begin`.
fn arrange(allowed: &[usize], caller: usize, cores: usize, begin: usize) -> Option<Vec<usize>> {
    let begin = begin % allowed.len().max(1);
    let (after, from) = allowed.split_at(begin);
    let others = from.iter().chain(after).copied().filter(|cpu| *cpu != caller);
    let cpus: Vec<usize> = std::iter::once(caller).chain(others).take(cores).collect();
    (cpus.len() == cores).then_some(cpus)
}

/// The CPU that runs the calling thread. `None` where the kernel does not say.
fn current() -> Option<usize> {
    // SAFETY: it takes nothing and touches nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The numbers of the CPUs that the calling thread may run on, ascending. Empty where the kernel does not say.
fn allowed() -> Vec<usize> {
    // SAFETY: all zero bits are an empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for writes of the size given; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: every number is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Keeps a thread (0: the calling one) on one CPU. A refusal (a control group that changed) is not an error: the thread
/// stays where it was.
fn pin(tid: u32, cpu: usize) {
    // SAFETY: all zero bits are an empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `cpu` came from `allowed` or the kernel, and the call ignores what is beyond the set.
    unsafe { libc::CPU_SET(cpu.min(libc::CPU_SETSIZE as usize - 1), &mut set) };
    // SAFETY: `set` is valid for reads of the size given, and `tid` is a thread of this process.
    unsafe { libc::sched_setaffinity(tid as libc::pid_t, size_of::<libc::cpu_set_t>(), &set) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn no_core_sits_where_the_caller_is_and_no_two_on_one_cpu() {
        assert_eq!(arrange(&[0, 1, 2, 3], 2, 4, 0), Some(vec![2, 0, 1, 3]));
        assert_eq!(arrange(&[0, 1, 2, 3], 2, 2, 3), Some(vec![2, 3]));
        assert_eq!(arrange(&[0, 1, 2, 3], 3, 3, 7), Some(vec![3, 0, 1]));
        assert_eq!(arrange(&[4, 6], 6, 2, 1), Some(vec![6, 4]));
    }

    #[test]
    fn there_are_no_seats_where_cores_outnumber_cpus() {
        assert_eq!(arrange(&[0, 1], 0, 3, 0), None);
        assert_eq!(arrange(&[], 0, 2, 5), None);
    }

    #[test]
    fn a_thread_that_took_its_seat_may_run_there_alone() {
        std::thread::spawn(|| {
            let cpu = *allowed().last().expect("some CPU runs this");
            let tids: Arc<[AtomicU32]> = Arc::new([AtomicU32::new(0)]);
            Seat { core: 0, cpu, tids: tids.clone() }.take();
            assert_eq!((allowed(), current()), (vec![cpu], Some(cpu)));
            assert_ne!(tids[0].load(Ordering::Relaxed), 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_core_makes_way_for_the_caller_by_taking_the_seat_that_it_left() {
        // A thread pins itself, so that the kernel does not move it during the test; the core is a sleeping thread.
        std::thread::spawn(|| {
            let cpus = allowed();
            let (here, elsewhere) = (cpus[0], *cpus.last().expect("some CPU runs this"));
            pin(0, here);
            // A flag and no channel: ThreadSanitizer does not see how the standard library orders what is in those.
            let done = Arc::new(AtomicBool::new(false));
            let tids: Arc<[AtomicU32]> = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let seat = Seat { core: 1, cpu: here, tids: tids.clone() };
            let wait = done.clone();
            let core = std::thread::spawn(move || {
                seat.take();
                while !wait.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                allowed()
            });
            let mut seats = Seats { cpus: vec![elsewhere, here], tids };
            while seats.tids[1].load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            seats.make_way();
            done.store(true, Ordering::Release);
            assert_eq!(core.join().unwrap(), [elsewhere]);
            assert_eq!(seats.cpus[0], here);
        })
        .join()
        .unwrap();
    }
}
