//! Packed forms beside resident weights, with the simulated chip: only speed and the report may show them.

use super::fake::{download, resident, run, spec, tensor};
use crate::arena::Buffer;
use crate::device::sim::SimDevice;
use crate::dtype::DType;
use crate::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Program, Stmt, StmtKind, TensorSlot,
    TileOp, TileSlot, ViewKind,
};
use crate::worker::{Registration, Worker, WorkerConfig};
use std::sync::Arc;

const ROWS: u64 = 8;
const INNER: u64 = 128;
const COLS: u64 = 320;

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { at: Loc::default(), kind }
}

fn int(value: u64) -> Operand {
    Operand::Int(value as i64)
}

/// `out = x @ w` in one kernel, which goes over `w` in slices of `slice` of its inner extent. With `transposed`, `w` lies
/// as `[n, k]`.
fn product(dtype: DType, transposed: bool, slice: u64) -> Arc<Program> {
    let tile = |op, out, args: Vec<Arg>, rows: u64, cols: u64| {
        stmt(StmtKind::Tile(TileOp { op, out, args, region: [int(rows), int(cols)], mode: None }))
    };
    let boxed = |slot, row, col, rows, cols| {
        [vec![Arg::Tensor(slot)], [int(row), int(col), int(rows), int(cols)].map(Arg::Scalar).to_vec()].concat()
    };
    let mut body = Vec::new();
    let weight = if transposed { 3 } else { 1 };
    if transposed {
        body.push(stmt(StmtKind::View { dst: 3, src: 1, kind: ViewKind::Transpose { a: 0, b: 1 } }));
    }
    for first in (0..INNER).step_by(slice as usize) {
        body.push(tile(OpCode::Load, Some(0), boxed(0, 0, first, ROWS, slice), ROWS, slice));
        body.push(tile(OpCode::Load, Some(1), boxed(weight, first, 0, slice, COLS), slice, COLS));
        let (op, acc) = if first == 0 { (OpCode::MatMul, vec![]) } else { (OpCode::MatMulAcc, vec![Arg::Tile(2)]) };
        let args = [acc, vec![Arg::Tile(0), Arg::Tile(1), Arg::Scalar(int(slice))]].concat();
        body.push(tile(op, Some(2), args, ROWS, COLS));
    }
    let target = boxed(2, 0, 0, ROWS, COLS);
    body.push(tile(OpCode::Store, None, [vec![Arg::Tile(2)], target].concat(), ROWS, COLS));
    let slots = [(dtype, ROWS, slice), (dtype, slice, COLS), (DType::F32, ROWS, COLS)];
    let directions = [Direction::In, Direction::In, Direction::Out];
    let params: Vec<FnParam> =
        (0..).zip(directions).map(|(slot, direction)| FnParam::Tensor { slot, direction }).collect();
    let function = |tiles, body| Function {
        source: Default::default(),
        name: "product".into(),
        at: Loc::default(),
        params: params.clone(),
        scalars: vec![],
        tensors: [dtype, dtype, DType::F32, dtype].map(|dtype| TensorSlot { dtype, rank: 2 }).to_vec(),
        tiles,
        body,
    };
    let tiles = slots.map(|(dtype, rows, cols)| TileSlot { dtype, rows: rows as u32, cols: cols as u32 }).to_vec();
    let args = (0..3).map(LaunchArg::Tensor).collect();
    let (k, n) = if transposed { (COLS, INNER) } else { (INNER, COLS) };
    let shapes = [(dtype, ROWS, INNER), (dtype, k, n), (DType::F32, ROWS, COLS)];
    let params = shapes.iter().zip(["x", "w", "out"]).zip(directions);
    Arc::new(Program {
        name: "product".into(),
        files: vec![],
        symbols: vec![],
        params: params
            .map(|((&(dtype, rows, cols), name), direction)| {
                tensor(name, dtype, &[Dim::Const(rows), Dim::Const(cols)], direction)
            })
            .collect(),
        entry: function(vec![], vec![stmt(StmtKind::Launch { kernel: 0, args, blocks: Operand::Int(1) })]),
        kernels: vec![function(tiles, body)],
    })
}

fn open(packed_share: f64) -> Arc<Worker> {
    let device = Box::new(SimDevice::native(2));
    Worker::open(WorkerConfig { name: None, device, capacity: 4 << 20, poison: false, packed_share }).unwrap()
}

/// Numbers that are exact in every type.
fn numbers(dtype: DType, count: u64, seed: u64) -> Vec<u8> {
    (0..count)
        .flat_map(|at| {
            let value = ((at * 7 + seed * 5) % 13) as f32 - 6.0;
            match dtype {
                DType::F32 => value.to_le_bytes().to_vec(),
                DType::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
                DType::BF16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
                other => panic!("no numbers of {other}"),
            }
        })
        .collect()
}

fn upload(worker: &Worker, shape: [u64; 2], dtype: DType, data: &[u8]) -> Arc<Buffer> {
    // SAFETY: the data has the bytes of the shape.
    unsafe { worker.allocate_from(spec(&shape, dtype), data.as_ptr()) }.unwrap()
}

