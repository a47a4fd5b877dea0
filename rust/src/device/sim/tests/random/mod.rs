//! Random programs from random choices, small enough to print and rich enough to break a schedule: shared values, moves,
//! in-place stores, loops and branches around them, run-time extents, kernels that get one tensor twice.

mod ops;

use crate::dtype::DType;
use crate::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Param, ParamKind, Place, Program,
    Rounding, ScalarOp, ScalarType, Stmt, StmtKind, TensorSlot, TileOp, TileSlot,
};

pub const ROWS: u32 = 5;
pub const COLS: u32 = 19;
/// Element types of the tensors of an entry.
pub const TENSORS: [DType; 7] = [DType::F32, DType::F32, DType::F16, DType::I32, DType::I64, DType::U8, DType::F32];

/// A stream of choices that shrinks well: when it runs out, every choice is the first.
pub struct Choices<'a>(pub std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |&byte| byte as usize % n)
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Slots of the kernel by class: element type and extents. Few of each, so that they are assigned again and again.
const CLASSES: [(DType, u32, u32); 12] = [
    (DType::F32, ROWS, COLS),
    (DType::F32, ROWS, 1),
    (DType::F16, ROWS, COLS),
    (DType::I32, ROWS, COLS),
    (DType::I32, ROWS, 1),
    (DType::F32, 1, COLS),
    (DType::Bool, ROWS, COLS),
    (DType::I64, ROWS, COLS),
    (DType::U8, ROWS, COLS),
    (DType::F32, COLS, ROWS),
    (DType::I32, 1, COLS),
    (DType::I64, ROWS, 1),
];
const PER_CLASS: u32 = 3;
/// Square tiles for products come after the classes.
const SQUARE: u32 = CLASSES.len() as u32 * PER_CLASS;

/// Scalar slots of the kernel: the run-time row count, two loop indices, a flag, and an integer that is read and changed.
const N: u32 = 0;
const INDEX: [u32; 2] = [1, 2];
const FLAG: u32 = 3;
const FREE: u32 = 4;

struct Generator<'a, 'b> {
    choices: &'a mut Choices<'b>,
    depth: usize,
}

/// A program over [`TENSORS`] and one scalar, the row count.
pub fn program(bytes: &[u8]) -> Program {
    let mut choices = Choices(bytes.iter());
    let mut generator = Generator { choices: &mut choices, depth: 0 };
    let mut body = Vec::new();
    // Everything has a value first, so that results are defined.
    for tensor in 0..TENSORS.len() as u32 {
        for copy in 0..PER_CLASS {
            if let Some(class) = full_class(TENSORS[tensor as usize]) {
                body.push(generator.load(class * PER_CLASS + copy, tensor, Operand::Int(ROWS.into()), 0));
            }
        }
    }
    generator.small(&mut body);
    let length = generator.choices.below(14) + 2;
    for _ in 0..length {
        generator.stmt(&mut body);
    }
    for tensor in 0..TENSORS.len() as u32 {
        let class = full_class(TENSORS[tensor as usize]).unwrap();
        let slot = class * PER_CLASS + generator.choices.below(PER_CLASS as usize) as u32;
        let region = generator.rows();
        body.push(generator.store(slot, tensor, region, 0));
    }
    let twice = generator.choices.below(3) == 0;
    assemble(body, twice)
}

fn full_class(dtype: DType) -> Option<u32> {
    CLASSES.iter().position(|&(other, _, cols)| other == dtype && cols == COLS).map(|class| class as u32)
}

fn at(kind: StmtKind) -> Stmt {
    Stmt { at: Loc(0, 1, 0), kind }
}

fn tile(op: OpCode, out: Option<u32>, args: Vec<Arg>, region: [Operand; 2]) -> Stmt {
    let mode = (op == OpCode::Cast).then_some(Rounding::Rint);
    at(StmtKind::Tile(TileOp { op, out, args, region, mode }))
}

impl Generator<'_, '_> {
    fn rows(&mut self) -> Operand {
        if self.choices.below(4) == 0 { Operand::Var(N) } else { Operand::Int(ROWS.into()) }
    }

    fn slot(&mut self, class: usize) -> u32 {
        class as u32 * PER_CLASS + self.choices.below(PER_CLASS as usize) as u32
    }

