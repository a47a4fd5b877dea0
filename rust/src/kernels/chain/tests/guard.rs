//! Nothing outside the region is touched, not even read: regions that end or begin at a page that cannot be accessed.

use super::*;
use crate::kernels::chain::{BinaryFn, Dst, RowInst, RowSrc, Src};

/// Pages between two inaccessible ones.
struct Guarded {
    map: *mut u8,
    bytes: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: a fresh anonymous mapping, whose inner pages are then opened.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), bytes + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let map = map.cast::<u8>();
            assert_eq!(libc::mprotect(map.add(PAGE).cast(), bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            Guarded { map, bytes }
        }
    }

    /// The address of `bytes` bytes right after the first inaccessible page, or right before the second.
    fn place(&self, bytes: usize, at_end: bool) -> *mut u8 {
        self.map.wrapping_add(PAGE + if at_end { self.bytes - bytes } else { 0 })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; nothing points into it any more.
        unsafe { libc::munmap(self.map.cast(), self.bytes + 2 * PAGE) };
    }
}

#[test]
fn rows_beside_inaccessible_pages_are_safe() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I16, DType::U8] {
        let add = if dtype.is_float() { BinaryFn::AddF } else { BinaryFn::AddI };
        let body = [Inst::Load(Src::Mem(0)), Inst::Binary(add, Src::Mem(1)), Inst::Store(Dst::Mem(2))];
        let flat = chain(&[dtype; 3], &body);
        let mut by_row = flat.clone();
        by_row.slots = 1;
        by_row.phases[0].prologue = vec![RowInst::Load { slot: 0, mem: 0 }];
        by_row.phases[0].epilogue = vec![RowInst::Store { mem: 2, src: RowSrc::Slot(0) }];
        by_row.phases.push(by_row.phases[0].clone());
        let pages: [Guarded; 3] = std::array::from_fn(|_| Guarded::new(1000 * dtype.size()));
        for isa in Isa::available() {
            for program in [&flat, &by_row] {
                let machine = Machine::new(program.clone(), isa);
                for cols in 1..=300 {
                    for at_end in [true, false] {
                        let mut scratch = vec![[0u64; 8]; machine.scratch_bytes(cols) / 64 + 2];
                        let start = scratch.as_mut_ptr().cast::<u8>();
                        let rows = 3;
                        let mems = pages.each_ref().map(|pages| MemArg {
                            data: pages.place(rows * cols * dtype.size(), at_end),
                            row_stride: (cols * dtype.size()) as isize,
                            stream: at_end,
                        });
                        let scratch = start.wrapping_add(start.align_offset(64));
                        let run = ChainRun { rows, cols, first: [0; 2], mems: &mems, scalars: &[], scratch };
                        // SAFETY: the pages hold three rows of 300 elements of at most 4 bytes at either end.
                        unsafe { machine.run(&run) };
                    }
                }
            }
        }
    }
}
