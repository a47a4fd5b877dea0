//! Cuts a product into tiles: blocks of rows of A, panels of columns of B, blocks of `k`.
//!
//! Each element is one sum in ascending `k`. Where `k` is cut, accumulators go through memory unrounded and the next block
//! goes on with them, so no choice made here shows in a result.
#![allow(unsafe_code)] // works on matrices by address

use super::MatMul;
use super::panels::{STEPS_AT_ONCE, Unpacked, pack_panels, panel};
use super::spec::{MatMulArgs, MatRef};
use super::tile::{End, Family, Finish, Pack, Smallest, Start, Stream, StreamFn, Tile, TileFn};
use super::way::{Plan, Source, Way};
use std::ptr::{null, null_mut};

/// Rows of B in place that are asked for before they are used: 32 cover the latency of memory at one row per 16 cycles.
const AHEAD_IN_PLACE: isize = 32;

/// Bytes of a packed panel that are asked for before they are used.
const AHEAD_PACKED: isize = 4096;

/// Runs one product.
///
/// # Safety
/// As [`MatMul::run`].
pub(super) unsafe fn run(mm: &MatMul, args: &MatMulArgs) {
    let &MatMulArgs { m, n, k, .. } = args;
    if m == 0 || n == 0 {
        return;
    }
    let way = Way::new(mm, args);
    let plan = Plan::new(way.family, m, k);
    let steps = way.family.steps(k);
    let block = way.rows(&plan, m, steps);
    let mut first = 0;
    while first < m {
        let rows = block.min(m - first);
        let parts = way.parts(rows);
        // SAFETY: rows `first..first + rows` exist and scratch holds a block of them.
        let left = unsafe { left(mm, args, &way, first, rows, parts) };
        if let Some(stream) = way.stream {
            // SAFETY: a product of few rows is one block.
            return unsafe { stream_all(mm, args, &way, &plan, stream) };
        }
        for column in (0..n).step_by(way.width) {
            // SAFETY: the columns exist and scratch holds `plan.panels` panels.
            let right = unsafe { right(mm, args, &way, &plan, column) };
            let cols = way.width.min(n - column);
            let tiles = match way.family.exact {
                Some(exact) if !left.smallest.products_stay_normal(right.smallest) => exact,
                _ => way.tiles_of(cols),
            };
            let block = Block { first, rows, parts, column, cols, steps };
            // SAFETY: operands are ready for these rows and columns.
            unsafe { all_tiles(mm, args, &plan, tiles, &block, &left, &right) };
        }
        first += rows;
    }
}

/// The `p`-th of `count` almost equal parts of `total`: its start and size.
fn part(total: usize, count: usize, p: usize) -> (usize, usize) {
    let start = total * p / count;
    (start, total * (p + 1) / count - start)
}

/// Rows of A ready for the micro-kernels.
struct Left {
    /// Lane of row 0, step 0.
    data: *const u8,
    /// In place: bytes between rows and between steps. Packed: each part of the rows is a panel of its own.
    strides: Option<(isize, isize)>,
    smallest: Smallest,
}

impl Left {
    /// The lane of the first row of a part at a step, with the bytes to the next row and step.
    fn at(&self, first: usize, rows: usize, steps: usize, step: usize) -> (*const u8, isize, isize) {
        match self.strides {
            Some((row, next)) => (self.data.wrapping_offset(first as isize * row + step as isize * next), row, next),
            None => (self.data.wrapping_add((first * steps + step * rows) * 4), 4, rows as isize * 4),
        }
    }
}

