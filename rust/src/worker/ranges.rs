//! Memory of the arguments of a launch: a tensor that the program writes may overlap no other.

/// Up to this number of tensors, each one that is written is compared with every other. Sorting keeps more of them near
/// linear: 142 that are all written would be 10,000 comparisons.
const PAIRWISE: usize = 8;

/// Memory that an argument occupies. Host and resident tensors share the list: both are addresses of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub start: usize,
    pub end: usize,
    /// Index into the parameters.
    pub param: u32,
    /// Whether the program writes it.
    pub written: bool,
}

/// The memory of all tensors of a launch.
#[derive(Clone, Default, Debug)]
pub(super) struct Ranges {
    all: Vec<Range>,
    /// Room to sort them.
    sorted: Vec<Range>,
}

impl Range {
    fn meets(&self, other: &Range) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl Ranges {
    pub fn with_capacity(count: usize) -> Self {
        Self { all: Vec::with_capacity(count), sorted: Vec::with_capacity(count) }
    }

    pub fn clear(&mut self) {
        self.all.clear();
    }

    pub fn push(&mut self, range: Range) {
        self.all.push(range);
    }

    /// Makes a range begin elsewhere; says whether that is a change.
    #[inline]
    pub fn move_to(&mut self, index: usize, start: usize) -> bool {
        let range = &mut self.all[index];
        let bytes = range.end - range.start;
        range.end = start.saturating_add(bytes);
        std::mem::replace(&mut range.start, start) != start
    }

    /// Whether a range overlaps another one, and one of them is written.
    pub fn meets_another(&self, index: usize) -> bool {
        let range = &self.all[index];
        let others = self.all.iter().enumerate().filter(|(other, _)| *other != index);
        others.into_iter().any(|(_, other)| range.meets(other) && (range.written || other.written))
    }

    /// The parameters of two ranges that overlap, the first of which is written.
    pub fn overlap(&mut self) -> Option<[u32; 2]> {
        let (a, b) = if self.all.len() <= PAIRWISE { self.overlap_of_few() } else { self.overlap_of_many() }?;
        Some(if a.written { [a.param, b.param] } else { [b.param, a.param] })
    }

    fn overlap_of_few(&self) -> Option<(Range, Range)> {
        let all = || self.all.iter().enumerate();
        all().filter(|(_, range)| range.written).find_map(|(at, written)| {
            let other = all().find(|(other, range)| *other != at && range.meets(written));
            other.map(|(_, other)| (*written, *other))
        })
    }

    fn overlap_of_many(&mut self) -> Option<(Range, Range)> {
        self.sorted.clone_from(&self.all);
        self.sorted.sort_unstable_by_key(|range| range.start);
        let mut furthest: Option<Range> = None;
        let mut furthest_written: Option<Range> = None;
        for range in &self.sorted {
            let before = if range.written { furthest } else { furthest_written };
            if let Some(before) = before.filter(|before| range.start < before.end) {
                return Some((*range, before));
            }
            let further = |slot: &Option<Range>| slot.is_none_or(|slot| slot.end < range.end);
            if further(&furthest) {
                furthest = Some(*range);
            }
            if range.written && further(&furthest_written) {
                furthest_written = Some(*range);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comparing_pairs_and_sorting_find_an_overlap_in_the_same_cases(
            ranges in prop::collection::vec((0usize..60, 1usize..8, any::<bool>()), 0..12),
        ) {
            let mut all = Ranges::with_capacity(ranges.len());
            for (&(start, bytes, written), param) in ranges.iter().zip(0..) {
                all.push(Range { start, end: start + bytes, param, written });
            }
            let [few, many] = [all.overlap_of_few(), all.overlap_of_many()];
            prop_assert_eq!(few.is_some(), many.is_some());
            prop_assert_eq!(few.is_some(), (0..ranges.len()).any(|index| all.meets_another(index)));
            for (a, b) in few.into_iter().chain(many) {
                prop_assert!(a.meets(&b) && (a.written || b.written) && a.param != b.param);
            }
        }
    }
}
