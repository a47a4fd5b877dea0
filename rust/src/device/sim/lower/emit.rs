//! Collects the instructions of one function and lays out the scratch memory of its tiles.

use crate::device::sim::account::Account;
use crate::device::sim::code::{BlockMem, Inst, Mem, Source, Step, TileMem, Window};
use crate::program::{Function, Loc, TileSlot};

/// A piece of scratch memory that will get an offset. The first homes are those of the tile slots.
struct Home {
    bytes: u64,
    /// First and last instruction that touches it.
    span: Option<(usize, usize)>,
    /// Whether the value may survive from one round of a loop to the next.
    carried: bool,
}

pub(super) struct Emitter {
    pub insts: Vec<Inst>,
    pub at: Vec<Loc>,
    pub steps: Vec<Step>,
    /// What each step does for the source, where somebody asks.
    pub accounts: Option<Vec<Account>>,
    homes: Vec<Home>,
    /// Instruction ranges of loops, innermost first.
    loops: Vec<(usize, usize)>,
}

impl Emitter {
    /// With `accounts`, the code says what each step does for the source.
    pub fn new(function: &Function, accounts: bool) -> Self {
        let homes =
            function.tiles.iter().map(|tile| Home { bytes: bytes_of(tile), span: None, carried: true }).collect();
        Self {
            insts: Vec::new(),
            at: Vec::new(),
            steps: Vec::new(),
            accounts: accounts.then(Vec::new),
            homes,
            loops: Vec::new(),
        }
    }

    /// The memory of a tile slot.
    pub fn slot_home(slot: u32, tile: &TileSlot) -> TileMem {
        TileMem { home: slot.into(), start: 0, rows: tile.rows, cols: tile.cols, row_stride: row_stride(tile) }
    }

    /// Fresh memory for a value that does not leave its run of statements.
    pub fn new_home(&mut self, tile: &TileSlot) -> TileMem {
        self.homes.push(Home { bytes: bytes_of(tile), span: None, carried: false });
        let home = self.homes.len() - 1;
        Self::slot_home(home as u32, tile)
    }

    pub fn push(&mut self, inst: Inst, at: Loc) -> usize {
        let pos = self.insts.len();
        if let Inst::Read { src: Source::Tile { tile, .. }, .. } | Inst::Write { dst: Source::Tile { tile, .. }, .. } =
            &inst
        {
            touch(&mut self.homes, tile, pos);
        }
        self.insts.push(inst);
        self.at.push(at);
        pos
    }

    /// `account` is of the step, and there where the code keeps accounts.
    pub fn push_step(&mut self, mut step: Step, at: Loc, account: Option<Account>) {
        debug_assert_eq!(account.is_some(), self.accounts.is_some());
        if let Some(accounts) = &mut self.accounts {
            accounts.extend(account);
        }
        let pos = self.insts.len();
        for_each_mem(&mut step, |mem| {
            if let Mem::Tile(tile) | Mem::Window(Window { tile, .. }) = mem {
                touch(&mut self.homes, tile, pos);
            }
        });
        self.steps.push(step);
        self.push(Inst::Step((self.steps.len() - 1) as u32), at);
    }

    /// Tells that instructions `start..end` are a loop.
    pub fn close_loop(&mut self, start: usize, end: usize) {
        self.loops.push((start, end));
    }

    /// Gives every home an offset and returns the size of all. Homes that are never touched at the same time share memory.
    pub fn layout(&mut self) -> u64 {
        let spans: Vec<Option<(usize, usize)>> = self.homes.iter().map(|home| self.widened(home)).collect();
        let mut order: Vec<usize> = (0..spans.len()).filter(|&home| spans[home].is_some()).collect();
        order.sort_by_key(|&home| spans[home]);
        let mut offsets = vec![0u64; spans.len()];
        // Taken pieces, by offset.
        let mut taken: Vec<(u64, u64, usize)> = Vec::new();
        let mut total = 0;
        for home in order {
            let (first, last) = spans[home].expect("filtered above");
            taken.retain(|&(_, _, until)| until >= first);
            let bytes = self.homes[home].bytes;
            let mut offset = 0;
            let mut place = taken.len();
            for (at, &(start, end, _)) in taken.iter().enumerate() {
                if offset + bytes <= start {
                    place = at;
                    break;
                }
                offset = end;
            }
            taken.insert(place, (offset, offset + bytes, last));
            offsets[home] = offset;
            total = total.max(offset + bytes);
        }
        let assign = |tile: &mut TileMem| tile.home = offsets[tile.home as usize] + std::mem::take(&mut tile.start);
        for inst in &mut self.insts {
            if let Inst::Read { src: Source::Tile { tile, .. }, .. }
            | Inst::Write { dst: Source::Tile { tile, .. }, .. } = inst
            {
                assign(tile);
            }
        }
        for step in &mut self.steps {
            for_each_mem(step, |mem| {
                if let Mem::Tile(tile) | Mem::Window(Window { tile, .. }) = mem {
                    assign(tile);
                }
            });
        }
        total
    }

    /// The instructions during which a home must keep its contents: a slot touched within a loop keeps them for the whole
    /// loop, since the next round may read them.
    fn widened(&self, home: &Home) -> Option<(usize, usize)> {
        let (mut first, mut last) = home.span?;
        if home.carried {
            for &(start, end) in &self.loops {
                if first < end && last >= start {
                    first = first.min(start);
                    last = last.max(end - 1);
                }
            }
        }
        Some((first, last))
    }
}

fn touch(homes: &mut [Home], tile: &TileMem, pos: usize) {
    let span = &mut homes[tile.home as usize].span;
    *span = Some(span.map_or((pos, pos), |(first, _)| (first, pos)));
}

/// Calls `visit` for each memory operand of a step.
fn for_each_mem(step: &mut Step, mut visit: impl FnMut(&mut Mem)) {
    match step {
        Step::Chain(chain) => chain.mems.iter_mut().for_each(|mem| visit(&mut mem.mem)),
        Step::MatMul(product) => {
            let operands = [&mut product.a, &mut product.b, &mut product.c];
            operands.into_iter().chain(product.acc.as_mut()).for_each(|mem| visit(&mut mem.mem));
        }
        Step::Block(block) => {
            for mem in &mut block.mems {
                if let BlockMem::Mem { mem, .. } = mem {
                    visit(&mut mem.mem);
                }
            }
        }
    }
}

/// Rows follow each other without a gap, so that a chain without row operations runs over a whole tile as one row.
fn row_stride(tile: &TileSlot) -> u32 {
    tile.cols * tile.dtype.size() as u32
}

/// Rounded up to a cache line, so that no two tiles share one.
fn bytes_of(tile: &TileSlot) -> u64 {
    (u64::from(tile.rows) * u64::from(row_stride(tile))).next_multiple_of(64)
}
