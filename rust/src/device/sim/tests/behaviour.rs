//! What the chip does where random programs do not go: views, created memory, blocks, faults, interruption, splitting.

use super::reference::Matrix;
use super::run::{Guarded, execute, run_on};
use crate::device::sim::SimDevice;
use crate::device::{Device, DeviceError};
use crate::dtype::DType;
use crate::kernels::Isa;
use crate::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Param, ParamKind, Program, ScalarOp,
    ScalarType, Stmt, StmtKind, TensorSlot, TileOp, TileSlot, ViewKind,
};
use std::cell::Cell;

pub(super) const ONE: Operand = Operand::Int(1);
pub(super) const ZERO: Operand = Operand::Int(0);

pub(super) fn int(value: u32) -> Operand {
    Operand::Int(value.into())
}

pub(super) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { at: Loc(0, 7, 4), kind }
}

pub(super) fn tile(op: OpCode, out: Option<u32>, args: Vec<Arg>, rows: Operand, cols: Operand) -> Stmt {
    stmt(StmtKind::Tile(TileOp { op, out, args, region: [rows, cols], mode: None }))
}

pub(super) fn load(out: u32, tensor: u32, at: [Operand; 2], rows: Operand, cols: Operand) -> Stmt {
    let args = [at[0], at[1], rows, cols].map(Arg::Scalar);
    tile(OpCode::Load, Some(out), [vec![Arg::Tensor(tensor)], args.to_vec()].concat(), rows, cols)
}

pub(super) fn store(from: u32, tensor: u32, at: [Operand; 2], rows: Operand, cols: Operand) -> Stmt {
    let args = [at[0], at[1], rows, cols].map(Arg::Scalar);
    tile(OpCode::Store, None, [vec![Arg::Tile(from), Arg::Tensor(tensor)], args.to_vec()].concat(), rows, cols)
}

fn f32_tensor() -> TensorSlot {
    TensorSlot { dtype: DType::F32, rank: 2 }
}

/// A kernel over `tensors` matrices with the given tiles and body; it has two integer scalars that are no parameters.
pub(super) fn kernel(tensors: u32, tiles: &[(u32, u32)], body: Vec<Stmt>) -> Function {
    Function {
        source: Default::default(),
        name: "kernel".into(),
        at: Loc(0, 1, 0),
        params: (0..tensors).map(|slot| FnParam::Tensor { slot, direction: Direction::InOut }).collect(),
        scalars: vec![ScalarType::Int; 2],
        tensors: vec![f32_tensor(); tensors as usize],
        tiles: tiles.iter().map(|&(rows, cols)| TileSlot { dtype: DType::F32, rows, cols }).collect(),
        body,
    }
}

/// A program whose entry has `extra` tensor slots beside its parameters.
pub(super) fn program(shapes: &[(u64, u64)], extra: usize, entry: Vec<Stmt>, kernel: Function) -> Program {
    let param = |&(rows, cols): &(u64, u64)| ParamKind::Tensor {
        dtype: DType::F32,
        dims: vec![Dim::Const(rows), Dim::Const(cols)],
        direction: Direction::InOut,
    };
    let params = shapes.iter().map(|shape| Param { name: "x".into(), kind: param(shape) }).collect();
    let entry = Function {
        source: Default::default(),
        name: "entry".into(),
        at: Loc(0, 1, 0),
        params: (0..shapes.len() as u32).map(|slot| FnParam::Tensor { slot, direction: Direction::InOut }).collect(),
        scalars: vec![ScalarType::Int; 2],
        tensors: vec![f32_tensor(); shapes.len() + extra],
        tiles: vec![],
        body: entry,
    };
    let (name, files) = ("program".into(), vec!["kernel.py".into()]);
    Program { name, files, symbols: vec![], params, entry, kernels: vec![kernel] }
}

pub(super) fn launch(tensors: &[u32], blocks: Operand) -> Stmt {
    let args = tensors.iter().map(|&slot| LaunchArg::Tensor(slot)).collect();
    stmt(StmtKind::Launch { kernel: 0, args, blocks })
}

