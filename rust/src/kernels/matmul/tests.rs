//! Every kernel against one naive loop, bit for bit.
#![allow(unsafe_code)] // runs kernels on addresses

use super::*;
use half::{bf16, f16};
use std::ptr::null_mut;

/// A generator good enough for operands; fixed seeds make failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = self.0 ^ (self.0 >> 29);
        (x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next() as usize % of.len()]
    }
}

/// What kind of numbers an operand holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    /// Between -2 and 2, now and then 0.
    Tame,
    /// Any bits: NaN, infinities, subnormal numbers.
    Any,
    /// Around the square root of the least normal binary32 number: products and sums become subnormal.
    Tiny,
}

/// Memory between two pages that must not be touched. The matrix lies at the end or at the start of it.
struct Guarded {
    map: *mut u8,
    mapped: usize,
    data: *mut u8,
}

impl Guarded {
    fn new(bytes: usize, at_end: bool) -> Self {
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
struct Matrix {
    memory: Guarded,
    dtype: DType,
    rows: usize,
    cols: usize,
    stride: usize,
}

const UNTOUCHED: u8 = 0xa5;

impl Matrix {
    fn new(dtype: DType, rows: usize, cols: usize, pad: usize, at_end: bool) -> Self {
        let stride = cols * dtype.size() + pad;
        let bytes = if rows == 0 { 0 } else { (rows - 1) * stride + cols * dtype.size() };
        let memory = Guarded::new(bytes, at_end);
        // SAFETY: `bytes` bytes are there.
        unsafe { memory.data.write_bytes(UNTOUCHED, bytes) };
        Matrix { memory, dtype, rows, cols, stride }
    }

    fn filled(mut self, values: Values, random: &mut Random) -> Self {
        for r in 0..self.rows {
            for c in 0..self.cols {
                let bits = draw(self.dtype, values, random);
                self.set(r, c, bits);
            }
        }
        self
    }

    fn at(&self, r: usize, c: usize) -> *mut u8 {
        assert!(r < self.rows && c < self.cols);
        self.memory.data.wrapping_add(r * self.stride + c * self.dtype.size())
    }

    fn set(&mut self, r: usize, c: usize, bits: u32) {
        // SAFETY: `at` checked the place.
        unsafe { std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), self.at(r, c), self.dtype.size()) };
    }

    fn bits(&self, r: usize, c: usize) -> u32 {
        let mut bits = [0; 4];
        // SAFETY: `at` checked the place.
        unsafe { std::ptr::copy_nonoverlapping(self.at(r, c), bits.as_mut_ptr(), self.dtype.size()) };
        u32::from_le_bytes(bits)
    }

    fn f32(&self, r: usize, c: usize) -> f32 {
        let bits = self.bits(r, c);
        match self.dtype {
            DType::F32 => f32::from_bits(bits),
            DType::F16 => f16::from_bits(bits as u16).to_f32(),
            DType::BF16 => bf16::from_bits(bits as u16).to_f32(),
            other => panic!("{other} is no float"),
        }
    }

    fn as_ref(&self) -> MatRef {
        MatRef { data: self.memory.data, row_stride: self.stride as isize }
    }

    fn gaps_are_untouched(&self) -> bool {
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
        Values::Tiny => (unit - 0.5) * 2f32.powi(-62 - (bits % 8) as i32),
    };
    match dtype {
        DType::F32 => value.to_bits(),
        DType::F16 => u32::from(f16::from_f32(value).to_bits()),
        _ => u32::from(bf16::from_f32(value).to_bits()),
    }
}

#[derive(Clone, Debug)]
struct Case {
    spec: MatMulSpec,
    m: usize,
    n: usize,
    k: usize,
    acc: bool,
    bias: bool,
    pad: usize,
    at_end: bool,
    values: Values,
    seed: u64,
}

struct Operands {
    a: Matrix,
    b: Matrix,
    acc: Matrix,
    bias: Matrix,
}

