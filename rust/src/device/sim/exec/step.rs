//! Steps on tiles: operands become addresses, and large work is cut into parts for the cores.
#![allow(unsafe_code)] // calls the kernels with addresses that `access` and the layout of scratch memory vouch for

use super::access::{BoxMem, WindowMem, plain_matrix};
use super::frame::Frame;
use super::interpret::{Core, Lane};
use crate::device::sim::code::{ChainStep, MatMulStep, Mem, MemUse, Step};
use crate::device::sim::lower::lane_bits;
use crate::kernels::chain::{ChainRun, MemArg};
use crate::kernels::matmul::{MatMulArgs, MatMut, MatRef, Rhs};
use crate::program::Operand;

/// Work of one part in picoseconds: well above a hand-off (0.3 us hot, 10-29 us cold), well below the time between two
/// looks at the keyboard.
const PART_PS: u64 = 30_000_000;
/// Estimated picoseconds of one multiply-add in a matrix kernel; the slowest instruction set would be 20 times this.
const FMA_PS: u64 = 20;

/// A box that is no matrix with adjacent columns and was copied to (or will be copied from) a dense buffer.
pub(super) struct Bounced {
    operand: usize,
    mem: Odd,
    size: usize,
    write: bool,
}

/// Memory that is no matrix.
enum Odd {
    Box(BoxMem),
    /// A window that is partly outside its tile.
    Window(WindowMem),
}

impl Odd {
    /// Copies all elements to dense rows at `dense`, or from there.
    ///
    /// # Safety
    /// `dense` is valid for all elements, and the memory is live.
    unsafe fn copy_dense(&self, dense: *mut u8, size: usize, to_dense: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Odd::Box(mem) => mem.copy_dense(dense, size, to_dense),
                Odd::Window(mem) => mem.copy_dense(dense, size, to_dense),
            }
        }
    }
}

