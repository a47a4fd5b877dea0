//! Launches that repeat the last one on several cores: what ran at once runs at once again.

use super::behaviour::{ONE, ZERO, int, kernel, launch, load, matrix, program, stmt, store, tile};
use super::reference::Matrix;
use super::run::{Guarded, execute};
use crate::device::DeviceError;
use crate::device::sim::{SimDevice, SimExecutable};
use crate::program::{
    Arg, FnParam, Function, LaunchArg, OpCode, Operand, Program, ScalarOp, ScalarType, Stmt, StmtKind,
};

/// Blocks of each task here; each is long enough to wait for others.
const BLOCKS: u32 = 24;
const ROWS: u32 = 32;
const COLS: u32 = 1024;

/// The first scalar of a kernel is the number of its block; this sets the second to `times` that.
fn block_times(times: u32) -> Vec<Stmt> {
    let scalar = |dst, op, args: &[Operand]| stmt(StmtKind::Scalar { dst, op, args: args.to_vec() });
    vec![scalar(0, ScalarOp::BlockIdx, &[]), scalar(1, ScalarOp::Mul, &[Operand::Var(0), int(times)])]
}

fn exp() -> Stmt {
    tile(OpCode::Exp, Some(0), vec![Arg::Tile(0)], int(ROWS), int(COLS))
}

/// `write(exp(x[rows of the block]))`
fn block_of_rows(write: Stmt) -> Function {
    let at = [Operand::Var(1), ZERO];
    let body = [block_times(ROWS), vec![load(0, 0, at, int(ROWS), int(COLS)), exp(), write]].concat();
    kernel(2, &[(ROWS, COLS)], body)
}

fn store_rows() -> Stmt {
    store(0, 1, [Operand::Var(1), ZERO], int(ROWS), int(COLS))
}

/// Adds the tile to rows of the second tensor from `row` on.
fn add_rows(row: Operand) -> Stmt {
    let place = [row, ZERO, int(ROWS), int(COLS)].map(Arg::Scalar);
    tile(OpCode::StoreAdd, None, [&[Arg::Tile(0), Arg::Tensor(1)], &place[..]].concat(), int(ROWS), int(COLS))
}

/// A program of two tensors.
fn tasks(entry: Vec<Stmt>, kernel: Function) -> Program {
    program(&[(u64::from(BLOCKS * ROWS), COLS.into()); 2], 0, entry, kernel)
}

fn memory(seed: usize) -> [Matrix; 2] {
    [1, 2].map(|tensor| {
        let value = |row: usize, col: usize| ((row * 7 + col * 3 + seed * tensor) % 23) as f32 / 17.0 - 0.6;
        matrix((BLOCKS * ROWS) as usize, COLS as usize, value)
    })
}

fn ready(cores: usize, program: &Program) -> SimExecutable {
    SimDevice::native(cores).executable(program).unwrap()
}

/// What a launch leaves.
fn left(executable: &mut SimExecutable, memory: &[Matrix], repeats: bool) -> Guarded {
    let mut tensors = Guarded::new(memory);
    execute(executable, &mut tensors, &[], repeats, &mut || true).unwrap();
    tensors.check();
    tensors
}

/// Launches on one core and on several, with other data at other addresses each time; several cores find `waves`.
fn assert_replays(program: &Program, waves: Option<usize>) {
    let memories = [0, 5, 11, 14].map(memory);
    let mut in_order = ready(1, program);
    let expected = memories.each_ref().map(|memory| left(&mut in_order, memory, false));
    for cores in [2, 3] {
        let mut executable = ready(cores, program);
        // They live on, so that none lies where another did.
        let mut all = Vec::new();
        for (launch, (memory, expected)) in memories.iter().zip(&expected).enumerate() {
            all.push(left(&mut executable, memory, launch > 0));
            assert!(all[launch].bytes() == expected.bytes(), "launch {launch} on {cores} cores");
            let known = if launch == 0 { None } else { waves };
            assert_eq!(executable.state.waves(), known, "launch {launch} on {cores} cores");
        }
    }
}

#[test]
fn independent_blocks_run_at_once_again() {
    assert_replays(&tasks(vec![launch(&[0, 1], int(BLOCKS))], block_of_rows(store_rows())), Some(1));
}

#[test]
fn blocks_of_interleaved_columns_run_at_once_again() {
    let (rows, cols) = (int(BLOCKS * ROWS), int(64));
    let at = [ZERO, Operand::Var(1)];
    let exp = tile(OpCode::Exp, Some(0), vec![Arg::Tile(0)], rows, cols);
    let body = [block_times(64), vec![load(0, 0, at, rows, cols), exp, store(0, 1, at, rows, cols)]].concat();
    let kernel = kernel(2, &[(BLOCKS * ROWS, 64)], body);
    assert_replays(&tasks(vec![launch(&[0, 1], int(COLS / 64))], kernel), Some(1));
}

#[test]
fn what_reads_or_writes_what_others_write_waits_for_them_again() {
    // Each task writes what the one before read, and reads what it wrote.
    let there_and_back = [[0, 1], [1, 0], [0, 1]].map(|tensors| launch(&tensors, int(BLOCKS))).to_vec();
    assert_replays(&tasks(there_and_back, block_of_rows(store_rows())), Some(3));
    let twice_the_same = [[0, 1], [0, 1]].map(|tensors| launch(&tensors, int(BLOCKS))).to_vec();
    assert_replays(&tasks(twice_the_same.clone(), block_of_rows(store_rows())), Some(2));
    assert_replays(&tasks(twice_the_same, block_of_rows(add_rows(Operand::Var(1)))), Some(2));
}

