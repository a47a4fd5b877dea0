//! Products in guarded memory, and what they must be.
#![allow(unsafe_code)] // runs kernels on addresses

use super::super::*;
use half::{bf16, f16};
use std::ptr::null_mut;

/// A generator good enough for operands; fixed seeds make failures repeat.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = self.0 ^ (self.0 >> 29);
        (x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next() as usize % of.len()]
    }
}

/// What kind of numbers an operand holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values {
    /// Between -2 and 2, now and then 0.
    Tame,
    /// Any bits: NaN, infinities, subnormal numbers.
    Any,
    /// Around the square root of the least normal binary32 number: products and sums become subnormal.
    Tiny,
    /// Products have their last bit just below the least normal number, and cancel often.
    Edge,
    /// Subnormal in BF16.
    Subnormal,
    /// Large enough to make products with `Subnormal` normal.
    Huge,
}

/// Memory between two pages that must not be touched. The matrix lies at the end or at the start of it.
pub(super) struct Guarded {
    pub(super) map: *mut u8,
    pub(super) mapped: usize,
    pub(super) data: *mut u8,
}

impl Guarded {
    pub(super) fn new(bytes: usize, at_end: bool) -> Self {
        const PAGE: usize = 4096;
        let room = bytes.next_multiple_of(PAGE).max(PAGE);
        let mapped = room + 2 * PAGE;
        // SAFETY: a fresh anonymous mapping; the inner pages are made accessible.
        unsafe {
            let map = libc::mmap(null_mut(), mapped, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let map = map.cast::<u8>();
            assert_eq!(libc::mprotect(map.add(PAGE).cast(), room, libc::PROT_READ | libc::PROT_WRITE), 0);
            let data = map.add(PAGE).add(if at_end { room - bytes } else { 0 });
            Guarded { map, mapped, data }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { libc::munmap(self.map.cast(), self.mapped) };
    }
}

/// A matrix with `pad` bytes between its rows, in guarded memory.
pub(super) struct Matrix {
    pub(super) memory: Guarded,
    pub(super) dtype: DType,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) stride: usize,
}

pub(super) const UNTOUCHED: u8 = 0xa5;

impl Matrix {
    pub(super) fn new(dtype: DType, rows: usize, cols: usize, pad: usize, at_end: bool) -> Self {
        let stride = cols * dtype.size() + pad;
        let bytes = if rows == 0 { 0 } else { (rows - 1) * stride + cols * dtype.size() };
        let memory = Guarded::new(bytes, at_end);
        // SAFETY: `bytes` bytes are there.
        unsafe { memory.data.write_bytes(UNTOUCHED, bytes) };
        Matrix { memory, dtype, rows, cols, stride }
    }

    pub(super) fn filled(mut self, values: Values, random: &mut Random) -> Self {
        for r in 0..self.rows {
            for c in 0..self.cols {
                let bits = draw(self.dtype, values, random);
                self.set(r, c, bits);
            }
        }
        self
    }

    pub(super) fn at(&self, r: usize, c: usize) -> *mut u8 {
        assert!(r < self.rows && c < self.cols);
        self.memory.data.wrapping_add(r * self.stride + c * self.dtype.size())
    }

    pub(super) fn set(&mut self, r: usize, c: usize, bits: u32) {
        // SAFETY: `at` checked the place.
        unsafe { std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), self.at(r, c), self.dtype.size()) };
    }

    pub(super) fn bits(&self, r: usize, c: usize) -> u32 {
        let mut bits = [0; 4];
        // SAFETY: `at` checked the place.
        unsafe { std::ptr::copy_nonoverlapping(self.at(r, c), bits.as_mut_ptr(), self.dtype.size()) };
        u32::from_le_bytes(bits)
    }

    pub(super) fn f32(&self, r: usize, c: usize) -> f32 {
        let bits = self.bits(r, c);
        match self.dtype {
            DType::F32 => f32::from_bits(bits),
            DType::F16 => f16::from_bits(bits as u16).to_f32(),
            DType::BF16 => bf16::from_bits(bits as u16).to_f32(),
            other => panic!("{other} is no float"),
        }
    }

    pub(super) fn as_ref(&self) -> MatRef {
        MatRef { data: self.memory.data, row_stride: self.stride as isize }
    }

    pub(super) fn gaps_are_untouched(&self) -> bool {
        let row = self.cols * self.dtype.size();
        (1..self.rows).all(|r| {
            // SAFETY: the gap between two rows is inside the memory.
            (row..self.stride).all(|byte| unsafe { *self.memory.data.add((r - 1) * self.stride + byte) } == UNTOUCHED)
        })
    }
}

