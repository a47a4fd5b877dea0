//! How many cores a chip has, and how many CPUs there are for them.

/// `PYPTO_CORES` is not a number of cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "PYPTO_CORES={0:?} is not a number of cores; use 1 to {MAX_CORES}, or unset it to use every CPU that this process may use"
)]
pub struct CoresError(String);

/// More than any chip has; beyond it a number is a typing error.
pub const MAX_CORES: usize = 1024;

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
}
