//! What the device itself costs per launch: the smallest useful kernel, and a loop of dependent steps.
#![allow(unsafe_code, missing_docs)] // launches by address

use _pypto::DType;
use _pypto::Shape;
use _pypto::device::sim::SimDevice;
use _pypto::device::{Device, DeviceError, Launch, TensorArg, Workspace};
use _pypto::kernels::Isa;
use _pypto::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Param, ParamKind, Program, ScalarType,
    Stmt, StmtKind, TensorSlot, TileOp, TileSlot,
};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

const SIDE: u32 = 16;

struct NoWorkspace;

impl Workspace for NoWorkspace {
    fn reserve(&mut self, bytes: u64) -> Result<*mut u8, DeviceError> {
        Err(DeviceError::OutOfMemory(format!("no room for {bytes} bytes")))
    }
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { at: Loc::default(), kind }
}

/// `c = a + b` on one tile, `rounds` times in a loop within the kernel.
fn add(rounds: i64) -> Program {
    let side = Operand::Int(SIDE.into());
    let region = [side, side];
    let boxed = [Operand::Int(0), Operand::Int(0), side, side].map(Arg::Scalar);
    let tile = |op, out, args: Vec<Arg>| stmt(StmtKind::Tile(TileOp { op, out, args, region, mode: None }));
    let load = |slot| tile(OpCode::Load, Some(slot), [vec![Arg::Tensor(slot)], boxed.to_vec()].concat());
    let round = vec![
        load(0),
        load(1),
        tile(OpCode::Add, Some(2), vec![Arg::Tile(0), Arg::Tile(1)]),
        tile(OpCode::Store, None, [vec![Arg::Tile(2), Arg::Tensor(2)], boxed.to_vec()].concat()),
    ];
    let body = match rounds {
        1 => round,
        _ => vec![stmt(StmtKind::For {
            var: 0,
            start: Operand::Int(0),
            stop: Operand::Int(rounds),
            step: Operand::Int(1),
            parallel: false,
            body: round,
        })],
    };
    let direction = |slot| if slot == 2 { Direction::Out } else { Direction::In };
    let params: Vec<FnParam> = (0..3).map(|slot| FnParam::Tensor { slot, direction: direction(slot) }).collect();
    let function = |name: &str, tiles, body| Function {
        source: Default::default(),
        name: name.into(),
        at: Loc::default(),
        params: params.clone(),
        scalars: vec![ScalarType::Int],
        tensors: vec![TensorSlot { dtype: DType::F32, rank: 2 }; 3],
        tiles,
        body,
    };
    let tiles = vec![TileSlot { dtype: DType::F32, rows: SIDE, cols: SIDE }; 3];
    let args = (0..3).map(LaunchArg::Tensor).collect();
    let launch = stmt(StmtKind::Launch { kernel: 0, args, blocks: Operand::Int(1) });
    let kind = |slot| ParamKind::Tensor {
        dtype: DType::F32,
        dims: vec![Dim::Const(SIDE.into()); 2],
        direction: direction(slot),
    };
    Program {
        name: "add".into(),
        files: vec![],
        symbols: vec![],
        params: (0..3).map(|slot| Param { name: format!("p{slot}"), kind: kind(slot) }).collect(),
        entry: function("entry", vec![], vec![launch]),
        kernels: vec![function("kernel", tiles, body)],
    }
}

fn launches(criterion: &mut Criterion) {
    let device = SimDevice::new(1, Isa::detect());
    let mut buffers = vec![vec![1f32; (SIDE * SIDE) as usize]; 3];
    let shape = Shape::new(&[SIDE.into(), SIDE.into()]).expect("two axes");
    let tensors: Vec<TensorArg> =
        buffers.iter_mut().map(|buffer| TensorArg { data: buffer.as_mut_ptr().cast(), shape }).collect();
    for (name, rounds, repeats) in
        [("add 16x16", 1, false), ("add 16x16, repeated", 1, true), ("1000 rounds of add 16x16", 1000, false)]
    {
        let mut executable = device.compile(&add(rounds)).expect("a right program");
        let mut scratch = vec![0u64; executable.scratch_bytes() as usize / 8 + 8];
        let scratch = scratch.as_mut_ptr().cast::<u8>();
        let scratch = scratch.wrapping_add(scratch.align_offset(64));
        let mut run = |repeats| {
            let launch = Launch {
                tensors: black_box(&tensors),
                scalars: &[],
                repeats,
                packed: &[],
                scratch,
                workspace: &mut NoWorkspace,
                poll: &mut || true,
                invocation: 0,
            };
            // SAFETY: three matrices of the declared shape, and scratch as large as asked for.
            unsafe { executable.launch(launch).expect("nothing fails") };
        };
        run(false);
        criterion.bench_function(&format!("device/{name}"), |bencher| bencher.iter(|| run(repeats)));
    }
    // The floor: the same sum written out.
    let [a, b, c] = &mut buffers[..] else { unreachable!("three buffers") };
    criterion.bench_function("plain loop/add 16x16", |bencher| {
        bencher.iter(|| {
            for ((c, a), b) in c.iter_mut().zip(black_box(&a[..])).zip(black_box(&b[..])) {
                *c = a + b;
            }
            black_box(&mut *c);
        });
    });
}

criterion_group!(benches, launches);
criterion_main!(benches);
