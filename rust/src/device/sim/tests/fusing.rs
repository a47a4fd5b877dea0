//! How few steps the patterns of models become. Numbers are right elsewhere; here a step more is the failure.

use super::behaviour::{ONE, ZERO, int, kernel, launch, load, program, stmt, store, tile};
use crate::device::sim::code::Step;
use crate::device::sim::lower::{Purpose, lower};
use crate::kernels::Isa;
use crate::program::{Arg, Function, OpCode, Operand, Stmt, StmtKind, verify};

/// The steps of a kernel over `tensors` matrices of 64 x 64, one letter each: chain, product, whole-tile operation.
fn steps(tensors: u32, tiles: &[(u32, u32)], body: Vec<Stmt>) -> String {
    steps_of(tensors, kernel(tensors, tiles, body))
}

fn steps_of(tensors: u32, kernel: Function) -> String {
    let slots: Vec<u32> = (0..tensors).collect();
    let program = program(&vec![(64, 64); tensors as usize], 0, vec![launch(&slots, ONE)], kernel);
    verify(&program).unwrap();
    let lowered = lower(&program, Isa::Generic, Purpose::Launches).unwrap();
    let letter = |step: &Step| match step {
        Step::Chain(_) => 'c',
        Step::MatMul(_) => 'm',
        Step::Block(_) => 'b',
    };
    lowered.kernels[0].steps.iter().map(letter).collect()
}

fn extract(out: u32, from: u32, at: [Operand; 2], rows: u32, cols: u32) -> Stmt {
    let args = vec![Arg::Tile(from), Arg::Scalar(at[0]), Arg::Scalar(at[1])];
    tile(OpCode::Extract, Some(out), args, int(rows), int(cols))
}

fn insert(into: u32, from: u32, at: [Operand; 2], part: [u32; 2], rows: u32, cols: u32) -> Stmt {
    let scalars = [at[0], at[1], int(part[0]), int(part[1])].map(Arg::Scalar);
    let args = [&[Arg::Tile(into), Arg::Tile(from)], &scalars[..]].concat();
    tile(OpCode::Insert, Some(into), args, int(rows), int(cols))
}

fn binary(op: OpCode, out: u32, a: u32, b: u32, rows: u32, cols: u32) -> Stmt {
    tile(op, Some(out), vec![Arg::Tile(a), Arg::Tile(b)], int(rows), int(cols))
}

fn looped(body: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::For { var: 0, start: ZERO, stop: int(8), step: ONE, parallel: false, body })
}

const I: Operand = Operand::Var(0);

#[test]
fn a_row_of_an_accumulator_is_updated_in_place() {
    // for i in range(8): acc[i, :] = max(acc[i, :], load(x, i))
    let body = vec![
        tile(OpCode::Fill, Some(0), vec![Arg::Scalar(Operand::Float(0.0))], int(8), int(32)),
        looped(vec![
            extract(1, 0, [I, ZERO], 1, 32),
            load(2, 0, [I, ZERO], ONE, int(32)),
            binary(OpCode::Maximum, 1, 1, 2, 1, 32),
            insert(0, 1, [I, ZERO], [1, 32], 8, 32),
        ]),
        store(0, 1, [ZERO; 2], int(8), int(32)),
    ];
    assert_eq!(steps(2, &[(8, 32), (1, 32), (1, 32)], body), "ccc", "fill, update, store");
}

#[test]
fn an_old_row_that_is_read_later_is_saved_and_not_the_whole_accumulator() {
    // old = acc[i]; new = max(old, x); acc[i] = new; alpha = exp(old - new); y[i] = alpha
    let body = vec![
        tile(OpCode::Fill, Some(0), vec![Arg::Scalar(Operand::Float(0.0))], int(8), int(32)),
        looped(vec![
            extract(1, 0, [I, ZERO], 1, 32),
            load(2, 0, [I, ZERO], ONE, int(32)),
            binary(OpCode::Maximum, 2, 1, 2, 1, 32),
            insert(0, 2, [I, ZERO], [1, 32], 8, 32),
            binary(OpCode::Sub, 1, 1, 2, 1, 32),
            tile(OpCode::Exp, Some(1), vec![Arg::Tile(1)], ONE, int(32)),
            store(1, 1, [I, ZERO], ONE, int(32)),
        ]),
        store(0, 2, [ZERO; 2], int(8), int(32)),
    ];
    assert_eq!(steps(3, &[(8, 32), (1, 32), (1, 32)], body), "cccc", "fill, save the row, update, store");
}

