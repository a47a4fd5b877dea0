//! Damaged programs: what is accepted must still lower and run without a panic and without leaving its memory.

use super::memory;
use super::random;
use super::run::{Guarded, execute};
use crate::device::Device;
use crate::device::sim::SimDevice;
use crate::kernels::Isa;
use crate::program::{Program, verify};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_program_is_refused_or_runs_within_its_memory(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        rows in any::<u64>(),
    ) {
        let original = random::program(&bytes);
        let mut encoded = original.encode();
        for (at, value) in &damage {
            // The header is left alone: a wrong one is refused at once.
            let at = 12 + at.index(encoded.len() - 12);
            encoded[at] = *value;
        }
        let Ok(program) = Program::decode(&encoded) else { return Ok(()) };
        if verify(&program).is_err() || program.params != original.params {
            return Ok(());
        }
        let device = SimDevice::new(2, Isa::detect());
        let Ok(mut executable) = device.compile(&program) else { return Ok(()) };
        if executable.scratch_bytes() > 1 << 24 {
            return Ok(());
        }
        let mut tensors = Guarded::new(&memory());
        // The first question is answered with no, so that a loop without end ends.
        let _ = execute(executable.as_mut(), &mut tensors, &[rows], false, &mut || false);
        tensors.check();
    }
}