    fn load(&mut self, slot: u32, tensor: u32, rows: Operand, row: i64) -> Stmt {
        let cols = Operand::Int(COLS.into());
        let args = vec![
            Arg::Tensor(tensor),
            Arg::Scalar(Operand::Int(row)),
            Arg::Scalar(Operand::Int(0)),
            Arg::Scalar(rows),
            Arg::Scalar(cols),
        ];
        tile(OpCode::Load, Some(slot), args, [rows, cols])
    }

    fn store(&mut self, slot: u32, tensor: u32, rows: Operand, row: i64) -> Stmt {
        let cols = Operand::Int(COLS.into());
        let args = vec![
            Arg::Tile(slot),
            Arg::Tensor(tensor),
            Arg::Scalar(Operand::Int(row)),
            Arg::Scalar(Operand::Int(0)),
            Arg::Scalar(rows),
            Arg::Scalar(cols),
        ];
        tile(OpCode::Store, None, args, [rows, cols])
    }

    /// Values for the classes that no tensor has.
    fn small(&mut self, body: &mut Vec<Stmt>) {
        for (class, &(dtype, rows, cols)) in CLASSES.iter().enumerate() {
            let loaded = full_class(dtype) == Some(class as u32) && TENSORS.contains(&dtype);
            for copy in (0..PER_CLASS).filter(|_| !loaded) {
                let region = [rows, cols].map(|extent| Operand::Int(extent.into()));
                let (op, scalars) = match dtype {
                    DType::Bool => (OpCode::Tri, [Operand::Int(copy.into()), Operand::Bool(copy == 1)]),
                    _ => (OpCode::Iota, [Operand::Int(i64::from(copy) - 1), Operand::Int(2)]),
                };
                body.push(tile(op, Some(class as u32 * PER_CLASS + copy), scalars.map(Arg::Scalar).to_vec(), region));
            }
        }
    }

    /// A tensor of the type of `class`, and a row that leaves room for `ROWS` of its `ROWS + 2`.
    fn tensor(&mut self, class: usize) -> (u32, i64) {
        let fitting: Vec<u32> =
            (0..TENSORS.len() as u32).filter(|&tensor| TENSORS[tensor as usize] == CLASSES[class].0).collect();
        (self.choices.of(&fitting), self.choices.below(3) as i64)
    }

    fn block(&mut self) -> Vec<Stmt> {
        self.depth += 1;
        let mut body = Vec::new();
        for _ in 0..self.choices.below(4) + 1 {
            self.stmt(&mut body);
        }
        self.depth -= 1;
        body
    }

