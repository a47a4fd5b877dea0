//! Poison mode: new memory is filled with NaN patterns, and the bytes behind each buffer are guarded.

use super::{Arena, ArenaError, Buffer, GRANULE};
use std::sync::Arc;

/// Every byte of new memory: each element is a NaN as FP32, FP16 and BF16, and -1 as an integer, so that a kernel which
/// reads what nobody wrote shows it in its results.
pub const FILL: u8 = 0xff;

/// Every byte of a guard. Not [`FILL`]: a kernel that copies unwritten memory past an end would write that.
pub const GUARD: u8 = 0xa5;

/// The first byte that is not [`GUARD`].
pub(super) fn first_damage(guard: &[u8]) -> Option<usize> {
    guard.iter().position(|&byte| byte != GUARD)
}

impl Arena {
    /// Poison mode: checks the guards of all live buffers. A damaged one is repaired, so that it is reported once.
    ///
    /// # Errors
    /// [`ArenaError::GuardViolated`] for the first damaged guard; `found` says when it was found.
    pub fn check_guards(&mut self, found: impl Fn() -> String) -> Result<(), ArenaError> {
        if !self.poison {
            return Ok(());
        }
        let damages: Vec<_> = self.index.live().iter().filter_map(|buffer| self.check_guard(buffer).err()).collect();
        for damage in &damages {
            let (start, bytes) = guard_of(&damage.0);
            self.storage.fill(start, bytes, GUARD);
        }
        damages.into_iter().next().map_or(Ok(()), |damage| Err(damage.found(found())))
    }

    /// Whether the guard of a live buffer is whole; always outside poison mode.
    pub(super) fn check_guard(&self, buffer: &Buffer) -> Result<(), Damage> {
        if !self.poison {
            return Ok(());
        }
        let (start, bytes) = guard_of(buffer);
        match first_damage(self.storage.slice(start, bytes)) {
            None => Ok(()),
            Some(position) => {
                let (buffer, _) = self.find(buffer.addr()).expect("guards are checked while their buffer is live");
                Err(Damage(buffer.clone(), buffer.bytes() + position as u64))
            }
        }
    }
}

/// A damaged guard: its buffer, and the distance of the first bad byte from the base.
pub(super) struct Damage(Arc<Buffer>, u64);

impl Damage {
    pub(super) fn found(self, found: impl Into<String>) -> ArenaError {
        ArenaError::GuardViolated { found: found.into(), buffer: self.0, offset: self.1 }
    }
}

/// Start and size of what lies between the end of a buffer and the end of its block.
fn guard_of(buffer: &Buffer) -> (u64, u64) {
    let block = buffer.block();
    (block.offset * GRANULE + buffer.bytes(), block.size * GRANULE - buffer.bytes())
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
