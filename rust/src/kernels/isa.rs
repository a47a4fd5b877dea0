//! The instruction sets that kernels exist for.

use std::fmt;

/// An instruction set. A value other than `Generic` can be made only where the processor has it, so holding one is the
/// proof that the functions compiled for it may be called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor of the target has.
    Generic,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL on top of `Avx2`.
    Avx512,
}

/// `PYPTO_ISA` asks for something that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The name is none of the three.
    #[error("PYPTO_ISA={0:?} names no instruction set; use generic, avx2 or avx512")]
    Unknown(String),
    /// The processor lacks it.
    #[error("PYPTO_ISA={asked} was asked for, but this processor offers only up to {best}; unset PYPTO_ISA")]
    Missing {
        /// What was asked.
        asked: Isa,
        /// The best that the processor has.
        best: Isa,
    },
}

impl Isa {
    /// The best instruction set of this processor.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                return Isa::Avx512;
            }
            if avx2 {
                return Isa::Avx2;
            }
        }
        Isa::Generic
    }

    /// All that this processor has, `Generic` first. Tests run on each.
    pub fn available() -> Vec<Self> {
        [Isa::Generic, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Self::detect()).collect()
    }

    /// The instruction set for new registrations: `PYPTO_ISA` where it is set, else the best.
    pub fn from_env() -> Result<Self, IsaError> {
        match std::env::var_os("PYPTO_ISA") {
            Some(name) if !name.is_empty() => Self::choose(&name.to_string_lossy(), Self::detect()),
            _ => Ok(Self::detect()),
        }
    }

    fn choose(name: &str, best: Self) -> Result<Self, IsaError> {
        let asked = match name.to_ascii_lowercase().as_str() {
            "generic" => Isa::Generic,
            "avx2" => Isa::Avx2,
            "avx512" => Isa::Avx512,
            _ => return Err(IsaError::Unknown(name.to_owned())),
        };
        if asked > best { Err(IsaError::Missing { asked, best }) } else { Ok(asked) }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::Generic => "generic",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_and_a_missing_one_is_refused() {
        assert_eq!(Isa::choose("AVX2", Isa::Avx512), Ok(Isa::Avx2));
        assert_eq!(Isa::choose("sse9", Isa::Avx512), Err(IsaError::Unknown("sse9".into())));
        let error = Isa::choose("avx512", Isa::Avx2).unwrap_err();
        assert!(error.to_string().contains("only up to avx2"), "{error}");
    }
}
