//! Tiles of fused multiply-adds of binary32 on processors that have no instruction for them.
//!
//! Products of two binary32 are exact in binary64, and the sums are kept there, each rounded to 24 bits after its step. That
//! is one rounding too many where the first lands in the middle between two numbers of 24 bits, or where the result is
//! subnormal, overflows or is NaN. Subnormal results and overflows are ruled out, where they can be, by a look at the
//! operands of a block of steps. A middle is looked out for during the block: where one was seen, which chance gives once in a
//! hundred blocks, the block is done again with care. Asked at every step, both questions took three times as long.
//!
//! With care means that it is asked at every step whether a sum in the middle is exact, as it often is where the operands
//! have few bits.
#![allow(unsafe_code)]
// reads and writes matrices by address
// Iterators of several arrays are inlined by some builds only, and without that it takes ten times as long.
#![allow(clippy::needless_range_loop)]

use super::finish::finish;
use super::tile::{End, Start, Tile};
use crate::kernels::fused::sum_once;
use crate::kernels::simd::pair::{self, Pair};
use crate::kernels::simd::quad::{self, Quad};

/// Columns of a tile.
pub(super) const NR: usize = 16;

/// Steps of a block: its operands take three quarters of a first-level cache of 32 KiB.
const STEPS: usize = 64;

/// Steps from one middle on that are done with care at once: operands of few bits meet one in nearly every block.
const AFTER_A_TIE: usize = 5 * STEPS;

/// A row of binary64 numbers.
type Row = [Pair; NR / 2];

/// The sums of a tile; one row after the other, so that its sums stay in registers.
///
/// Safety: as [`TileFn`](super::tile::TileFn).
pub(super) unsafe fn tile<const ROWS: usize>(t: &Tile) {
    let mut sums = [[pair::new([0.0; 2]); NR / 2]; ROWS];
    let mut hopeless = [0; ROWS];
    let mut left = [[pair::new([0.0; 2]); STEPS]; ROWS];
    let mut right = [[pair::new([0.0; 2]); NR / 2]; STEPS];
    // SAFETY: the addresses of the tile are valid for `ROWS` rows, `NR` columns and `steps` steps; lanes have 4 bytes.
    unsafe {
        if let Start::Carry(from) = t.start {
            for (row, sums) in sums.iter_mut().enumerate() {
                let carried = from.cast::<[[f32; 4]; NR / 4]>().add(row).read_unaligned();
                for j in 0..NR / 4 {
                    [sums[2 * j], sums[2 * j + 1]] = pair::widen(carried[j]);
                }
            }
        }
        for first in (0..t.steps).step_by(STEPS) {
            let steps = STEPS.min(t.steps - first);
            let (mut a_range, mut b_range) = (Range::new(), Range::new());
            for step in 0..steps {
                let at = t.b.wrapping_offset((first + step) as isize * t.b_step);
                let lanes = at.cast::<[[f32; 4]; NR / 4]>().read_unaligned();
                for j in 0..NR / 4 {
                    b_range.add(lanes[j]);
                    [right[step][2 * j], right[step][2 * j + 1]] = pair::widen(lanes[j]);
                }
            }
            for row in 0..ROWS {
                let lane = t.a.wrapping_offset(row as isize * t.a_row + first as isize * t.a_step);
                let mut step = 0;
                while step < steps {
                    let at = |step: usize| {
                        let lane = lane.wrapping_offset(step as isize * t.a_step).cast::<f32>();
                        if step < steps { lane.read_unaligned() } else { 0.0 }
                    };
                    let four = [at(step), at(step + 1), at(step + 2), at(step + 3)];
                    a_range.add(four);
                    let wide = pair::widen_twice(four);
                    left[row][step] = wide[0];
                    left[row][step + 1] = wide[1];
                    left[row][step + 2] = wide[2];
                    left[row][step + 3] = wide[3];
                    step += 4;
                }
            }
            let tame = a_range.is_tame_with(b_range);
            for row in 0..ROWS {
                let (a, b, sums) = (&left[row][..steps], &right[..steps], &mut sums[row]);
                if !tame {
                    careful::<false>(a, b, sums);
                } else if first < hopeless[row] {
                    careful::<true>(a, b, sums);
                } else if !quick(a, b, sums) {
                    careful::<true>(a, b, sums);
                    hopeless[row] = first + AFTER_A_TIE;
                }
            }
        }
        let mut narrow = [[0.0; NR]; ROWS];
        for (row, narrow) in narrow.iter_mut().enumerate() {
            for (j, four) in narrow.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *four = pair::narrow([sums[row][2 * j], sums[row][2 * j + 1]]);
            }
        }
        match t.end {
            End::Carry(to) => to.cast::<[[f32; NR]; ROWS]>().write_unaligned(narrow),
            End::Finish(ref end) => finish(end, &narrow, t.cols),
        }
    }
}