pub(super) fn matrix(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f32) -> Matrix {
    let data = (0..rows * cols).map(|at| Some(value(at / cols, at % cols).to_bits().into())).collect();
    Matrix { dtype: DType::F32, rows, cols, data }
}

pub(super) fn value(matrix: &Matrix, row: usize, col: usize) -> f32 {
    f32::from_bits(matrix.data[row * matrix.cols + col].unwrap() as u32)
}

fn run(program: &Program, memory: &mut [Matrix]) -> Result<(), DeviceError> {
    run_on(program, memory, &[], Isa::detect(), 2)
}

/// `tile0 = load(x); store(tile0, y)` of `rows x cols`.
fn copy(rows: u32, cols: u32) -> Function {
    let (rows_at, cols_at) = (int(rows), int(cols));
    let body = vec![load(0, 0, [ZERO; 2], rows_at, cols_at), store(0, 1, [ZERO; 2], rows_at, cols_at)];
    kernel(2, &[(rows, cols)], body)
}

#[test]
fn slices_and_transposes_are_views_of_the_same_memory() {
    let box_of = |offsets: [u32; 2], extents: [u32; 2]| ViewKind::Slice {
        offsets: offsets.map(int).to_vec(),
        extents: extents.map(int).to_vec(),
        keep: vec![0, 1],
    };
    let view = |dst, src, kind| stmt(StmtKind::View { dst, src, kind });
    let entry = vec![
        view(2, 0, box_of([1, 2], [2, 3])),
        view(3, 2, ViewKind::Transpose { a: 0, b: 1 }),
        view(4, 1, box_of([0, 1], [3, 2])),
        launch(&[3, 4], ONE),
    ];
    let program = program(&[(4, 6), (3, 4)], 3, entry, copy(3, 2));
    let mut memory = [matrix(4, 6, |row, col| (row * 10 + col) as f32), matrix(3, 4, |_, _| -1.0)];
    run(&program, &mut memory).unwrap();
    for row in 0..3 {
        let got: Vec<f32> = (0..4).map(|col| value(&memory[1], row, col)).collect();
        let want = [-1.0, (10 + 2 + row) as f32, (20 + 2 + row) as f32, -1.0];
        assert_eq!(got, want, "row {row}");
    }
}

#[test]
fn a_reinterpreted_view_counts_the_bytes_of_a_row_anew() {
    let part = ViewKind::Slice { offsets: vec![ONE, int(2)], extents: vec![int(2), int(4)], keep: vec![0, 1] };
    let view = |dst, src, kind| stmt(StmtKind::View { dst, src, kind });
    let back = |dst, src| view(dst, src, ViewKind::Reinterpret);
    let entry = vec![view(2, 0, part), back(3, 2), back(4, 3), launch(&[4, 1], ONE)];
    let mut program = program(&[(4, 6), (2, 4)], 3, entry, copy(2, 4));
    program.entry.tensors[3].dtype = DType::I16;
    let mut memory = [matrix(4, 6, |row, col| (row * 10 + col) as f32), matrix(2, 4, |_, _| -1.0)];
    run(&program, &mut memory).unwrap();
    assert!((0..8).all(|at| value(&memory[1], at / 4, at % 4) == ((at / 4 + 1) * 10 + at % 4 + 2) as f32));

    let odd = ViewKind::Slice { offsets: vec![ZERO, ONE], extents: vec![int(2), int(3)], keep: vec![0, 1] };
    let entry = vec![view(2, 0, odd), back(3, 2), launch(&[2, 1], ONE)];
    let mut program = self::program(&[(4, 6), (2, 4)], 3, entry, copy(2, 4));
    program.entry.tensors[3].dtype = DType::I64;
    let error = run(&program, &mut memory).unwrap_err().to_string();
    assert!(error.contains("a row is no whole number of them"), "{error}");
}

#[test]
fn a_store_through_a_transposed_view_reaches_the_right_elements() {
    let entry =
        vec![stmt(StmtKind::View { dst: 2, src: 1, kind: ViewKind::Transpose { a: 0, b: 1 } }), launch(&[0, 2], ONE)];
    let program = program(&[(3, 5), (5, 3)], 1, entry, copy(3, 5));
    let mut memory = [matrix(3, 5, |row, col| (row * 10 + col) as f32), matrix(5, 3, |_, _| 0.0)];
    run(&program, &mut memory).unwrap();
    assert!((0..15).all(|at| value(&memory[1], at % 5, at / 5) == (at / 5 * 10 + at % 5) as f32));
}

