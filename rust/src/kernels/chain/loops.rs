//! Passes that are loops of their own: those that softmax, the norms and functions of two arguments are made of.
//!
//! The interpreter reads each instruction again for each chunk, with its operands and constants, and keeps partial results in
//! the frame. A loop resolves them once for a row. It is put together from steps, one for each instruction, and does to each
//! chunk what those do, in their order: the numbers are the same. In the caches a softmax of 1,024 columns takes 0.88 of the
//! time, layer norm of 4,096 columns 0.86, rms norm 0.87, in the portable form 0.87, 0.51 and 0.7. Where the data are in
//! memory and the pass is short, that is too quick: see [`PACE_BYTES`]. A new loop is a line in the table below and its
//! number in `isa`, an instruction that none has a step.

use super::calls::{self, Calls};
use super::code::{Code, Op};
use super::frame::{Accumulator, Entry};
use super::lane;
use super::passes::Asked;
use super::reduction::{self, Partial};
use super::{BinaryFn, UnaryFn};
use crate::kernels::simd::Simd;
use std::ptr;

/// Vectors in the chunks of a loop.
pub(super) const VECTORS: usize = 8;

/// Runs a pass over the columns before `to`, a multiple of the chunk, by the instructions that it is made of. Before a chunk
/// whose first byte in the row has none of the bits of `pace` it waits.
pub(super) type LoopFn = unsafe fn(ops: *const Op, frame: *mut u8, to: usize, pace: usize);

/// One after the other, as a type.
macro_rules! steps {
    ($step:ident) => { $step };
    ($step:ident $($rest:ident)+) => { ($step, steps!($($rest)+)) };
}

macro_rules! loops {
    ($($number:literal: $first:ident $($step:ident)*;)*) => {
        /// The instructions of each loop, without the end of the chunk.
        pub(super) const LOOPS: &[&[Code]] = &[$(&[Code::$first, $(Code::$step),*]),*];

        /// Runs the loop of a number, which is constant where this is called.
        ///
        /// # Safety
        /// The processor has the instruction set `S`; the instructions are those of the loop and were made for this frame; the
        /// frame and all that its entries point to are valid for the columns.
        #[inline(always)]
        pub(super) unsafe fn run<S: Calls>(number: usize, ops: *const Op, frame: *mut u8, to: usize, pace: usize) {
            // SAFETY: passed on to the caller.
            unsafe {
                match number {
                    $($number => pass::<S, $first, steps!($($step)*)>(ops, frame, to, pace),)*
                    _ => unreachable!("a number of the table"),
                }
            }
        }
    };
}

loops! {
    0: LoadVec AddFVec StoreMem;
    1: LoadVec SubFVec StoreMem;
    2: LoadVec MulFVec StoreMem;
    3: LoadVec MulFWord StoreMem;
    4: LoadVec DivFWord StoreMem;
    5: LoadVec ReduceMaxF;
    6: LoadVec ReduceSumF;
    7: LoadVec SquareF ReduceSumF;
    8: LoadVec SubFWord SquareF ReduceSumF;
    9: LoadVec SubFWord ExpF StoreTemp ReduceSumF;
    10: LoadVec SubFWord ExpF StoreTemp ReduceSumF LoadVec ReduceMaxF;
    11: LoadVec MulFWord MulFVec StoreMem;
    12: LoadVec SubFWord MulFWord MulFVec AddFVec StoreMem;
    13: LoadVec MulFWord StoreMem LoadVec SubFWord ExpF StoreTemp ReduceSumF LoadVec ReduceMaxF;
}

/// How many loops there are.
pub(super) const COUNT: usize = LOOPS.len();

/// The loop for a pass, where there is one.
pub(super) fn find(body: &[Op]) -> Option<usize> {
    let [body @ .., end] = body else { return None };
    debug_assert_eq!(end.code, Code::End);
    let requests = body.iter().take_while(|op| op.code == Code::Prefetch).count();
    let steps = &body[requests..];
    let is_same = |codes: &&[Code]| codes.iter().eq(steps.iter().map(|op| &op.code));
    LOOPS.iter().position(is_same).filter(|_| requests <= MAX_REQUESTS && body.iter().all(is_row))
}

