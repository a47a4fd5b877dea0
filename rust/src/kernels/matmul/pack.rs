//! Packing for every processor: one lane at a time.
#![allow(unsafe_code)] // reads and writes matrices by address

use super::tile::{Pack, Smallest};
use half::f16;

/// How elements become lanes. A missing `k` of an incomplete group and a missing row or column are zero elements: exact
/// for integers, and no floating-point form here has groups.
pub(super) trait Form {
    /// Values of `k` in a lane.
    const GROUP: usize;
    /// An element in memory.
    type Element: Copy + Default;
    /// A lane.
    type Lane: Copy;

    /// The lane of `GROUP` elements.
    fn lane(group: [Self::Element; 2]) -> Self::Lane;
}

macro_rules! form {
    ($(#[$doc:meta])* $name:ident: $group:literal x $element:ty => $lane:ty, $elements:ident => $expr:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Form for $name {
            const GROUP: usize = $group;
            type Element = $element;
            type Lane = $lane;

            #[inline(always)]
            fn lane($elements: [$element; 2]) -> $lane {
                $expr
            }
        }
    };
}

form!(/// FP32 as it is.
    Copy32: 1 x u32 => u32, x => x[0]);
form!(/// FP16 or BF16 as it is; the kernel widens.
    Copy16: 1 x u16 => u16, x => x[0]);
form!(/// FP16 widened to FP32.
    WidenF16: 1 x u16 => f32, x => f16::from_bits(x[0]).to_f32());
form!(/// BF16 widened to FP32.
    WidenBf16: 1 x u16 => u32, x => u32::from(x[0]) << 16);
form!(/// INT8 widened to INT32.
    WidenI8: 1 x i8 => i32, x => i32::from(x[0]));
form!(/// Two INT8, widened to 16 bits each, the earlier `k` in the low half.
    PairsI8: 2 x i8 => [i16; 2], x => x.map(i16::from));

/// Packs in the form `F`.
///
/// # Safety
/// The addresses of `job` are valid for its extents.
pub(super) unsafe fn pack<F: Form>(job: &Pack) -> Smallest {
    let &Pack { src, k_adjacent, k, valid, width, dst, .. } = job;
    let size = size_of::<F::Element>() as isize;
    let (line, step) = if k_adjacent { (src.row_stride, size) } else { (size, src.row_stride) };
    let lanes = dst.cast::<F::Lane>();
    let write = |at: usize, r: usize| {
        let mut group = [F::Element::default(); 2];
        if r < valid {
            for (i, element) in group[..F::GROUP].iter_mut().enumerate() {
                let at = at * F::GROUP + i;
                if at < k {
                    let offset = r as isize * line + at as isize * step;
                    // SAFETY: row `r` and `at` are inside the matrix.
                    *element = unsafe { src.data.offset(offset).cast::<F::Element>().read_unaligned() };
                }
            }
        }
        // SAFETY: `dst` has `steps * width` lanes.
        unsafe { lanes.add(at * width + r).write_unaligned(F::lane(group)) };
    };
    let steps = k.div_ceil(F::GROUP);
    if k_adjacent {
        // Reads stay in a line of memory; the panel is small enough to be written across.
        (0..width).for_each(|r| (0..steps).for_each(|at| write(at, r)));
    } else {
        (0..steps).for_each(|at| (0..width).for_each(|r| write(at, r)));
    }
    Smallest::NONE
}