#[test]
fn created_memory_lives_for_the_launch_and_holds_its_fill() {
    let entry =
        vec![stmt(StmtKind::Create { dst: 1, dims: vec![int(2), int(3)], fill: Some(2.5) }), launch(&[1, 0], ONE)];
    let program = program(&[(2, 3)], 1, entry, copy(2, 3));
    let mut memory = [matrix(2, 3, |_, _| 0.0)];
    run(&program, &mut memory).unwrap();
    assert!((0..6).all(|at| value(&memory[0], at / 3, at % 3) == 2.5));
}

#[test]
fn memory_that_cannot_be_created_is_an_error_of_the_launch() {
    let entry = vec![
        stmt(StmtKind::Create { dst: 1, dims: vec![int(1 << 20), int(1 << 20)], fill: None }),
        launch(&[1, 0], ONE),
    ];
    let program = program(&[(2, 3)], 1, entry, copy(2, 3));
    let error = run(&program, &mut [matrix(2, 3, |_, _| 0.0)]).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory(_)), "{error}");
}

#[test]
fn every_block_runs_once_and_no_blocks_are_no_work() {
    let body = vec![
        stmt(StmtKind::Scalar { dst: 0, op: ScalarOp::BlockIdx, args: vec![] }),
        load(0, 0, [Operand::Var(0), ZERO], ONE, int(3)),
        tile(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Scalar(Operand::Float(1.0))], ONE, int(3)),
        store(0, 0, [Operand::Var(0), ZERO], ONE, int(3)),
    ];
    for blocks in [0, 1, 4] {
        let program = program(&[(4, 3)], 0, vec![launch(&[0], int(blocks))], kernel(1, &[(1, 3)], body.clone()));
        let mut memory = [matrix(4, 3, |_, _| 0.0)];
        run(&program, &mut memory).unwrap();
        let done = (0..4).filter(|&row| value(&memory[0], row, 0) == 1.0).count();
        assert_eq!(done, blocks as usize);
    }
}

#[test]
fn a_tensor_counts_as_overwritten_where_blocks_write_all_of_it_and_read_nothing() {
    let at_block = |shift| {
        let row = Operand::Var(0);
        vec![
            stmt(StmtKind::Scalar { dst: 0, op: ScalarOp::BlockIdx, args: vec![] }),
            stmt(StmtKind::Scalar { dst: 0, op: ScalarOp::Mul, args: vec![row, int(shift)] }),
            load(0, 0, [row, ZERO], ONE, int(3)),
            store(0, 1, [row, ZERO], ONE, int(3)),
        ]
    };
    for (blocks, shift, whole) in [(4, 1, true), (3, 1, false), (4, 0, false)] {
        let kernel = kernel(2, &[(1, 3)], at_block(shift));
        let program = program(&[(4, 3); 2], 0, vec![launch(&[0, 1], int(blocks))], kernel);
        let mut executable = SimDevice::new(1, Isa::detect()).compile(&program).unwrap();
        let mut tensors = Guarded::new(&[matrix(4, 3, |_, _| 1.0), matrix(4, 3, |_, _| 0.0)]);
        for repeats in [false, true, true] {
            assert!(!executable.overwrites(0), "it is read");
            execute(executable.as_mut(), &mut tensors, &[], repeats, &mut || true).unwrap();
        }
        assert_eq!(executable.overwrites(1), whole, "{blocks} blocks, {shift} rows apart");
        execute(executable.as_mut(), &mut tensors, &[], false, &mut || true).unwrap();
        assert!(!executable.overwrites(1), "other extents or scalars may write less");
    }
}

