//! Tasks that run at once leave what tasks one after the other leave.

use super::behaviour::{ONE, ZERO, int, kernel, load, matrix, program, stmt, store, tile};
use super::reference::Matrix;
use super::run::{run_compiled, run_with};
use crate::device::sim::SimDevice;
use crate::dtype::DType;
use crate::kernels::Isa;
use crate::program::{
    Arg, FnParam, Function, LaunchArg, OpCode, Operand, Place, Program, ScalarOp, ScalarType, Stmt, StmtKind, ViewKind,
};
use proptest::prelude::*;

const ROWS: u32 = 12;
const COLS: u32 = 10;
const TENSORS: u32 = 3;

/// Scalars of every kernel here: `at` from row, from column, to row, to column, distance; two are free.
const SCALARS: u32 = 7;

fn var(slot: u32) -> Operand {
    Operand::Var(slot)
}

fn scalar(dst: u32, op: ScalarOp, args: &[Operand]) -> Stmt {
    stmt(StmtKind::Scalar { dst, op, args: args.to_vec() })
}

/// A kernel of two tensors and five scalars.
fn with_scalars(tiles: &[(u32, u32)], body: Vec<Stmt>) -> Function {
    let mut function = kernel(2, tiles, body);
    function.params.extend((0..5).map(FnParam::Scalar));
    function.scalars = vec![ScalarType::Int; SCALARS as usize];
    function
}

/// `y[to] = 2 * x[from] + 1`, boxes of 2 x 3.
fn moves() -> Function {
    let (rows, cols) = (int(2), int(3));
    with_scalars(
        &[(2, 3)],
        vec![
            load(0, 0, [var(0), var(1)], rows, cols),
            tile(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Tile(0)], rows, cols),
            tile(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Scalar(Operand::Float(1.0))], rows, cols),
            store(0, 1, [var(2), var(3)], rows, cols),
        ],
    )
}

/// Block `b`: `y[b + distance, :] += x[b, :]`, rows that exist.
fn rows() -> Function {
    let (rows, cols) = (ONE, int(COLS));
    let inner = vec![
        load(0, 0, [var(5), ZERO], rows, cols),
        load(1, 1, [var(6), ZERO], rows, cols),
        tile(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Tile(1)], rows, cols),
        store(0, 1, [var(6), ZERO], rows, cols),
    ];
    with_scalars(
        &[(1, COLS); 2],
        vec![
            scalar(5, ScalarOp::BlockIdx, &[]),
            scalar(6, ScalarOp::Add, &[var(5), var(4)]),
            // A loop of no or one round: the row exists.
            scalar(3, ScalarOp::Sub, &[int(ROWS), var(6)]),
            scalar(3, ScalarOp::Min, &[var(3), ONE]),
            stmt(StmtKind::For { var: 2, start: ZERO, stop: var(3), step: ONE, parallel: false, body: inner }),
        ],
    )
}

/// `y[int(x[from]), to column] = x[from]`: an address that comes from memory, and single elements.
fn points() -> Function {
    let mut function = with_scalars(
        &[],
        vec![
            stmt(StmtKind::Read { dst: 7, src: Place::Tensor(0), index: vec![var(0), var(1)] }),
            scalar(5, ScalarOp::ToInt, &[var(7)]),
            scalar(5, ScalarOp::Mod, &[var(5), int(ROWS)]),
            stmt(StmtKind::Write { dst: Place::Tensor(1), index: vec![var(5), var(3)], value: var(7) }),
        ],
    );
    function.scalars.push(ScalarType::Float);
    function
}

/// Reads what it wrote itself to know where to write: cannot be foreseen.
fn follows() -> Function {
    let mut function = points();
    function.body.insert(0, load(0, 0, [var(2), var(3)], ONE, ONE));
    function.body.insert(1, store(0, 1, [var(0), var(1)], ONE, ONE));
    function.body[2] = stmt(StmtKind::Read { dst: 7, src: Place::Tensor(1), index: vec![var(0), var(1)] });
    function.tiles = kernel(0, &[(1, 1)], vec![]).tiles;
    function
}

/// `y[to] = x[from]^T`, a box of 2 x 3.
fn turns() -> Function {
    let (two, three) = (int(2), int(3));
    with_scalars(
        &[(2, 3), (3, 2)],
        vec![
            load(0, 0, [var(0), var(1)], two, three),
            tile(OpCode::Transpose, Some(1), vec![Arg::Tile(0)], three, two),
            store(1, 1, [var(2), var(3)], three, two),
        ],
    )
}

/// `y.flat[from row + 0 .. 3] = x.flat[from column + 0 .. 3]`: elements by index, which count as all of both.
fn picks() -> Function {
    let (one, three) = (ONE, int(3));
    let mut function = with_scalars(
        &[(1, 3); 3],
        vec![
            tile(OpCode::Iota, Some(1), vec![Arg::Scalar(var(1)), Arg::Scalar(ONE)], one, three),
            tile(OpCode::GatherTensor, Some(0), vec![Arg::Tensor(0), Arg::Tile(1)], one, three),
            tile(OpCode::Iota, Some(2), vec![Arg::Scalar(var(0)), Arg::Scalar(ONE)], one, three),
            tile(
                OpCode::ScatterTensor,
                None,
                vec![Arg::Tile(0), Arg::Tile(2), Arg::Tensor(1), Arg::Scalar(ZERO)],
                one,
                three,
            ),
        ],
    );
    function.tiles[1].dtype = DType::I32;
    function.tiles[2].dtype = DType::I32;
    function
}