    fn stmt(&mut self, body: &mut Vec<Stmt>) {
        let class = self.choices.below(CLASSES.len());
        let (dtype, class_rows, class_cols) = CLASSES[class];
        let cols = Operand::Int(class_cols.into());
        let rows = if class_rows == ROWS { self.rows() } else { Operand::Int(class_rows.into()) };
        let region = [rows, cols];
        let full = class_rows == ROWS && class_cols == COLS;
        let out = self.slot(class);
        match self.choices.below(32) {
            0 if full && TENSORS.contains(&dtype) => {
                let (tensor, row) = self.tensor(class);
                body.push(self.load(out, tensor, rows, row));
            }
            1 if full && TENSORS.contains(&dtype) => {
                let (tensor, row) = self.tensor(class);
                body.push(self.store(out, tensor, rows, row));
            }
            2 => {
                let from = self.slot(class);
                body.push(tile(OpCode::Move, Some(out), vec![Arg::Tile(from)], region));
            }
            3 => {
                let value = self.value(dtype);
                body.push(tile(OpCode::Fill, Some(out), vec![Arg::Scalar(value)], region));
            }
            4 if dtype != DType::Bool => {
                let op = self.choices.of(&[OpCode::Neg, OpCode::Abs, OpCode::Relu]);
                let from = self.slot(class);
                body.push(tile(op, Some(out), vec![Arg::Tile(from)], region));
            }
            5 if class_rows == ROWS && class_cols == 1 => {
                let op = self.choices.of(&[OpCode::RowMax, OpCode::RowSum, OpCode::RowMin, OpCode::RowProd]);
                let wide = full_class(dtype).unwrap() as usize;
                let args = vec![Arg::Tile(self.slot(wide)), Arg::Scalar(Operand::Int(COLS.into()))];
                body.push(tile(op, Some(out), args, region));
            }
            6 if full => {
                let other = self.full();
                if CLASSES[other].0 != dtype {
                    let from = self.slot(other);
                    let mut cast = tile(OpCode::Cast, Some(out), vec![Arg::Tile(from)], region);
                    if let StmtKind::Tile(op) = &mut cast.kind {
                        op.mode =
                            Some(self.choices.of(&[Rounding::Rint, Rounding::Round, Rounding::Floor, Rounding::Odd]));
                    }
                    body.push(cast);
                }
            }
            7 if class == 0 => self.product(out, body),
            8 if self.depth < 3 => {
                let count = self.choices.of(&[Operand::Int(2), Operand::Var(N), Operand::Int(0), Operand::Int(1)]);
                let mut inner = self.block();
                if self.choices.below(3) == 0 {
                    let leave = self.choices.of(&[0, 1]);
                    let leave = at(if leave == 0 { StmtKind::Break } else { StmtKind::Continue });
                    let at_if = self.choices.below(inner.len() + 1);
                    inner.insert(
                        at_if,
                        at(StmtKind::If { cond: Operand::Var(FLAG), then: vec![leave], orelse: vec![] }),
                    );
                }
                let (start, step, var) = (Operand::Int(0), Operand::Int(1), INDEX[self.depth % 2]);
                body.push(at(StmtKind::For { var, start, stop: count, step, parallel: false, body: inner }));
            }
            9 if self.depth < 3 => {
                let then = self.block();
                let orelse = if self.choices.below(2) == 0 { self.block() } else { vec![] };
                body.push(at(StmtKind::If { cond: Operand::Var(FLAG), then, orelse }));
            }
            10 => {
                let args = vec![Operand::Var(FREE), Operand::Int(2)];
                body.push(at(StmtKind::Scalar { dst: FLAG, op: ScalarOp::Lt, args }));
            }
            11 => {
                let args = vec![Operand::Var(FREE), Operand::Int(1)];
                body.push(at(StmtKind::Scalar { dst: FREE, op: ScalarOp::Add, args }));
            }
            12 if dtype == DType::I32 => {
                let index = vec![Operand::Int(0), Operand::Int(i64::from(class_cols) - 1)];
                let src = if full && self.choices.below(2) == 0 { Place::Tensor(3) } else { Place::Tile(out) };
                body.push(at(StmtKind::Read { dst: FREE, src, index }));
            }
            13 if dtype == DType::I32 => {
                let index = vec![Operand::Int(0), Operand::Int(i64::from(class_cols) - 1)];
                let dst = if full && self.choices.below(2) == 0 { Place::Tensor(3) } else { Place::Tile(out) };
                body.push(at(StmtKind::Write { dst, index, value: Operand::Var(FREE) }));
            }
            14..20 if dtype != DType::Bool => self.binary(class, out, region, body),
            _ => self.whole(class, out, region, body),
        }
    }

    /// A scalar for an element.
    fn value(&mut self, dtype: DType) -> Operand {
        match dtype {
            DType::Bool => Operand::Bool(self.choices.below(2) == 1),
            dtype if dtype.is_float() => self.choices.of(&[Operand::Float(0.5), Operand::Float(2.0)]),
            _ => self.choices.of(&[Operand::Int(3), Operand::Var(FREE)]),
        }
    }

    /// A class of `ROWS x COLS`.
    fn full(&mut self) -> usize {
        self.choices.of(&[0usize, 2, 3, 6, 7, 8])
    }

    fn binary(&mut self, class: usize, out: u32, region: [Operand; 2], body: &mut Vec<Stmt>) {
        let (dtype, rows, cols) = CLASSES[class];
        use OpCode::{Add, BitAnd, BitOr, BitXor, Div, Fmod, Maximum, Minimum, Mul, Rem, Shl, Shr, Sub};
        let all = [Add, Sub, Mul, Maximum, Minimum, Div, Fmod, Rem, BitAnd, BitOr, BitXor, Shl, Shr];
        let ops = if dtype.is_float() { &all[..8] } else { &all[..] };
        let (op, left) = (self.choices.of(ops), self.slot(class));
        let narrower: Vec<usize> = (0..CLASSES.len())
            .filter(|&other| {
                let (other_dtype, other_rows, other_cols) = CLASSES[other];
                let fits = |mine, other| other == mine || other == 1;
                other_dtype == dtype && fits(rows, other_rows) && fits(cols, other_cols)
            })
            .collect();
        let right = if self.choices.below(4) == 0 {
            Arg::Scalar(self.value(dtype))
        } else {
            let other = self.choices.of(&narrower);
            Arg::Tile(self.slot(other))
        };
        body.push(tile(op, Some(out), vec![Arg::Tile(left), right], region));
    }

