//! Whole-tile steps as parts of launches: cut for the cores, written down for later launches, storing their results.

use super::behaviour::{ONE, ZERO, int, kernel, launch, load, matrix, program, stmt, store, tile};
use super::reference::Matrix;
use super::run::{Guarded, execute, run_on};
use crate::device::Device;
use crate::device::sim::{SimDevice, code_ns};
use crate::kernels::Isa;
use crate::program::{Arg, Function, OpCode, Operand, Program, ScalarOp, Stmt, StmtKind};

/// `y = x^T` and `z = col_sum(x)`, `x` of `rows x cols`.
fn turned_and_summed(rows: u32, cols: u32) -> Program {
    let (high, wide) = (int(rows), int(cols));
    let body = vec![
        load(0, 0, [ZERO; 2], high, wide),
        tile(OpCode::Transpose, Some(1), vec![Arg::Tile(0)], wide, high),
        store(1, 1, [ZERO; 2], wide, high),
        tile(OpCode::ColSum, Some(2), vec![Arg::Tile(0), Arg::Scalar(high)], ONE, wide),
        store(2, 2, [ZERO; 2], ONE, wide),
    ];
    let shapes = [(rows, cols), (cols, rows), (1, cols)];
    let tensors = shapes.map(|(rows, cols)| (u64::from(rows), u64::from(cols)));
    program(&tensors, 0, vec![launch(&[0, 1, 2], ONE)], kernel(3, &shapes, body))
}

fn memory(rows: usize, cols: usize) -> [Matrix; 3] {
    let x = matrix(rows, cols, |row, col| ((row * 31 + col * 17) % 1009) as f32 / 8.0);
    [x, matrix(cols, rows, |_, _| 0.0), matrix(1, cols, |_, _| 0.0)]
}

#[test]
fn large_whole_tile_steps_give_the_same_on_one_core_and_on_several() {
    // Long enough to be cut, with ends that fill no part.
    let (rows, cols) = (1003, 1501);
    let program = turned_and_summed(rows, cols);
    for isa in Isa::available() {
        let mut one = memory(rows as usize, cols as usize);
        run_on(&program, &mut one, &[], isa, 1).unwrap();
        for cores in [2, 3] {
            let mut several = memory(rows as usize, cols as usize);
            run_on(&program, &mut several, &[], isa, cores).unwrap();
            assert!(several == one, "{isa}, {cores} cores");
        }
    }
}

/// Runs a program three times, the last two as repetitions; says of which tensors the next is known to write all.
fn overwritten(program: &Program, memory: &[Matrix]) -> Vec<bool> {
    let mut executable = SimDevice::new(1, Isa::detect()).compile(program).unwrap();
    let mut tensors = Guarded::new(memory);
    for repeats in [false, true, true] {
        execute(executable.as_mut(), &mut tensors, &[], repeats, &mut || true).unwrap();
    }
    (0..memory.len()).map(|tensor| executable.overwrites(tensor)).collect()
}

#[test]
fn launches_with_whole_tile_steps_are_written_down_and_say_what_they_overwrite() {
    assert_eq!(overwritten(&turned_and_summed(5, 7), &memory(5, 7)), [false, true, true]);
}

/// A kernel that picks the columns of `x` that `y` names, and stores `stored` columns of them.
fn picked(stored: u32) -> Program {
    let (rows, cols) = (int(2), int(4));
    let body = vec![
        load(0, 0, [ZERO; 2], rows, cols),
        tile(OpCode::Iota, Some(1), vec![Arg::Scalar(int(1)), Arg::Scalar(ONE)], rows, int(stored)),
        tile(OpCode::GatherCols, Some(2), vec![Arg::Tile(0), Arg::Tile(1), Arg::Scalar(cols)], rows, cols),
        store(2, 1, [ZERO; 2], rows, cols),
    ];
    let mut function = kernel(2, &[(2, 4); 3], body);
    function.tiles[1].dtype = crate::dtype::DType::I32;
    program(&[(2, 4); 2], 0, vec![launch(&[0, 1], ONE)], function)
}

#[test]
fn what_may_be_written_in_part_does_not_count_as_overwritten() {
    let memory = [matrix(2, 4, |row, col| (row * 4 + col) as f32), matrix(2, 4, |_, _| 9.0)];
    for stored in [4, 3] {
        assert_eq!(overwritten(&picked(stored), &memory), [false, false]);
    }
    let mut memory = memory;
    run_on(&picked(4), &mut memory, &[], Isa::detect(), 1).unwrap();
    let got: Vec<f32> = memory[1].data.iter().map(|bits| f32::from_bits(bits.unwrap() as u32)).collect();
    assert_eq!(got, [1.0, 2.0, 3.0, 0.0, 5.0, 6.0, 7.0, 0.0], "a column that does not exist is 0");
}

