//! Packed panels of B: `nr` columns each, one panel after the other, each with all `k`.
#![allow(unsafe_code)] // works on matrices by address

use super::MatMul;
use super::spec::MatRef;
use super::tile::{Family, Pack, Smallest};

/// Panels that are packed together at most.
pub(super) const PANELS_AT_ONCE: usize = 4;

/// A right operand to pack.
#[derive(Clone, Copy)]
pub(super) struct Unpacked {
    pub b: MatRef,
    /// `b` lies as `[n, k]`.
    pub transposed: bool,
    /// Bytes of an element.
    pub size: usize,
    pub k: usize,
}

/// Steps that are packed for one panel before they are for the next: so a row is read on while it is near, which is
/// twice as fast as panel by panel.
pub(super) const STEPS_AT_ONCE: usize = 16;

/// Packs `cols` columns of B from `column` on into panels from `dst` on.
///
/// # Safety
/// The columns exist for all `k` and `dst` has room for the panels.
pub(super) unsafe fn pack_panels(family: &Family, unpacked: &Unpacked, column: usize, cols: usize, dst: *mut u8) {
    let &Unpacked { b, transposed, size, k } = unpacked;
    let (line, next) = if transposed { (b.row_stride, size as isize) } else { (size as isize, b.row_stride) };
    let bytes = family.panel_bytes(k);
    let panels = cols.div_ceil(family.nr);
    for p in 0..panels {
        // SAFETY: a panel begins with its header.
        unsafe { dst.wrapping_add(p * bytes).write_bytes(0, family.header) };
    }
    let rows = if transposed || panels == 1 { k.max(1) } else { STEPS_AT_ONCE * family.k_group };
    let mut smallest = [Smallest::NONE; PANELS_AT_ONCE];
    for from in (0..k).step_by(rows) {
        for (p, smallest) in smallest.iter_mut().enumerate().take(panels) {
            let first = p * family.nr;
            let panel = dst.wrapping_add(p * bytes);
            let offset = (column + first) as isize * line + from as isize * next;
            let pack = Pack {
                src: MatRef { data: b.data.wrapping_offset(offset), row_stride: b.row_stride },
                k_adjacent: transposed,
                k: rows.min(k - from),
                valid: family.nr.min(cols - first),
                width: family.nr,
                dst: panel.wrapping_add(family.header + from / family.k_group * family.nr * family.b_lane),
                header: panel,
            };
            // SAFETY: the columns exist and the panel has room for them.
            *smallest = (*smallest).min(unsafe { (family.pack_b)(&pack) });
        }
    }
    if family.exact.is_some() {
        for (p, &smallest) in smallest.iter().enumerate().take(panels) {
            // SAFETY: a panel begins with its header.
            unsafe { dst.wrapping_add(p * bytes).cast::<Smallest>().write_unaligned(smallest) };
        }
    }
}

/// The panel of a column of an operand packed before, and which of its columns it is.
pub(super) fn panel(family: &Family, data: *const u8, k: usize, column: usize) -> (*const u8, usize) {
    (data.wrapping_add(column / family.nr * family.panel_bytes(k)), column % family.nr)
}

/// Packs a whole right operand.
///
/// # Safety
/// As [`MatMul::pack_b`].
pub(super) unsafe fn pack_all(mm: &MatMul, b: MatRef, k: usize, n: usize, dst: *mut u8) {
    let family = &mm.kernels.packed;
    let unpacked = mm.unpacked(b, k);
    for column in (0..n).step_by(PANELS_AT_ONCE * family.nr) {
        let to = dst.wrapping_add(column / family.nr * family.panel_bytes(k));
        // SAFETY: the columns exist, and the caller's promise.
        unsafe { pack_panels(family, &unpacked, column, (PANELS_AT_ONCE * family.nr).min(n - column), to) };
    }
}

impl MatMul {
    /// `b` as this product takes it.
    pub(super) fn unpacked(&self, b: MatRef, k: usize) -> Unpacked {
        Unpacked { b, transposed: self.spec.b_trans, size: self.spec.dtype.size(), k }
    }
}
