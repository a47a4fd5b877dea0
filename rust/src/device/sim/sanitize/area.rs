//! Memory that an access touches, byte for byte.

use crate::shape::MAX_RANK;

/// A box of elements: `size` bytes each, at any strides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Area {
    begin: usize,
    /// Behind the last byte.
    end: usize,
    /// Bytes that lie together.
    run: usize,
    /// Axes over runs, outermost first: how many, and bytes from one to the next.
    axes: [(u64, i64); MAX_RANK],
}

impl Area {
    /// `axes` are extents and byte strides, outermost first. No view of the language goes backwards.
    pub fn new(data: usize, size: usize, axes: impl DoubleEndedIterator<Item = (u64, i64)>) -> Self {
        let mut area = Self { begin: data, end: data, run: size, axes: [(1, 0); MAX_RANK] };
        let mut at = MAX_RANK;
        let mut last = 0;
        for (extent, stride) in axes.rev() {
            if extent == 0 {
                return Self { begin: data, end: data, run: 0, axes: [(1, 0); MAX_RANK] };
            }
            last += stride as usize * (extent as usize - 1);
            if extent == 1 {
                continue;
            }
            if at == MAX_RANK && stride == area.run as i64 {
                area.run *= extent as usize;
            } else {
                at -= 1;
                area.axes[at] = (extent, stride);
            }
        }
        area.end = data + last + size;
        area
    }

    /// First byte, and the one behind the last.
    pub fn bounds(&self) -> (usize, usize) {
        (self.begin, self.end)
    }

    /// How many bytes it has, those that it has twice counted twice.
    pub fn bytes(&self) -> u64 {
        self.axes.iter().fold(self.run as u64, |bytes, &(extent, _)| bytes.saturating_mul(extent))
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.run == 0
    }

    /// Calls `each` with start and length of every run in the box, until it says `false`.
    pub fn runs(&self, mut each: impl FnMut(usize, usize) -> bool) {
        let mut index = [0u64; MAX_RANK];
        let mut at = self.begin;
        if self.is_empty() {
            return;
        }
        loop {
            if !each(at, self.run) {
                return;
            }
            let mut axis = MAX_RANK;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let (extent, stride) = self.axes[axis];
                index[axis] += 1;
                at = at.wrapping_add_signed(stride as isize);
                if index[axis] < extent {
                    break;
                }
                at = at.wrapping_add_signed(-(stride as isize) * extent as isize);
                index[axis] = 0;
            }
        }
    }

    /// First and last byte that both have, if there is one.
    pub fn common(&self, other: &Self) -> Option<(usize, usize)> {
        if self.begin >= other.end || other.begin >= self.end || self.is_empty() || other.is_empty() {
            return None;
        }
        let (mine, theirs) = (self.sorted(), other.sorted());
        let (mut i, mut j) = (0, 0);
        let mut found: Option<(usize, usize)> = None;
        while let (Some(&(a, a_end)), Some(&(b, b_end))) = (mine.get(i), theirs.get(j)) {
            let (from, to) = (a.max(b), a_end.min(b_end));
            if from < to {
                found = Some((found.map_or(from, |(first, _)| first), to - 1));
            }
            if a_end <= b_end { i += 1 } else { j += 1 }
        }
        found
    }

    /// Whether it has every byte of the other.
    pub fn covers(&self, other: &Self) -> bool {
        if other.begin < self.begin || other.end > self.end {
            return false;
        }
        if self.end - self.begin == self.run {
            return true;
        }
        let mine = self.sorted();
        let mut all = true;
        other.runs(|at, bytes| {
            let found = mine.partition_point(|&(begin, _)| begin <= at);
            all = found > 0 && mine[found - 1].1 >= at + bytes;
            all
        });
        all
    }

    /// The runs in the order of their addresses; what touches is one.
    fn sorted(&self) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        self.runs(|at, bytes| {
            runs.push((at, at + bytes));
            true
        });
        runs.sort_unstable();
        runs.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Parts = (usize, Vec<(u64, i64)>);

    fn bytes((begin, axes): &Parts, size: usize) -> BTreeSet<usize> {
        let mut all: Vec<usize> = (*begin..begin + size).collect();
        for &(extent, stride) in axes {
            all =
                (0..extent as i64).flat_map(|at| all.iter().map(move |&byte| byte + (at * stride) as usize)).collect();
        }
        all.into_iter().collect()
    }

    proptest! {
        #[test]
        fn areas_meet_and_cover_exactly_where_their_bytes_do(
            a in (0usize..40, prop::collection::vec((0u64..4, 0i64..20), 0..4)),
            b in (0usize..40, prop::collection::vec((0u64..4, 0i64..20), 0..4)),
        ) {
            let area = |parts: &Parts| Area::new(parts.0, 2, parts.1.iter().copied());
            let (mine, theirs) = (bytes(&a, 2), bytes(&b, 2));
            let common: Vec<usize> = mine.intersection(&theirs).copied().collect();
            prop_assert_eq!(area(&a).common(&area(&b)), common.first().copied().zip(common.last().copied()));
            if !theirs.is_empty() && !mine.is_empty() {
                prop_assert_eq!(area(&a).covers(&area(&b)), theirs.is_subset(&mine));
            }
        }
    }
}