/// Steps of a kernel.
fn steps(function: Function) -> usize {
    let shapes = vec![(8, 8); function.params.len()];
    let slots: Vec<u32> = (0..shapes.len() as u32).collect();
    let program = program(&shapes, 0, vec![launch(&slots, ONE)], function);
    let lowered = crate::device::sim::lower::lower(&program, Isa::detect(), crate::device::sim::Purpose::Launches);
    lowered.unwrap().kernels[0].steps.len()
}

#[test]
fn a_result_that_is_only_stored_is_written_where_it_goes() {
    let eight = int(8);
    let turn = |from, to| tile(OpCode::Transpose, Some(to), vec![Arg::Tile(from)], eight, eight);
    let body = |rest: Vec<Stmt>| [vec![load(0, 0, [ZERO; 2], eight, eight), turn(0, 1)], rest].concat();
    let tiles = [(8, 8); 3];
    let stored = body(vec![store(1, 1, [ZERO; 2], eight, eight)]);
    assert_eq!(steps(kernel(2, &tiles, stored)), 1);
    let to_its_source = body(vec![store(1, 0, [ZERO; 2], eight, eight)]);
    assert_eq!(steps(kernel(2, &tiles, to_its_source)), 2, "the argument would change while it is read");
    let read_again = body(vec![store(1, 1, [ZERO; 2], eight, eight), turn(1, 2), store(2, 1, [ZERO; 2], eight, eight)]);
    assert_eq!(steps(kernel(2, &tiles, read_again)), 3);
}

#[test]
fn a_turned_tile_that_goes_to_its_own_tensor_is_whole() {
    // Of one tensor, by two names: x[0:8, 8:16] = x[8:16, 0:8]^T beside x[8:16, 0:8] = x[0:8, 8:16]^T.
    let eight = int(8);
    let body = vec![
        load(0, 0, [ZERO, eight], eight, eight),
        load(1, 0, [eight, ZERO], eight, eight),
        tile(OpCode::Transpose, Some(2), vec![Arg::Tile(0)], eight, eight),
        store(2, 0, [eight, ZERO], eight, eight),
        tile(OpCode::Transpose, Some(2), vec![Arg::Tile(1)], eight, eight),
        store(2, 0, [ZERO, eight], eight, eight),
    ];
    let program = program(&[(16, 16)], 0, vec![launch(&[0], ONE)], kernel(1, &[(8, 8); 3], body));
    let fresh = || [matrix(16, 16, |row, col| (row * 16 + col) as f32)];
    let mut got = fresh();
    run_on(&program, &mut got, &[], Isa::detect(), 2).unwrap();
    let [before] = fresh();
    for (row, col) in (0..16).flat_map(|row| (0..16).map(move |col| (row, col))) {
        let is_turned = (row < 8) != (col < 8);
        let from = if is_turned { col * 16 + row } else { row * 16 + col };
        assert_eq!(got[0].data[row * 16 + col], before.data[from], "[{row}, {col}]");
    }
}

#[test]
fn the_time_of_a_reduction_follows_its_argument() {
    let time = |rows: u32| {
        let program = turned_and_summed(rows, 64);
        let mut function = program.kernels[0].clone();
        function.body.drain(1..3);
        let program = Program { kernels: vec![function], ..program };
        let lowered = crate::device::sim::lower::lower(&program, Isa::Generic, crate::device::sim::Purpose::Launches);
        code_ns(&lowered.unwrap().kernels[0], 1)
    };
    assert!(time(4096) > 10 * time(64));
}

#[test]
fn a_loop_of_whole_tile_steps_is_taken_again_with_its_own_operands() {
    // Row after row, each turned into a column.
    let row = Operand::Var(0);
    let body = vec![
        stmt(StmtKind::Scalar { dst: 0, op: ScalarOp::BlockIdx, args: vec![] }),
        load(0, 0, [row, ZERO], ONE, int(8)),
        tile(OpCode::Transpose, Some(1), vec![Arg::Tile(0)], int(8), ONE),
        store(1, 1, [ZERO, row], int(8), ONE),
    ];
    let program = program(&[(8, 8); 2], 0, vec![launch(&[0, 1], int(8))], kernel(2, &[(1, 8), (8, 1)], body));
    let x = matrix(8, 8, |row, col| (row * 8 + col) as f32);
    let mut memory = [x.clone(), matrix(8, 8, |_, _| 0.0)];
    assert_eq!(overwritten(&program, &memory), [false, true]);
    run_on(&program, &mut memory, &[], Isa::detect(), 1).unwrap();
    assert!((0..64).all(|at| memory[1].data[at] == x.data[at % 8 * 8 + at / 8]));
}