#[test]
fn an_access_outside_the_tensor_is_a_fault_with_its_place() {
    let body = vec![load(0, 0, [int(3), ZERO], int(2), int(3)), store(0, 0, [ZERO; 2], int(2), int(3))];
    let program = program(&[(4, 3)], 0, vec![launch(&[0], ONE)], kernel(1, &[(2, 3)], body));
    let error = run(&program, &mut [matrix(4, 3, |_, _| 0.0)]).unwrap_err().to_string();
    assert!(error.contains("kernel.py:7:"), "{error}");
    assert!(error.contains("[3 : 5] along axis 0 leaves the tensor, which has 4 elements"), "{error}");
    assert!(error.contains("valid_shape"), "{error}");
}

#[test]
fn a_valid_extent_larger_than_the_tile_is_a_fault() {
    let body = vec![
        stmt(StmtKind::Scalar { dst: 0, op: ScalarOp::Copy, args: vec![int(3)] }),
        load(0, 0, [ZERO; 2], Operand::Var(0), int(3)),
        store(0, 0, [ZERO; 2], Operand::Var(0), int(3)),
    ];
    let program = program(&[(4, 3)], 0, vec![launch(&[0], ONE)], kernel(1, &[(2, 3)], body));
    let error = run(&program, &mut [matrix(4, 3, |_, _| 0.0)]).unwrap_err().to_string();
    assert!(error.contains("a valid shape of [3, 3] for a tile of [2, 3]"), "{error}");
}

#[test]
fn a_long_launch_stops_when_asked_and_the_next_one_runs() {
    let forever = StmtKind::While { head: vec![], cond: Operand::Bool(true), body: vec![] };
    let spin = program(&[(2, 3)], 0, vec![launch(&[0], ONE)], kernel(1, &[], vec![stmt(forever)]));
    let copy = program(&[(2, 3), (2, 3)], 0, vec![launch(&[0, 1], ONE)], copy(2, 3));
    let device = SimDevice::new(2, Isa::detect());
    let (mut spin, mut copy) = (device.compile(&spin).unwrap(), device.compile(&copy).unwrap());
    let asked = Cell::new(0);
    let mut poll = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    let source = matrix(2, 3, |row, col| (row + col) as f32);
    let mut tensors = Guarded::new(std::slice::from_ref(&source));
    let error = execute(spin.as_mut(), &mut tensors, &[], false, &mut poll).unwrap_err();
    assert!(matches!(error, DeviceError::Interrupted { .. }), "{error}");
    assert_eq!(asked.get(), 3);
    let mut tensors = Guarded::new(&[source.clone(), source]);
    execute(copy.as_mut(), &mut tensors, &[], false, &mut || true).unwrap();
}

#[test]
fn a_large_chain_and_a_large_product_give_the_same_on_one_core_and_on_several() {
    // 700 x 900 elements are several parts of a chain; the product is cut along its columns.
    let (rows, inner, cols) = (96u32, 700, 900);
    let body = vec![
        load(0, 0, [ZERO; 2], int(rows), int(inner)),
        load(1, 1, [ZERO; 2], int(inner), int(cols)),
        tile(OpCode::Exp, Some(1), vec![Arg::Tile(1)], int(inner), int(cols)),
        tile(OpCode::MatMul, Some(2), vec![Arg::Tile(0), Arg::Tile(1), Arg::Scalar(int(inner))], int(rows), int(cols)),
        tile(OpCode::RowMax, Some(3), vec![Arg::Tile(2), Arg::Scalar(int(cols))], int(rows), ONE),
        tile(OpCode::Sub, Some(2), vec![Arg::Tile(2), Arg::Tile(3)], int(rows), int(cols)),
        store(2, 2, [ZERO; 2], int(rows), int(cols)),
    ];
    let tiles = [(rows, inner), (inner, cols), (rows, cols), (rows, 1)];
    let shapes = [(rows, inner), (inner, cols), (rows, cols)].map(|(a, b)| (u64::from(a), u64::from(b)));
    let program = program(&shapes, 0, vec![launch(&[0, 1, 2], ONE)], kernel(3, &tiles, body));
    let fresh = || {
        shapes.map(|(rows, cols)| {
            matrix(rows as usize, cols as usize, |row, col| ((row * 7 + col * 3) % 11) as f32 / 8.0)
        })
    };
    let mut one = fresh();
    run_on(&program, &mut one, &[], Isa::detect(), 1).unwrap();
    for cores in [2, 3] {
        let mut several = fresh();
        run_on(&program, &mut several, &[], Isa::detect(), cores).unwrap();
        assert_eq!(several[2], one[2], "{cores} cores");
    }
}