fn draw(dtype: DType, values: Values, random: &mut Random) -> u32 {
    let bits = random.next();
    let unit = (bits >> 8) as f32 / (1 << 24) as f32;
    let value = match values {
        _ if dtype == DType::I8 || dtype == DType::I32 => return bits,
        Values::Any if bits.is_multiple_of(4) => return random.next(),
        // Mostly numbers of any exponent below the middle, so that not every sum is NaN.
        Values::Any => f32::from_bits(random.next() & 0xbfff_ffff),
        Values::Tame if bits.is_multiple_of(16) => 0.0,
        Values::Tame => (unit - 0.5) * 4.0,
        Values::Edge => f32::from_bits(((bits & 0x8001) | (70 + (bits >> 8) % 2) << 7) << 16),
        Values::Subnormal => f32::from_bits((bits & 0x807f) << 16),
        Values::Huge => f32::from_bits(((bits & 0x807f) | 200 << 7) << 16),
        Values::Tiny => (unit - 0.5) * 2f32.powi(-62 - (bits % 8) as i32),
    };
    match dtype {
        DType::F32 => value.to_bits(),
        DType::F16 => u32::from(f16::from_f32(value).to_bits()),
        _ => u32::from(bf16::from_f32(value).to_bits()),
    }
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) spec: MatMulSpec,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) acc: bool,
    pub(super) bias: bool,
    pub(super) pad: usize,
    pub(super) at_end: bool,
    /// Of A and of B.
    pub(super) values: [Values; 2],
    pub(super) seed: u64,
}

pub(super) struct Operands {
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) acc: Matrix,
    pub(super) bias: Matrix,
}

impl Case {
    pub(super) fn operands(&self) -> Operands {
        let &Case { spec, m, n, k, pad, at_end, values, seed, .. } = self;
        let mut random = Random(seed);
        let wide = if spec.dtype == DType::I8 { DType::I32 } else { DType::F32 };
        let pad_of = |dtype: DType| pad * dtype.size();
        let mut matrix = |dtype, rows, cols, values| {
            Matrix::new(dtype, rows, cols, pad_of(dtype), at_end).filled(values, &mut random)
        };
        let (ar, ac) = if spec.a_trans { (k, m) } else { (m, k) };
        let (br, bc) = if spec.b_trans { (n, k) } else { (k, n) };
        Operands {
            a: matrix(spec.dtype, ar, ac, values[0]),
            b: matrix(spec.dtype, br, bc, values[1]),
            acc: matrix(wide, m, n, Values::Tame),
            bias: matrix(wide, 1, n, Values::Tame),
        }
    }

    /// What the element must be.
    pub(super) fn expected(&self, o: &Operands, i: usize, j: usize) -> u32 {
        let a = |l| if self.spec.a_trans { (l, i) } else { (i, l) };
        let b = |l| if self.spec.b_trans { (j, l) } else { (l, j) };
        if self.spec.dtype == DType::I8 {
            let sign = |bits: u32| bits as i8 as i32;
            let mut s = (0..self.k)
                .fold(0i32, |s, l| s.wrapping_add(sign(o.a.bits(a(l).0, a(l).1)) * sign(o.b.bits(b(l).0, b(l).1))));
            s = if self.acc { s.wrapping_add(o.acc.bits(i, j) as i32) } else { s };
            return if self.bias { s.wrapping_add(o.bias.bits(0, j) as i32) } else { s } as u32;
        }
        let mut s = (0..self.k).fold(0f32, |s, l| o.a.f32(a(l).0, a(l).1).mul_add(o.b.f32(b(l).0, b(l).1), s));
        s = if self.acc { s + o.acc.f32(i, j) } else { s };
        s = if self.bias { s + o.bias.f32(0, j) } else { s };
        match self.spec.out {
            DType::F32 if s.is_nan() => 0x7fc0_0000,
            DType::F32 => s.to_bits(),
            DType::F16 if s.is_nan() => 0x7e00,
            DType::F16 => u32::from(f16::from_f32_const(s).to_bits()),
            DType::BF16 if s.is_nan() => 0x7fc0,
            _ => u32::from(bf16::from_f32_const(s).to_bits()),
        }
    }