/// `lo, hi = x[:, :16], x[:, 16:]; y[:, :16] = lo * cos - hi * sin; y[:, 16:] = hi * cos + lo * sin`, 32 columns from `at` on.
fn rotation(at: Operand) -> Vec<Stmt> {
    let (lo, hi) = (extract(1, 0, [ZERO; 2], 8, 16), extract(2, 0, [ZERO, int(16)], 8, 16));
    vec![
        load(0, 0, [ZERO, at], int(8), int(32)),
        lo,
        hi,
        load(3, 1, [ZERO; 2], ONE, int(16)),
        load(4, 2, [ZERO; 2], ONE, int(16)),
        binary(OpCode::Mul, 5, 1, 3, 8, 16),
        binary(OpCode::Mul, 6, 2, 4, 8, 16),
        binary(OpCode::Sub, 5, 5, 6, 8, 16),
        binary(OpCode::Mul, 6, 2, 3, 8, 16),
        binary(OpCode::Mul, 7, 1, 4, 8, 16),
        binary(OpCode::Add, 6, 6, 7, 8, 16),
        tile(OpCode::Undef, Some(8), vec![], int(8), int(32)),
        insert(8, 5, [ZERO; 2], [8, 16], 8, 32),
        insert(8, 6, [ZERO, int(16)], [8, 16], 8, 32),
        tile(OpCode::Neg, Some(8), vec![Arg::Tile(8)], int(8), int(32)),
        store(8, 3, [ZERO, at], int(8), int(32)),
    ]
}

#[test]
fn a_rotation_of_halves_is_one_chain() {
    let tiles = [(8, 32), (8, 16), (8, 16), (1, 16), (1, 16), (8, 16), (8, 16), (8, 16), (8, 32)];
    assert_eq!(steps(4, &tiles, rotation(ZERO)), "c");
    assert_eq!(steps(4, &tiles, vec![looped(rotation(I))]), "c", "in a loop over heads");
}

#[test]
fn a_loop_over_slices_of_a_weight_is_a_product_per_round() {
    // acc = 0; for i: acc = matmul_acc(acc, x[:, i], w[:, i].T)
    let k = Arg::Scalar(int(8));
    let body = vec![
        tile(OpCode::Fill, Some(0), vec![Arg::Scalar(Operand::Float(0.0))], int(16), int(32)),
        looped(vec![
            load(1, 0, [ZERO, I], int(16), int(8)),
            load(2, 1, [ZERO, I], int(32), int(8)),
            tile(OpCode::Transpose, Some(3), vec![Arg::Tile(2)], int(8), int(32)),
            tile(OpCode::MatMulAcc, Some(0), vec![Arg::Tile(0), Arg::Tile(1), Arg::Tile(3), k], int(16), int(32)),
        ]),
        store(0, 2, [ZERO; 2], int(16), int(32)),
    ];
    assert_eq!(steps(3, &[(16, 32), (16, 8), (32, 8), (8, 32)], body), "cmc");
}

#[test]
fn a_softmax_over_a_padded_prefix_is_a_copy_and_a_chain() {
    // x = fillpad(load(x, valid 20 of 32), -inf); softmax over 32
    let (rows, cols) = (int(8), int(32));
    let pad = [int(8), int(20), Operand::Float(f32::NEG_INFINITY)].map(Arg::Scalar);
    let whole = Arg::Scalar(cols);
    let body = vec![
        load(0, 0, [ZERO; 2], rows, int(20)),
        tile(OpCode::FillPad, Some(0), [&[Arg::Tile(0)], &pad[..]].concat(), rows, cols),
        tile(OpCode::RowMax, Some(1), vec![Arg::Tile(0), whole], rows, ONE),
        binary(OpCode::Sub, 0, 0, 1, 8, 32),
        tile(OpCode::Exp, Some(0), vec![Arg::Tile(0)], rows, cols),
        tile(OpCode::RowSum, Some(1), vec![Arg::Tile(0), whole], rows, ONE),
        binary(OpCode::Div, 0, 0, 1, 8, 32),
        store(0, 1, [ZERO; 2], rows, cols),
    ];
    assert_eq!(steps(2, &[(8, 32), (8, 1)], body), "cc");
}

#[test]
fn a_column_seen_as_a_row_is_not_copied() {
    // m = row_max(x); y = reshape(m, 1 x 8)
    let (rows, cols) = (int(8), int(32));
    let body = vec![
        load(0, 0, [ZERO; 2], rows, cols),
        tile(OpCode::RowMax, Some(1), vec![Arg::Tile(0), Arg::Scalar(cols)], rows, ONE),
        tile(OpCode::Reinterpret, Some(2), vec![Arg::Tile(1)], ONE, rows),
        tile(OpCode::Neg, Some(2), vec![Arg::Tile(2)], ONE, rows),
        store(2, 1, [ZERO; 2], ONE, rows),
    ];
    assert_eq!(steps(2, &[(8, 32), (8, 1), (1, 8)], body), "cc");
}

#[test]
fn an_added_store_is_one_chain() {
    let place = [ZERO, ZERO, int(8), int(32)].map(Arg::Scalar);
    let body = vec![
        load(0, 0, [ZERO; 2], int(8), int(32)),
        tile(OpCode::StoreAdd, None, [&[Arg::Tile(0), Arg::Tensor(1)], &place[..]].concat(), int(8), int(32)),
    ];
    assert_eq!(steps(2, &[(8, 32)], body), "c");
}
