//! Poison mode: what the bytes of new memory and of guards are.

/// Every byte of new memory: each element is a NaN as FP32, FP16 and BF16, and -1 as an integer, so that a kernel which
/// reads what nobody wrote shows it in its results.
pub const FILL: u8 = 0xff;

/// Every byte of a guard. Not [`FILL`]: a kernel that copies unwritten memory past an end would write that.
pub const GUARD: u8 = 0xa5;

/// The first byte that is not [`GUARD`].
pub fn first_damage(guard: &[u8]) -> Option<usize> {
    guard.iter().position(|&byte| byte != GUARD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_memory_is_not_a_number_in_every_float_type() {
        assert!(f32::from_ne_bytes([FILL; 4]).is_nan());
        assert!(half::f16::from_ne_bytes([FILL; 2]).is_nan());
        assert!(half::bf16::from_ne_bytes([FILL; 2]).is_nan());
    }
}