/// Goes on with the sums and returns true; where that might have rounded one twice, leaves them alone.
///
/// The operands are [tame](Range::is_tame_with).
#[inline(never)]
fn quick(a: &[Pair], b: &[Row], sums: &mut Row) -> bool {
    let mut s = *sums;
    let mut seen = pair::watch_none();
    for step in 0..a.len().min(b.len()) {
        for j in 0..NR / 8 {
            let mut rests = [seen; 2];
            for i in 0..2 {
                let at = 4 * j + 2 * i;
                let x = pair::add_half(pair::add(s[at], pair::mul(a[step], b[step][at])));
                let y = pair::add_half(pair::add(s[at + 1], pair::mul(a[step], b[step][at + 1])));
                rests[i] = pair::rest(x, y);
                s[at] = pair::cut(x);
                s[at + 1] = pair::cut(y);
            }
            seen = pair::watch(seen, rests[0], rests[1]);
        }
    }
    // No sum was twice as large on the way, so all were numbers of binary32.
    let limit = pair::new([f64::from(f32::MAX) / 2.0; 2]);
    let mut large = pair::new([0.0; 2]);
    for j in 0..NR / 2 {
        large = pair::or(large, pair::beyond(s[j], limit));
    }
    let good = !pair::saw(seen) & !pair::any(large);
    if good {
        *sums = s;
    }
    good
}

/// Goes on with the sums, for any operands, or for tame ones.
#[inline(never)]
fn careful<const TAME: bool>(a: &[Pair], b: &[Row], sums: &mut Row) {
    let mut s = *sums;
    for step in 0..a.len().min(b.len()) {
        let mut doubt = pair::new([0.0; 2]);
        let mut next = s;
        for j in 0..NR / 2 {
            let product = pair::mul(a[step], b[step][j]);
            let sum = pair::add(s[j], product);
            let middle = pair::middle(sum);
            let twice = if TAME { middle } else { pair::or(middle, pair::subnormal(sum)) };
            doubt = pair::or(doubt, pair::and(twice, pair::inexact(s[j], product, sum)));
            next[j] = pair::round(sum);
        }
        if pair::any(doubt) {
            next = once(a[step], &b[step], &s);
        }
        s = next;
    }
    *sums = s;
}

/// One step with the slow sum that is right for all operands.
#[cold]
#[inline(never)]
fn once(a: Pair, b: &Row, sums: &Row) -> Row {
    std::array::from_fn(|i| {
        let (product, sum) = (pair::lanes(pair::mul(a, b[i])), pair::lanes(sums[i]));
        pair::new(std::array::from_fn(|lane| f64::from(sum_once(product[lane], sum[lane]))))
    })
}

/// The magnitudes of some operands, lane by lane.
#[derive(Clone, Copy)]
struct Range {
    /// The least of those that are not zero; infinite where all are.
    least: Quad,
    most: Quad,
}

impl Range {
    #[inline(always)]
    fn new() -> Self {
        Range { least: quad::new([f32::INFINITY.to_bits(); 4]), most: quad::new([0; 4]) }
    }

    #[inline(always)]
    fn add(&mut self, [a, b, c, d]: [f32; 4]) {
        let four = quad::new([a.to_bits(), b.to_bits(), c.to_bits(), d.to_bits()]);
        let size = quad::and(four, quad::new([0x7fff_ffff; 4]));
        let is_zero = quad::eq_f(size, quad::new([0; 4]));
        // All ones are NaN, beside which the other operand is taken.
        self.least = quad::smaller_f(quad::or(size, is_zero), self.least);
        self.most = quad::larger_f(size, self.most);
    }

    /// Whether no rounding of a sum of [`STEPS`] products of such operands is one to fewer than 24 bits, and the sum stays
    /// below 2^107.
    ///
    /// Two factors are multiples of units whose product is at least 2^-48 of theirs. So all products, and with them all sums,
    /// are multiples of the least subnormal number, 2^-149, and subnormal sums are exact.
    #[inline(always)]
    fn is_tame_with(self, other: Self) -> bool {
        let lanes = |lanes: Quad| quad::lanes(lanes).map(|bits| f64::from(f32::from_bits(bits)));
        let least = |range: Self| lanes(range.least).into_iter().fold(f64::INFINITY, f64::min);
        let most = |range: Self| lanes(range.most).into_iter().fold(0.0, f64::max);
        least(self) * least(other) >= LEAST && most(self) * most(other) <= MOST
    }
}

/// 2^-101.
const LEAST: f64 = f64::from_bits((1023 - 101) << 52);

