//! A quick guess whether bytes changed.
#![allow(unsafe_code)] // It reads host memory that the caller of a launch vouches for.

/// How many words are looked at. All of 4 KiB; of more, words at even distances.
const WORDS: usize = 512;

/// A number that depends on a sample of the bytes. Different numbers prove a change; equal ones prove nothing.
///
/// # Safety
/// `data` is valid for reads of `bytes` bytes.
pub unsafe fn fingerprint(data: *const u8, bytes: u64) -> u64 {
    const WORD: usize = size_of::<u64>();
    let bytes = bytes as usize;
    let mut hash = bytes as u64;
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    if bytes < WORD {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(data, bytes) }.iter().for_each(|&byte| mix(u64::from(byte)));
        return hash;
    }
    let last = bytes - WORD;
    let step = (bytes / WORDS).max(WORD);
    for offset in (0..last).step_by(step).chain([last]) {
        // SAFETY: as above: the word ends at the last byte at the latest.
        mix(unsafe { data.add(offset).cast::<u64>().read_unaligned() });
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        // SAFETY: a slice.
        unsafe { fingerprint(bytes.as_ptr(), bytes.len() as u64) }
    }

    #[test]
    fn every_byte_of_a_small_array_and_the_ends_of_a_large_one_count() {
        for length in [1, 7, 8, 9, 100, 4096] {
            let bytes = vec![7u8; length];
            for at in 0..length {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_ne!(of(&bytes), of(&other), "byte {at} of {length}");
            }
        }
        let bytes = vec![7u8; 1 << 20];
        for at in [0, (1 << 20) - 1] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(of(&bytes), of(&other), "byte {at}");
        }
        assert_ne!(of(&[7; 64]), of(&[7; 72]), "the length counts");
    }
}
