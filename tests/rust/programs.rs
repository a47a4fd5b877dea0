//! Small programs of each kind, written as the frontend would hand them over.

use _pypto::DType;
use _pypto::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Param, ParamKind, Program, ScalarOp,
    ScalarType, Stmt, StmtKind, TensorSlot, TileOp, TileSlot, ViewKind,
};
use std::sync::Arc;

const ZERO: Operand = Operand::Int(0);

/// A program: matrices of FP32, the last of which it writes, and one kernel that gets all of them.
struct Parts {
    name: &'static str,
    /// Rows (`None` is the dynamic extent) and columns of each tensor.
    shapes: Vec<(Option<u64>, u64)>,
    /// Tensors of the entry beside its parameters, all matrices.
    extra: usize,
    /// Statements before the launch.
    before: Vec<Stmt>,
    /// The tensors that the kernel gets, in this order.
    passed: Vec<u32>,
    blocks: i64,
    /// Whether there is a scalar parameter, which the kernel gets in scalar slot 0.
    scalar: bool,
    /// Rows and columns of the kernel's tiles.
    tiles: Vec<(u32, u32)>,
    body: Vec<Stmt>,
}

impl Parts {
    fn build(self) -> Arc<Program> {
        let count = self.shapes.len();
        let direction = |slot: usize| if slot + 1 == count { Direction::Out } else { Direction::In };
        let dims = |&(rows, cols): &(Option<u64>, u64)| vec![rows.map_or(Dim::Symbol(0), Dim::Const), Dim::Const(cols)];
        let mut params: Vec<_> = (0..)
            .zip(&self.shapes)
            .map(|(slot, shape)| {
                let kind = ParamKind::Tensor { dtype: DType::F32, dims: dims(shape), direction: direction(slot) };
                Param { name: format!("p{slot}"), kind }
            })
            .collect();
        let tensor = |slot: usize, direction| FnParam::Tensor { slot: slot as u32, direction };
        let mut entry_params: Vec<_> = (0..count).map(|slot| tensor(slot, direction(slot))).collect();
        let mut kernel_params: Vec<_> = (0..self.passed.len()).map(|slot| tensor(slot, Direction::InOut)).collect();
        let mut args: Vec<_> = self.passed.iter().map(|&slot| LaunchArg::Tensor(slot)).collect();
        if self.scalar {
            params.push(Param { name: "n".into(), kind: ParamKind::Scalar { dtype: DType::I32, baked: None } });
            entry_params.push(FnParam::Scalar(0));
            kernel_params.push(FnParam::Scalar(0));
            args.push(LaunchArg::Scalar(Operand::Var(0)));
        }
        let function = |name: &str, params, tensors, tiles, body| Function {
            source: Default::default(),
            name: name.into(),
            at: Loc::default(),
            params,
            scalars: vec![ScalarType::Int; 2],
            tensors: vec![TensorSlot { dtype: DType::F32, rank: 2 }; tensors],
            tiles,
            body,
        };
        let launch = stmt(StmtKind::Launch { kernel: 0, args, blocks: Operand::Int(self.blocks) });
        let body = self.before.into_iter().chain([launch]).collect();
        let tiles = self.tiles.iter().map(|&(rows, cols)| TileSlot { dtype: DType::F32, rows, cols }).collect();
        Arc::new(Program {
            name: self.name.into(),
            files: vec![],
            symbols: vec!["M".into()],
            params,
            entry: function("entry", entry_params, count + self.extra, vec![], body),
            kernels: vec![function("kernel", kernel_params, self.passed.len(), tiles, self.body)],
        })
    }
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { at: Loc::default(), kind }
}

fn tile(op: OpCode, out: Option<u32>, args: Vec<Arg>, region: [Operand; 2]) -> Stmt {
    stmt(StmtKind::Tile(TileOp { op, out, args, region, mode: None }))
}

fn boxed(at: [Operand; 2], region: [Operand; 2]) -> impl Iterator<Item = Arg> {
    at.into_iter().chain(region).map(Arg::Scalar)
}

fn load(out: u32, tensor: u32, at: [Operand; 2], region: [Operand; 2]) -> Stmt {
    let args = [Arg::Tensor(tensor)].into_iter().chain(boxed(at, region)).collect();
    tile(OpCode::Load, Some(out), args, region)
}

fn store(from: u32, tensor: u32, at: [Operand; 2], region: [Operand; 2]) -> Stmt {
    let args = [Arg::Tile(from), Arg::Tensor(tensor)].into_iter().chain(boxed(at, region)).collect();
    tile(OpCode::Store, None, args, region)
}