/// 2^101.
const MOST: f64 = f64::from_bits((1023 + 101) << 52);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ptr::null;

    const ROWS: usize = 3;

    /// Sums of rows of A with [`ROWS`] lanes and rows of B, beside those of the processor's multiply-add.
    fn agrees(a: &[[f32; ROWS]], b: &[[f32; NR]]) {
        let mut sums = [[0f32; NR]; ROWS];
        let t = Tile {
            steps: a.len(),
            a: a.as_ptr().cast(),
            a_row: 4,
            a_step: 4 * ROWS as isize,
            b: b.as_ptr().cast(),
            b_step: 4 * NR as isize,
            b_ahead: 0,
            next: null(),
            next_step: 0,
            cols: NR,
            start: Start::Zero,
            end: End::Carry(sums.as_mut_ptr().cast()),
        };
        // SAFETY: the addresses are those of arrays of these extents.
        unsafe { tile::<ROWS>(&t) };
        for (i, row) in sums.iter().enumerate() {
            for (j, &found) in row.iter().enumerate() {
                let expected = a.iter().zip(b).fold(0f32, |sum, (a, b)| a[i].mul_add(b[j], sum));
                let same = expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan();
                assert!(same, "[{i}, {j}]: {expected:?} expected, {found:?} found");
            }
        }
    }

    /// Numbers of one kind, which meet ties, subnormal numbers or overflow, or do not.
    fn numbers() -> impl Strategy<Value = Vec<f32>> {
        let scaled = |exponents: std::ops::Range<i32>| {
            (any::<u32>(), exponents).prop_map(|(bits, exponent)| {
                let unit = f32::from_bits(bits & 0x807f_ffff | 127 << 23);
                (f64::from(unit) * 2f64.powi(exponent)) as f32
            })
        };
        let special = prop_oneof![
            Just(f32::NAN),
            Just(f32::INFINITY),
            Just(f32::MAX),
            Just(-f32::MAX),
            Just(f32::from_bits(1)),
            Just(-0.0)
        ];
        let count = 150 * (NR + ROWS);
        prop_oneof![
            prop::collection::vec(scaled(-3..3), count),
            prop::collection::vec((-100i32..100).prop_map(|x| x as f32), count),
            prop::collection::vec(scaled(-9..0).prop_map(|x| f32::from_bits(x.to_bits() & 0xffff_0000)), count),
            prop::collection::vec(scaled(-24..24).prop_map(|x| f32::from_bits(x.to_bits() & 0xfff0_0000)), count),
            prop::collection::vec(scaled(-76..-60), count),
            prop::collection::vec(scaled(58..64), count),
            prop::collection::vec(prop_oneof![200 => scaled(-3..3), 1 => special], count),
            prop::collection::vec(any::<u32>().prop_map(f32::from_bits), count),
        ]
    }

    proptest! {
        #[test]
        fn sums_are_rounded_once_a_step(numbers in numbers(), steps in 1usize..150) {
            let (a, b) = numbers.split_at(150 * ROWS);
            agrees(&a.as_chunks().0[..steps], &b.as_chunks().0[..steps]);
        }
    }

    #[test]
    fn a_sum_beside_the_middle_that_binary64_rounds_to_it_is_rounded_to_its_side() {
        // 1 + 2^-23, then the middle above it less or more than 53 bits can tell.
        let unit = f32::EPSILON;
        for (x, y) in [(1.0 + unit, 1.0 - unit), (1.0 + unit, 1.0 - unit / 2.0), (1.0 - unit, 1.0 + unit)] {
            for sign in [1.0, -1.0] {
                let a = [[1.0; ROWS], [x; ROWS]];
                let b = [[sign * (1.0 + unit); NR], [sign * y * unit / 2.0; NR]];
                agrees(&a, &b);
            }
        }
    }

    #[test]
    fn the_quick_way_refuses_middles_and_overflow_and_takes_the_rest() {
        let all = |x: f32| pair::new([f64::from(x); 2]);
        let run = |a: f32, b: f32, sum: f32| {
            let mut sums = [all(sum); NR / 2];
            let good = quick(&[all(a)], &[[all(b); NR / 2]], &mut sums);
            good.then(|| pair::lanes(sums[0])[0] as f32)
        };
        assert_eq!(run(1.5, 1.5, 0.25), Some(2.5));
        assert_eq!(run(f32::EPSILON, 0.75, 1.0), Some(1.0 + f32::EPSILON));
        assert_eq!(run(f32::EPSILON, 0.5, 1.0), None, "an exact middle");
        assert_eq!(run(1.0 + f32::EPSILON, (1.0 - f32::EPSILON) * f32::EPSILON / 2.0, 1.0), None);
        assert_eq!(run(1.0, 1.0, f32::MAX), None);
        assert_eq!(run(1.0, f32::NAN, 1.0), None);
    }
}
