//! The interpreter: passes over a row, chunk by chunk, with the accumulator in registers.

use super::calls::Calls;
use super::code::{Code, Op, functions};
use super::frame::{Accumulator, Entry};
use super::lane::{self, Bound};
use super::{BinaryFn, Conversion, UnaryFn};
use crate::dtype::Rounding;
use crate::kernels::simd::{self, Simd};

/// Does the body for `i` in `0..N` with `i` constant, so that the accumulator is never indexed by a variable: that would
/// put it into memory for good.
macro_rules! each {
    ($N:ident, $i:ident => $body:expr) => {
        each!(@ $N, $i, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $N:ident, $i:ident, $body:expr, $($index:literal)*) => {{
        $(
            if $index < $N {
                let $i: usize = $index;
                $body;
            }
        )*
    }};
}

/// Runs a pass over the columns `from..to`: whole chunks of `N` vectors or, for a `TAIL`, one chunk of which only that many
/// lanes exist.
///
/// # Safety
/// The processor has the instruction set `S`; `code` ends with `End`; the frame and all that its entries point to are
/// valid for these columns. A pass that is no tail covers at least one chunk and only whole ones.
#[inline(always)]
pub(super) unsafe fn pass<S: Calls, const N: usize, const TAIL: bool>(
    code: *const Op,
    frame: *mut u8,
    from: usize,
    to: usize,
) {
    // SAFETY: the caller vouches for instruction set, code, frame and memory; offsets in the code were made for this frame.
    unsafe {
        // Whether there are registers for functions that need many. If not, those would make the compiler keep a part of the
        // accumulator in memory, in every instruction.
        let roomy = S::REGISTERS >= 32;
        let mut acc = [S::splat(0); N];
        let mut parts = [S::part(S::LANES); N];
        if TAIL {
            each!(N, i => parts[i] = S::part((to - from).saturating_sub(i * S::LANES).min(S::LANES)));
        }
        let mut col = from;
        loop {
            let mut next = code;
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
                macro_rules! fold {
                    ($existing:expr, $f:expr) => {{
                        let mut v = $existing;
                        // In halves: a chain of eight would take the latency of eight.
                        each!(N, i => if i < 4 && i + 4 < N { v[i] = $f(v[i], v[i + 4]) });
                        each!(N, i => if i < 2 && i + 2 < N { v[i] = $f(v[i], v[i + 2]) });
                        each!(N, i => if i < 1 && i + 1 < N { v[i] = $f(v[i], v[i + 1]) });
                        let place = (*frame.add(op.a as usize).cast::<Accumulator>()).lanes.as_mut_ptr().cast::<u8>();
                        S::store(place, $f(S::load(place), v[0]));
                    }};
                }
                macro_rules! fold_num {
                    ($identity:expr, $f:expr) => {{
                        let v = existing!($identity);
                        fold!(v, $f);
                        let mut nan = S::unordered_f(v[0], v[N - 1]);
                        each!(N, i => if i % 2 == 1 && i + 1 < N { nan = S::or_m(nan, S::unordered_f(v[i], v[i + 1])) });
                        if S::any(nan) {
                            (*frame.add(op.a as usize).cast::<Accumulator>()).nan = true;
                        }
                    }};
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
                    () => {
                        let p = address!(a, step_a);
                        if (*frame.add(op.a as usize).cast::<Entry>()).stream {
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
                    () => {{
                        let mut x = [S::splat(0); N];
                        each!(N, i => x[i] = acc[i]);
                        let place = x.as_mut_ptr().cast();
                        S::TABLE[op.b as usize](place, place, N);
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
                        fused { $($fa:ident $ga:ident $f:ident: $($g:ident $fused:ident;)*;)* }
                        bounded { $($u:ident: $($u_bound:ident $after:ident $before:ident;)*;)* }
                    ) => {
                        match op.code {
                            Code::End => break,
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
                            Code::CallUnary => call_unary!(),
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
                                store_mem!();
                            }
                            Code::StoreMemEnd => whole_only!({
                                store_mem!();
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
                            Code::ReduceSumF => {
                                let sum = (*frame.add(op.a as usize).cast::<Accumulator>()).lanes.as_mut_ptr().cast::<u8>();
                                combine::<S, N, TAIL>(sum, &acc, &parts, S::splat(0), |a, b| S::add_f(a, b));
                            }
                            Code::ReduceProdF => {
                                let product = (*frame.add(op.a as usize).cast::<Accumulator>()).lanes.as_mut_ptr().cast::<u8>();
                                let one = S::splat(1f32.to_bits());
                                combine::<S, N, TAIL>(product, &acc, &parts, one, |a, b| S::mul_f(a, b));
                            }
                            Code::ReduceProdI => fold!(existing!(1), S::mul_i),
                            Code::ReduceMaxU => fold!(existing!(0), S::max_u),
                            Code::ReduceMinU => fold!(existing!(u32::MAX), S::min_u),
                            Code::ReduceMaxF => fold_num!(f32::NEG_INFINITY.to_bits(), S::max_num),
                            Code::ReduceMinF => fold_num!(f32::INFINITY.to_bits(), S::min_num),
                            Code::ReduceSumI => fold!(existing!(0), S::add_i),
                            Code::ReduceMaxI => fold!(existing!(i32::MIN as u32), S::max_i),
                            Code::ReduceMinI => fold!(existing!(i32::MAX as u32), S::min_i),
                            Code::Prefetch => {
                                let advance = (*frame.add(op.a as usize).cast::<Entry>()).advance;
                                let p = address!(a, step_a).wrapping_offset(advance);
                                // What is one row for all is in the caches.
                                let bytes = if advance == 0 { 0 } else { N * S::LANES * usize::from(op.step_a) };
                                for line in (0..bytes).step_by(64) {
                                    S::prefetch(p.wrapping_add(line));
                                }
                            }
                            $(Code::$unary => each!(N, i => acc[i] = lane::unary::<S>(UnaryFn::$unary, acc[i])),)*
                            Code::ExpF if roomy => each!(N, i => acc[i] = simd::exp_f::<S>(acc[i])),
                            Code::ExpF if S::FUSES && !TAIL && {
                                let mut largest = S::splat(0);
                                each!(N, i => largest = S::max_i(largest, S::and(acc[i], S::splat(0x7fff_ffff))));
                                simd::is_near::<S>(largest)
                            } => each!(N, i => acc[i] = simd::exp_near::<S>(acc[i], acc[usize::saturating_sub(i, 1)])),
                            Code::ExpF => call_unary!(),
                            $(
                                Code::$long => if N == 8 && !TAIL && roomy {
                                    each!(N, i => acc[i] = simd::$long_f::<S>(acc[i]));
                                } else {
                                    call_unary!();
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
                            Code::ToIntRound | Code::ToIntOdd if !roomy => call_unary!(),
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
            col += N * S::LANES;
            if TAIL || col >= to {
                break;
            }
        }
    }
}

/// Adds a chunk to the 16 partial sums of a row (or multiplies, by `f` and its `identity`), in the order that
/// [`super::ReduceFn`] lays down: vectors of 16 lanes in groups of four, of which a missing one counts as the identity.
///
/// # Safety
/// The processor has the instruction set `S`; `partial` points to 16 lanes.
#[inline(always)]
unsafe fn combine<S: Simd, const N: usize, const TAIL: bool>(
    partial: *mut u8,
    acc: &[S::V; N],
    parts: &[S::Part; N],
    identity: S::V,
    f: impl Fn(S::V, S::V) -> S::V,
) {
    // SAFETY: the caller vouches for the instruction set and the partial results.
    unsafe {
        // The vectors that make up 16 lanes.
        let wide = 16 / S::LANES;
        let mut values = [identity; 8];
        each!(N, i => values[i] = if TAIL { S::keep(parts[i], acc[i], identity) } else { acc[i] });
        macro_rules! group {
            ($first:expr, $part:expr) => {
                if $part < wide && $first + $part < N {
                    let v = |j: usize| {
                        if $first + $part + j * wide < N { values[$first + $part + j * wide] } else { identity }
                    };
                    let group = f(f(v(0), v(1)), f(v(2), v(3)));
                    let place = partial.add($part * S::LANES * 4);
                    S::store(place, f(S::load(place), group));
                }
            };
        }
        group!(0, 0);
        group!(0, 1);
        if wide == 1 {
            // Sixteen lanes each: eight vectors are two groups.
            group!(4, 0);
        }
    }
}
