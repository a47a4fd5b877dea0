//! Parts of a packed operand: what a loop over slices of a weight uses.
#![allow(unsafe_code)] // runs kernels on addresses

use super::super::*;
use super::harness::{Aligned, Matrix, Random, Values, kinds};
use proptest::prelude::*;

/// A product with rows `k0..` and columns `n0..` of a right operand, from its packed form or from the slice itself.
fn product(mm: &MatMul, a: &Matrix, b: &Matrix, packed: Option<*const u8>, part: [usize; 4], k_total: usize) -> Matrix {
    let [k0, k, n0, n] = part;
    let MatMulSpec { dtype, b_trans, out, .. } = mm.spec();
    let m = a.rows;
    let (row, col) = if b_trans { (n0, k0) } else { (k0, n0) };
    let slice = b.memory.data.wrapping_add(row * b.stride + col * dtype.size());
    let c = Matrix::new(out, m, n, 0, true);
    let scratch = Aligned::new(mm.scratch_bytes(m, n, k));
    let args = MatMulArgs {
        m,
        n,
        k,
        a: a.as_ref(),
        b: match packed {
            Some(data) => Rhs::Packed(PackedRef { data, k_total, k_start: k0, n_start: n0 }),
            None => Rhs::Plain(MatRef { data: slice, row_stride: b.stride as isize }),
        },
        c: MatMut { data: c.memory.data, row_stride: c.stride as isize },
        acc: None,
        bias: None,
        scratch: scratch.data,
    };
    // SAFETY: every operand is valid for these extents, and the caller asked whether the part can be used.
    unsafe { mm.run(&args) };
    c
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_part_of_a_packed_operand_gives_what_the_slice_gives(
        m in prop::sample::select(vec![1usize, 2, 5, 8, 16, 24, 40, 130]),
        (k_total, n_total) in (1usize..90, 1usize..300),
        cut in prop::array::uniform4(0usize..1000),
        b_trans in any::<bool>(),
        seed in any::<u64>(),
    ) {
        for (dtype, out) in [(DType::F32, DType::F32), (DType::F16, DType::F32), (DType::BF16, DType::F32), (DType::I8, DType::I32)] {
            let spec = MatMulSpec { dtype, a_trans: false, b_trans, out };
            for isa in Isa::available() {
                for mm in kinds(spec, isa) {
                    let mut random = Random(seed);
                    let (br, bc) = if b_trans { (n_total, k_total) } else { (k_total, n_total) };
                    let b = Matrix::new(dtype, br, bc, 0, true).filled(Values::Tame, &mut random);
                    let room = Aligned::new(mm.packed_bytes(k_total, n_total));
                    // SAFETY: `b` has these extents and `room` the bytes asked for.
                    unsafe { mm.pack_b(b.as_ref(), k_total, n_total, room.data) };
                    let k0 = cut[0] % k_total;
                    let n0 = cut[1] % n_total / mm.n_step() * mm.n_step();
                    // Half of the parts reach to the end, where groups of `k` may be incomplete.
                    let k = if cut[2] % 2 == 0 { k_total - k0 } else { cut[2] % (k_total - k0) + 1 };
                    let n = if cut[3] % 2 == 0 { n_total - n0 } else { cut[3] % (n_total - n0) + 1 };
                    let part = PackedRef { data: room.data, k_total, k_start: k0, n_start: n0 };
                    if !mm.can_use(&part, k) {
                        continue;
                    }
                    let a = Matrix::new(dtype, m, k, 0, true).filled(Values::Tame, &mut random);
                    let [plain, packed] = [None, Some(room.data.cast_const())]
                        .map(|packed| product(&mm, &a, &b, packed, [k0, k, n0, n], k_total));
                    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                        prop_assert_eq!(plain.bits(i, j), packed.bits(i, j), "{} {} [{}, {}] of {:?}", isa, dtype, i, j, part);
                    }
                }
            }
        }
    }
}

#[test]
fn parts_that_a_form_cannot_serve_are_refused() {
    let spec = MatMulSpec { dtype: DType::F32, a_trans: false, b_trans: false, out: DType::F32 };
    for isa in Isa::available() {
        let mm = MatMul::new(spec, isa).unwrap();
        let part = |k_start, n_start| PackedRef { data: std::ptr::null(), k_total: 64, k_start, n_start };
        assert!(mm.can_use(&part(0, 0), 64), "{isa}");
        assert!(mm.can_use(&part(32, mm.n_step()), 16), "{isa}");
        assert!(!mm.can_use(&part(0, 1), 64), "{isa}: columns within a panel");
        assert!(!mm.can_use(&part(32, 0), 33), "{isa}: beyond the operand");
    }
}
