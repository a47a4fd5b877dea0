//! The chip that times each step: it computes what the ordinary one does, and counts what there is to count.

use super::behaviour::{ONE, ZERO, int, kernel, launch, load, program, stmt, store, tile};
use super::run::{Guarded, execute, run_with};
use super::{ROWS, assert_same, memory, random, reference};
use crate::device::Device;
use crate::device::profile::{Profile, StepKind};
use crate::device::sim::SimDevice;
use crate::device::sim::profile::ProfilingDevice;
use crate::kernels::Isa;
use crate::program::{Arg, OpCode, Operand, Program, StmtKind};
use proptest::prelude::*;

fn profile_of(program: &Program, tensors: &mut Guarded, launches: usize) -> Profile {
    let device = ProfilingDevice::new(SimDevice::new(1, Isa::detect()));
    let mut executable = device.compile(program).unwrap();
    for _ in 0..launches {
        execute(executable.as_mut(), tensors, &[], false, &mut || true).unwrap();
    }
    executable.take_profile().unwrap()
}

fn numbers(rows: usize, cols: usize) -> reference::Matrix {
    let data = (0..rows * cols).map(|at| Some(u64::from((at as f32 / 64.0).to_bits()))).collect();
    reference::Matrix { dtype: crate::dtype::DType::F32, rows, cols, data }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 1000, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_give_the_same_on_the_chip_that_times_them(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        rows in 0..=u64::from(ROWS),
    ) {
        let program = random::program(&bytes);
        let mut expected = memory();
        if !reference::run(&program, &mut expected, &[rows as i64]) {
            return Ok(());
        }
        let mut got = memory();
        run_with(&ProfilingDevice::new(SimDevice::new(2, Isa::detect())), &program, &mut got, &[rows]).unwrap();
        assert_same(&got, &expected, &random::listing(&program.kernels[0].body, 0));
    }
}

#[test]
fn a_chain_counts_the_bytes_of_loads_and_stores_and_the_operations_between() {
    // for i in range(8): store(exp(load(x, i) + load(y, i)))
    let row = Operand::Var(0);
    let body = vec![stmt(StmtKind::For {
        var: 0,
        start: ZERO,
        stop: int(8),
        step: ONE,
        parallel: false,
        body: vec![
            load(0, 0, [row, ZERO], ONE, int(64)),
            load(1, 1, [row, ZERO], ONE, int(64)),
            tile(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Tile(1)], ONE, int(64)),
            tile(OpCode::Exp, Some(0), vec![Arg::Tile(0)], ONE, int(64)),
            store(0, 2, [row, ZERO], ONE, int(64)),
        ],
    })];
    let program = program(&[(8, 64); 3], 0, vec![launch(&[0, 1, 2], ONE)], kernel(3, &[(1, 64); 2], body));
    let mut tensors = Guarded::new(&[numbers(8, 64), numbers(8, 64), numbers(8, 64)]);
    let Profile { launches, steps } = profile_of(&program, &mut tensors, 2);
    let [step] = &steps[..] else { panic!("one fused step, got {steps:?}") };
    assert_eq!((launches, step.kind, step.runs), (2, StepKind::Chain, 16));
    assert!(step.ns > 0.0);
    let elements = 2 * 8 * 64;
    let counted = |name: &str| -> Vec<_> {
        let of = step.operations.iter().filter(|one| one.name == name);
        of.map(|one| (one.operations, one.device_bytes, one.tile_bytes)).collect()
    };
    assert_eq!(counted("load"), [(0, 4 * elements, 0); 2]);
    assert_eq!(counted("add"), [(elements, 0, 0)]);
    assert_eq!(counted("exp"), [(elements, 0, 0)]);
    assert_eq!(counted("store"), [(0, 4 * elements, 0)]);
    // Which takes longer depends on the machine; reading and writing the cache takes time too.
    assert!(step.operations.iter().all(|one| one.name == "add" || one.alone_ns > 0.0), "{step:?}");
}

#[test]
fn a_product_counts_two_operations_for_each_multiply_add_and_the_bytes_of_its_operands_where_they_are_loaded() {
    let body = vec![
        load(0, 0, [ZERO; 2], int(8), int(16)),
        load(1, 1, [ZERO; 2], int(16), int(32)),
        tile(OpCode::MatMul, Some(2), vec![Arg::Tile(0), Arg::Tile(1), Arg::Scalar(int(16))], int(8), int(32)),
        tile(OpCode::ColSum, Some(3), vec![Arg::Tile(2), Arg::Scalar(int(8))], ONE, int(32)),
        store(3, 2, [ZERO; 2], ONE, int(32)),
    ];
    let tiles = [(8, 16), (16, 32), (8, 32), (1, 32)];
    let program = program(&[(8, 16), (16, 32), (1, 32)], 0, vec![launch(&[0, 1, 2], ONE)], kernel(3, &tiles, body));
    let mut tensors = Guarded::new(&[numbers(8, 16), numbers(16, 32), numbers(1, 32)]);
    let steps = profile_of(&program, &mut tensors, 1).steps;
    let kinds: Vec<_> = steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [StepKind::Product, StepKind::Tile]);
    let counted = |step: usize| -> Vec<_> {
        let operations = steps[step].operations.iter();
        operations.map(|one| (one.name, one.operations, one.device_bytes, one.tile_bytes)).collect()
    };
    assert_eq!(
        counted(0),
        [("matmul", 2 * 8 * 16 * 32, 0, 4 * 8 * 32), ("load", 0, 4 * 8 * 16, 0), ("load", 0, 4 * 16 * 32, 0)]
    );
    // The reduction works on all rows of its argument, and stores one itself.
    assert_eq!(counted(1), [("col_sum", 8 * 32, 0, 4 * 8 * 32), ("store", 0, 4 * 32, 0)]);
}

#[test]
fn what_was_taken_is_not_told_again() {
    let body = vec![load(0, 0, [ZERO; 2], int(4), int(4)), store(0, 1, [ZERO; 2], int(4), int(4))];
    let program = program(&[(4, 4); 2], 0, vec![launch(&[0, 1], ONE)], kernel(2, &[(4, 4)], body));
    let mut executable = ProfilingDevice::new(SimDevice::new(1, Isa::detect())).compile(&program).unwrap();
    let mut tensors = Guarded::new(&[numbers(4, 4), numbers(4, 4)]);
    execute(executable.as_mut(), &mut tensors, &[], false, &mut || true).unwrap();
    assert_eq!(executable.take_profile().unwrap().steps[0].runs, 1);
    let empty = executable.take_profile().unwrap();
    assert_eq!((empty.launches, empty.steps[0].runs, empty.steps[0].ns), (0, 0, 0.0));
    let mut ordinary = SimDevice::new(1, Isa::detect()).compile(&program).unwrap();
    assert_eq!(ordinary.take_profile(), None);
}
