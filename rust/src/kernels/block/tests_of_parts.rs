//! Parts of operations leave together what the whole operation leaves.

use super::{Args, Block, BlockOp, Combine, Compare, MOST, Mat, Whole};
use crate::dtype::DType;
use crate::kernels::Isa;

const ROWS: usize = 70;
const COLS: usize = 150;
/// Columns of what is cut along them.
const WIDE: usize = 1100;
/// Elements from row to row.
const STRIDE: usize = 1203;

/// Matrices with room for every region here.
struct Room(Vec<u32>);

impl Room {
    fn new(value: impl Fn(usize) -> u32) -> Self {
        Self((0..COLS * STRIDE).map(value).collect())
    }

    fn mat(&mut self, rows: usize, cols: usize) -> Mat {
        Mat { data: self.0.as_mut_ptr().cast(), row: 4 * STRIDE as isize, col: 4, rows, cols }
    }
}

#[test]
fn parts_of_an_operation_leave_what_the_whole_leaves() {
    let (f32, i32) = (DType::F32, DType::I32);
    let float = |at: usize| (((at * 37) % 101) as f32 - 50.0).to_bits();
    let number = |at: usize| ((at * 73) % COLS) as u32;
    let whole_cols = COLS as u64;
    // The operation, its types, its region, the extents of its arguments, its scalars.
    type Case<'a> = (BlockOp, &'a [DType], [usize; 2], &'a [[usize; 2]], &'a [u64]);
    let cases: [Case<'_>; 12] = [
        (BlockOp::Copy, &[f32; 2], [ROWS, COLS], &[[ROWS, COLS]], &[]),
        (BlockOp::Transpose, &[f32; 2], [ROWS, COLS], &[[COLS, ROWS]], &[]),
        (BlockOp::ColReduce(Combine::Add), &[f32; 2], [1, WIDE], &[[ROWS, WIDE]], &[ROWS as u64]),
        (BlockOp::ColArg(Compare::Gt), &[i32, f32], [1, WIDE], &[[ROWS, WIDE]], &[ROWS as u64]),
        (BlockOp::RowArg(Compare::Lt), &[i32, f32], [ROWS, 1], &[[ROWS, COLS]], &[whole_cols]),
        (BlockOp::GatherCols, &[f32, f32, i32], [ROWS, COLS], &[[ROWS, COLS]; 2], &[whole_cols]),
        (BlockOp::GatherFlat, &[f32, f32, i32], [ROWS, COLS], &[[3, COLS], [ROWS, COLS]], &[whole_cols]),
        (BlockOp::GatherBytes, &[f32, f32, i32], [ROWS, 64], &[[3, COLS], [ROWS, 8]], &[]),
        (BlockOp::GatherStride, &[f32; 2], [ROWS, 30], &[[ROWS, COLS]], &[1, 4]),
        (BlockOp::GatherCompare { count: false }, &[i32, f32], [ROWS, 40], &[[ROWS, COLS]], &[0, 4, 7, whole_cols]),
        (BlockOp::GatherTensor, &[f32, i32, f32], [ROWS, COLS], &[[ROWS, COLS]], &[]),
        (BlockOp::Sort32, &[f32, f32, i32], [ROWS, 2 * 75], &[[ROWS, 75]; 2], &[75]),
    ];
    for isa in Isa::available() {
        for &(op, dtypes, [rows, cols], arguments, scalars) in &cases {
            let block = Block::new(op, dtypes, isa).unwrap();
            let mut inputs: Vec<Room> = arguments
                .iter()
                .enumerate()
                .map(|(at, _)| if dtypes[at + 1] == i32 { Room::new(number) } else { Room::new(float) })
                .collect();
            let mut tensor = Room::new(float);
            let mut whole = Whole { data: tensor.0.as_mut_ptr().cast(), rank: 1, ..Whole::NONE };
            (whole.dims[0], whole.strides[0], whole.limits[0]) = (100, 1, 100);
            let mut results = Vec::new();
            for parts in [1, 2, 3, 7] {
                let mut out = Room::new(|_| 0xdead_beef);
                let mut mats = vec![out.mat(rows, cols)];
                let extents = inputs.iter_mut().zip(arguments);
                mats.extend(extents.map(|(input, &[rows, cols])| input.mat(rows, cols)));
                let scratch = std::ptr::null_mut();
                let args = Args { rows, cols, mats: &mats, scalars, tensor: Some(&whole), scratch };
                let (high, wide) = (rows as u64, cols as u64);
                let parts = block.most_parts(high, wide).min(parts);
                // The last first: no part needs what another leaves.
                for part in (0..parts).rev() {
                    let mut room = [Mat::NONE; MOST];
                    let range = block.range(part, parts, high, wide);
                    // SAFETY: the matrices have room for all that the cases ask for.
                    unsafe { block.run(&block.part(&args, &range, &mut room)) };
                }
                results.push((parts, out.0));
            }
            assert!(results.iter().any(|(parts, _)| *parts > 1), "{op:?} is cut");
            for (parts, result) in &results[1..] {
                assert!(*result == results[0].1, "{isa}: {op:?} in {parts} parts");
            }
        }
    }
}

#[test]
fn what_has_rows_that_depend_on_each_other_is_not_cut() {
    let (f32, i32) = (DType::F32, DType::I32);
    for (op, dtypes) in [
        (BlockOp::ScatterRows, &[f32, i32, f32][..]),
        (BlockOp::Tri, &[f32]),
        (BlockOp::Random, &[DType::U32]),
        (BlockOp::MergeSort, &[f32; 2]),
    ] {
        assert_eq!(Block::new(op, dtypes, Isa::Generic).unwrap().most_parts(1000, 1000), 1, "{op:?}");
    }
}
