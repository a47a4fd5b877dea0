//! The kernels against plain loops, where the tests of whole programs do not go: large extents, known answers, all
//! instruction sets.

use super::make::philox;
use super::{Args, Block, BlockOp, Combine, Mat};
use crate::dtype::DType;
use crate::kernels::Isa;
use half::f16;

/// A matrix of plain old elements with gaps between its rows.
struct Matrix<T> {
    data: Vec<T>,
    cols: usize,
    stride: usize,
}

impl<T: Copy + Default> Matrix<T> {
    fn new(rows: usize, cols: usize, value: impl Fn(usize, usize) -> T) -> Self {
        let stride = cols + 3;
        let mut data = vec![T::default(); rows * stride];
        for row in 0..rows {
            for col in 0..cols {
                data[row * stride + col] = value(row, col);
            }
        }
        Self { data, cols, stride }
    }

    fn mat(&mut self) -> Mat {
        let (size, rows) = (size_of::<T>() as isize, self.data.len() / self.stride);
        Mat { data: self.data.as_mut_ptr().cast(), row: self.stride as isize * size, col: size, rows, cols: self.cols }
    }

    fn at(&self, row: usize, col: usize) -> T {
        self.data[row * self.stride + col]
    }
}

fn run(op: BlockOp, dtypes: &[DType], isa: Isa, rows: usize, cols: usize, mats: &[Mat], scalars: &[u64]) {
    let block = Block::new(op, dtypes, isa).unwrap();
    let bytes = mats.iter().map(|mat| mat.rows * mat.cols * mat.col.unsigned_abs()).sum();
    let mut room = vec![0u64; block.scratch_bytes(bytes).div_ceil(8) + 8];
    let scratch = room.as_mut_ptr().cast::<u8>();
    let scratch = scratch.wrapping_add(scratch.align_offset(64));
    // SAFETY: the matrices are as large as they say, and apart.
    unsafe { block.run(&Args { rows, cols, mats, scalars, tensor: None, scratch }) };
}

/// One size of elements, in whole squares, beside them and below them.
fn transposes<T: Copy + Default + PartialEq>(dtype: DType, value: impl Fn(usize) -> T) {
    for isa in Isa::available() {
        for (rows, cols) in [(1, 1), (16, 16), (17, 33), (40, 15), (64, 48), (8, 31)] {
            let mut x = Matrix::new(cols, rows, |row, col| value(row * 97 + col));
            let mut out = Matrix::new(rows, cols, |_, _| T::default());
            run(BlockOp::Transpose, &[dtype; 2], isa, rows, cols, &[out.mat(), x.mat()], &[]);
            let right = (0..rows * cols).all(|at| out.at(at / cols, at % cols) == x.at(at % cols, at / cols));
            assert!(right, "{isa}: {rows} x {cols} of {dtype}");
            let gap = |at: usize| at % out.stride >= cols;
            assert!((0..out.data.len()).all(|at| !gap(at) || out.data[at] == T::default()), "{isa}: beside {dtype}");
        }
    }
}

#[test]
fn transposes_of_any_size_and_element_move_every_element() {
    transposes(DType::I8, |at| (at * 7) as u8);
    transposes(DType::BF16, |at| at as u16);
    transposes(DType::F32, |at| at as u32);
    transposes(DType::I64, |at| at as u64 * 0x1_0001_0001);
}

#[test]
fn sums_of_columns_add_rows_in_ascending_order_with_one_rounding_at_the_end() {
    // Wider than one strip of accumulators.
    let (rows, cols) = (37, 2500);
    let value = |row: usize, col: usize| f16::from_f32(((row * 31 + col * 17) % 113) as f32 / 8.0 - 3.0);
    for isa in Isa::available() {
        let mut x = Matrix::new(rows, cols, value);
        let mut out = Matrix::new(1, cols, |_, _| f16::ZERO);
        run(BlockOp::ColReduce(Combine::Add), &[DType::F16; 2], isa, 1, cols, &[out.mat(), x.mat()], &[rows as u64]);
        for col in 0..cols {
            let sum = (1..rows).fold(value(0, col).to_f32(), |sum, row| sum + value(row, col).to_f32());
            assert_eq!(out.at(0, col), f16::from_f32(sum), "{isa}: column {col}");
        }
    }
}

