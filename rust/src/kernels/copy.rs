//! Copying more than the caches hold, and stores that go past them.
#![allow(unsafe_code)] // copies by address

/// Bytes that are begun together. A processor that runs ahead without end fills its buffers with loads, for which the stores then
/// wait. Against requests 4 KiB ahead instead, downloads of 256 MiB take 0.92 of the time on one core, uploads and two cores
/// the same; alone, in C, 0.96 between huge pages, 0.74 from small ones at an odd place, 0.94 into such. Without either it is
/// 1.27, 0.8 and 1.09, with 512 bytes 0.97, 0.76 and 1.07.
const PACE_BYTES: usize = 2048;

/// Copies `bytes` with stores that go past the caches, where the processor has such, and orders them before whatever tells
/// others that the data are there. It pays where source and target together outgrow the last-level cache; copies up to 8 MiB
/// take 1.3 to 2.2 times as long as ordinary ones. The vectors of the smallest instruction set do: memory is the limit.
///
/// # Safety
/// Both ranges are valid for `bytes` and do not overlap; nobody writes either meanwhile.
#[cfg(target_arch = "x86_64")]
pub unsafe fn copy_past_caches(dst: *mut u8, src: *const u8, bytes: usize) {
    use std::arch::x86_64::*;
    let head = dst.align_offset(64).min(bytes);
    let whole = head + (bytes - head) / 64 * 64;
    // SAFETY: the caller vouches for the ranges; head, lines and tail make up all of them; the target of a line is aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, head);
        for line in (head..whole).step_by(64) {
            if (line - head).is_multiple_of(PACE_BYTES) {
                _mm_lfence();
            }
            let (from, to) = (src.add(line).cast::<__m128i>(), dst.add(line).cast::<__m128i>());
            // Written out, with nothing between the stores: a line that is not filled at once goes to memory in parts. As a
            // loop over an array, which the compiler kept, this took eight times as long.
            let (a, b) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
            let (c, d) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
            _mm_stream_si128(to, a);
            _mm_stream_si128(to.add(1), b);
            _mm_stream_si128(to.add(2), c);
            _mm_stream_si128(to.add(3), d);
        }
        std::ptr::copy_nonoverlapping(src.add(whole), dst.add(whole), bytes - whole);
    }
    settle_streams();
}

/// Orders the streaming stores of this thread before whatever it does next that tells others that the data are there. The
/// thread itself sees them in their order. Without such stores it costs nothing; behind some it waits for memory, so it
/// stands where others are told and not behind each task: that took 3 % from a softmax of 4096x1024.
pub fn settle_streams() {
    // SAFETY: every processor of the target has SSE.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// As on other processors, without such stores.
///
/// # Safety
/// As there.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy_past_caches(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) };
}

#[cfg(test)]
mod tests {
    use super::copy_past_caches;

    #[test]
    fn any_alignment_and_length_is_copied_and_nothing_beside_it() {
        let source: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for start in [0, 1, 63, 64] {
            for bytes in [0, 1, 63, 64, 65, 127, 128, 4095, 4096, 16_000] {
                for shift in [0, 1, 17] {
                    let mut target = vec![7u8; start + bytes + 64];
                    // SAFETY: the source has 20,000 bytes, the target room behind `start`.
                    unsafe {
                        copy_past_caches(target.as_mut_ptr().add(start), source.as_ptr().add(shift), bytes);
                    }
                    assert_eq!(&target[start..start + bytes], &source[shift..shift + bytes], "{start} {bytes} {shift}");
                    assert!(target[..start].iter().chain(&target[start + bytes..]).all(|&byte| byte == 7));
                }
            }
        }
    }
}