impl Core<'_> {
    pub(super) fn step(&mut self, step: &Step, frame: &Frame) -> Result<(), String> {
        match step {
            Step::Chain(chain) => self.chain(chain, frame),
            Step::MatMul(product) => self.matmul(product, frame),
            Step::Block(block) => self.block(block, frame),
        }
    }

    /// How many parts to make of `work` that can be cut into at most `most`.
    fn parts(&self, work: u64, most: u64) -> u64 {
        // A part is also what can be interrupted, so long steps are cut for one core too.
        let cut = (self.alone && self.context.pool.cores() > 1) || work >= 200 * PART_PS;
        if cut { (work / PART_PS).clamp(1, most.max(1)) } else { 1 }
    }

    fn chain(&mut self, step: &ChainStep, frame: &Frame) -> Result<(), String> {
        let [rows, cols] = region(step.region, step.bound, frame)?;
        if rows == 0 {
            return Ok(());
        }
        let work = rows * cols.max(1) * u64::from(step.cost);
        self.budget -= work as i64;
        let (context, parts) = (self.context, self.parts(work, rows));
        let Lane { mems, scalars, bounce, tiles, scratch, .. } = self.lane();
        let (tiles, scratch) = (*tiles, *scratch);
        mems.clear();
        let mut bounced = Vec::new();
        for (at, operand) in step.mems.iter().enumerate() {
            let span = [if operand.extent.rows { rows } else { 1 }, if operand.extent.cols { cols } else { 1 }];
            let (data, row_stride) = address(operand, span, frame, tiles, at, bounce, &mut bounced)?;
            let row_stride = if operand.extent.rows { row_stride } else { 0 };
            mems.push(MemArg { data, row_stride, stream: false });
        }
        scalars.clear();
        scalars.extend(step.scalars.iter().map(|scalar| lane_bits(frame.bits(scalar.value), scalar.dtype)));
        let (all, all_scalars) = (&Shared(mems.as_slice()), scalars.as_slice());
        if parts == 1 {
            let (mems, scalars) = (*all.get(), all_scalars);
            let run = ChainRun { rows: rows as usize, cols: cols as usize, first: [0; 2], mems, scalars, scratch };
            // SAFETY: `address` checked every operand against the region; the scratch is this core's.
            unsafe { step.machine.run(&run) };
        } else {
            let poller = context.poller;
            let part = |part: usize, core: usize| {
                if if core == 0 { poller.poll() } else { poller.stopped() } {
                    return;
                }
                let (first, last) = (rows * part as u64 / parts, rows * (part as u64 + 1) / parts);
                // SAFETY: one thread at a time runs as `core`, so what its lane has for parts is not shared.
                let (part_mems, scratch) = unsafe {
                    let lane = context.lanes.add(core);
                    (&mut (*lane).part_mems, (*lane).scratch)
                };
                part_mems.clear();
                part_mems.extend(
                    all.get()
                        .iter()
                        .map(|mem| MemArg { data: mem.data.wrapping_offset(first as isize * mem.row_stride), ..*mem }),
                );
                let run = ChainRun {
                    rows: (last - first) as usize,
                    cols: cols as usize,
                    first: [first as u32, 0],
                    mems: part_mems,
                    scalars: all_scalars,
                    scratch,
                };
                // SAFETY: the part is a range of rows of a checked region; parts write different rows.
                unsafe { step.machine.run(&run) };
            };
            context.pool.run_watched(parts as usize, &part, &mut || {
                poller.poll();
            });
        }
        finish(&bounced, &self.lane().bounce);
        Ok(())
    }

    fn matmul(&mut self, step: &MatMulStep, frame: &Frame) -> Result<(), String> {
        let [m, n, k] = extents(step, frame)?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let mut bounced = Vec::new();
        let (context, number) = (self.context, self.number);
        let Lane { bounce, tiles, .. } = self.lane();
        let mut operand = |at: usize, operand: &MemUse, rows: u64, cols: u64, trans: bool| {
            let span = if trans { [cols, rows] } else { [rows, cols] };
            match turned(operand, span, frame).filter(|_| at < 2) {
                Some(place) => Ok::<_, String>((place, !trans)),
                None => address(operand, span, frame, *tiles, at, bounce, &mut bounced).map(|place| (place, trans)),
            }
        };
        let (a, a_trans) = operand(0, &step.a, m, k, step.trans[0])?;
        let (b, b_trans) = operand(1, &step.b, k, n, step.trans[1])?;
        let (c, _) = operand(2, &step.c, m, n, false)?;
        let acc = step.acc.as_ref().map(|acc| operand(3, acc, m, n, false)).transpose()?.map(|(acc, _)| acc);
        let kernel = &step.kernels[usize::from(a_trans)][usize::from(b_trans)];
        let work = m * n * k.max(1) * FMA_PS;
        self.budget -= work as i64;
        // Columns are cut first: each part then reads its own part of the right operand, which is the large one.
        let (m_step, n_step) = (kernel.m_step() as u64, kernel.n_step() as u64);
        let by_rows = m / m_step > n / n_step;
        let (length, grain) = if by_rows { (m, m_step) } else { (n, n_step) };
        let blocks = length.div_ceil(grain);
        let parts = self.parts(work, blocks);
        let (a_size, c_size) = (step.a.dtype.size() as isize, step.c.dtype.size() as isize);
        let acc_size = step.acc.as_ref().map_or(4, |acc| acc.dtype.size() as isize);
        let addresses = Shared((a, b, c, acc));
        let poller = context.poller;
        let part = |part: usize, core: usize| {
            if if core == 0 { poller.poll() } else { poller.stopped() } {
                return;
            }
            let (a, b, c, acc) = *addresses.get();
            let first = (blocks * part as u64 / parts * grain).min(length) as isize;
            let last = (blocks * (part as u64 + 1) / parts * grain).min(length) as isize;
            let (row, col) = if by_rows { (first, 0) } else { (0, first) };
            let place = |(data, stride): (*mut u8, isize), row: isize, col: isize, size: isize| MatRef {
                data: data.wrapping_offset(row * stride + col * size),
                row_stride: stride,
            };
            let target = place(c, row, col, c_size);
            let args = MatMulArgs {
                m: if by_rows { (last - first) as usize } else { m as usize },
                n: if by_rows { n as usize } else { (last - first) as usize },
                k: k as usize,
                a: if a_trans { place(a, 0, row, a_size) } else { place(a, row, 0, a_size) },
                b: Rhs::Plain(if b_trans { place(b, col, 0, a_size) } else { place(b, 0, col, a_size) }),
                c: MatMut { data: target.data.cast_mut(), row_stride: target.row_stride },
                acc: acc.map(|acc| place(acc, row, col, acc_size)),
                bias: None,
                // SAFETY: one thread at a time runs as `core`.
                scratch: unsafe { (*context.lanes.add(core)).scratch },
            };
            // SAFETY: `address` checked every operand; parts write different blocks of `c`.
            unsafe { kernel.run(&args) };
        };
        if parts == 1 {
            part(0, number);
        } else {
            context.pool.run_watched(parts as usize, &part, &mut || {
                poller.poll();
            });
        }
        finish(&bounced, &self.lane().bounce);
        Ok(())
    }
}