/// Makes rows `first..first + rows` of A ready.
///
/// Safety: as [`run`]; scratch begins with room for the rows.
unsafe fn left(mm: &MatMul, args: &MatMulArgs, way: &Way, first: usize, rows: usize, parts: usize) -> Left {
    let size = mm.spec.dtype.size() as isize;
    let (row, next) = if mm.spec.a_trans { (size, args.a.row_stride) } else { (args.a.row_stride, size) };
    let data = args.a.data.wrapping_offset(first as isize * row);
    let Some(pack_a) = way.pack_a else {
        return Left { data, strides: Some((row, next)), smallest: Smallest::NONE };
    };
    let mut smallest = Smallest::NONE;
    let at_once = if mm.spec.a_trans && parts > 1 { STEPS_AT_ONCE * way.family.k_group } else { args.k.max(1) };
    for from in (0..args.k).step_by(at_once) {
        for p in 0..parts {
            let (start, count) = part(rows, parts, p);
            let offset = start as isize * row + from as isize * next;
            let lanes = start * way.family.steps(args.k) + from / way.family.k_group * count;
            let pack = Pack {
                src: MatRef { data: data.wrapping_offset(offset), row_stride: args.a.row_stride },
                k_adjacent: !mm.spec.a_trans,
                k: at_once.min(args.k - from),
                valid: count,
                width: count,
                dst: args.scratch.wrapping_add(lanes * 4),
                header: null_mut(),
            };
            // SAFETY: the rows exist and the panel has room for them.
            smallest = smallest.min(unsafe { pack_a(&pack) });
        }
    }
    Left { data: args.scratch, strides: None, smallest }
}

/// Columns of B ready for the micro-kernels.
struct Right {
    /// Lane of column 0, step 0.
    data: *const u8,
    step: isize,
    ahead: isize,
    /// Bytes to the same step of the next panel; 0 where there is none.
    panel: isize,
    /// Whether the sums may be cut. In place B is either small or read once, so cutting gains nothing.
    cut: bool,
    start: Start,
    smallest: Smallest,
}

/// Makes a tile's columns of B from `column` on ready. Columns come in order: their panel may have been packed with one
/// before.
///
/// Safety: as [`run`]; scratch has room for `plan.panels` panels.
unsafe fn right(mm: &MatMul, args: &MatMulArgs, way: &Way, plan: &Plan, column: usize) -> Right {
    let &MatMulArgs { n, k, scratch, .. } = args;
    let packed = &mm.kernels.packed;
    let room = scratch.wrapping_add(plan.panel);
    match way.source {
        Source::InPlace { b, masks } if masks || column + way.width <= n => Right {
            data: b.data.wrapping_add(column * mm.spec.dtype.size()),
            step: b.row_stride,
            ahead: b.row_stride.wrapping_mul(AHEAD_IN_PLACE),
            panel: 0,
            cut: false,
            start: Start::Zero,
            smallest: Smallest::NONE,
        },
        Source::InPlace { b, .. } => {
            // SAFETY: the columns exist and there is room for a panel.
            unsafe { pack_panels(way.family, &mm.unpacked(b, k), column, n - column, room) };
            Right::packed(way.family, room, 0, 0)
        }
        Source::Pack(b) => {
            let group = plan.panels * way.family.nr;
            if column.is_multiple_of(group) {
                // SAFETY: the columns exist and there is room for their panels.
                unsafe { pack_panels(way.family, &mm.unpacked(b, k), column, group.min(n - column), room) };
            }
            let (panel, within) = panel(way.family, room, k, column % group);
            Right::packed(way.family, panel, within, 0)
        }
        Source::Packed(part) => {
            let (panel, within) = panel(packed, part.data, part.k_total, part.n_start + column);
            let skipped = packed.steps(part.k_start) as isize;
            let whole = Right::packed(way.family, panel, within, packed.panel_bytes(part.k_total));
            Right { data: whole.data.wrapping_offset(skipped * whole.step), ..whole }
        }
        Source::PackAgain(part) => {
            let (panel, _) = panel(packed, part.data, part.k_total, part.n_start + column);
            let row = packed.nr * packed.b_lane;
            let lanes = MatRef {
                data: panel.wrapping_add(packed.header + packed.steps(part.k_start) * row),
                row_stride: row as isize,
            };
            let again = Unpacked { b: lanes, transposed: false, size: packed.b_lane, k };
            // SAFETY: lanes of one element are a matrix of `nr` columns.
            unsafe { pack_panels(way.family, &again, 0, packed.nr, room) };
            Right::packed(way.family, room, 0, 0)
        }
    }
}

impl Right {
    /// A packed panel, from its column `within` on; `next` as [`Right::panel`].
    fn packed(family: &Family, panel: *const u8, within: usize, next: usize) -> Self {
        let corrected = family.header > 0 && family.exact.is_none();
        Right {
            data: panel.wrapping_add(family.header + within * family.b_lane),
            step: (family.nr * family.b_lane) as isize,
            ahead: AHEAD_PACKED,
            panel: next as isize,
            cut: true,
            start: if corrected { Start::Columns(panel) } else { Start::Zero },
            smallest: match family.exact {
                // SAFETY: `pack_panel` put it at the front of the panel.
                Some(_) => unsafe { panel.cast::<Smallest>().read_unaligned() },
                None => Smallest::NONE,
            },
        }
    }
}

