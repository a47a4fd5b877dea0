//! Tiles made from scalars.

use super::BlockOp;
use super::element::Element;
use super::kernel::{Kernel, Run, by_type, plain};
use super::mat::Args;
use crate::dtype::DType;
use std::marker::PhantomData;

pub(super) fn resolve(op: BlockOp, dtypes: &[DType]) -> Option<Run> {
    let dtype = *dtypes.first()?;
    match op {
        BlockOp::Random => Some(plain::<Random>),
        // A truth value is the byte 0 or 1.
        BlockOp::Tri if dtype == DType::Bool => Some(plain::<Tri<u8>>),
        BlockOp::Tri => by_type!(dtype, T => Some(plain::<Tri<T>>)),
        _ => by_type!(dtype, T => Some(plain::<Iota<T>>)),
    }
}

struct Iota<T>(PhantomData<T>);

impl<T: Element> Kernel for Iota<T> {
    unsafe fn run(args: &Args<'_>) {
        let out = args.mats[0];
        let (start, step) = (args.int(0), args.int(1));
        for row in 0..args.rows {
            for col in 0..args.cols {
                let value = T::from_int(start.wrapping_add(step.wrapping_mul(col as i64)));
                // SAFETY: the result has the region.
                unsafe { out.set(row, col, value) };
            }
        }
    }
}

struct Tri<T>(PhantomData<T>);

impl<T: Element> Kernel for Tri<T> {
    unsafe fn run(args: &Args<'_>) {
        let out = args.mats[0];
        let (diagonal, upper) = (args.int(0), args.int(1) != 0);
        for row in 0..args.rows {
            let edge = (row as i64).saturating_add(diagonal);
            for col in 0..args.cols {
                let col_at = col as i64;
                let one = if upper { col_at >= edge } else { col_at <= edge };
                // SAFETY: the result has the region.
                unsafe { out.set(row, col, T::from_int(one.into())) };
            }
        }
    }
}

/// Philox4x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3").
struct Random;

impl Kernel for Random {
    unsafe fn run(args: &Args<'_>) {
        let out = args.mats[0];
        let word = |at: usize| args.scalars[at] as u32;
        let key = [word(0), word(1)];
        let counter = (2..6).rev().fold(0u128, |counter, at| counter << 32 | u128::from(word(at)));
        let rounds = args.count(6, 32);
        let mut block = [0; 4];
        for row in 0..args.rows {
            for col in 0..args.cols {
                let element = row * args.cols + col;
                if element.is_multiple_of(4) {
                    block = philox(counter.wrapping_add(element as u128 / 4), key, rounds);
                }
                // SAFETY: the result has the region.
                unsafe { out.set(row, col, block[element % 4]) };
            }
        }
    }
}

/// The four words of the block that has this counter.
pub(super) fn philox(counter: u128, mut key: [u32; 2], rounds: usize) -> [u32; 4] {
    let mut words = [0, 32, 64, 96].map(|shift| (counter >> shift) as u32);
    for round in 0..rounds {
        if round > 0 {
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        let product = |factor: u32, word: u32| u64::from(factor) * u64::from(word);
        let (first, second) = (product(0xd251_1f53, words[0]), product(0xcd9e_8d57, words[2]));
        let high = |product: u64| (product >> 32) as u32;
        words = [high(second) ^ words[1] ^ key[0], second as u32, high(first) ^ words[3] ^ key[1], first as u32];
    }
    words
}
