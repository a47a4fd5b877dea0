//! Memory to measure with, and reading it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::hint::black_box;

/// Touched memory in huge pages where the kernel gives them, as the arena has it.
pub(super) struct Memory {
    data: *mut u8,
    layout: Layout,
}

// SAFETY: plain memory; whoever uses it says who uses which part.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.next_multiple_of(2 << 20), 2 << 20).expect("a size");
        // SAFETY: the size is not 0; advice changes no contents.
        let data = unsafe {
            let data = alloc_zeroed(layout);
            if data.is_null() {
                handle_alloc_error(layout);
            }
            #[cfg(target_os = "linux")]
            libc::madvise(data.cast(), layout.size(), libc::MADV_HUGEPAGE);
            data.write_bytes(1, layout.size());
            data
        };
        Memory { data, layout }
    }

    pub fn at(&self, byte: usize) -> *mut u8 {
        self.data.wrapping_add(byte)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this layout.
        unsafe { dealloc(self.data, self.layout) };
    }
}

/// Reads `bytes`, a multiple of 512, from an address that is aligned to 64.
///
/// # Safety
/// The range is valid.
pub(super) unsafe fn read(data: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the caller's promise, and the processor has AVX2.
        return unsafe { read_avx2(data, bytes) };
    }
    let words = data.cast::<[u64; 8]>();
    let mut sums = [0u64; 8];
    for line in 0..bytes / 64 {
        // SAFETY: the caller's promise.
        let words = unsafe { *words.add(line) };
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(word);
        }
    }
    black_box(sums);
}

/// The vectors of AVX2 do for every instruction set: memory is the limit, and what the kernels read with has no part in it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn read_avx2(data: *const u8, bytes: usize) {
    use std::arch::x86_64::*;
    let mut sums = [_mm256_setzero_si256(); 8];
    for block in (0..bytes).step_by(256) {
        for (at, sum) in sums.iter_mut().enumerate() {
            let from = data.wrapping_add(block + 32 * at);
            // SAFETY: the caller's promise; a prefetch may have any address.
            unsafe {
                _mm_prefetch::<_MM_HINT_NTA>(from.wrapping_add(4096).cast());
                *sum = _mm256_add_epi64(*sum, _mm256_load_si256(from.cast()));
            }
        }
    }
    black_box(sums);
}