/// `y[to] += x[from] / 3`, boxes of 2 x 3: what comes first matters for the last bit.
fn adds() -> Function {
    let (rows, cols) = (int(2), int(3));
    let place = [var(2), var(3), rows, cols].map(Arg::Scalar);
    with_scalars(
        &[(2, 3)],
        vec![
            load(0, 0, [var(0), var(1)], rows, cols),
            tile(OpCode::Mul, Some(0), vec![Arg::Tile(0), Arg::Scalar(Operand::Float(1.0 / 3.0))], rows, cols),
            tile(OpCode::StoreAdd, None, [&[Arg::Tile(0), Arg::Tensor(1)], &place[..]].concat(), rows, cols),
        ],
    )
}

/// The kernels. What those from [`DECIDED`] on do depends on elements, so that no launch can be run from a script.
const KERNELS: [fn() -> Function; 7] = [moves, rows, turns, adds, picks, points, follows];
const MOVES: usize = 0;
const BLOCKS: usize = 1;
const TURNS: usize = 2;
const ADDS: usize = 3;
const DECIDED: usize = 5;

#[derive(Clone, Debug)]
struct Task {
    kernel: usize,
    tensors: [u32; 2],
    /// Rows from which the target is a slice.
    slice: u32,
    at: [u32; 4],
    distance: u32,
    blocks: u32,
}

/// Up to 12 tasks. In half of the cases extents and scalars decide what they do.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    prop_oneof![Just(DECIDED), Just(KERNELS.len())].prop_flat_map(|kernels| prop::collection::vec(task(kernels), 0..12))
}

fn task(kernels: usize) -> impl Strategy<Value = Task> {
    let at = [0..9u32, 0..8u32, 0..9u32, 0..8u32];
    let task = (0..kernels, [0..TENSORS, 0..TENSORS], 0..3u32, at, 0..3u32, 0..5u32);
    task.prop_map(|(kernel, tensors, slice, at, distance, blocks)| Task {
        kernel,
        tensors,
        slice: if [MOVES, TURNS, ADDS].contains(&kernel) { slice } else { 0 },
        at,
        distance,
        blocks: if kernel == BLOCKS { blocks * 2 } else { blocks.min(1) },
    })
}

fn is_decided(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| task.kernel < DECIDED)
}

fn build(tasks: &[Task]) -> Program {
    let mut entry = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        // The target is a slice of whole rows; boxes stay inside it.
        let view = TENSORS + number as u32;
        let extents = [ROWS - task.slice, COLS];
        entry.push(stmt(StmtKind::View {
            dst: view,
            src: task.tensors[1],
            kind: ViewKind::Slice {
                offsets: vec![int(task.slice), ZERO],
                extents: extents.map(int).to_vec(),
                keep: vec![0, 1],
            },
        }));
        let high = if task.kernel == TURNS { 3 } else { 2 };
        let at = [task.at[0], task.at[1], task.at[2].min(extents[0] - high), task.at[3].min(COLS - 3)];
        let scalars = at.into_iter().chain([task.distance]).map(|value| LaunchArg::Scalar(int(value)));
        let args = [LaunchArg::Tensor(task.tensors[0]), LaunchArg::Tensor(view)].into_iter().chain(scalars).collect();
        entry.push(stmt(StmtKind::Launch { kernel: task.kernel as u32, args, blocks: int(task.blocks) }));
    }
    let shapes = vec![(u64::from(ROWS), u64::from(COLS)); TENSORS as usize];
    let mut program = program(&shapes, tasks.len(), entry, moves());
    let kernels = if is_decided(tasks) { DECIDED } else { KERNELS.len() };
    program.kernels = KERNELS[..kernels].iter().map(|kernel| kernel()).collect();
    program
}

fn memory() -> Vec<Matrix> {
    let tensor = |tensor| matrix(ROWS as usize, COLS as usize, |row, col| ((row * 5 + col * 3 + tensor) % 9) as f32);
    (0..TENSORS as usize).map(tensor).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn tasks_that_run_at_once_leave_what_tasks_in_order_leave(tasks in tasks(), seed in any::<u64>()) {
        let program = build(&tasks);
        let mut expected = memory();
        run_with(&SimDevice::new(1, Isa::detect()), &program, &mut expected, &[]).unwrap();
        for cores in [1, 2, 4] {
            let mut got = memory();
            let device = SimDevice::new(cores, Isa::detect()).with_schedule_seed(seed);
            let mut executable = device.executable(&program).unwrap();
            run_compiled(&mut executable, &mut got, &[]).unwrap();
            prop_assert!(got == expected, "{cores} cores");
            prop_assert_eq!(executable.state.waves().is_some(), is_decided(&tasks), "run from a script");
        }
    }
}

#[test]
fn a_fault_in_one_of_several_tasks_is_the_first_in_order() {
    let mut tasks: Vec<Task> = (0..4)
        .map(|number| Task { kernel: 0, tensors: [0, 1], slice: 0, at: [0, 0, 2 * number, 0], distance: 0, blocks: 1 })
        .collect();
    tasks[1].at[0] = ROWS - 1;
    tasks[3].at[1] = COLS - 1;
    let device = SimDevice::new(2, Isa::detect()).with_schedule_seed(1);
    let error = run_with(&device, &build(&tasks), &mut memory(), &[]).unwrap_err().to_string();
    assert!(error.contains("[11 : 13] along axis 0 leaves the tensor"), "{error}");
}