/// Loads `a` and `b` at `at`, adds, and stores to `c`; tiles 0 to 2.
fn add_at(at: [Operand; 2], region: [Operand; 2]) -> Vec<Stmt> {
    let add = tile(OpCode::Add, Some(2), vec![Arg::Tile(0), Arg::Tile(1)], region);
    vec![load(0, 0, at, region), load(1, 1, at, region), add, store(2, 2, at, region)]
}

fn whole(rows: u32, cols: u32) -> [Operand; 2] {
    [Operand::Int(rows.into()), Operand::Int(cols.into())]
}

fn adding(name: &'static str, rows: u32, cols: u32) -> Parts {
    let shape = (Some(rows.into()), cols.into());
    Parts {
        name,
        shapes: vec![shape; 3],
        extra: 0,
        before: vec![],
        passed: vec![0, 1, 2],
        blocks: 1,
        scalar: false,
        tiles: vec![(rows, cols); 3],
        body: add_at([ZERO; 2], whole(rows, cols)),
    }
}

/// `c = a + b` in one tile; a large one is shared by the cores.
pub fn add(rows: u32, cols: u32) -> Arc<Program> {
    adding("add", rows, cols).build()
}

/// `c = a + b.T`, where the operand is no matrix with adjacent columns and goes through a dense copy.
pub fn add_transposed() -> Arc<Program> {
    let view = stmt(StmtKind::View { dst: 3, src: 1, kind: ViewKind::Transpose { a: 0, b: 1 } });
    Parts { extra: 1, before: vec![view], passed: vec![0, 3, 2], ..adding("add_transposed", 16, 16) }.build()
}

/// `c = a @ b` with 16x32 and 32x48.
pub fn product() -> Arc<Program> {
    let [a, b, c] = [(16, 32), (32, 48), (16, 48)];
    let body = vec![
        load(0, 0, [ZERO; 2], whole(16, 32)),
        load(1, 1, [ZERO; 2], whole(32, 48)),
        tile(OpCode::MatMul, Some(2), vec![Arg::Tile(0), Arg::Tile(1), Arg::Scalar(Operand::Int(32))], whole(16, 48)),
        store(2, 2, [ZERO; 2], whole(16, 48)),
    ];
    let shapes = [a, b, c].map(|(rows, cols): (u32, u32)| (Some(rows.into()), cols.into())).into();
    Parts { shapes, tiles: vec![a, b, c], body, ..adding("product", 16, 16) }.build()
}

/// `c = a + b`, a block for each of 4 rows.
pub fn add_by_blocks() -> Arc<Program> {
    let index = stmt(StmtKind::Scalar { dst: 0, op: ScalarOp::BlockIdx, args: vec![] });
    let body = [index].into_iter().chain(add_at([Operand::Var(0), ZERO], whole(1, 16))).collect();
    Parts { blocks: 4, tiles: vec![(1, 16); 3], body, ..adding("add_by_blocks", 4, 16) }.build()
}

/// `c = a + b` row by row, for as many rows as there are.
pub fn add_rows() -> Arc<Program> {
    let rows = stmt(StmtKind::Dim { dst: 0, tensor: 0, axis: 0 });
    let round = stmt(StmtKind::For {
        var: 1,
        start: ZERO,
        stop: Operand::Var(0),
        step: Operand::Int(1),
        parallel: false,
        body: add_at([Operand::Var(1), ZERO], whole(1, 16)),
    });
    let shapes = vec![(None, 16); 3];
    Parts { shapes, tiles: vec![(1, 16); 3], body: vec![rows, round], ..adding("add_rows", 1, 16) }.build()
}

/// `c[n] = a[n] + b[n]`: where it works depends on a scalar.
pub fn add_row() -> Arc<Program> {
    let body = add_at([Operand::Var(0), ZERO], whole(1, 16));
    Parts { scalar: true, tiles: vec![(1, 16); 3], body, ..adding("add_row", 16, 16) }.build()
}

/// `c = a + d` with `d` made by the launch, full of ones.
pub fn add_created() -> Arc<Program> {
    let create = stmt(StmtKind::Create { dst: 3, dims: whole(16, 16).into(), fill: Some(1.0) });
    Parts { extra: 1, before: vec![create], passed: vec![0, 3, 2], ..adding("add_created", 16, 16) }.build()
}