impl Case {
    fn operands(&self) -> Operands {
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
            a: matrix(spec.dtype, ar, ac, values),
            b: matrix(spec.dtype, br, bc, values),
            acc: matrix(wide, m, n, Values::Tame),
            bias: matrix(wide, 1, n, Values::Tame),
        }
    }

    /// What the element must be.
    fn expected(&self, o: &Operands, i: usize, j: usize) -> u32 {
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
    fn run(&self, isa: Isa, o: &Operands, split: (usize, usize), packed: bool) -> Matrix {
        let &Case { spec, m, n, k, .. } = self;
        let mm = MatMul::new(spec, isa).expect("the types can be combined");
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
                        Rhs::Packed { data: room.data, n_start: j0 }
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

    fn check(&self, isa: Isa, split: (usize, usize), packed: bool) {
        let o = self.operands();
        let c = self.run(isa, &o, split, packed);
        for i in 0..self.m {
            for j in 0..self.n {
                let (expected, found) = (self.expected(&o, i, j), c.bits(i, j));
                assert!(
                    expected == found,
                    "{isa}, split {split:?}, packed {packed}: {self:?}\n[{i}, {j}]: {expected:#x} expected, {found:#x} found"
                );
            }
        }
        assert!(c.gaps_are_untouched(), "{isa}: wrote between the rows: {self:?}");
    }
}

/// Scratch whose end is guarded.
struct Aligned {
    data: *mut u8,
    _memory: Guarded,
}

impl Aligned {
    fn new(bytes: usize) -> Self {
        let memory = Guarded::new(bytes.next_multiple_of(64), true);
        Aligned { data: memory.data, _memory: memory }
    }
}

const TYPES: [(DType, DType); 10] = [
    (DType::F32, DType::F32),
    (DType::F32, DType::F16),
    (DType::F32, DType::BF16),
    (DType::F16, DType::F32),
    (DType::F16, DType::F16),
    (DType::F16, DType::BF16),
    (DType::BF16, DType::F32),
    (DType::BF16, DType::F16),
    (DType::BF16, DType::BF16),
    (DType::I8, DType::I32),
];

const EXTENTS: [usize; 30] =
    [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 19, 23, 24, 29, 31, 32, 33, 37, 47, 48, 49, 61, 64, 65, 70, 128, 257];

fn cases(dtype: DType, out: DType, count: usize) -> impl Iterator<Item = (Case, &'static [bool])> {
    let mut random = Random(dtype as u64 * 31 + out as u64);
    std::iter::from_fn(move || {
        loop {
            let [m, n, k] = [0; 3].map(|_| random.pick(&EXTENTS));
            if m * n * k > 300_000 {
                continue;
            }
            let [a_trans, b_trans, acc, bias, at_end] = [0; 5].map(|_| random.next().is_multiple_of(2));
            let spec = MatMulSpec { dtype, a_trans, b_trans, out };
            let values = random.pick(&[Values::Tame, Values::Tame, Values::Any, Values::Tiny]);
            let pad = random.pick(&[0, 0, 3, 16]);
            let case = Case { spec, m, n, k, acc, bias, pad, at_end, values, seed: u64::from(random.next()) };
            return Some((case, [false, true].as_slice()));
        }
    })
    .take(count)
}

fn agrees(isa: Isa) {
    for (dtype, out) in TYPES {
        for (case, packed) in cases(dtype, out, 120) {
            for &packed in packed {
                case.check(isa, (0, 0), packed);
            }
        }
    }
}

fn agrees_where_available(isa: Isa) {
    if Isa::available().contains(&isa) {
        agrees(isa);
    }
}

#[test]
fn generic_kernels_agree_with_one_naive_loop() {
    agrees(Isa::Generic);
}

#[test]
fn avx2_kernels_agree_with_one_naive_loop() {
    agrees_where_available(Isa::Avx2);
}

#[test]
fn avx512_kernels_agree_with_one_naive_loop() {
    agrees_where_available(Isa::Avx512);
}

/// Every number of rows and of columns around the tile sizes: each edge kernel runs.
#[test]
fn every_edge_of_a_tile_is_computed() {
    for isa in Isa::available() {
        for (dtype, out) in
            [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::BF16), (DType::I8, DType::I32)]
        {
            for m in 1..=18 {
                for n in [1, 15, 16, 17, 31, 32, 33, 34] {
                    let spec = MatMulSpec { dtype, a_trans: m % 2 == 0, b_trans: n % 2 == 0, out };
                    let case = Case {
                        spec,
                        m,
                        n,
                        k: 5 + m % 4,
                        acc: m % 3 == 0,
                        bias: n % 3 == 0,
                        pad: 0,
                        at_end: true,
                        values: Values::Tame,
                        seed: (m * 100 + n) as u64,
                    };
                    case.check(isa, (0, 0), false);
                    case.check(isa, (0, 0), true);
                }
            }
        }
    }
}

