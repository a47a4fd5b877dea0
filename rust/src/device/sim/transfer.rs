//! Copies between host memory and device memory.
#![allow(unsafe_code)] // copies by address

use super::pool::CorePool;
use crate::kernels::copy_past_caches;

/// From here on source and target do not fit the last-level cache together.
const OUTGROWS: usize = 16 << 20;

/// What a core takes at a time.
const PIECE: usize = 2 << 20;

/// From here on other cores help: a copy of one piece takes 0.1 ms, waking a core up to 0.06 ms.
const SHARED: usize = 4 * PIECE;

/// Addresses that parts of a copy use, each another piece.
#[derive(Clone, Copy)]
struct Ranges(*mut u8, *const u8);

// SAFETY: the caller of `copy` vouches for both ranges, and no byte belongs to two pieces.
unsafe impl Sync for Ranges {}

impl Ranges {
    /// Both addresses from a distance on.
    fn at(&self, distance: usize) -> (*mut u8, *const u8) {
        (self.0.wrapping_add(distance), self.1.wrapping_add(distance))
    }
}

/// Copies `bytes`, on all cores and past the caches where that is quicker.
///
/// # Safety
/// Both ranges are valid for `bytes` and do not overlap; nobody writes either meanwhile.
pub(super) unsafe fn copy(pool: &CorePool, dst: *mut u8, src: *const u8, bytes: usize) {
    if bytes < SHARED {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) };
    }
    let ranges = Ranges(dst, src);
    pool.run(bytes.div_ceil(PIECE), &|piece, _| {
        let (to, from) = ranges.at(piece * PIECE);
        let now = PIECE.min(bytes - piece * PIECE);
        // SAFETY: the piece lies within ranges that the caller vouches for.
        unsafe {
            if bytes < OUTGROWS {
                std::ptr::copy_nonoverlapping(from, to, now);
            } else {
                copy_past_caches(to, from, now);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{OUTGROWS, PIECE, SHARED, copy};
    use crate::device::sim::pool::CorePool;

    #[test]
    fn copies_of_every_kind_are_whole_on_one_core_and_on_several() {
        for cores in [1, 3] {
            let pool = CorePool::new(cores);
            for bytes in [0, 5, SHARED - 1, SHARED, SHARED + PIECE + 3, OUTGROWS, OUTGROWS + 5] {
                let source: Vec<u8> = (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
                let mut target = vec![0u8; bytes + 1];
                // SAFETY: both have that many bytes.
                unsafe { copy(&pool, target.as_mut_ptr(), source.as_ptr(), bytes) };
                assert!(target[..bytes] == source[..], "{bytes} bytes, {cores} cores");
                assert_eq!(target[bytes], 0);
            }
        }
    }
}
