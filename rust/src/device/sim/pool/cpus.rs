//! The processors that this process may use.
#![allow(unsafe_code)] // sched_getaffinity and sched_setaffinity

use std::mem;

/// `PYPTO_CORES` is not a number of cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "PYPTO_CORES={0:?} is not a number of cores; use 1 to {MAX_CORES}, or unset it to use every CPU that this process may use"
)]
pub struct CoresError(String);

/// More than any chip has; beyond it a number is a typing error.
const MAX_CORES: usize = 1024;

/// How many cores a simulated chip has: `PYPTO_CORES` where it is set, else the number of CPUs that this process may use.
pub fn default_cores() -> Result<usize, CoresError> {
    match std::env::var_os("PYPTO_CORES") {
        Some(text) if !text.is_empty() => parse_cores(&text.to_string_lossy()),
        _ => Ok(usable()),
    }
}

fn parse_cores(text: &str) -> Result<usize, CoresError> {
    text.trim().parse().ok().filter(|cores| (1..=MAX_CORES).contains(cores)).ok_or_else(|| CoresError(text.to_owned()))
}

/// How many CPUs the process may use at once: its affinity, and less where a control group grants less.
pub fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// The numbers of the CPUs that the calling thread may run on, ascending. Empty where the kernel does not say.
pub fn allowed() -> Vec<usize> {
    // SAFETY: all zero bits are an empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is valid for writes of the size given; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: every number is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Which core belongs on which CPU.
pub struct Placement {
    cpus: Vec<usize>,
    first: usize,
}

impl Placement {
    /// Places `cores` cores on the CPUs that the calling thread may use.
    pub fn new(_cores: usize) -> Placement {
        Placement { cpus: if std::env::var_os("NOPIN").is_some() { vec![] } else { allowed() }, first: 0 }
    }

    /// The CPU of a core.
    pub fn cpu(&self, core: usize) -> Option<usize> {
        self.cpus.get((self.first + core) % self.cpus.len().max(1)).copied()
    }
}

/// Keeps the calling thread on one CPU. A refusal (a control group that changed) is not an error: the thread then runs
/// wherever it may.
pub fn pin(cpu: usize) {
    // SAFETY: all zero bits are an empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `cpu` came from `allowed`, so it is below the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is valid for reads of the size given; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_cores_is_read_and_anything_else_refused_with_the_remedy() {
        assert_eq!(parse_cores("1"), Ok(1));
        assert_eq!(parse_cores(" 24 "), Ok(24));
        for text in ["0", "-1", "two", "1.5", "1025", "99999999999999999999"] {
            assert_eq!(
                parse_cores(text).unwrap_err().to_string(),
                format!(
                    "PYPTO_CORES={text:?} is not a number of cores; use 1 to 1024, or unset it to use every CPU that this process may use"
                )
            );
        }
    }

    #[test]
    fn no_more_cpus_are_usable_than_allowed() {
        assert!((1..=allowed().len()).contains(&usable()));
    }

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_alone() {
        std::thread::spawn(|| {
            let last = *allowed().last().expect("some CPU runs this");
            pin(last);
            assert_eq!(allowed(), [last]);
        })
        .join()
        .unwrap();
    }
}