/// Whether an operand in memory, if there is one, is a row of 32-bit lanes.
fn is_row(op: &Op) -> bool {
    match op.code {
        Code::SquareF | Code::ExpF | Code::ReduceSumF | Code::ReduceMaxF => true,
        Code::SubFWord | Code::MulFWord | Code::DivFWord => true,
        _ => op.step_a == 4,
    }
}

/// One instruction, or several one after the other.
trait Step<S: Calls> {
    /// Its operands, resolved.
    type State;

    /// Instructions that it is.
    const OPS: usize = 1;

    unsafe fn begin(op: *const Op, frame: *mut u8) -> Self::State;
    /// Does it to the chunk at a column.
    unsafe fn chunk(state: &mut Self::State, acc: &mut [S::V; VECTORS], col: usize);
    /// Puts partial results into the frame.
    #[inline(always)]
    unsafe fn end(_: Self::State) {}
}

impl<S: Calls, A: Step<S>, B: Step<S>> Step<S> for (A, B) {
    type State = (A::State, B::State);

    const OPS: usize = A::OPS + B::OPS;

    #[inline(always)]
    unsafe fn begin(op: *const Op, frame: *mut u8) -> Self::State {
        // SAFETY: passed on to the caller.
        unsafe { (A::begin(op, frame), B::begin(op.add(A::OPS), frame)) }
    }

    #[inline(always)]
    unsafe fn chunk(state: &mut Self::State, acc: &mut [S::V; VECTORS], col: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            A::chunk(&mut state.0, acc, col);
            B::chunk(&mut state.1, acc, col);
        }
    }

    #[inline(always)]
    unsafe fn end(state: Self::State) {
        // SAFETY: passed on to the caller.
        unsafe {
            A::end(state.0);
            B::end(state.1);
        }
    }
}

/// Bytes of a row that are begun together where a loop is paced. A processor that runs ahead without end fills its buffers with
/// requests and loads, for which the stores then wait. An rms norm of 4096x4096 took 1.25 us a row that way, where the slower
/// interpreter took 0.95; paced it takes 0.87. For 256 bytes, which are a chunk of AVX2, rms norm took 1.2; the last pass of a
/// softmax, which loads from the caches, made it take a third longer. The loads of a chunk and its requests are begun first
/// (with a wait before the loads, layer norm took 1.04 of the time), and the first chunk waits for nothing: the pass before it
/// has only just ended (with a wait, rms norm took 1.04 us).
pub(super) const PACE_BYTES: usize = 512;

/// The bits for a [`LoopFn`] that waits each `many` times [`PACE_BYTES`], a power of two, where results go past the caches.
pub(super) fn pace(many: u8, streams: bool) -> usize {
    if streams && many > 0 { usize::from(many) * PACE_BYTES - 1 } else { usize::MAX }
}

/// Operands that a loop asks for, at most.
const MAX_REQUESTS: usize = 4;