struct Setting {
    worker: Arc<Worker>,
    registration: Arc<Registration>,
    x: Arc<Buffer>,
    w: Arc<Buffer>,
    out: Arc<Buffer>,
}

impl Setting {
    fn new(dtype: DType, transposed: bool, slice: u64, share: f64) -> Self {
        let worker = open(share);
        let registration = worker.register(product(dtype, transposed, slice)).unwrap();
        let x = upload(&worker, [ROWS, INNER], dtype, &numbers(dtype, ROWS * INNER, 1));
        let shape = if transposed { [COLS, INNER] } else { [INNER, COLS] };
        let w = upload(&worker, shape, dtype, &numbers(dtype, INNER * COLS, 2));
        let out = worker.allocate(spec(&[ROWS, COLS], DType::F32)).unwrap();
        Self { worker, registration, x, w, out }
    }

    fn launch(&self) -> Vec<u8> {
        run(&self.worker, &self.registration, &[resident(&self.x), resident(&self.w), resident(&self.out)]).unwrap();
        download(&self.worker, &self.out)
    }

    fn packed(&self) -> u64 {
        self.worker.memory_report().packed
    }
}

#[test]
fn the_second_launch_packs_a_weight_and_results_stay_the_same() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (transposed, slice) in [(false, INNER), (false, 32), (true, INNER), (true, 64)] {
            let setting = Setting::new(dtype, transposed, slice, 0.5);
            let first = setting.launch();
            assert_eq!(setting.packed(), 0, "a weight that is used once is not worth it");
            for _ in 0..3 {
                assert_eq!(setting.launch(), first, "{dtype} {transposed} {slice}");
                let bytes = if dtype == DType::F32 { INNER * COLS * 4 } else { INNER * COLS * 2 };
                assert!(setting.packed() >= bytes, "{dtype} {transposed} {slice}: {}", setting.packed());
            }
        }
    }
}

#[test]
fn a_write_drops_the_packed_form() {
    let setting = Setting::new(DType::F32, false, INNER, 0.5);
    let first = setting.launch();
    assert_eq!(setting.launch(), first);
    let new = numbers(DType::F32, INNER * COLS, 3);
    // The last row only: a part of a buffer is enough.
    let row = COLS as usize * 4;
    let last = new.len() - row;
    let target = crate::id::DeviceAddr(setting.w.addr().0 + last as u64);
    // SAFETY: the source has the bytes of a row.
    unsafe { setting.worker.copy_to(target, new[last..].as_ptr(), row as u64) }.unwrap();
    assert_eq!(setting.packed(), 0);
    let second = setting.launch();
    assert_ne!(second, first);
    assert_eq!(setting.launch(), second, "from the new packed form");
    assert!(setting.packed() > 0);
}

#[test]
fn a_launch_that_writes_the_weight_drops_its_packed_form() {
    let setting = Setting::new(DType::F32, false, INNER, 0.5);
    setting.launch();
    let first = setting.launch();
    // The weight becomes the product of another launch.
    let (rows, cols) = (ROWS, COLS);
    let worker = &setting.worker;
    let x = upload(worker, [rows, INNER], DType::F32, &numbers(DType::F32, rows * INNER, 4));
    let other = upload(worker, [INNER, cols], DType::F32, &numbers(DType::F32, INNER * cols, 5));
    let target = crate::worker::Value::Resident {
        buffer: &setting.w,
        shape: &crate::shape::Shape::new(&[rows, cols]).unwrap(),
        dtype: DType::F32,
    };
    run(worker, &setting.registration, &[resident(&x), resident(&other), target]).unwrap();
    let second = setting.launch();
    assert_ne!(second, first);
    assert_eq!(setting.launch(), second);
}

#[test]
fn freeing_and_need_give_the_memory_back() {
    let setting = Setting::new(DType::F32, false, INNER, 0.5);
    setting.launch();
    let first = setting.launch();
    let packed = setting.packed();
    assert!(packed > 0);
    // All that is free without the packed form, and a little more.
    let free = setting.worker.memory_report().largest_free;
    let large = setting.worker.allocate(spec(&[free + packed / 2], DType::U8)).unwrap();
    assert_eq!(setting.packed(), 0, "a tensor of the user goes first");
    assert_eq!(setting.launch(), first);
    setting.worker.free(&large).unwrap();
    setting.launch();
    assert!(setting.packed() > 0);
    setting.worker.free(&setting.w).unwrap();
    assert_eq!(setting.packed(), 0);
}

#[test]
fn a_share_bounds_packed_forms_and_zero_turns_them_off() {
    for share in [0.0, 0.01] {
        let setting = Setting::new(DType::F32, false, INNER, share);
        let first = setting.launch();
        for _ in 0..3 {
            assert_eq!(setting.launch(), first);
            assert_eq!(setting.packed(), 0);
        }
    }
}