fn plain(dtype: DType, out: DType, m: usize, n: usize, k: usize) -> Case {
    let spec = MatMulSpec { dtype, a_trans: false, b_trans: false, out };
    Case { spec, m, n, k, acc: false, bias: false, pad: 0, at_end: true, values: Values::Tame, seed: 7 }
}

#[test]
fn a_split_of_rows_or_columns_changes_no_bit() {
    for isa in Isa::available() {
        for (dtype, out) in
            [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::F32), (DType::I8, DType::I32)]
        {
            let case = Case { acc: true, bias: true, values: Values::Any, ..plain(dtype, out, 37, 100, 67) };
            let (rows, columns) = {
                let mm = MatMul::new(case.spec, isa).unwrap();
                (mm.m_step(), mm.n_step())
            };
            for packed in [false, true] {
                case.check(isa, (rows, columns), packed);
                case.check(isa, (2 * rows, 2 * columns), packed);
            }
            case.check(isa, (1, 3), false);
        }
    }
}

#[test]
fn sums_longer_than_a_block_stay_one_sum() {
    for isa in Isa::available() {
        for (dtype, out) in
            [(DType::F32, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::BF16), (DType::I8, DType::I32)]
        {
            let k = if dtype == DType::I8 { 20_001 } else { 9_001 };
            for m in [3, 19] {
                for (b_trans, packed) in [(false, false), (true, false), (false, true)] {
                    let mut case = Case { acc: true, ..plain(dtype, out, m, 17, k) };
                    case.spec.b_trans = b_trans;
                    case.check(isa, (0, 0), packed);
                }
            }
        }
    }
}

#[test]
fn an_empty_sum_gives_acc_plus_bias_and_an_empty_result_touches_nothing() {
    for isa in Isa::available() {
        for (dtype, out) in TYPES {
            for (acc, bias) in [(false, false), (true, false), (false, true), (true, true)] {
                for (m, n, k) in [(9, 33, 0), (0, 5, 5), (5, 0, 5), (0, 0, 0), (1, 1, 0)] {
                    for packed in [false, true] {
                        Case { acc, bias, ..plain(dtype, out, m, n, k) }.check(isa, (0, 0), packed);
                    }
                }
            }
        }
    }
}

#[test]
fn the_accumulators_may_be_the_result_itself() {
    for isa in Isa::available() {
        for m in [1, 5, 16, 40] {
            let case = Case { acc: true, ..plain(DType::F32, DType::F32, m, 50, 9) };
            let o = case.operands();
            let expected: Vec<u32> = (0..m * 50).map(|at| case.expected(&o, at / 50, at % 50)).collect();
            let mm = MatMul::new(case.spec, isa).unwrap();
            let scratch = Aligned::new(mm.scratch_bytes(m, 50, 9));
            let c = o.acc.as_ref();
            let args = MatMulArgs {
                m,
                n: 50,
                k: 9,
                a: o.a.as_ref(),
                b: Rhs::Plain(o.b.as_ref()),
                c: MatMut { data: c.data.cast_mut(), row_stride: c.row_stride },
                acc: Some(c),
                bias: None,
                scratch: scratch.data,
            };
            // SAFETY: every operand is valid for these extents.
            unsafe { mm.run(&args) };
            let found: Vec<u32> = (0..m * 50).map(|at| o.acc.bits(at / 50, at % 50)).collect();
            assert_eq!(expected, found, "{isa}, {m} rows");
        }
    }
}

#[test]
fn types_that_cannot_be_combined_are_refused() {
    let spec = |dtype, out| MatMulSpec { dtype, a_trans: false, b_trans: false, out };
    for isa in Isa::available() {
        for (dtype, out) in TYPES {
            assert!(MatMul::new(spec(dtype, out), isa).is_some());
        }
        for (dtype, out) in
            [(DType::I8, DType::F32), (DType::F32, DType::I32), (DType::I32, DType::I32), (DType::F32, DType::U8)]
        {
            assert!(MatMul::new(spec(dtype, out), isa).is_none());
        }
    }
}