/// The address and the row stride of the transpose of a box, where that is a matrix with adjacent columns and the box is not.
fn turned(operand: &MemUse, span: [u64; 2], frame: &Frame) -> Option<(*mut u8, isize)> {
    let Mem::Box(spec) = &operand.mem else { return None };
    if plain_matrix(spec, frame, span[0], span[1]).is_some() || span[0] <= 1 || span[1] <= 1 {
        return None;
    }
    let mem = BoxMem::evaluate(spec, frame, span[0], span[1]).ok()?;
    mem.turned(operand.dtype.size()).map(|stride| (mem.data, stride))
}

/// Lets the parts of one step see its addresses.
struct Shared<T>(T);

// SAFETY: the parts use the addresses for different rows, columns or cores, as each use says.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

/// Rows, columns and inner extent of a product now.
pub(super) fn extents(step: &MatMulStep, frame: &Frame) -> Result<[u64; 3], String> {
    let [bound_m, bound_n, bound_k] = step.bound;
    let [m, n] = region(step.region, [bound_m, bound_n], frame)?;
    let [k, _] = region([step.k, Operand::Int(1)], [bound_k, 1], frame)?;
    Ok([m, n, k])
}

/// The extents of a region now, checked against what the tiles have room for.
pub(super) fn region(region: [Operand; 2], bound: [u32; 2], frame: &Frame) -> Result<[u64; 2], String> {
    let rows = frame.int(region[0]);
    let cols = frame.int(region[1]);
    if rows < 0 || cols < 0 || rows > bound[0].into() || cols > bound[1].into() {
        let [most_rows, most_cols] = bound;
        return Err(format!(
            "a valid shape of [{rows}, {cols}] for a tile of [{most_rows}, {most_cols}]; it must be at least 0 and no larger \
             than the tile"
        ));
    }
    Ok([rows as u64, cols as u64])
}

/// The first element and the bytes from row to row of an operand that spans `span`.
pub(super) fn address(
    operand: &MemUse,
    span: [u64; 2],
    frame: &Frame,
    tiles: *mut u8,
    at: usize,
    bounce: &mut Vec<Vec<u64>>,
    bounced: &mut Vec<Bounced>,
) -> Result<(*mut u8, isize), String> {
    match &operand.mem {
        Mem::Tile(tile) => Ok((tiles.wrapping_add(tile.home as usize), tile.row_stride as isize)),
        Mem::Window(window) => {
            let size = operand.dtype.size();
            let mem = WindowMem::evaluate(window, frame, span, size, tiles);
            if let Some(first) = mem.inside() {
                return Ok((first, window.tile.row_stride as isize));
            }
            let dense = dense(bounce, at, span, size);
            if !operand.write {
                // SAFETY: the buffer has room for the window.
                unsafe { mem.copy_dense(dense, size, true) };
            }
            bounced.push(Bounced { operand: at, mem: Odd::Window(mem), size, write: operand.write });
            Ok((dense, (span[1] as usize * size) as isize))
        }
        Mem::Box(spec) => {
            if let Some(found) = plain_matrix(spec, frame, span[0], span[1]) {
                return Ok(found);
            }
            let size = operand.dtype.size();
            let mem = BoxMem::evaluate(spec, frame, span[0], span[1])?;
            if let Some(stride) = mem.row_stride(size) {
                return Ok((mem.data, stride));
            }
            let dense = dense(bounce, at, span, size);
            if !operand.write {
                // SAFETY: the buffer has room for the box, which was checked.
                unsafe { mem.copy_dense(dense, size, true) };
            }
            bounced.push(Bounced { operand: at, mem: Odd::Box(mem), size, write: operand.write });
            Ok((dense, (span[1] as usize * size) as isize))
        }
    }
}

/// Room for dense rows of the operand `at`.
fn dense(bounce: &mut Vec<Vec<u64>>, at: usize, span: [u64; 2], size: usize) -> *mut u8 {
    let words = (span[0] as usize * span[1] as usize * size).div_ceil(8);
    if bounce.len() <= at {
        bounce.resize_with(at + 1, Vec::new);
    }
    let buffer = &mut bounce[at];
    buffer.resize(words.max(buffer.len()), 0);
    buffer.as_mut_ptr().cast()
}

/// Copies results that went to a dense buffer to where they belong.
pub(super) fn finish(bounced: &[Bounced], bounce: &[Vec<u64>]) {
    for copy in bounced.iter().filter(|copy| copy.write) {
        let dense = bounce[copy.operand].as_ptr().cast::<u8>().cast_mut();
        // SAFETY: as when the box was checked; the kernel has filled the buffer.
        unsafe { copy.mem.copy_dense(dense, copy.size, false) };
    }
}
