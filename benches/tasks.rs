//! What a task costs beside its arithmetic, and what a second core brings when tasks are independent.
#![allow(unsafe_code, missing_docs)] // launches by address

use _pypto::DType;
use _pypto::Shape;
use _pypto::device::sim::SimDevice;
use _pypto::device::{Device, DeviceError, Launch, TensorArg, Workspace};
use _pypto::kernels::Isa;
use _pypto::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Param, ParamKind, Program, ScalarOp,
    ScalarType, Stmt, StmtKind, TensorSlot, TileOp, TileSlot,
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const SIDE: u32 = 16;
const BLOCKS: u32 = 16;

struct NoWorkspace;

impl Workspace for NoWorkspace {
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, DeviceError> {
        Err(DeviceError::OutOfMemory(format!("no room for {bytes} bytes")))
    }
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { at: Loc::default(), kind }
}

fn repeat(var: u32, rounds: i64, body: Vec<Stmt>) -> Vec<Stmt> {
    let (start, stop, step) = (Operand::Int(0), Operand::Int(rounds), Operand::Int(1));
    if rounds == 1 { body } else { vec![stmt(StmtKind::For { var, start, stop, step, parallel: false, body })] }
}

/// `launches` tasks of `blocks` blocks; block `i` computes `rounds` times `c[16 i ..] = c[16 i ..] + b[16 i ..]`.
fn program(launches: i64, blocks: u32, rounds: i64) -> Program {
    let side = Operand::Int(SIDE.into());
    let region = [side, side];
    let boxed = [Operand::Var(1), Operand::Int(0), side, side].map(Arg::Scalar);
    let tile = |op, out, args: Vec<Arg>| stmt(StmtKind::Tile(TileOp { op, out, args, region, mode: None }));
    let load = |slot| tile(OpCode::Load, Some(slot), [vec![Arg::Tensor(slot)], boxed.to_vec()].concat());
    let round = vec![
        load(0),
        load(1),
        tile(OpCode::Add, Some(0), vec![Arg::Tile(0), Arg::Tile(1)]),
        tile(OpCode::Store, None, [vec![Arg::Tile(0), Arg::Tensor(0)], boxed.to_vec()].concat()),
    ];
    let scalar = |op, args| stmt(StmtKind::Scalar { dst: 1, op, args });
    let mut body = vec![
        scalar(ScalarOp::BlockIdx, vec![]),
        scalar(ScalarOp::Mul, vec![Operand::Var(1), Operand::Int(SIDE.into())]),
    ];
    body.extend(repeat(0, rounds, round));
    let direction = |slot| if slot == 0 { Direction::InOut } else { Direction::In };
    let params: Vec<FnParam> = (0..2).map(|slot| FnParam::Tensor { slot, direction: direction(slot) }).collect();
    let function = |name: &str, tiles, body| Function {
        source: Default::default(),
        name: name.into(),
        at: Loc::default(),
        params: params.clone(),
        scalars: vec![ScalarType::Int; 2],
        tensors: vec![TensorSlot { dtype: DType::F32, rank: 2 }; 2],
        tiles,
        body,
    };
    let tiles = vec![TileSlot { dtype: DType::F32, rows: SIDE, cols: SIDE }; 2];
    let args = (0..2).map(LaunchArg::Tensor).collect();
    let launch = stmt(StmtKind::Launch { kernel: 0, args, blocks: Operand::Int(blocks.into()) });
    let dims = vec![Dim::Const((SIDE * BLOCKS).into()), Dim::Const(SIDE.into())];
    let kind = |slot| ParamKind::Tensor { dtype: DType::F32, dims: dims.clone(), direction: direction(slot) };
    Program {
        name: "tasks".into(),
        files: vec![],
        symbols: vec![],
        params: (0..2).map(|slot| Param { name: format!("p{slot}"), kind: kind(slot) }).collect(),
        entry: function("entry", vec![], repeat(0, launches, vec![launch])),
        kernels: vec![function("kernel", tiles, body)],
    }
}

fn tasks(criterion: &mut Criterion) {
    let mut buffers = vec![vec![0f32; (SIDE * BLOCKS * SIDE) as usize]; 2];
    let shape = Shape::new(&[(SIDE * BLOCKS).into(), SIDE.into()]).expect("two axes");
    let tensors: Vec<TensorArg> =
        buffers.iter_mut().map(|buffer| TensorArg { data: buffer.as_mut_ptr().cast(), shape }).collect();
    // The second is the first without tasks: the difference is what 1,000 tasks cost.
    let cases = [
        ("1000 dependent tasks", 1, program(1000, 1, 1)),
        ("one task of 1000 rounds", 1, program(1, 1, 1000)),
        ("16 blocks of 1000 rounds, 1 core", 1, program(1, BLOCKS, 1000)),
        ("16 blocks of 1000 rounds, 2 cores", 2, program(1, BLOCKS, 1000)),
    ];
    for (name, cores, program) in cases {
        let device = SimDevice::new(cores, Isa::detect());
        let mut executable = device.compile(&program).expect("a right program");
        let mut scratch = vec![0u64; executable.scratch_bytes() as usize / 8 + 32];
        let scratch = scratch.as_mut_ptr().cast::<u8>();
        let scratch = scratch.wrapping_add(scratch.align_offset(256));
        criterion.bench_function(&format!("tasks/{name}"), |bencher| {
            bencher.iter(|| {
                let launch = Launch {
                    tensors: black_box(&tensors),
                    scalars: &[],
                    repeats: false,
                    packed: &[],
                    scratch,
                    workspace: &mut NoWorkspace,
                    poll: &mut || true,
                    invocation: 0,
                };
                // SAFETY: two matrices of the declared shape, and scratch as large as asked for.
                unsafe { executable.launch(launch).expect("nothing fails") };
            });
        });
    }
}

criterion_group!(benches, tasks);
criterion_main!(benches);
