//! Cuts a product into tiles: blocks of rows of A, panels of columns of B, blocks of `k`.
//!
//! Each element is one sum in ascending `k`. Where `k` is cut, accumulators go through memory unrounded and the next block
//! goes on with them, so no choice made here shows in a result.
#![allow(unsafe_code)] // works on matrices by address

use super::MatMul;
use super::spec::{MatMulArgs, MatRef, Rhs};
use super::tile::{End, Finish, Kernels, Pack, PackFn, Plain, Smallest, Start, Tile, TileFn};
use std::ptr::null_mut;

/// A packed block of A larger than this would push the panel of B out of the second-level cache's neighbourhood; smaller
/// blocks pack B more often.
const A_BLOCK_BYTES: usize = 2 << 20;

/// Bytes of a panel of B that stay in the second-level cache while all rows of a block pass over it. Longer sums are cut.
const B_BLOCK_BYTES: usize = 512 << 10;

/// How a product is cut, and what lies where in scratch.
struct Plan {
    /// Rows of a block of A.
    rows: usize,
    /// Steps of a block of `k`.
    steps: usize,
    /// Offsets in scratch.
    panel: usize,
    carry: usize,
    bytes: usize,
}

impl Plan {
    fn new(kernels: &Kernels, m: usize, k: usize) -> Self {
        let total = kernels.steps(k);
        let rows = (A_BLOCK_BYTES / 4 / total.max(1)).max(16).min(m);
        let steps = total.min((B_BLOCK_BYTES / (kernels.nr * kernels.b_lane)).max(1));
        let lanes = if kernels.plain.is_some() { k } else { total };
        let panel = align(rows * lanes * 4);
        let carry = panel + align(kernels.header + kernels.panel_lanes(k));
        let carried = if steps < total { rows * kernels.nr * 4 } else { 0 };
        Plan { rows, steps, panel, carry, bytes: carry + align(carried) }
    }
}

fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

/// Scratch of one product, whatever way it is computed.
pub(super) fn scratch_bytes(kernels: &Kernels, m: usize, k: usize) -> usize {
    Plan::new(kernels, m, k).bytes
}

/// Bytes from one packed panel to the next.
pub(super) fn panel_bytes(kernels: &Kernels, k: usize) -> usize {
    align(kernels.header + kernels.panel_lanes(k))
}

/// The `p`-th of `count` almost equal parts of `total`.
fn part(total: usize, count: usize, p: usize) -> (usize, usize) {
    let start = total * p / count;
    (start, total * (p + 1) / count - start)
}

/// Rows of A ready for the micro-kernels.
#[derive(Clone, Copy)]
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

/// A panel of B ready for the micro-kernels.
struct Right {
    /// Lane of column 0, step 0.
    data: *const u8,
    step: isize,
    ahead: isize,
    /// Whether the panel may be cut along `k`. In place it is either small or read once, so cutting gains nothing.
    packed: bool,
    start: Start,
    smallest: Smallest,
}

/// Runs one product.
///
/// # Safety
/// As [`MatMul::run`].
pub(super) unsafe fn run(mm: &MatMul, args: &MatMulArgs) {
    let &MatMulArgs { m, n, k, scratch, .. } = args;
    if m == 0 || n == 0 {
        return;
    }
    let kernels = mm.kernels;
    let plan = Plan::new(kernels, m, k);
    let plain = in_place(mm, args);
    let form = Form::new(kernels, plain, m, n);
    let mut first = 0;
    while first < m {
        let rows = plan.rows.min(m - first);
        let parts = rows.div_ceil(form.tiles.len());
        // SAFETY: rows `first..first + rows` exist and scratch holds a block of them.
        let left = unsafe { left(mm, args, &form, first, rows) };
        for column in (0..n).step_by(form.width) {
            let cols = form.width.min(n - column);
            // SAFETY: the columns exist and scratch holds a panel.
            let right = unsafe {
                match plain {
                    Some(plain) if cols == form.width || plain.masks => right_in_place(mm, args, column),
                    _ => right_packed(mm, args, column, cols, scratch.add(plan.panel)),
                }
            };
            let tiles = match kernels.exact {
                Some(exact) if !left.smallest.products_stay_normal(right.smallest) => exact,
                _ => form.tiles,
            };
            let block = Block { first, rows, parts, column, cols, steps: k.div_ceil(form.k_group) };
            // SAFETY: operands are ready for these rows and columns.
            unsafe { block_of_tiles(mm, args, &plan, tiles, &block, &left, &right) };
        }
        first += rows;
    }
}