/// A block of rows times a panel of columns.
struct Block {
    first: usize,
    rows: usize,
    parts: usize,
    column: usize,
    cols: usize,
    /// Steps of the whole sum.
    steps: usize,
}

/// Computes a block of rows times a panel of columns, tile by tile.
///
/// Safety: as [`run`]; `left` and `right` are ready.
unsafe fn all_tiles(
    mm: &MatMul,
    args: &MatMulArgs,
    plan: &Plan,
    tiles: &[TileFn],
    block: &Block,
    left: &Left,
    right: &Right,
) {
    // A panel that one tile reads is read once.
    let steps = if right.cut && block.parts > 1 { plan.steps } else { block.steps };
    let carry = |start: usize| args.scratch.wrapping_add(plan.carry + start * mm.kernels.packed.nr * 4);
    let mut step = 0;
    loop {
        let now = steps.min(block.steps - step);
        let last = step + now == block.steps;
        let bytes = now as isize * right.step;
        let b = right.data.wrapping_offset(step as isize * right.step);
        // Each tile asks for its share of what comes next. A panel that only the first tile of its rows fetched came from
        // memory at twice the speed that memory has: 16 rows reached 77 % of the peak, so 95.
        let (next, next_step) = match (last, right.panel) {
            _ if right.panel == 0 || block.parts == 1 => (b, 0),
            (true, panel) => (right.data.wrapping_offset(panel), right.step / block.parts as isize),
            (false, _) => (b.wrapping_offset(bytes), right.step / block.parts as isize),
        };
        for p in 0..block.parts {
            let (start, rows) = part(block.rows, block.parts, p);
            let (a, a_row, a_step) = left.at(start, rows, block.steps, step);
            let tile = Tile {
                steps: now,
                a,
                a_row,
                a_step,
                b,
                b_step: right.step,
                b_ahead: right.ahead,
                next: next.wrapping_offset(p as isize * now as isize * next_step),
                next_step,
                cols: block.cols,
                start: if step == 0 { right.start } else { Start::Carry(carry(start)) },
                end: if last {
                    End::Finish(finish(mm, args, block.first + start, block.column))
                } else {
                    End::Carry(carry(start))
                },
            };
            // SAFETY: rows and columns of the tile exist; `MatMul::new` chose kernels of this processor.
            unsafe { tiles[rows - 1](&tile) };
        }
        step += now;
        if last {
            break;
        }
    }
}

/// Computes a product of few rows, some columns after the others.
///
/// Safety: as [`run`]; scratch begins with the rows of A, packed as one panel.
unsafe fn stream_all(mm: &MatMul, args: &MatMulArgs, way: &Way, plan: &Plan, stream: StreamFn) {
    let Source::InPlace { b, .. } = way.source else { return };
    for column in (0..args.n).step_by(plan.columns) {
        let job = Stream {
            k: args.k,
            a: args.scratch,
            b: b.data.wrapping_add(column * mm.spec.dtype.size()),
            b_step: b.row_stride,
            cols: plan.columns.min(args.n - column),
            sums: args.scratch.wrapping_add(plan.panel),
            finish: finish(mm, args, 0, column),
        };
        // SAFETY: the columns exist, and the sums have room behind the rows of A.
        unsafe { stream(&job) };
    }
}

/// What becomes of the sums from a row and a column on.
fn finish(mm: &MatMul, args: &MatMulArgs, row: usize, column: usize) -> Finish {
    let row = row as isize;
    let (acc, acc_row) = match args.acc {
        Some(acc) => (acc.data.wrapping_offset(row * acc.row_stride).wrapping_add(column * 4), acc.row_stride),
        None => (null(), 0),
    };
    Finish {
        acc,
        acc_row,
        bias: args.bias.map_or(null(), |bias| bias.wrapping_add(column * 4)),
        c: args.c.data.wrapping_offset(row * args.c.row_stride).wrapping_add(column * mm.out.size()),
        c_row: args.c.row_stride,
        out: mm.out,
    }
}