/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn pass<S: Calls, First: Step<S>, Rest: Step<S>>(mut ops: *const Op, frame: *mut u8, to: usize, pace: usize) {
    // SAFETY: passed on to the caller.
    unsafe {
        // The next rows of operands; what is one row for all is in the caches.
        let (mut next, mut count) = ([ptr::null_mut::<u8>(); MAX_REQUESTS], 0);
        let half = (*ops).step_b != Asked::All as u8;
        while (*ops).code == Code::Prefetch {
            let entry = row(ops, frame);
            if entry.advance != 0 {
                let begin = if (*ops).step_b == Asked::SecondHalf as u8 { to * 4 / 2 } else { 0 };
                next[count] = entry.base.wrapping_offset(entry.advance).wrapping_add(begin);
                count += 1;
            }
            ops = ops.add(1);
        }
        let mut first = First::begin(ops, frame);
        let mut rest = Rest::begin(ops.add(First::OPS), frame);
        let mut acc = [S::splat(0); VECTORS];
        for col in (0..to).step_by(VECTORS * S::LANES) {
            First::chunk(&mut first, &mut acc, col);
            let lines = VECTORS * S::LANES * 4 / 64;
            for base in &next[..count] {
                if half {
                    each!(VECTORS, i => if i < lines / 2 { S::prefetch(base.wrapping_add(col * 4 / 2 + i * 64)) });
                } else {
                    each!(VECTORS, i => if i < lines { S::prefetch(base.wrapping_add(col * 4 + i * 64)) });
                }
            }
            if col > 0 && (col * 4) & pace == 0 {
                S::pace();
            }
            Rest::chunk(&mut rest, &mut acc, col);
        }
        First::end(first);
        Rest::end(rest);
    }
}

/// Column 0 of the row that operand `a` is.
#[inline(always)]
unsafe fn row(op: *const Op, frame: *mut u8) -> Entry {
    // SAFETY: as for `run`.
    unsafe { *frame.add((*op).a as usize).cast::<Entry>() }
}

/// Vector `i` of the chunk at a column of a row.
#[inline(always)]
fn vector<S: Simd>(base: *mut u8, col: usize, i: usize) -> *mut u8 {
    base.wrapping_add((col + i * S::LANES) * 4)
}

/// Steps with a row: what each does to a vector of the chunk and that of the row.
macro_rules! with_row {
    ($($step:ident |$x:ident, $of_row:ident| $does:expr;)*) => {
        $(
            enum $step {}

            impl<S: Calls> Step<S> for $step {
                type State = *mut u8;

                #[inline(always)]
                unsafe fn begin(op: *const Op, frame: *mut u8) -> *mut u8 {
                    // SAFETY: as for `run`.
                    unsafe { row(op, frame).base }
                }

                #[inline(always)]
                unsafe fn chunk(base: &mut *mut u8, acc: &mut [S::V; VECTORS], col: usize) {
                    // SAFETY: as for `run`.
                    unsafe {
                        each!(VECTORS, i => {
                            let ($x, $of_row) = (&mut acc[i], vector::<S>(*base, col, i));
                            $does;
                        });
                    }
                }
            }
        )*
    };
}

with_row! {
    LoadVec |x, of_row| *x = S::load(of_row);
    StoreTemp |x, of_row| S::store(of_row, *x);
    AddFVec |x, of_row| *x = lane::binary::<S>(BinaryFn::AddF, *x, S::load(of_row));
    SubFVec |x, of_row| *x = lane::binary::<S>(BinaryFn::SubF, *x, S::load(of_row));
    MulFVec |x, of_row| *x = lane::binary::<S>(BinaryFn::MulF, *x, S::load(of_row));
}

enum StoreMem {}

impl<S: Calls> Step<S> for StoreMem {
    type State = Entry;

    #[inline(always)]
    unsafe fn begin(op: *const Op, frame: *mut u8) -> Entry {
        // SAFETY: as for `run`.
        unsafe { row(op, frame) }
    }

    #[inline(always)]
    unsafe fn chunk(entry: &mut Entry, acc: &mut [S::V; VECTORS], col: usize) {
        // SAFETY: as for `run`; what streams is aligned.
        unsafe {
            if entry.stream {
                each!(VECTORS, i => S::stream(vector::<S>(entry.base, col, i), acc[i]));
            } else {
                each!(VECTORS, i => S::store(vector::<S>(entry.base, col, i), acc[i]));
            }
        }
    }
}

