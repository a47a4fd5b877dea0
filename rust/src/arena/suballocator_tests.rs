use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The simplest allocator that can be right: taken parts by offset. It predicts what must succeed, not where.
struct Model {
    total: u64,
    taken: BTreeMap<u64, u64>,
}

impl Model {
    fn holes(&self) -> Vec<u64> {
        let mut at = 0;
        let mut holes = Vec::new();
        for (&offset, &size) in &self.taken {
            holes.push(offset - at);
            at = offset + size;
        }
        holes.push(self.total - at);
        holes
    }

    fn largest(&self) -> u64 {
        self.holes().into_iter().max().unwrap_or(0)
    }

    fn take(&mut self, block: Block) {
        assert!(block.offset + block.size <= self.total, "{block:?} leaves the range");
        if let Some((&offset, &size)) = self.taken.range(..block.offset + block.size).next_back() {
            assert!(offset + size <= block.offset, "{block:?} overlaps [{offset}, +{size})");
        }
        self.taken.insert(block.offset, block.size);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(u64),
    AllocateLargest,
    Free(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![4 => 1u64..20, 3 => 60u64..80, 1 => 1u64..3000];
    let step = prop_oneof![
        5 => size.prop_map(Step::Allocate),
        1 => Just(Step::AllocateLargest),
        5 => any::<prop::sample::Index>().prop_map(Step::Free),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn behaves_like_the_simplest_allocator(total in 1u64..4000, steps in steps()) {
        let mut model = Model { total, taken: BTreeMap::new() };
        let mut allocator = Suballocator::new(total);
        let mut blocks: Vec<Block> = Vec::new();
        for step in steps {
            let size = match step {
                Step::Allocate(size) => size,
                Step::AllocateLargest => model.largest(),
                Step::Free(index) => {
                    if !blocks.is_empty() {
                        let block = blocks.swap_remove(index.index(blocks.len()));
                        model.taken.remove(&block.offset);
                        allocator.free(block);
                    }
                    0
                }
            };
            if size > 0 {
                let block = allocator.allocate(size);
                prop_assert_eq!(block.is_some(), size <= model.largest(), "size {}, holes {:?}", size, model.holes());
                if let Some(block) = block {
                    prop_assert_eq!(block.size, size);
                    model.take(block);
                    blocks.push(block);
                }
            }
            prop_assert_eq!(allocator.largest_free(), model.largest());
            prop_assert_eq!(allocator.free_granules(), model.holes().iter().sum::<u64>());
        }
        for block in blocks {
            allocator.free(block);
        }
        prop_assert_eq!(allocator.largest_free(), total);
        prop_assert_eq!(allocator.allocate(total).map(|block| block.offset), Some(0));
    }

    #[test]
    fn bins_are_ordered_by_size(a in 1u64..=u64::MAX, b in 1u64..=u64::MAX) {
        prop_assert_eq!(bin_of(a).cmp(&bin_of(b)).then(a.cmp(&b)), a.cmp(&b));
    }
}

#[test]
fn a_hole_that_is_no_bin_boundary_serves_a_request_of_exactly_its_size() {
    let mut allocator = Suballocator::new(67);
    let hole = allocator.allocate(65).unwrap();
    allocator.allocate(2).unwrap();
    allocator.free(hole);
    assert_eq!(allocator.allocate(65), Some(hole));
}

#[test]
fn an_exact_hole_is_found_behind_many_smaller_ones_of_its_bin() {
    let mut allocator = Suballocator::new(65 + 10 * 65 + 11);
    let exact = allocator.allocate(65).unwrap();
    let mut smaller = Vec::new();
    for _ in 0..10 {
        allocator.allocate(1).unwrap();
        smaller.push(allocator.allocate(64).unwrap());
    }
    allocator.allocate(allocator.largest_free()).unwrap();
    allocator.free(exact);
    smaller.into_iter().for_each(|block| allocator.free(block));
    assert_eq!(allocator.allocate(65).map(|block| block.offset), Some(0));
    assert_eq!(allocator.allocate(65), None);
}

#[test]
fn used_memory_is_taken_before_untouched_memory() {
    let mut allocator = Suballocator::new(10_000);
    let warm = allocator.allocate(1000).unwrap();
    allocator.allocate(1).unwrap();
    allocator.free(warm);
    assert_eq!(allocator.allocate(10).unwrap().offset, 0);
    assert_eq!(allocator.allocate(900).unwrap().offset, 10);
    assert_eq!(allocator.allocate(900).unwrap().offset, 1001);
}

#[test]
fn one_size_again_and_again_gets_the_same_block() {
    let mut allocator = Suballocator::new(1 << 40);
    let first = allocator.allocate(4097).unwrap();
    allocator.allocate(1).unwrap();
    for _ in 0..3 {
        allocator.free(first);
        assert_eq!(allocator.allocate(4097).unwrap().offset, first.offset);
    }
}

#[test]
fn sizes_beyond_32_bits_work() {
    let mut allocator = Suballocator::new(1 << 50);
    let huge = allocator.allocate((1 << 33) + 128).unwrap();
    let next = allocator.allocate(1 << 49).unwrap();
    assert_eq!(next.offset, (1 << 33) + 128);
    allocator.free(huge);
    allocator.free(next);
    assert_eq!(allocator.largest_free(), 1 << 50);
}