    /// `out = x[:, :COLS]`-shaped product of a loaded or computed `ROWS x COLS` with a square `COLS x COLS` tile.
    fn product(&mut self, out: u32, body: &mut Vec<Stmt>) {
        let cols = Operand::Int(COLS.into());
        let quarter = Arg::Scalar(Operand::Float(0.25));
        if self.choices.below(2) == 0 {
            body.push(tile(OpCode::Fill, Some(SQUARE), vec![quarter], [cols, cols]));
        }
        let rows = self.rows();
        let left = self.slot(0);
        let mut args = vec![Arg::Tile(left), Arg::Tile(SQUARE), Arg::Scalar(cols)];
        let op = if self.choices.below(2) == 0 {
            OpCode::MatMul
        } else {
            args.insert(0, Arg::Tile(self.slot(0)));
            OpCode::MatMulAcc
        };
        body.push(tile(op, Some(out), args, [rows, cols]));
        if self.choices.below(2) == 0 {
            let (tensor, row) = self.tensor(0);
            body.push(self.store(out, tensor, rows, row));
        }
    }
}

/// A program that runs `body` as a kernel; with `twice` the last tensor of the kernel is the first one again.
fn assemble(body: Vec<Stmt>, twice: bool) -> Program {
    let slots: Vec<TensorSlot> = TENSORS.iter().map(|&dtype| TensorSlot { dtype, rank: 2 }).collect();
    let tensors = 0..TENSORS.len() as u32;
    let params: Vec<FnParam> = tensors
        .clone()
        .map(|slot| FnParam::Tensor { slot, direction: Direction::InOut })
        .chain([FnParam::Scalar(N)])
        .collect();
    let mut tiles: Vec<TileSlot> = CLASSES
        .iter()
        .flat_map(|&(dtype, rows, cols)| (0..PER_CLASS).map(move |_| TileSlot { dtype, rows, cols }))
        .collect();
    tiles.push(TileSlot { dtype: DType::F32, rows: COLS, cols: COLS });
    let scalars = vec![ScalarType::Int, ScalarType::Int, ScalarType::Int, ScalarType::Bool, ScalarType::Int];
    let kernel = Function {
        source: Default::default(),
        name: "kernel".into(),
        at: Loc(0, 1, 0),
        params: params.clone(),
        scalars,
        tensors: slots.clone(),
        tiles,
        body,
    };
    let last = if twice { 0 } else { TENSORS.len() as u32 - 1 };
    let args = tensors
        .clone()
        .map(|slot| LaunchArg::Tensor(if slot + 1 == TENSORS.len() as u32 { last } else { slot }))
        .chain([LaunchArg::Scalar(Operand::Var(0))])
        .collect();
    let entry = Function {
        source: Default::default(),
        name: "entry".into(),
        at: Loc(0, 1, 0),
        params,
        scalars: vec![ScalarType::Int],
        tensors: slots,
        tiles: vec![],
        body: vec![at(StmtKind::Launch { kernel: 0, args, blocks: Operand::Int(1) })],
    };
    let tensor = |dtype: DType| ParamKind::Tensor {
        dtype,
        dims: vec![Dim::Const(u64::from(ROWS) + 2), Dim::Const(COLS.into())],
        direction: Direction::InOut,
    };
    let scalar = ParamKind::Scalar { dtype: DType::I64, baked: None };
    let kinds = TENSORS.iter().map(|&dtype| tensor(dtype)).chain([scalar]);
    let params = kinds.enumerate().map(|(at, kind)| Param { name: format!("p{at}"), kind }).collect();
    Program {
        name: "random".into(),
        files: vec!["random.py".into()],
        symbols: vec![],
        params,
        entry,
        kernels: vec![kernel],
    }
}

/// The statements of a kernel as text, for messages.
pub fn listing(body: &[Stmt], depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let mut text = String::new();
    for stmt in body {
        match &stmt.kind {
            StmtKind::Tile(op) => {
                text += &format!("{indent}{:?} = {}{:?} {:?}\n", op.out, op.op.name(), op.args, op.region)
            }
            StmtKind::For { var, stop, body, .. } => {
                text += &format!("{indent}for {var} below {stop:?}\n{}", listing(body, depth + 1));
            }
            StmtKind::If { cond, then, orelse } => {
                text += &format!("{indent}if {cond:?}\n{}", listing(then, depth + 1));
                text += &format!("{indent}else\n{}", listing(orelse, depth + 1));
            }
            other => text += &format!("{indent}{other:?}\n"),
        }
    }
    text
}
