//! Sorting 32 keys in registers, in each lane of a vector by itself.
//!
//! The network is Batcher's: 191 comparisons of two registers, none of which depends on what is found, so that nothing
//! is predicted wrongly. With a key of its own in each lane, one comparison serves as many groups as there are lanes; with
//! the keys of one group in the lanes, each would need shuffles.

/// Numbers that are sorted beside each other.
pub(super) trait Lanes: Copy {
    /// How many.
    const COUNT: usize;

    /// # Safety
    /// [`Lanes::COUNT`] numbers exist there, and the processor has the instruction set.
    unsafe fn load(from: *const i64) -> Self;

    /// # Safety
    /// As for [`Lanes::load`].
    unsafe fn store(self, to: *mut i64);

    /// The larger ones and the smaller ones.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn ordered(self, other: Self) -> (Self, Self);
}

macro_rules! network {
    ($lanes:ident: $($a:literal $b:literal),*) => {
        $(
            // SAFETY: the caller's promise.
            ($lanes[$a], $lanes[$b]) = unsafe { $lanes[$a].ordered($lanes[$b]) };
        )*
    };
}

/// Sorts the 32 rows of `keys`, each [`Lanes::COUNT`] wide, so that each column falls.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
#[rustfmt::skip] // the pairs as a block
pub(super) unsafe fn sort<L: Lanes>(keys: &mut [i64]) {
    assert_eq!(keys.len(), 32 * L::COUNT);
    let first = keys.as_mut_ptr();
    // SAFETY: there are 32 rows.
    let mut lanes: [L; 32] = std::array::from_fn(|row| unsafe { L::load(first.add(row * L::COUNT)) });
    network! {
        lanes:
            0 1, 2 3, 4 5, 6 7, 8 9, 10 11, 12 13, 14 15, 16 17, 18 19, 20 21, 22 23, 24 25, 26 27, 28 29, 30 31,
            0 2, 1 3, 4 6, 5 7, 8 10, 9 11, 12 14, 13 15, 16 18, 17 19, 20 22, 21 23, 24 26, 25 27, 28 30, 29 31,
            1 2, 5 6, 9 10, 13 14, 17 18, 21 22, 25 26, 29 30, 0 4, 1 5, 2 6, 3 7, 8 12, 9 13, 10 14, 11 15, 16 20,
            17 21, 18 22, 19 23, 24 28, 25 29, 26 30, 27 31, 2 4, 3 5, 10 12, 11 13, 18 20, 19 21, 26 28, 27 29,
            1 2, 3 4, 5 6, 9 10, 11 12, 13 14, 17 18, 19 20, 21 22, 25 26, 27 28, 29 30, 0 8, 1 9, 2 10, 3 11,
            4 12, 5 13, 6 14, 7 15, 16 24, 17 25, 18 26, 19 27, 20 28, 21 29, 22 30, 23 31, 4 8, 5 9, 6 10, 7 11,
            20 24, 21 25, 22 26, 23 27, 2 4, 3 5, 6 8, 7 9, 10 12, 11 13, 18 20, 19 21, 22 24, 23 25, 26 28, 27 29,
            1 2, 3 4, 5 6, 7 8, 9 10, 11 12, 13 14, 17 18, 19 20, 21 22, 23 24, 25 26, 27 28, 29 30, 0 16, 1 17,
            2 18, 3 19, 4 20, 5 21, 6 22, 7 23, 8 24, 9 25, 10 26, 11 27, 12 28, 13 29, 14 30, 15 31, 8 16, 9 17,
            10 18, 11 19, 12 20, 13 21, 14 22, 15 23, 4 8, 5 9, 6 10, 7 11, 12 16, 13 17, 14 18, 15 19, 20 24,
            21 25, 22 26, 23 27, 2 4, 3 5, 6 8, 7 9, 10 12, 11 13, 14 16, 15 17, 18 20, 19 21, 22 24, 23 25, 26 28,
            27 29, 1 2, 3 4, 5 6, 7 8, 9 10, 11 12, 13 14, 15 16, 17 18, 19 20, 21 22, 23 24, 25 26, 27 28, 29 30
    }
    for (row, lane) in lanes.into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { lane.store(first.add(row * L::COUNT)) };
    }
}

impl Lanes for i64 {
    const COUNT: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const i64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { from.read() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i64) {
        // SAFETY: the caller's promise.
        unsafe { to.write(self) }
    }

    #[inline(always)]
    unsafe fn ordered(self, other: Self) -> (Self, Self) {
        (Ord::max(self, other), Ord::min(self, other))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    impl Lanes for __m256i {
        const COUNT: usize = 4;

        #[inline(always)]
        unsafe fn load(from: *const i64) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm256_loadu_si256(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut i64) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_si256(to.cast(), self) }
        }

        #[inline(always)]
        unsafe fn ordered(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller's promise.
            unsafe {
                let above = _mm256_cmpgt_epi64(self, other);
                (_mm256_blendv_epi8(other, self, above), _mm256_blendv_epi8(self, other, above))
            }
        }
    }

    impl Lanes for __m512i {
        const COUNT: usize = 8;

        #[inline(always)]
        unsafe fn load(from: *const i64) -> Self {
            // SAFETY: the caller's promise.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut i64) {
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(to.cast(), self) }
        }

        #[inline(always)]
        unsafe fn ordered(self, other: Self) -> (Self, Self) {
            // SAFETY: the caller's promise.
            unsafe { (_mm512_max_epi64(self, other), _mm512_min_epi64(self, other)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sort;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        // A network that sorts all zeros and ones sorts everything.
        #[test]
        fn any_zeros_and_ones_are_sorted(bits in any::<u32>()) {
            let mut keys: Vec<i64> = (0..32).map(|at| i64::from(bits >> at & 1)).collect();
            // SAFETY: every processor has the instruction set.
            unsafe { sort::<i64>(&mut keys) };
            let ones = bits.count_ones() as usize;
            prop_assert!(keys.iter().enumerate().all(|(at, &key)| key == i64::from(at < ones)), "{keys:?}");
        }
    }
}