#[test]
fn sums_at_one_place_are_added_in_order_again() {
    assert_replays(&tasks(vec![launch(&[0, 1], int(BLOCKS))], block_of_rows(add_rows(ZERO))), Some(0));
}

#[test]
fn a_launch_of_too_many_steps_is_interpreted_each_time() {
    // 24 blocks of 100 steps.
    assert_replays(&tasks(vec![launch(&[0, 1], int(BLOCKS))], again_and_again(100, 1)), None);
}

#[test]
fn tasks_too_short_to_look_ahead_each_time_run_at_once_where_the_look_is_kept() {
    // One row each: a fraction of a microsecond, so that a core takes several at a time.
    let row = [Operand::Var(0), ZERO];
    let exp = || tile(OpCode::Exp, Some(0), vec![Arg::Tile(0)], ONE, int(COLS));
    let body = vec![load(0, 0, row, ONE, int(COLS)), exp(), exp(), exp(), exp(), store(0, 1, row, ONE, int(COLS))];
    let mut kernel = kernel(2, &[(1, COLS)], body);
    kernel.params.push(FnParam::Scalar(0));
    let args = vec![LaunchArg::Tensor(0), LaunchArg::Tensor(1), LaunchArg::Scalar(Operand::Var(0))];
    let each = vec![stmt(StmtKind::Launch { kernel: 0, args, blocks: ONE })];
    let rows = stmt(StmtKind::For { var: 0, start: ZERO, stop: int(500), step: ONE, parallel: false, body: each });
    assert_replays(&tasks(vec![rows], kernel), Some(1));
}

/// Each block does the same `rounds` times, with `exps` exponentials in each.
fn again_and_again(rounds: u32, exps: usize) -> Function {
    let mut function = block_of_rows(store_rows());
    let mut body = function.body.split_off(2);
    body.splice(1..2, vec![exp(); exps]);
    function.scalars.push(ScalarType::Int);
    function.body.push(stmt(StmtKind::For {
        var: 2,
        start: ZERO,
        stop: int(rounds),
        step: ONE,
        parallel: false,
        body,
    }));
    function
}

#[test]
fn an_interrupted_replay_stops_and_the_next_one_is_right() {
    // Much longer than the time between two questions.
    let program = tasks(vec![launch(&[0, 1], int(BLOCKS))], again_and_again(80, 8));
    let mut executable = ready(2, &program);
    let first = left(&mut executable, &memory(0), false);
    left(&mut executable, &memory(0), true);
    assert_eq!(executable.state.waves(), Some(1));
    let error = execute(&mut executable, &mut Guarded::new(&memory(0)), &[], true, &mut || false).unwrap_err();
    assert!(matches!(error, DeviceError::Interrupted { .. }), "{error}");
    assert!(left(&mut executable, &memory(0), true).bytes() == first.bytes());
}

#[test]
#[cfg(not(feature = "trace-off"))]
fn each_task_of_a_replay_has_a_span_of_its_own_on_the_core_that_ran_it() {
    use super::run::execute_as;
    use crate::trace::{self, names};
    /// Short tasks in a row, beside the long ones: several groups, which are timed together.
    const SHORT: usize = 12;
    let args = || vec![LaunchArg::Tensor(0)];
    let short = || (0..SHORT).map(|_| stmt(StmtKind::Launch { kernel: 1, args: args(), blocks: ONE })).collect();
    let long = |tensors: [u32; 2], blocks| vec![launch(&tensors, blocks)];
    let entry = [short(), long([0, 1], int(BLOCKS)), short(), long([1, 0], ONE), long([0, 1], int(BLOCKS)), short()];
    let mut program = tasks(entry.concat(), block_of_rows(store_rows()));
    let (at, cols) = ([ZERO; 2], int(16));
    let twice = tile(OpCode::Add, Some(0), vec![Arg::Tile(0); 2], ONE, cols);
    program.kernels.push(kernel(1, &[(1, 16)], vec![load(0, 0, at, ONE, cols), twice, store(0, 0, at, ONE, cols)]));
    let mut executable = ready(2, &program);
    left(&mut executable, &memory(0), false);
    left(&mut executable, &memory(0), true);
    assert_eq!(executable.state.waves(), Some(2));
    let recording = trace::enable();
    // Other tests' launches are number 1.
    let invocation = u32::MAX;
    execute_as(invocation, &mut executable, &mut Guarded::new(&memory(0)), &[], true, &mut || true).unwrap();
    let spans: Vec<_> = recording.drain().spans.into_iter().filter(|span| span.invocation == invocation).collect();
    let of = |name| spans.iter().filter(move |span| span.name == name);
    let mut tasks: Vec<_> = of(names::TASK).collect();
    assert_eq!(tasks.iter().filter(|task| task.arg == 1).count(), 3 * SHORT);
    let long = || tasks.iter().filter(|task| task.arg == 0);
    assert_eq!(long().count(), 2 * BLOCKS as usize + 1);
    assert!(long().all(|task| task.timed_with == 1));
    assert!(tasks.iter().all(|task| task.track.core_index().is_some_and(|core| core < 2)));
    tasks.sort_by_key(|task| (task.track.core_index(), task.begin_ns));
    for pair in tasks.windows(2).filter(|pair| pair[0].track == pair[1].track) {
        assert!(pair[0].end_ns() <= pair[1].begin_ns, "one core runs one task at a time: {pair:?}");
    }
    let [sched] = of(names::SCHED).collect::<Vec<_>>()[..] else { panic!("{spans:?}") };
    let extent = (tasks.iter().map(|task| task.begin_ns).min(), tasks.iter().map(|task| task.end_ns()).max());
    assert!(extent.0 >= Some(sched.begin_ns) && extent.1 <= Some(sched.end_ns()), "{sched:?} {extent:?}");
}
