//! How a matrix product is cut into parts.
//!
//! Each part packs its own rows of the left operand and its own columns of the right one, so a part that is long and
//! narrow packs as much as it multiplies. Parts are therefore near squares: of 1024x1024x1024, four parts of 512x512 pack
//! each operand twice, four of 1024x256 pack the left one four times and the right one once. Where the right operand was
//! packed before, only rows are packed: then rows are cut, so that each is packed once.

/// Rows of a part at least before columns are cut for a right operand that was packed before: enough that reading that
/// costs nothing beside multiplying.
const ROWS: u64 = 64;

/// Parts of a result of `extents`: `cuts` along each axis, at multiples of `steps`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    extents: [u64; 2],
    steps: [u64; 2],
    cuts: [u64; 2],
}

impl Grid {
    /// At least `least` parts of at most `longest` of `work`, as far as the extents allow; `packed` says that the right
    /// operand was packed before.
    pub fn cut(extents: [u64; 2], steps: [u64; 2], packed: bool, work: u64, least: u64, longest: u64) -> Self {
        let mut grid = Self { extents, steps, cuts: [1; 2] };
        while grid.parts() < least || work / grid.parts() > longest {
            let can = |axis: usize| extents[axis] / (2 * grid.cuts[axis]) >= steps[axis];
            let size = |axis: usize| extents[axis] / grid.cuts[axis];
            // Columns first: the right operand is the large one, and each part then reads its own columns of it.
            let axis = match [can(0), can(1)] {
                [true, _] if packed && size(0) >= 2 * ROWS => 0,
                [_, true] if size(1) >= size(0) || !can(0) => 1,
                [true, _] => 0,
                _ => break,
            };
            grid.cuts[axis] *= 2;
        }
        grid
    }

    /// How many parts there are.
    pub fn parts(&self) -> u64 {
        self.cuts[0] * self.cuts[1]
    }

    /// First row and column of a part, and its rows and columns.
    pub fn part(&self, part: u64) -> ([u64; 2], [u64; 2]) {
        let at = [part / self.cuts[1], part % self.cuts[1]];
        let edge = |axis: usize, at: u64| {
            let steps = self.extents[axis].div_ceil(self.steps[axis]);
            (steps * at / self.cuts[axis] * self.steps[axis]).min(self.extents[axis])
        };
        let first = [edge(0, at[0]), edge(1, at[1])];
        (first, [edge(0, at[0] + 1) - first[0], edge(1, at[1] + 1) - first[1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_the_result_once_and_begin_at_steps(
            m in 1u64..300, n in 1u64..300, m_step in 1u64..40, n_step in 1u64..70, packed: bool, work in 1u64..1000,
            least in 1u64..9
        ) {
            let grid = Grid::cut([m, n], [m_step, n_step], packed, work, least, 100);
            let mut covered = vec![0u8; (m * n) as usize];
            for part in 0..grid.parts() {
                let ([row, col], [rows, cols]) = grid.part(part);
                prop_assert!(row % m_step == 0 && col % n_step == 0);
                for (i, j) in (row..row + rows).flat_map(|i| (col..col + cols).map(move |j| (i, j))) {
                    covered[(i * n + j) as usize] += 1;
                }
            }
            prop_assert!(covered.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn large_products_come_in_squares_and_few_rows_in_columns() {
        let cuts = |extents, work, least| Grid::cut(extents, [24, 64], false, work, least, 1000).cuts;
        assert_eq!(cuts([1024, 1024], 100, 4), [2, 2]);
        assert_eq!(cuts([16, 4096], 100, 4), [1, 4]);
        assert_eq!(cuts([4096, 64], 100, 4), [4, 1]);
        assert_eq!(cuts([1024, 1024], 16_000, 1), [4, 4], "so that each part can be interrupted");
        assert_eq!(cuts([8, 32], 100_000, 4), [1, 1], "too small to cut");
    }

    #[test]
    fn rows_are_cut_where_only_they_are_packed_until_parts_have_few() {
        let cuts = |extents, least| Grid::cut(extents, [8, 32], true, 100, least, 1000).cuts;
        assert_eq!(cuts([1024, 1024], 4), [4, 1]);
        assert_eq!(cuts([1024, 1024], 64), [16, 4]);
        assert_eq!(cuts([17, 4096], 4), [1, 4]);
    }
}