#[test]
fn the_largest_of_a_column_is_found_with_nan_first() {
    let (rows, cols) = (9, 600);
    let value = |row: usize, col: usize| match (row, col % 5) {
        (6, 2) => f32::NAN,
        _ => ((row * 7 + col) % 11) as f32,
    };
    for isa in Isa::available() {
        let mut x = Matrix::new(rows, cols, value);
        let mut out = Matrix::new(1, cols, |_, _| -1i32);
        let op = BlockOp::ColArg(super::Compare::Gt);
        run(op, &[DType::I32, DType::F32], isa, 1, cols, &[out.mat(), x.mat()], &[rows as u64]);
        for col in 0..cols {
            let key = |row: usize| if value(row, col).is_nan() { f32::INFINITY } else { value(row, col) };
            let best = (0..rows).fold(0, |best, row| if key(row) > key(best) { row } else { best });
            assert_eq!(out.at(0, col), best as i32, "{isa}: column {col}");
        }
    }
}

#[test]
fn philox_gives_the_published_numbers() {
    // The known answers of the authors' library for 10 rounds.
    assert_eq!(philox(0, [0; 2], 10), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox(u128::MAX, [u32::MAX; 2], 10), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    let counter = 0x0370_7344_1319_8a2e_85a3_08d3_243f_6a88;
    assert_eq!(philox(counter, [0xa409_3822, 0x299f_31d0], 10), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
}

#[test]
fn random_words_are_numbered_through_the_rows_of_the_region() {
    let (rows, cols) = (3, 5);
    let mut out = Matrix::new(rows, cols, |_, _| 0u32);
    let scalars = [1, 2, u64::from(u32::MAX), 0, 0, 0, 7];
    run(BlockOp::Random, &[DType::U32], Isa::Generic, rows, cols, &[out.mat()], &scalars);
    for at in 0..rows * cols {
        // The counter carries into its second word.
        let block = philox(u128::from(u32::MAX) + at as u128 / 4, [1, 2], 7);
        assert_eq!(out.at(at / cols, at % cols), block[at % 4], "element {at}");
    }
}

#[test]
fn sorted_halves_carry_their_indices_in_two_halves() {
    // 32 + 8 columns: two groups. Equal values by smaller index, NaN last.
    let (cols, rows) = (40, 2);
    let value = |row: usize, col: usize| match col {
        5 => f16::NAN,
        9 => f16::NEG_INFINITY,
        _ => f16::from_f32(((col * 13 + row) % 7) as f32 - 3.0),
    };
    let index = |_: usize, col: usize| (0x0001_fff0 + (col * 29 % 64)) as u32;
    for isa in Isa::available() {
        let mut x = Matrix::new(rows, cols, |row, col| value(row, col).to_bits());
        let mut indices = Matrix::new(rows, cols, index);
        let mut out = Matrix::new(rows, 4 * cols, |_, _| 0u16);
        let mats = [out.mat(), x.mat(), indices.mat()];
        run(BlockOp::Sort32, &[DType::F16, DType::F16, DType::U32], isa, rows, 4 * cols, &mats, &[cols as u64]);
        for row in 0..rows {
            for group in [0..32, 32..40] {
                let mut wanted: Vec<(f16, u32)> = group.clone().map(|col| (value(row, col), index(row, col))).collect();
                let key = |pair: &(f16, u32)| (!pair.0.is_nan(), if pair.0.is_nan() { 0.0 } else { pair.0.to_f32() });
                wanted.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap().then(a.1.cmp(&b.1)));
                for (col, (value, index)) in group.zip(wanted) {
                    let got: Vec<u16> = (0..4).map(|half| out.at(row, 4 * col + half)).collect();
                    assert_eq!(got, [value.to_bits(), 0, index as u16, (index >> 16) as u16], "{isa}: [{row}, {col}]");
                }
            }
        }
    }
}

#[test]
fn four_runs_merge_and_an_incomplete_group_stays() {
    let record = |value: f32, index: u32| [value, f32::from_bits(index)];
    // Runs of two records; six of them: one group, and two runs that stay.
    let runs = [[9.0, 1.0], [8.0, 8.0], [9.0, 2.0], [3.0, -1.0], [0.0, 5.0], [7.0, 1.0]];
    let flat: Vec<f32> = runs.iter().flatten().zip(0..).flat_map(|(&value, at)| record(value, at)).collect();
    let mut x = Matrix::new(1, 24, |_, col| flat[col]);
    let mut out = Matrix::new(1, 24, |_, _| 0f32);
    run(BlockOp::MergeSort, &[DType::F32; 2], Isa::Generic, 1, 24, &[out.mat(), x.mat()], &[4, 24]);
    let got: Vec<(f32, u32)> = (0..12).map(|at| (out.at(0, 2 * at), out.at(0, 2 * at + 1).to_bits())).collect();
    let merged = [(9.0, 0), (9.0, 4), (8.0, 2), (8.0, 3), (3.0, 6), (2.0, 5), (1.0, 1), (-1.0, 7)];
    let rest = [(0.0, 8), (5.0, 9), (7.0, 10), (1.0, 11)];
    assert_eq!(got, [&merged[..], &rest].concat());
}
