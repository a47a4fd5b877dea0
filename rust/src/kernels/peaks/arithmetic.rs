//! Loops of independent multiply-adds: as many chains as hide their latency, nothing from memory.

use super::Isa;
use std::hint::black_box;

/// Chains that go on side by side: more than latency times units of any processor, fewer than registers.
const CHAINS: usize = 12;
const ROUNDS: usize = 100_000;

/// A loop that runs at the peak.
pub(super) struct Peak {
    /// Operations of one run.
    pub operations: f64,
    pub run: fn(),
}

impl Peak {
    /// A loop whose instructions have `lanes` multiply-adds each.
    fn new(lanes: usize, run: fn()) -> Self {
        Self { operations: (2 * lanes * CHAINS * ROUNDS) as f64, run }
    }
}

/// The loops of FP32, BF16 and INT8.
pub(super) fn loops(isa: Isa) -> [Peak; 3] {
    #[cfg(target_arch = "x86_64")]
    {
        let fp32 = || match isa {
            Isa::Avx512 => Peak::new(16, || {
                // SAFETY: an `Isa` is the proof that the processor has it.
                unsafe { x86::fp32_avx512() };
            }),
            Isa::Avx2 => Peak::new(8, || {
                // SAFETY: an `Isa` is the proof that the processor has it.
                unsafe { x86::fp32_avx2() };
            }),
            Isa::Generic => Peak::new(4, generic_fp32),
        };
        let wide = isa == Isa::Avx512;
        let bf16 = match wide && is_x86_feature_detected!("avx512bf16") {
            true => Peak::new(32, || {
                // SAFETY: the processor was asked.
                unsafe { x86::bf16_avx512() };
            }),
            false => fp32(),
        };
        let int8 = match isa {
            Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => Peak::new(64, || {
                // SAFETY: the processor was asked.
                unsafe { x86::int8_vnni() };
            }),
            Isa::Generic => Peak::new(4, generic_int8),
            _ => Peak::new(16, || {
                // SAFETY: both instruction sets that get here include AVX2.
                unsafe { x86::int8_avx2() };
            }),
        };
        [fp32(), bf16, int8]
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        [Peak::new(4, generic_fp32), Peak::new(4, generic_fp32), Peak::new(4, generic_int8)]
    }
}

/// A multiplication and an addition, which is what kernels do where no instruction does both.
fn generic_fp32() {
    let (x, mut acc) = (black_box([0f32; 4]), [[0f32; 4]; CHAINS]);
    for _ in 0..ROUNDS {
        for chain in &mut acc {
            for (sum, x) in chain.iter_mut().zip(x) {
                *sum += x * *sum;
            }
        }
    }
    black_box(acc);
}

fn generic_int8() {
    let (x, mut acc) = (black_box([0i32; 4]), [[0i32; 4]; CHAINS]);
    for _ in 0..ROUNDS {
        for chain in &mut acc {
            for (sum, x) in chain.iter_mut().zip(x) {
                *sum = sum.wrapping_add(x.wrapping_mul(*sum));
            }
        }
    }
    black_box(acc);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, ROUNDS};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// A function that repeats `$step` of an accumulator and an operand that the compiler does not know.
    macro_rules! peak {
        ($name:ident, $features:literal, $zero:expr, |$acc:ident, $x:ident| $step:expr) => {
            /// # Safety
            /// The processor has what it is compiled for.
            #[target_feature(enable = $features)]
            pub unsafe fn $name() {
                let $x = black_box($zero);
                let mut all = [$zero; CHAINS];
                for _ in 0..ROUNDS {
                    for $acc in &mut all {
                        *$acc = $step;
                    }
                }
                black_box(all);
            }
        };
    }

    peak!(fp32_avx512, "avx512f", _mm512_setzero_ps(), |acc, x| _mm512_fmadd_ps(x, x, *acc));
    peak!(fp32_avx2, "avx2,fma", _mm256_setzero_ps(), |acc, x| _mm256_fmadd_ps(x, x, *acc));
    peak!(int8_vnni, "avx512f,avx512vnni", _mm512_setzero_si512(), |acc, x| _mm512_dpbusd_epi32(*acc, x, x));
    // Pairs of 16-bit products and an addition: what there is below VNNI.
    peak!(int8_avx2, "avx2", _mm256_setzero_si256(), |acc, x| _mm256_add_epi32(*acc, _mm256_madd_epi16(x, *acc)));

    /// # Safety
    /// As for the others.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub unsafe fn bf16_avx512() {
        // SAFETY: both are 64 bytes without invalid values.
        let x: __m512bh = unsafe { std::mem::transmute(black_box(_mm512_setzero_si512())) };
        let mut all = [_mm512_setzero_ps(); CHAINS];
        for _ in 0..ROUNDS {
            for acc in &mut all {
                *acc = _mm512_dpbf16_ps(*acc, x, x);
            }
        }
        black_box(all);
    }
}