#[test]
fn two_tiles_exchanged_in_a_loop_keep_their_values() {
    // for _ in range(1): a, b = b, a; a = -a
    let swap = vec![
        tile(OpCode::Move, Some(2), vec![Arg::Tile(1)], ONE, int(3)),
        tile(OpCode::Neg, Some(3), vec![Arg::Tile(2)], ONE, int(3)),
        tile(OpCode::Move, Some(1), vec![Arg::Tile(0)], ONE, int(3)),
        tile(OpCode::Move, Some(0), vec![Arg::Tile(3)], ONE, int(3)),
    ];
    let body = vec![
        load(0, 0, [ZERO; 2], ONE, int(3)),
        load(1, 0, [ONE, ZERO], ONE, int(3)),
        stmt(StmtKind::For { var: 0, start: ZERO, stop: ONE, step: ONE, parallel: false, body: swap }),
        store(0, 0, [ZERO; 2], ONE, int(3)),
        store(1, 0, [ONE, ZERO], ONE, int(3)),
    ];
    let program = program(&[(2, 3)], 0, vec![launch(&[0], ONE)], kernel(1, &[(1, 3); 4], body));
    let mut memory = [matrix(2, 3, |row, col| (row * 10 + col + 1) as f32)];
    run(&program, &mut memory).unwrap();
    let got: Vec<f32> = (0..6).map(|at| value(&memory[0], at / 3, at % 3)).collect();
    assert_eq!(got, [-11.0, -12.0, -13.0, 1.0, 2.0, 3.0]);
}

#[test]
fn halves_that_change_places_in_a_loop_over_heads_reach_the_right_columns() {
    // for i in range(3): y[:, 4 * i : 4 * i + 4] = concat(-x[:, 4 * i + 2 : 4 * i + 4], x[:, 4 * i : 4 * i + 2])
    let (rows, half) = (int(2), int(2));
    let at = [ZERO, Operand::Var(1)];
    let part = |out, col| tile(OpCode::Extract, Some(out), vec![Arg::Tile(0), Arg::Scalar(ZERO), col], rows, half);
    let insert = |from, col| {
        let place = [ZERO, col, rows, half].map(Arg::Scalar);
        tile(OpCode::Insert, Some(3), [&[Arg::Tile(3), Arg::Tile(from)], &place[..]].concat(), rows, int(4))
    };
    let body = vec![
        stmt(StmtKind::Scalar { dst: 1, op: ScalarOp::Mul, args: vec![Operand::Var(0), int(4)] }),
        load(0, 0, at, rows, int(4)),
        part(1, Arg::Scalar(ZERO)),
        part(2, Arg::Scalar(half)),
        tile(OpCode::Neg, Some(2), vec![Arg::Tile(2)], rows, half),
        tile(OpCode::Undef, Some(3), vec![], rows, int(4)),
        insert(2, ZERO),
        insert(1, half),
        store(3, 1, at, rows, int(4)),
    ];
    let body = vec![stmt(StmtKind::For { var: 0, start: ZERO, stop: int(3), step: ONE, parallel: false, body })];
    let kernel = kernel(2, &[(2, 4), (2, 2), (2, 2), (2, 4)], body);
    let program = program(&[(2, 12), (2, 12)], 0, vec![launch(&[0, 1], ONE)], kernel);
    let mut memory = [matrix(2, 12, |row, col| (row * 100 + col + 1) as f32), matrix(2, 12, |_, _| 0.0)];
    run(&program, &mut memory).unwrap();
    for at in 0..24 {
        let (row, col) = (at / 12, at % 12);
        let want = match col % 4 {
            0 | 1 => -value(&memory[0], row, col + 2),
            _ => value(&memory[0], row, col - 2),
        };
        assert_eq!(value(&memory[1], row, col), want, "[{row}, {col}]");
    }
}
