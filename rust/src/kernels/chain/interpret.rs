//! The interpreter: passes over a row, chunk by chunk, with the accumulator in registers.

use super::calls::{self, Calls};
use super::code::{Code, Op, functions};
use super::compile::Tables;
use super::frame::{Accumulator, Entry};
use super::isa::Plan;
use super::lane::{self, Bound};
use super::loops;
use super::passes::Asked;
use super::reduction::{Partial, begin, finish, fold_chunk, has_nan};
use super::{BinaryFn, Conversion, UnaryFn, row};
use crate::dtype::Rounding;
use crate::kernels::simd;

/// Runs the code for a row. Whole chunks of `N` vectors: all phases, or one, up to `Stop`, with what comes between the
/// passes. A `TAIL`: one pass up to its `End`, over one chunk of which only the lanes of the plan's last columns exist.
///
/// That a row is one call, not one for each pass and each end of a reduction, takes 4 % from a softmax of 1,024 columns and
/// 7 % from one of 256.
///
/// # Safety
/// The processor has the instruction set `S`; the code was made with these tables and for this frame; the frame and all
/// that its entries point to are valid for the columns of the plan.
#[inline(always)]
pub(super) unsafe fn pass<S: Calls, const N: usize, const TAIL: bool>(
    code: *const Op,
    tables: &Tables,
    frame: *mut u8,
    plan: &Plan,
) {
    // SAFETY: the caller vouches for instruction set, code, frame and memory; offsets in the code were made for this frame.
    unsafe {
        let (from, to) = if TAIL { (plan.split, plan.cols) } else { (0, plan.split) };
        // Whether there are registers for functions that need many. If not, those would make the compiler keep a part of the
        // accumulator in memory, in every instruction.
        let roomy = S::REGISTERS >= 32;
        let mut acc = [S::splat(0); N];
        let mut parts = [S::part(S::LANES); N];
        if TAIL {
            each!(N, i => parts[i] = S::part((to - from).saturating_sub(i * S::LANES).min(S::LANES)));
        }
        let mut col = from;
        let (mut next, mut body) = (code, code);
        'row: loop {
            loop {
                let op = &*next;
                next = next.add(1);
                macro_rules! address {
                    ($offset:ident, $step:ident) => {
                        (*frame.add(op.$offset as usize).cast::<Entry>()).base.add(col * usize::from(op.$step))
                    };
                }
                macro_rules! word {
                    ($offset:ident) => {
                        S::splat(*frame.add(op.$offset as usize).cast::<u32>())
                    };
                }
                // Vector `i` of an operand of 32-bit lanes.
                macro_rules! vector {
                    ($p:expr, $i:ident) => {
                        if TAIL {
                            S::load_part($p.add($i * S::LANES * 4), parts[$i])
                        } else {
                            S::load($p.add($i * S::LANES * 4))
                        }
                    };
                }
                // An operand once per instruction, then its value for vector `i`.
                macro_rules! prepare {
                    (Vec, $offset:ident, $step:ident) => {
                        address!($offset, $step)
                    };
                    (Word, $offset:ident, $step:ident) => {
                        word!($offset)
                    };
                }
                macro_rules! value {
                    (Vec, $prepared:ident, $i:ident) => {
                        vector!($prepared, $i)
                    };
                    (Word, $prepared:ident, $i:ident) => {
                        $prepared
                    };
                }
                macro_rules! store_narrow {
                    ($size:literal, $narrow:ident, $part:ident, $store:ident, $stream:ident) => {{
                        let p = address!(a, step_a);
                        if TAIL {
                            each!(N, i => S::$part(p.add(i * S::LANES * $size), S::$narrow(acc[i]), parts[i]));
                        } else if (*frame.add(op.a as usize).cast::<Entry>()).stream {
                            each!(N, i => S::$stream(p.add(i * S::LANES * $size), S::$narrow(acc[i])));
                        } else {
                            each!(N, i => S::$store(p.add(i * S::LANES * $size), S::$narrow(acc[i])));
                        }
                    }};
                }
                // The accumulator with `identity` in the lanes that do not exist: they may hold anything, NaN included.
                macro_rules! existing {
                    ($identity:expr) => {{
                        let mut v = acc;
                        if TAIL {
                            each!(N, i => v[i] = S::keep(parts[i], v[i], S::splat($identity)));
                        }
                        v
                    }};
                }
                macro_rules! accumulator {
                    ($offset:ident) => {
                        (*frame.add(op.$offset as usize).cast::<Accumulator>())
                    };
                }
                macro_rules! fold {
                    ($place:ident, $existing:expr, $f:expr) => {{
                        let v = fold_chunk::<S, N>(&$existing, |a, b| $f(a, b));
                        let place = accumulator!($place).lanes.as_mut_ptr().cast::<u8>();
                        S::store(place, $f(S::load(place), v));
                    }};
                }
                macro_rules! fold_num {
                    ($place:ident, $identity:expr, $f:expr) => {{
                        let v = existing!($identity);
                        fold!($place, v, $f);
                        if has_nan::<S, N>(&v) {
                            accumulator!($place).nan = true;
                        }
                    }};
                }
                macro_rules! combine {
                    ($place:ident, $identity:expr, $f:expr) => {{
                        let place = accumulator!($place).lanes.as_mut_ptr().cast::<u8>();
                        let mut partial = Partial::<S>::load(place);
                        partial.combine(&existing!($identity), S::splat($identity), |a, b| $f(a, b));
                        partial.store(place);
                    }};
                }
                macro_rules! sum {
                    ($place:ident) => {
                        combine!($place, 0, S::add_f)
                    };
                }
                macro_rules! max {
                    ($place:ident) => {
                        fold_num!($place, f32::NEG_INFINITY.to_bits(), S::max_num)
                    };
                }
                macro_rules! narrow_vector {
                    ($load:ident, $part:ident, $size:literal, $p:ident, $i:ident) => {{
                        let from = $p.add($i * S::LANES * $size);
                        if TAIL { S::$part(from, parts[$i]) } else { S::$load(from) }
                    }};
                }
                // Fused instructions are made for whole chunks alone: tails are short, and their interpreters stay small.
                macro_rules! whole_only {
                    ($body:expr) => {
                        if TAIL { std::hint::unreachable_unchecked() } else { $body }
                    };
                }
                macro_rules! store_mem {
                    ($offset:ident, $step:ident) => {
                        let p = address!($offset, $step);
                        if (*frame.add(op.$offset as usize).cast::<Entry>()).stream {
                            each!(N, i => S::stream(p.add(i * S::LANES * 4), acc[i]));
                        } else {
                            each!(N, i => S::store(p.add(i * S::LANES * 4), acc[i]));
                        }
                    };
                }
                // The indices of the columns of vector 0.
                macro_rules! column {
                    () => {
                        S::add_i(
                            S::iota(),
                            S::splat((*frame.add(op.a as usize).cast::<u32>()).wrapping_add(col as u32)),
                        )
                    };
                }
                macro_rules! select {
                    ($when:ident $other:ident) => {{
                        let when = prepare!($when, a, step_a);
                        let other = prepare!($other, b, step_b);
                        each!(N, i => {
                            acc[i] = lane::select::<S>(value!($when, when, i), acc[i], value!($other, other, i));
                        });
                    }};
                }
                macro_rules! pick {
                    ($then:ident $other:ident) => {{
                        let then = prepare!($then, a, step_a);
                        let other = prepare!($other, b, step_b);
                        each!(N, i => {
                            acc[i] = lane::select::<S>(acc[i], value!($then, then, i), value!($other, other, i));
                        });
                    }};
                }
                // The accumulator itself stays in registers: only copies of it have an address.
                macro_rules! call_unary {
                    ($number:expr) => {{
                        let mut x = [S::splat(0); N];
                        each!(N, i => x[i] = acc[i]);
                        let place = x.as_mut_ptr().cast();
                        S::TABLE[$number as usize](place, place, N);
                        each!(N, i => acc[i] = x[i]);
                    }};
                }
                macro_rules! call {
                    ($i:ident => $a:expr, $b:expr) => {{
                        let (mut x, mut y) = ([S::splat(0); N], [S::splat(0); N]);
                        each!(N, $i => (x[$i], y[$i]) = ($a, $b));
                        S::TABLE[op.b as usize](x.as_mut_ptr().cast(), y.as_mut_ptr().cast(), N);
                        each!(N, $i => acc[$i] = x[$i]);
                    }};
                }
                // Between passes nothing in these registers is needed: around a call, they would be stored and loaded.
                macro_rules! forget {
                    () => {
                        acc = [S::splat(0); N];
                    };
                }
                macro_rules! execute {
                    (
                        unary { $($unary:ident)* }
                        long { $($long:ident $long_f:ident)* }
                        binary { $($b:ident $b_vec:ident $b_word:ident;)* }
                        reversed { $($r:ident $r_vec:ident $r_word:ident;)* }
                        bound { $($bound:ident)* }
                        convert { $($c:ident ($conversion:expr);)* }
                        narrow { $($n:ident $n_load:ident $n_widen:ident $widen:ident $load:ident $part:ident $size:literal;)* }
                        half { $($h:ident $h_widen:ident: $($h_f:ident $half:ident;)*;)* }
                        loaded { $($l:ident $l_vec:ident $l_word:ident;)* }
                        stored { $($s:ident $s_vec:ident $s_word:ident;)* }
                        fused { $($fa:ident $ga:ident $f:ident: $($g:ident $fused:ident;)*;)* }
                        bounded { $($u:ident: $($u_bound:ident $after:ident $before:ident;)*;)* }
                    ) => {
                        match op.code {
                            Code::End => break,
                            Code::Stop => whole_only!(break 'row),
                            Code::Row => whole_only!({
                                let row_op = &*tables.rows.as_ptr().add(op.b as usize);
                                if !row::arithmetic(row_op, frame) {
                                    (S::ROW)(row_op, frame);
                                }
                                forget!();
                            }),
                            Code::Begin => whole_only!(begin::<S>(&raw mut accumulator!(a), op.b)),
                            Code::Pass => whole_only!({
                                (body, col) = (next, 0);
                                if to == 0 {
                                    next = next.add(op.b as usize);
                                }
                            }),
                            Code::Loop => whole_only!(if N == loops::VECTORS && to > 0 {
                                let ops = tables.tail.as_ptr().add(op.b as usize);
                                S::LOOPS[usize::from(op.step_b)](ops, frame, to, loops::pace(op.step_a, plan.streams));
                                next = next.add(op.a as usize);
                                forget!();
                            }),
                            Code::Tail => whole_only!(if to < plan.cols {
                                (plan.tail)(tables.tail.as_ptr().add(op.b as usize), tables, frame, plan);
                                forget!();
                            }),
                            Code::Finish => {
                                whole_only!(finish::<S>(&*tables.reductions.as_ptr().add(op.b as usize), frame));
                            }
                            Code::LoadVec => {
                                let p = address!(a, step_a);
                                each!(N, i => acc[i] = vector!(p, i));
                            }
                            Code::LoadWord => {
                                let w = word!(a);
                                each!(N, i => acc[i] = w);
                            }
                            Code::LoadColumn => {
                                let first = column!();
                                each!(N, i => acc[i] = S::add_i(first, S::splat((i * S::LANES) as u32)));
                            }
                            Code::ColumnToTemp => {
                                let first = column!();
                                let temp = address!(b, step_b);
                                each!(N, i => S::store(
                                    temp.add(i * S::LANES * 4),
                                    S::add_i(first, S::splat((i * S::LANES) as u32)),
                                ));
                            }
                            Code::SelectVecVec => select!(Vec Vec),
                            Code::SelectVecWord => select!(Vec Word),
                            Code::SelectWordVec => select!(Word Vec),
                            Code::SelectWordWord => select!(Word Word),
                            Code::PickVecVec => pick!(Vec Vec),
                            Code::PickVecWord => pick!(Vec Word),
                            Code::PickWordVec => pick!(Word Vec),
                            Code::PickWordWord => pick!(Word Word),
                            Code::CallUnary => call_unary!(op.b),
                            Code::CallVec => {
                                let p = address!(a, step_a);
                                call!(i => acc[i], vector!(p, i));
                            }
                            Code::CallWord => {
                                let w = word!(a);
                                call!(i => acc[i], w);
                            }
                            Code::RevCallVec => {
                                let p = address!(a, step_a);
                                call!(i => vector!(p, i), acc[i]);
                            }
                            Code::RevCallWord => {
                                let w = word!(a);
                                call!(i => w, acc[i]);
                            }
                            Code::StoreMem if !TAIL => {
                                store_mem!(a, step_a);
                            }
                            Code::StoreMemEnd => whole_only!({
                                store_mem!(a, step_a);
                                break;
                            }),
                            Code::SumEnd => whole_only!({
                                sum!(a);
                                break;
                            }),
                            Code::MaxEnd => whole_only!({
                                max!(a);
                                break;
                            }),
                            Code::LoadSumEnd => whole_only!({
                                let p = address!(a, step_a);
                                each!(N, i => acc[i] = vector!(p, i));
                                sum!(b);
                                break;
                            }),
                            Code::LoadMaxEnd => whole_only!({
                                let p = address!(a, step_a);
                                each!(N, i => acc[i] = vector!(p, i));
                                max!(b);
                                break;
                            }),
                            Code::SquareSumEnd => whole_only!({
                                each!(N, i => acc[i] = lane::unary::<S>(UnaryFn::SquareF, acc[i]));
                                sum!(b);
                                break;
                            }),
                            Code::StoreSumEnd => whole_only!({
                                let p = address!(a, step_a);
                                each!(N, i => S::store(p.add(i * S::LANES * 4), acc[i]));
                                sum!(b);
                                break;
                            }),
                            Code::StoreMem | Code::StoreTemp => {
                                let p = address!(a, step_a);
                                each!(N, i => if TAIL {
                                    S::store_part(p.add(i * S::LANES * 4), acc[i], parts[i])
                                } else {
                                    S::store(p.add(i * S::LANES * 4), acc[i])
                                });
                            }
                            Code::StoreF16 => store_narrow!(2, narrow_f16, store_h_part, store_h, stream_h),
                            Code::StoreBF16 => store_narrow!(2, narrow_bf16, store_h_part, store_h, stream_h),
                            Code::Store16 => store_narrow!(2, narrow_16, store_h_part, store_h, stream_h),
                            Code::Store8 => store_narrow!(1, narrow_8, store_b_part, store_b, store_b),
                            Code::ReduceSumF => sum!(a),
                            Code::ReduceProdF => combine!(a, 1f32.to_bits(), S::mul_f),
                            Code::ReduceProdI => fold!(a, existing!(1), S::mul_i),
                            Code::ReduceMaxU => fold!(a, existing!(0), S::max_u),
                            Code::ReduceMinU => fold!(a, existing!(u32::MAX), S::min_u),
                            Code::ReduceMaxF => max!(a),
                            Code::ReduceMinF => fold_num!(a, f32::INFINITY.to_bits(), S::min_num),
                            Code::ReduceSumI => fold!(a, existing!(0), S::add_i),
                            Code::ReduceMaxI => fold!(a, existing!(i32::MIN as u32), S::max_i),
                            Code::ReduceMinI => fold!(a, existing!(i32::MAX as u32), S::min_i),
                            Code::Prefetch => {
                                let entry = &*frame.add(op.a as usize).cast::<Entry>();
                                let size = usize::from(op.step_a);
                                let lines = (N * S::LANES * size).div_ceil(64);
                                let next = entry.base.wrapping_offset(entry.advance);
                                // What is one row for all is in the caches. Places and counts are not put together for one loop of
                                // requests: then eight operations took 1.2 times as long in the portable form, 1.06 in AVX2.
                                if entry.advance == 0 {
                                } else if op.step_b == Asked::All as u8 || TAIL {
                                    let p = next.wrapping_add(col * size);
                                    each!(N, i => if i < lines { S::prefetch(p.wrapping_add(i * 64)) });
                                } else {
                                    let begin = if op.step_b == Asked::SecondHalf as u8 { to } else { 0 };
                                    let p = next.wrapping_add((begin + col) * size / 2);
                                    each!(N, i => if i < lines.div_ceil(2) { S::prefetch(p.wrapping_add(i * 64)) });
                                }
                            }
                            $(Code::$unary => each!(N, i => acc[i] = lane::unary::<S>(UnaryFn::$unary, acc[i])),)*
                            Code::ExpF => calls::exp::<S, N, TAIL>(&mut acc),
                            $(
                                Code::$long => if N == 8 && !TAIL && roomy {
                                    each!(N, i => acc[i] = simd::$long_f::<S>(acc[i]));
                                } else {
                                    call_unary!(op.b);
                                },
                            )*
                            $(
                                Code::$b_vec => {
                                    let p = address!(a, step_a);
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$b, acc[i], vector!(p, i)));
                                }
                                Code::$b_word => {
                                    let w = word!(a);
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$b, acc[i], w));
                                }
                            )*
                            $(
                                Code::$r_vec => {
                                    let p = address!(a, step_a);
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$r, vector!(p, i), acc[i]));
                                }
                                Code::$r_word => {
                                    let w = word!(a);
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$r, w, acc[i]));
                                }
                            )*
                            $(
                                Code::$bound => {
                                    let w = word!(a);
                                    each!(N, i => acc[i] = lane::bound::<S>(Bound::$bound, acc[i], w));
                                }
                            )*
                            // Too long to be inline without registers to spare.
                            Code::ToIntRound | Code::ToIntOdd if !roomy => call_unary!(op.b),
                            $(Code::$c => each!(N, i => acc[i] = lane::convert::<S>($conversion, acc[i])),)*
                            $(
                                Code::$n_load => {
                                    let p = address!(a, step_a);
                                    each!(N, i => acc[i] = S::$widen(narrow_vector!($load, $part, $size, p, i)));
                                }
                                Code::$n_widen => {
                                    let p = address!(a, step_a);
                                    let temp = address!(b, step_b);
                                    each!(N, i => S::store(
                                        temp.add(i * S::LANES * 4),
                                        S::$widen(narrow_vector!($load, $part, $size, p, i)),
                                    ));
                                }
                            )*
                            $($(
                                Code::$half => {
                                    let p = address!(a, step_a);
                                    each!(N, i => {
                                        let v = S::$h_widen(narrow_vector!(load_h, load_h_part, 2, p, i));
                                        acc[i] = lane::binary::<S>(BinaryFn::$h_f, acc[i], v);
                                    });
                                }
                            )*)*
                            $(
                                Code::$l_vec => whole_only!({
                                    let (x, y) = (address!(a, step_a), address!(b, step_b));
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$l, vector!(x, i), vector!(y, i)));
                                }),
                                Code::$l_word => whole_only!({
                                    let (x, y) = (address!(a, step_a), word!(b));
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$l, vector!(x, i), y));
                                }),
                            )*
                            $(
                                Code::$s_vec => whole_only!({
                                    let x = address!(a, step_a);
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$s, acc[i], vector!(x, i)));
                                    store_mem!(b, step_b);
                                    break;
                                }),
                                Code::$s_word => whole_only!({
                                    let x = word!(a);
                                    each!(N, i => acc[i] = lane::binary::<S>(BinaryFn::$s, acc[i], x));
                                    store_mem!(b, step_b);
                                    break;
                                }),
                            )*
                            $($(
                                Code::$fused => whole_only!({
                                    let x = prepare!($fa, a, step_a);
                                    let y = prepare!($ga, b, step_b);
                                    each!(N, i => {
                                        let v = lane::binary::<S>(BinaryFn::$f, acc[i], value!($fa, x, i));
                                        acc[i] = lane::binary::<S>(BinaryFn::$g, v, value!($ga, y, i));
                                    });
                                }),
                            )*)*
                            $($(
                                Code::$after => whole_only!({
                                    let (x, limit) = (word!(a), word!(b));
                                    each!(N, i => {
                                        let v = lane::binary::<S>(BinaryFn::$u, acc[i], x);
                                        acc[i] = lane::bound::<S>(Bound::$u_bound, v, limit);
                                    });
                                }),
                                Code::$before => whole_only!({
                                    let (limit, x) = (word!(a), word!(b));
                                    each!(N, i => {
                                        let v = lane::bound::<S>(Bound::$u_bound, acc[i], limit);
                                        acc[i] = lane::binary::<S>(BinaryFn::$u, v, x);
                                    });
                                }),
                            )*)*
                        }
                    };
                }
                functions!(execute);
            }
            if TAIL {
                break;
            }
            col += N * S::LANES;
            if col < to {
                next = body;
            }
        }
    }
}
