//! Which parts of a range are taken: sizes and offsets in granules, no memory touched.
//!
//! Holes are kept in bins by size, two levels deep (power of two, then eighths), with a bit per bin that is not empty, so
//! that allocation and release are O(1). Neighbouring holes merge at once. What lies behind the last block (the *tail*) is in
//! no bin: it is taken from only where no hole fits, so memory that was used before, and is therefore committed and likely
//! in a cache, is reused before memory that the machine still has to provide.
//!
//! The crate `offset-allocator` was considered. Like every allocator that rounds a request up to the next bin, it refuses a
//! request that fits a hole exactly where the size is not itself a bin boundary (65 granules of a hole of 65), and its
//! sizes are 32 bits. Here a request first looks at the head of the bin that its own size falls into, which also makes
//! allocate/free/allocate of one size return the same block, and before it fails it looks through the whole of that
//! bin. Only that last look is not O(1), and it only happens where all larger bins and the tail are exhausted.

/// Bytes of a granule. Every allocation starts at a multiple of it, which is enough for any vector register and keeps
/// allocations out of each other's cache lines.
pub const GRANULE: u64 = 256;

const NONE: u32 = u32::MAX;
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// Enough for every 64-bit size: level 0 holds the sizes below 8, each further level one power of two.
const LEVELS: usize = 64 - STEP_BITS as usize + 1;
/// How many holes of the request's own bin are looked at before a larger hole is split. Any constant keeps allocation
/// O(1). Holes of a bin differ by at most an eighth, so with mixed sizes each try fits with even odds.
const PROBES: usize = 4;

/// A taken part of the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    node: u32,
    /// First granule.
    pub offset: u64,
    /// Number of granules.
    pub size: u64,
}

/// A block or a hole. Neighbours in the range are linked by `before` and `after`, holes of one bin by `prev` and `next`.
#[derive(Clone, Copy, Debug)]
struct Node {
    offset: u64,
    size: u64,
    before: u32,
    after: u32,
    prev: u32,
    next: u32,
    is_hole: bool,
}

/// The state of one range. See the module for how it works.
#[derive(Debug)]
pub struct Suballocator {
    total: u64,
    used: u64,
    /// First granule of the tail.
    frontier: u64,
    /// The node before the tail. It is never a hole.
    last: u32,
    nodes: Vec<Node>,
    unused: Vec<u32>,
    levels: u64,
    steps: [u8; LEVELS],
    heads: [[u32; STEPS]; LEVELS],
    #[cfg(test)]
    pub refusals: Refusals,
}

/// Requests that a test lets fail as if there were no hole.
#[cfg(test)]
#[derive(Default, Debug)]
pub struct Refusals {
    /// Their numbers among all requests, from 0.
    pub at: Vec<u64>,
    /// How many requests there were, and how many of them were refused.
    pub asked: u64,
    pub refused: u64,
}

#[cfg(test)]
impl Refusals {
    fn is_due(&mut self) -> bool {
        let due = self.at.contains(&self.asked);
        self.asked += 1;
        self.refused += u64::from(due);
        due
    }
}

impl Suballocator {
    /// A range of `total` granules, all free.
    pub fn new(total: u64) -> Self {
        Self {
            total,
            used: 0,
            frontier: 0,
            last: NONE,
            nodes: Vec::new(),
            unused: Vec::new(),
            levels: 0,
            steps: [0; LEVELS],
            heads: [[NONE; STEPS]; LEVELS],
            #[cfg(test)]
            refusals: Refusals::default(),
        }
    }

    /// Granules that are not taken.
    pub fn free_granules(&self) -> u64 {
        self.total - self.used
    }

    /// The size of the largest request that would succeed. Looks through one bin; for reports and errors.
    pub fn largest_free(&self) -> u64 {
        let tail = self.total - self.frontier;
        if self.levels == 0 {
            return tail;
        }
        let level = self.levels.ilog2() as usize;
        let step = self.steps[level].ilog2() as usize;
        self.bin((level, step)).map(|hole| self.nodes[hole as usize].size).max().unwrap_or(0).max(tail)
    }

    /// Takes `size` granules (at least 1), or `None` where no hole is that large.
    pub fn allocate(&mut self, size: u64) -> Option<Block> {
        debug_assert!(size > 0);
        #[cfg(test)]
        if self.refusals.is_due() {
            return None;
        }
        let own = bin_of(size);
        let fits = |hole: &u32| self.nodes[*hole as usize].size >= size;
        let found = self.bin(own).take(PROBES).find(fits).or_else(|| self.first_above(own));
        if let Some(hole) = found {
            return Some(self.take_hole(hole, size));
        }
        if self.total - self.frontier >= size {
            return Some(self.take_tail(size));
        }
        let exact = self.bin(own).skip(PROBES).find(fits)?;
        Some(self.take_hole(exact, size))
    }