/// Whether, and with which kernels, B is read where it lies.
fn in_place(mm: &MatMul, args: &MatMulArgs) -> Option<&'static Plain> {
    let Rhs::Plain(b) = args.b else { return None };
    let plain = mm.kernels.plain.as_ref().filter(|_| !mm.spec.b_trans)?;
    let small = args.k.saturating_mul(b.row_stride.unsigned_abs()) <= plain.bytes_up_to;
    (small || args.m < plain.rows_below).then_some(plain)
}

/// A is read in place for up to this many panels of B; for more, packing pays.
const A_IN_PLACE_PANELS: usize = 4;

/// The kernels of a product.
struct Form {
    tiles: &'static [TileFn],
    /// Columns of a tile.
    width: usize,
    /// Values of `k` in a lane.
    k_group: usize,
    /// How A is packed; `None` where it is read in place.
    pack_a: Option<PackFn>,
}

impl Form {
    fn new(kernels: &'static Kernels, plain: Option<&'static Plain>, m: usize, n: usize) -> Self {
        let width = kernels.nr;
        match (plain, kernels.strided) {
            (Some(plain), _) if m > plain.wide.len() && m <= plain.tall.len() => {
                Form { tiles: plain.tall, width: plain.tall_cols, k_group: 1, pack_a: Some(plain.pack_a) }
            }
            (_, Some(tiles)) if n <= A_IN_PLACE_PANELS * width => Form { tiles, width, k_group: 1, pack_a: None },
            (Some(plain), _) => Form { tiles: plain.wide, width, k_group: 1, pack_a: Some(plain.pack_a) },
            (None, _) => Form { tiles: kernels.packed, width, k_group: kernels.k_group, pack_a: Some(kernels.pack_a) },
        }
    }
}

/// Makes rows `first..first + rows` of A ready.
///
/// Safety: as [`run`]; `scratch` holds `rows * steps` lanes.
unsafe fn left(mm: &MatMul, args: &MatMulArgs, form: &Form, first: usize, rows: usize) -> Left {
    let steps = args.k.div_ceil(form.k_group);
    let size = mm.spec.dtype.size() as isize;
    let (row, next) = if mm.spec.a_trans { (size, args.a.row_stride) } else { (args.a.row_stride, size) };
    let data = args.a.data.wrapping_offset(first as isize * row);
    let Some(pack_a) = form.pack_a else {
        return Left { data, strides: Some((row, next)), smallest: Smallest::NONE };
    };
    let mut smallest = Smallest::NONE;
    let parts = rows.div_ceil(form.tiles.len());
    for p in 0..parts {
        let (start, count) = part(rows, parts, p);
        let pack = Pack {
            src: MatRef { data: data.wrapping_offset(start as isize * row), row_stride: args.a.row_stride },
            k_adjacent: !mm.spec.a_trans,
            k: args.k,
            valid: count,
            width: count,
            dst: args.scratch.wrapping_add(start * steps * 4),
            header: null_mut(),
        };
        // SAFETY: the rows exist and the panel has room for them.
        smallest = smallest.min(unsafe { pack_a(&pack) });
    }
    Left { data: args.scratch, strides: None, smallest }
}

/// A panel of B where it lies.
fn right_in_place(mm: &MatMul, args: &MatMulArgs, column: usize) -> Right {
    let b = match args.b {
        Rhs::Plain(b) => b,
        Rhs::Packed { .. } => unreachable!("a packed operand has no place of its own"),
    };
    Right {
        data: b.data.wrapping_add(column * mm.spec.dtype.size()),
        step: b.row_stride,
        ahead: b.row_stride.wrapping_mul(AHEAD_IN_PLACE),
        packed: false,
        start: Start::Zero,
        smallest: Smallest::NONE,
    }
}

/// Rows of B that are asked for before they are used: 32 cover the latency of memory at one row per 16 cycles.
const AHEAD_IN_PLACE: isize = 32;