    /// Runs the product, split at the given row and column, `b` packed before or not.
    fn run(&self, mm: &MatMul, o: &Operands, split: (usize, usize), packed: bool) -> Matrix {
        let &Case { spec, m, n, k, .. } = self;
        let c = Matrix::new(spec.out, m, n, self.pad * spec.out.size(), self.at_end);
        let packed_bytes = mm.packed_bytes(k, n);
        let room = Aligned::new(packed_bytes);
        let b = o.b.as_ref();
        if packed {
            // SAFETY: `b` is `[k, n]` or its transpose, and `room` has the bytes asked for.
            unsafe { mm.pack_b(b, k, n, room.data) };
        }
        let step = |stride: usize, size: usize, first: usize, rows_first: bool| {
            if rows_first { first * stride } else { first * size }
        };
        for (i0, i1) in [(0, split.0), (split.0, m)] {
            for (j0, j1) in [(0, split.1), (split.1, n)] {
                let size = spec.dtype.size();
                let scratch = Aligned::new(mm.scratch_bytes(i1 - i0, j1 - j0, k));
                let args = MatMulArgs {
                    m: i1 - i0,
                    n: j1 - j0,
                    k,
                    a: MatRef {
                        data: o.a.memory.data.wrapping_add(step(o.a.stride, size, i0, !spec.a_trans)),
                        row_stride: o.a.stride as isize,
                    },
                    b: if packed {
                        Rhs::Packed(PackedRef { data: room.data, k_total: k, k_start: 0, n_start: j0 })
                    } else {
                        let offset = step(o.b.stride, size, j0, spec.b_trans);
                        Rhs::Plain(MatRef { data: b.data.wrapping_add(offset), row_stride: b.row_stride })
                    },
                    c: MatMut {
                        data: c.memory.data.wrapping_add(i0 * c.stride + j0 * spec.out.size()),
                        row_stride: c.stride as isize,
                    },
                    acc: self.acc.then(|| MatRef {
                        data: o.acc.memory.data.wrapping_add(i0 * o.acc.stride + j0 * 4),
                        row_stride: o.acc.stride as isize,
                    }),
                    bias: self.bias.then(|| o.bias.memory.data.wrapping_add(j0 * 4).cast_const()),
                    scratch: scratch.data,
                };
                // SAFETY: every operand is valid for these extents.
                unsafe { mm.run(&args) };
            }
        }
        c
    }

    /// Runs the product on each kind of kernels of `isa`, with B as it is and packed before, and looks at every bit.
    pub(super) fn check(&self, isa: Isa) {
        self.check_split(isa, (0, 0), &[false, true]);
    }

    pub(super) fn check_split(&self, isa: Isa, split: (usize, usize), packed: &[bool]) {
        let o = self.operands();
        let all = (0..self.m).flat_map(|i| (0..self.n).map(move |j| (i, j)));
        let expected: Vec<u32> = all.clone().map(|(i, j)| self.expected(&o, i, j)).collect();
        for (which, mm) in kinds(self.spec, isa).iter().enumerate() {
            for &packed in packed {
                let c = self.run(mm, &o, split, packed);
                for ((i, j), &expected) in all.clone().zip(&expected) {
                    let found = c.bits(i, j);
                    assert!(
                        expected == found,
                        "{isa} {which}, split {split:?}, packed {packed}: {self:?}\n\
                         [{i}, {j}]: {expected:#x} expected, {found:#x} found"
                    );
                }
                assert!(c.gaps_are_untouched(), "{isa} {which}: wrote between the rows: {self:?}");
            }
        }
    }
}

/// What a processor with this instruction set may use: with dot product instructions and, where there are any, without.
pub(super) fn kinds(spec: MatMulSpec, isa: Isa) -> Vec<MatMul> {
    let best = MatMul::new(spec, isa).expect("the types can be combined");
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        let without = avx512_dot::without_dot(spec.dtype);
        return [Some(best), without.map(|kernels| MatMul { kernels, ..best })].into_iter().flatten().collect();
    }
    vec![best]
}

/// Scratch whose end is guarded.
pub(super) struct Aligned {
    pub(super) data: *mut u8,
    pub(super) _memory: Guarded,
}

impl Aligned {
    pub(super) fn new(bytes: usize) -> Self {
        let memory = Guarded::new(bytes.next_multiple_of(64), true);
        Aligned { data: memory.data, _memory: memory }
    }
}