    /// Gives back a block that [`Suballocator::allocate`] returned and that was not given back since.
    pub fn free(&mut self, block: Block) {
        let mut id = block.node;
        debug_assert!(!self.nodes[id as usize].is_hole, "a block is given back once");
        self.used -= block.size;
        let Node { before, after, .. } = self.nodes[id as usize];
        if after != NONE && self.nodes[after as usize].is_hole {
            self.unlink_hole(after);
            self.merge(id, after);
        }
        if before != NONE && self.nodes[before as usize].is_hole {
            self.unlink_hole(before);
            self.merge(before, id);
            id = before;
        }
        if id == self.last {
            let Node { offset, before, .. } = self.nodes[id as usize];
            self.frontier = offset;
            self.last = before;
            if before == NONE {
                // Nothing is taken any more: start over, so that no history of ids or lists survives.
                self.nodes.clear();
                self.unused.clear();
            } else {
                self.nodes[before as usize].after = NONE;
                self.unused.push(id);
            }
        } else {
            self.link_hole(id);
        }
    }

    /// The holes of one bin.
    fn bin(&self, (level, step): (usize, usize)) -> impl Iterator<Item = u32> + '_ {
        let head = self.heads[level][step];
        std::iter::successors((head != NONE).then_some(head), |&hole| {
            let next = self.nodes[hole as usize].next;
            (next != NONE).then_some(next)
        })
    }

    /// A hole of the smallest bin above `own` that has one.
    fn first_above(&self, (level, step): (usize, usize)) -> Option<u32> {
        let steps = u32::from(self.steps[level]) >> (step + 1);
        if steps != 0 {
            return Some(self.heads[level][step + 1 + steps.trailing_zeros() as usize]);
        }
        let levels = self.levels.checked_shr(level as u32 + 1).unwrap_or(0);
        if levels == 0 {
            return None;
        }
        let level = level + 1 + levels.trailing_zeros() as usize;
        Some(self.heads[level][self.steps[level].trailing_zeros() as usize])
    }

    fn take_hole(&mut self, hole: u32, size: u64) -> Block {
        self.unlink_hole(hole);
        let node = self.nodes[hole as usize];
        if node.size > size {
            let rest = self.new_node(Node {
                offset: node.offset + size,
                size: node.size - size,
                before: hole,
                after: node.after,
                prev: NONE,
                next: NONE,
                is_hole: false,
            });
            // A hole always has a node behind it: what precedes the tail is never a hole.
            self.nodes[node.after as usize].before = rest;
            self.nodes[hole as usize].after = rest;
            self.nodes[hole as usize].size = size;
            self.link_hole(rest);
        }
        self.used += size;
        Block { node: hole, offset: node.offset, size }
    }

    fn take_tail(&mut self, size: u64) -> Block {
        let offset = self.frontier;
        let before = self.last;
        let node = self.new_node(Node { offset, size, before, after: NONE, prev: NONE, next: NONE, is_hole: false });
        if before != NONE {
            self.nodes[before as usize].after = node;
        }
        self.last = node;
        self.frontier += size;
        self.used += size;
        Block { node, offset, size }
    }

    fn new_node(&mut self, node: Node) -> u32 {
        if let Some(id) = self.unused.pop() {
            self.nodes[id as usize] = node;
            return id;
        }
        let id = u32::try_from(self.nodes.len()).ok().filter(|&id| id != NONE);
        self.nodes.push(node);
        id.expect("2^32 blocks do not fit the host memory")
    }

    /// Makes `right` part of `left`, its neighbour.
    fn merge(&mut self, left: u32, right: u32) {
        let Node { size, after, .. } = self.nodes[right as usize];
        let node = &mut self.nodes[left as usize];
        node.size += size;
        node.after = after;
        if after == NONE {
            self.last = left;
        } else {
            self.nodes[after as usize].before = left;
        }
        self.unused.push(right);
    }

    fn link_hole(&mut self, id: u32) {
        let (level, step) = bin_of(self.nodes[id as usize].size);
        let next = std::mem::replace(&mut self.heads[level][step], id);
        if next != NONE {
            self.nodes[next as usize].prev = id;
        }
        let node = &mut self.nodes[id as usize];
        (node.is_hole, node.prev, node.next) = (true, NONE, next);
        self.steps[level] |= 1 << step;
        self.levels |= 1 << level;
    }

    fn unlink_hole(&mut self, id: u32) {
        let Node { size, prev, next, .. } = self.nodes[id as usize];
        self.nodes[id as usize].is_hole = false;
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
        if prev != NONE {
            self.nodes[prev as usize].next = next;
            return;
        }
        let (level, step) = bin_of(size);
        self.heads[level][step] = next;
        if next == NONE {
            self.steps[level] &= !(1 << step);
            if self.steps[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }
}

/// The bin of holes of this size. Every hole of a higher bin is larger than every hole of this one.
fn bin_of(size: u64) -> (usize, usize) {
    let power = size.ilog2();
    if power < STEP_BITS {
        return (0, size as usize);
    }
    let step = (size >> (power - STEP_BITS)) as usize & (STEPS - 1);
    ((power - STEP_BITS + 1) as usize, step)
}

#[cfg(test)]
#[path = "suballocator_tests.rs"]
mod tests;