/// Bytes of a packed panel that are asked for before they are used.
const AHEAD_PACKED: isize = 4096;

/// A packed panel of B: one that was packed before, or else `room` after packing it now.
///
/// Safety: as [`run`]; `room` holds a panel.
unsafe fn right_packed(mm: &MatMul, args: &MatMulArgs, column: usize, cols: usize, room: *mut u8) -> Right {
    let kernels = mm.kernels;
    let panel = match args.b {
        Rhs::Plain(b) => {
            // SAFETY: the columns exist and `room` holds a panel.
            unsafe { pack_panel(mm, b, args.k, column, cols, room) };
            room.cast_const()
        }
        Rhs::Packed { data, n_start } => {
            data.wrapping_add((n_start + column) / kernels.nr * panel_bytes(kernels, args.k))
        }
    };
    let corrected = kernels.header > 0 && kernels.exact.is_none();
    Right {
        data: panel.wrapping_add(kernels.header),
        step: (kernels.nr * kernels.b_lane) as isize,
        ahead: AHEAD_PACKED,
        packed: true,
        start: if corrected { Start::Columns(panel) } else { Start::Zero },
        smallest: match kernels.exact {
            // SAFETY: `pack_panel` put it at the front of the panel.
            Some(_) => unsafe { panel.cast::<Smallest>().read_unaligned() },
            None => Smallest::NONE,
        },
    }
}

/// Packs `cols` columns from `column` on into the panel `dst`.
///
/// # Safety
/// The columns exist for all `k` and `dst` has [`panel_bytes`].
pub(super) unsafe fn pack_panel(mm: &MatMul, b: MatRef, k: usize, column: usize, cols: usize, dst: *mut u8) {
    let kernels = mm.kernels;
    let column = column as isize * if mm.spec.b_trans { b.row_stride } else { mm.spec.dtype.size() as isize };
    let pack = Pack {
        src: MatRef { data: b.data.wrapping_offset(column), row_stride: b.row_stride },
        k_adjacent: mm.spec.b_trans,
        k,
        valid: cols,
        width: kernels.nr,
        dst: dst.wrapping_add(kernels.header),
        header: dst,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let smallest = (kernels.pack_b)(&pack);
        if kernels.exact.is_some() {
            dst.cast::<Smallest>().write_unaligned(smallest);
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
unsafe fn block_of_tiles(
    mm: &MatMul,
    args: &MatMulArgs,
    plan: &Plan,
    tiles: &[TileFn],
    block: &Block,
    left: &Left,
    right: &Right,
) {
    let kernels = mm.kernels;
    let steps = if right.packed { plan.steps } else { block.steps };
    let carry = |start: usize| args.scratch.wrapping_add(plan.carry + start * kernels.nr * 4);
    let mut step = 0;
    loop {
        let now = steps.min(block.steps - step);
        let last = step + now == block.steps;
        for p in 0..block.parts {
            let (start, rows) = part(block.rows, block.parts, p);
            let (a, a_row, a_step) = left.at(start, rows, block.steps, step);
            let tile = Tile {
                steps: now,
                a,
                a_row,
                a_step,
                b: right.data.wrapping_offset(step as isize * right.step),
                b_step: right.step,
                b_ahead: right.ahead,
                cols: block.cols,
                start: if step == 0 { right.start } else { Start::Carry(carry(start)) },
                end: if last { End::Finish(finish(mm, args, block, start)) } else { End::Carry(carry(start)) },
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

/// What becomes of the sums of the rows of `block` from `start` on.
fn finish(mm: &MatMul, args: &MatMulArgs, block: &Block, start: usize) -> Finish {
    let row = (block.first + start) as isize;
    let (acc, acc_row) = match args.acc {
        Some(acc) => (acc.data.wrapping_offset(row * acc.row_stride).wrapping_add(block.column * 4), acc.row_stride),
        None => (std::ptr::null(), 0),
    };
    Finish {
        acc,
        acc_row,
        bias: args.bias.map_or(std::ptr::null(), |bias| bias.wrapping_add(block.column * 4)),
        c: args.c.data.wrapping_offset(row * args.c.row_stride).wrapping_add(block.column * mm.out.size()),
        c_row: args.c.row_stride,
        out: mm.out,
    }
}