/// Functions of two arguments with a word.
macro_rules! with_word {
    ($($step:ident $f:ident;)*) => {
        $(
            enum $step {}

            impl<S: Calls> Step<S> for $step {
                type State = S::V;

                #[inline(always)]
                unsafe fn begin(op: *const Op, frame: *mut u8) -> S::V {
                    // SAFETY: as for `run`.
                    unsafe { S::splat(*frame.add((*op).a as usize).cast::<u32>()) }
                }

                #[inline(always)]
                unsafe fn chunk(word: &mut S::V, acc: &mut [S::V; VECTORS], _: usize) {
                    // SAFETY: as for `run`.
                    unsafe { each!(VECTORS, i => acc[i] = lane::binary::<S>(BinaryFn::$f, acc[i], *word)) }
                }
            }
        )*
    };
}

with_word! { SubFWord SubF; MulFWord MulF; DivFWord DivF; }

enum SquareF {}

impl<S: Calls> Step<S> for SquareF {
    type State = ();

    #[inline(always)]
    unsafe fn begin(_: *const Op, _: *mut u8) {}

    #[inline(always)]
    unsafe fn chunk((): &mut (), acc: &mut [S::V; VECTORS], _: usize) {
        // SAFETY: as for `run`.
        unsafe { each!(VECTORS, i => acc[i] = lane::unary::<S>(UnaryFn::SquareF, acc[i])) }
    }
}

enum ExpF {}

impl<S: Calls> Step<S> for ExpF {
    type State = ();

    #[inline(always)]
    unsafe fn begin(_: *const Op, _: *mut u8) {}

    #[inline(always)]
    unsafe fn chunk((): &mut (), acc: &mut [S::V; VECTORS], _: usize) {
        // SAFETY: as for `run`.
        unsafe { calls::exp::<S, VECTORS, false>(acc) }
    }
}

enum ReduceSumF {}

impl<S: Calls> Step<S> for ReduceSumF {
    type State = (*mut u8, Partial<S>);

    #[inline(always)]
    unsafe fn begin(op: *const Op, frame: *mut u8) -> Self::State {
        // SAFETY: as for `run`.
        unsafe {
            let lanes = accumulator(op, frame).lanes.as_mut_ptr().cast();
            (lanes, Partial::load(lanes))
        }
    }

    #[inline(always)]
    unsafe fn chunk((_, partial): &mut Self::State, acc: &mut [S::V; VECTORS], _: usize) {
        // SAFETY: as for `run`.
        unsafe { partial.combine(acc, S::splat(0), |a, b| S::add_f(a, b)) }
    }

    #[inline(always)]
    unsafe fn end((lanes, partial): Self::State) {
        // SAFETY: as for `run`.
        unsafe { partial.store(lanes) }
    }
}

enum ReduceMaxF {}

impl<S: Calls> Step<S> for ReduceMaxF {
    type State = (*mut Accumulator, S::V, bool);

    #[inline(always)]
    unsafe fn begin(op: *const Op, frame: *mut u8) -> Self::State {
        // SAFETY: as for `run`.
        unsafe {
            let state = accumulator(op, frame);
            (state, S::load(state.lanes.as_ptr().cast()), state.nan)
        }
    }

    #[inline(always)]
    unsafe fn chunk((_, most, nan): &mut Self::State, acc: &mut [S::V; VECTORS], _: usize) {
        // SAFETY: as for `run`.
        unsafe {
            *most = S::max_num(*most, reduction::fold_chunk::<S, VECTORS>(acc, |a, b| S::max_num(a, b)));
            *nan |= reduction::has_nan::<S, VECTORS>(acc);
        }
    }

    #[inline(always)]
    unsafe fn end((state, most, nan): Self::State) {
        // SAFETY: as for `run`.
        unsafe {
            S::store((*state).lanes.as_mut_ptr().cast(), most);
            (*state).nan = nan;
        }
    }
}

/// The accumulator of a reduction.
#[inline(always)]
unsafe fn accumulator<'a>(op: *const Op, frame: *mut u8) -> &'a mut Accumulator {
    // SAFETY: as for `run`; each reduction of a pass has its own.
    unsafe { &mut *frame.add((*op).a as usize).cast::<Accumulator>() }
}
