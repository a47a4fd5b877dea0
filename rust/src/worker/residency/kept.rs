//! Host arguments that a worker keeps on the device by itself.
//!
//! Whether the bytes are still the same is not guessed: they are compared with the copy, all of them, in each launch. No
//! version counter can do without that. One of torch does not see writes by `.data`, by numpy arrays that share the
//! memory, by DLPack, by another process; and nothing marks a tensor that was ever shared so. What that saves is the
//! write, and a weight that stays in one place keeps its packed form. The main job with its 8 MiB weight, best of 35
//! interleaved launches: one row 1.18 ms with uploads, 0.83 with a kept copy, 0.37 with a resident weight; 16 rows 2.85,
//! 1.54 and 0.80. So a tensor that the user makes resident is still twice as good, which is what the advice says.
#![allow(unsafe_code)] // It reads host memory that the caller of a launch vouches for.

use super::super::bind::Staged;
use super::super::packed::PackedForms;
use super::NO_VERSION;
use crate::arena::{Arena, Chunk, Purpose};
use crate::device::Device;
use crate::trace::{self, names};
use std::collections::HashMap;

/// Smaller arguments are copied: that takes 5 us and less.
const LEAST_BYTES: u64 = 64 << 10;

/// After so many changes in a row an argument is no longer kept.
const CHANGES: u32 = 3;

/// So many uses of it later it may be kept again.
const PATIENCE: u32 = 64;

/// How many arguments are remembered.
const REMEMBERED: usize = 4096;

/// The copies of one worker.
pub struct Kept {
    /// By address and size in host memory.
    arguments: HashMap<(usize, u64), Argument>,
    /// Bytes that the copies may take together.
    limit: u64,
    used: u64,
    launches: u64,
}

struct Argument {
    version: u64,
    print: u64,
    /// Changes in a row.
    changes: u32,
    /// Uses to let pass before it is kept.
    wait: u32,
    copy: Option<Chunk>,
    /// The launch that used it last, and whether that found the copy up to date.
    last_use: u64,
    is_fresh: bool,
}

impl Kept {
    pub fn new(limit: u64) -> Self {
        Self { arguments: HashMap::new(), limit, used: 0, launches: 0 }
    }

    /// A launch begins.
    pub fn begin_launch(&mut self) {
        self.launches += 1;
    }

    /// Lets a launch take an argument from its copy, if there is one, or makes one where it is time to. Where the copy is
    /// not up to date, the launch uploads to it.
    ///
    /// # Safety
    /// The host tensor is valid for reads.
    pub unsafe fn place(
        &mut self,
        staged: &mut Staged,
        print: u64,
        device: &dyn Device,
        arena: &mut Arena,
        packed: &mut PackedForms,
    ) {
        if staged.bytes < LEAST_BYTES {
            return;
        }
        let (key, now) = ((staged.host as usize, staged.bytes), self.launches);
        if !self.arguments.contains_key(&key) {
            self.forget_some(arena, packed);
            if self.arguments.len() < REMEMBERED {
                let version = staged.version;
                let argument =
                    Argument { version, print, changes: 0, wait: 0, copy: None, last_use: now, is_fresh: false };
                self.arguments.insert(key, argument);
            }
            return;
        }
        let argument = self.arguments.get_mut(&key).expect("it is there");
        if argument.last_use == now {
            // Twice in one launch: the copy serves both, and must not go because of the second.
            staged.kept = argument.copy.as_ref().map_or(std::ptr::null_mut(), |chunk| arena.chunk_pointer(chunk));
            staged.is_fresh = argument.is_fresh;
            return;
        }
        argument.is_fresh = false;
        let is_written = argument.version != staged.version && staged.version != NO_VERSION;
        let is_known_to_differ = is_written || argument.print != print;
        (argument.version, argument.print, argument.last_use) = (staged.version, print, now);
        if argument.copy.is_none() {
            argument.wait = argument.wait.saturating_sub(1);
            let wanted = staged.bytes.next_multiple_of(crate::arena::GRANULE);
            if is_known_to_differ || argument.wait > 0 || self.used + wanted > self.limit {
                return;
            }
            let reserve = trace::span(names::RESERVE, 0, wanted);
            let Ok(chunk) = arena.reserve(wanted, Purpose::Staging) else { return };
            drop(reserve);
            self.used += chunk.bytes();
            staged.kept = arena.chunk_pointer(&chunk);
            argument.copy = Some(chunk);
            return;
        }
        let copy = argument.copy.as_ref().map_or(std::ptr::null_mut(), |chunk| arena.chunk_pointer(chunk));
        // SAFETY: the caller vouches for the host side; the copy has as many bytes and was filled by an earlier launch.
        let same = !is_known_to_differ && unsafe { device.equals(copy, staged.host, staged.bytes as usize) };
        if same {
            argument.changes = 0;
            (staged.kept, staged.is_fresh, argument.is_fresh) = (copy, true, true);
            return;
        }
        packed.forget(copy, || staged.bytes, arena);
        argument.changes += 1;
        if argument.changes < CHANGES {
            staged.kept = copy;
        } else {
            (argument.changes, argument.wait) = (0, PATIENCE);
            let chunk = argument.copy.take().expect("it has a copy");
            self.used -= chunk.bytes();
            arena.release(chunk);
        }
    }

    /// Makes room for one more: what was not used for long goes.
    fn forget_some(&mut self, arena: &mut Arena, packed: &mut PackedForms) {
        if self.arguments.len() < REMEMBERED {
            return;
        }
        let recent = self.launches.saturating_sub(REMEMBERED as u64 / 2);
        let old: Vec<_> =
            self.arguments.iter().filter(|(_, argument)| argument.last_use < recent).map(|(key, _)| *key).collect();
        for key in old {
            let argument = self.arguments.remove(&key).expect("it was found just now");
            self.used -= release(argument, arena, packed);
        }
    }

    /// Gives all memory back.
    pub fn release_all(&mut self, arena: &mut Arena, packed: &mut PackedForms) {
        for (_, argument) in self.arguments.drain() {
            release(argument, arena, packed);
        }
        self.used = 0;
    }
}

/// Gives the memory of a copy back and says how much that was.
fn release(argument: Argument, arena: &mut Arena, packed: &mut PackedForms) -> u64 {
    let Some(chunk) = argument.copy else { return 0 };
    let bytes = chunk.bytes();
    packed.forget(arena.chunk_pointer(&chunk), || bytes, arena);
    arena.release(chunk);
    bytes
}
