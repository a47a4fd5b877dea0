//! A plain interpreter of programs: statement by statement, element by element. An element that nothing defined is `None`
//! and makes what is computed from it undefined too.

use crate::dtype::DType;
use crate::program::{
    Arg, Function, LaunchArg, OpCode, Operand, Place, Program, Rounding, ScalarOp, Stmt, StmtKind, TileOp,
};
use std::collections::HashMap;

/// An element as binary32 (floats) or as an integer in the bits of an `i32`.
pub type Element = Option<u32>;

/// A row-major matrix in device memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<Element>,
}

#[derive(Clone)]
struct Tile {
    dtype: DType,
    rows: usize,
    cols: usize,
    data: Vec<Element>,
}

enum Flow {
    Next,
    Break,
    Continue,
}

struct Machine<'a> {
    program: &'a Program,
    memory: &'a mut [Matrix],
    /// A scalar was read where nothing was defined: the program may do anything.
    undefined: bool,
}

struct Frame<'a> {
    function: &'a Function,
    scalars: Vec<i64>,
    tensors: HashMap<u32, usize>,
    tiles: Vec<Tile>,
}

/// Runs a program whose tensors are `memory`, in order, and whose scalars are `scalars`. `false` when what the program does
/// is undefined because it read a scalar that nothing defined.
pub fn run(program: &Program, memory: &mut [Matrix], scalars: &[i64]) -> bool {
    use crate::program::FnParam;
    let mut frame = new_frame(&program.entry);
    let (mut tensor, mut scalar) = (0, scalars.iter());
    for param in &program.entry.params {
        match *param {
            FnParam::Tensor { slot, .. } => {
                frame.tensors.insert(slot, tensor);
                tensor += 1;
            }
            FnParam::Scalar(slot) => frame.scalars[slot as usize] = *scalar.next().unwrap(),
        }
    }
    let mut machine = Machine { program, memory, undefined: false };
    machine.block(&program.entry.body, &mut frame);
    !machine.undefined
}

fn new_frame(function: &Function) -> Frame<'_> {
    let tile = |slot: &crate::program::TileSlot| {
        let (rows, cols) = (slot.rows as usize, slot.cols as usize);
        Tile { dtype: slot.dtype, rows, cols, data: vec![None; rows * cols] }
    };
    Frame {
        function,
        scalars: vec![0; function.scalars.len()],
        tensors: HashMap::new(),
        tiles: function.tiles.iter().map(tile).collect(),
    }
}

impl Frame<'_> {
    fn int(&self, operand: Operand) -> i64 {
        match operand {
            Operand::Int(value) => value,
            Operand::Bool(value) => i64::from(value),
            Operand::Var(slot) => self.scalars[slot as usize],
            Operand::Float(value) => i64::from(value.to_bits()),
        }
    }
}

impl Machine<'_> {
    fn block(&mut self, body: &[Stmt], frame: &mut Frame<'_>) -> Flow {
        for stmt in body {
            match self.stmt(&stmt.kind, frame) {
                Flow::Next => {}
                leave => return leave,
            }
        }
        Flow::Next
    }

    fn stmt(&mut self, kind: &StmtKind, frame: &mut Frame<'_>) -> Flow {
        match kind {
            StmtKind::Scalar { dst, op, args } => {
                let arg = |at: usize| args.get(at).map_or(0, |&arg| frame.int(arg));
                let (a, b) = (arg(0), arg(1));
                frame.scalars[*dst as usize] = match op {
                    ScalarOp::Copy => a,
                    ScalarOp::Add => a + b,
                    ScalarOp::Lt => i64::from(a < b),
                    other => panic!("the generator makes no {other:?}"),
                };
            }
            StmtKind::Read { dst, src, index } => {
                let at = (frame.int(index[0]), frame.int(index[1]));
                let element = match *src {
                    Place::Tensor(slot) => {
                        let matrix = &self.memory[frame.tensors[&slot]];
                        matrix.data[at.0 as usize * matrix.cols + at.1 as usize]
                    }
                    Place::Tile(slot) => {
                        let tile = &frame.tiles[slot as usize];
                        tile.data[at.0 as usize * tile.cols + at.1 as usize]
                    }
                };
                self.undefined |= element.is_none();
                frame.scalars[*dst as usize] = i64::from(element.unwrap_or(0) as i32);
            }
            StmtKind::Write { dst, index, value } => {
                let at = (frame.int(index[0]) as usize, frame.int(index[1]) as usize);
                let value = Some(frame.int(*value) as u32);
                match *dst {
                    Place::Tensor(slot) => {
                        let matrix = &mut self.memory[frame.tensors[&slot]];
                        matrix.data[at.0 * matrix.cols + at.1] = value;
                    }
                    Place::Tile(slot) => {
                        let tile = &mut frame.tiles[slot as usize];
                        tile.data[at.0 * tile.cols + at.1] = value;
                    }
                }
            }
            StmtKind::Launch { kernel, args, blocks: _ } => {
                use crate::program::FnParam;
                let function = &self.program.kernels[*kernel as usize];
                let mut inner = new_frame(function);
                for (param, arg) in function.params.iter().zip(args) {
                    match (*param, *arg) {
                        (FnParam::Tensor { slot, .. }, LaunchArg::Tensor(from)) => {
                            inner.tensors.insert(slot, frame.tensors[&from]);
                        }
                        (FnParam::Scalar(slot), LaunchArg::Scalar(value)) => {
                            inner.scalars[slot as usize] = frame.int(value);
                        }
                        _ => panic!("arguments do not match"),
                    }
                }
                self.block(&function.body, &mut inner);
            }
            StmtKind::Tile(op) => self.tile_op(op, frame),
            StmtKind::For { var, start, stop, step, body, .. } => {
                let (mut at, stop, step) = (frame.int(*start), frame.int(*stop), frame.int(*step));
                while if step > 0 { at < stop } else { at > stop } {
                    frame.scalars[*var as usize] = at;
                    if let Flow::Break = self.block(body, frame) {
                        break;
                    }
                    at += step;
                }
            }
            StmtKind::While { head, cond, body } => loop {
                self.block(head, frame);
                if frame.int(*cond) == 0 {
                    break;
                }
                if let Flow::Break = self.block(body, frame) {
                    break;
                }
            },
            StmtKind::If { cond, then, orelse } => {
                let body = if frame.int(*cond) != 0 { then } else { orelse };
                return self.block(body, frame);
            }
            StmtKind::Break => return Flow::Break,
            StmtKind::Continue => return Flow::Continue,
            other => panic!("the generator makes no {other:?}"),
        }
        Flow::Next
    }

    fn tile_op(&mut self, op: &TileOp, frame: &mut Frame<'_>) {
        let (rows, cols) = (frame.int(op.region[0]) as usize, frame.int(op.region[1]) as usize);
        let scalars: Vec<i64> = op
            .args
            .iter()
            .filter_map(|arg| match arg {
                Arg::Scalar(operand) => Some(frame.int(*operand)),
                _ => None,
            })
            .collect();
        let tiles: Vec<Tile> = op
            .args
            .iter()
            .filter_map(|arg| match arg {
                Arg::Tile(slot) => Some(frame.tiles[*slot as usize].clone()),
                _ => None,
            })
            .collect();
        let tensor = op.args.iter().find_map(|arg| match arg {
            Arg::Tensor(slot) => Some(frame.tensors[slot]),
            _ => None,
        });
        if op.op == OpCode::Store {
            let matrix = &mut self.memory[tensor.unwrap()];
            for row in 0..rows {
                for col in 0..cols {
                    let element = tiles[0].data[row * tiles[0].cols + col];
                    let at = (scalars[0] as usize + row) * matrix.cols + scalars[1] as usize + col;
                    matrix.data[at] = element.map(|bits| narrow(bits, matrix.dtype));
                }
            }
            return;
        }
        let slot = frame.function.tiles[op.out.unwrap() as usize];
        let mut out = Tile {
            dtype: slot.dtype,
            rows: slot.rows as usize,
            cols: slot.cols as usize,
            data: vec![None; (slot.rows * slot.cols) as usize],
        };
        for row in 0..rows {
            for col in 0..cols {
                let full = |tile: &Tile| tile.data[row * tile.cols + col];
                let broadcast = |tile: &Tile| {
                    let row = if tile.rows == 1 { 0 } else { row };
                    tile.data[row * tile.cols + if tile.cols == 1 { 0 } else { col }]
                };
                let dtype = out.dtype;
                let scalar = || Some(super::super::lower::lane_bits(scalars[0] as u64, dtype));
                let element = match op.op {
                    OpCode::Load => {
                        let matrix = &self.memory[tensor.unwrap()];
                        matrix.data[(scalars[0] as usize + row) * matrix.cols + scalars[1] as usize + col]
                    }
                    OpCode::Move => full(&tiles[0]),
                    OpCode::Fill => scalar(),
                    OpCode::Undef => None,
                    OpCode::Cast => full(&tiles[0]).map(|bits| cast(bits, tiles[0].dtype, dtype, op.mode)),
                    OpCode::Neg | OpCode::Abs | OpCode::Relu => full(&tiles[0]).map(|bits| unary(op.op, bits, dtype)),
                    OpCode::Add | OpCode::Sub | OpCode::Mul | OpCode::Maximum | OpCode::Minimum => {
                        let right = tiles.get(1).map_or_else(scalar, broadcast);
                        full(&tiles[0]).zip(right).map(|(a, b)| binary(op.op, a, b, dtype))
                    }
                    OpCode::RowMax | OpCode::RowSum => {
                        let count = scalars[0] as usize;
                        let start = row * tiles[0].cols;
                        let row: Option<Vec<u32>> = tiles[0].data[start..start + count].iter().copied().collect();
                        row.map(|row| reduce(op.op, &row, dtype))
                    }
                    OpCode::MatMul | OpCode::MatMulAcc => {
                        let acc = (op.op == OpCode::MatMulAcc).then(|| full(&tiles[0]));
                        let [a, b] = &tiles[tiles.len() - 2..] else { panic!() };
                        let mut sum = Some(0f32);
                        for k in 0..scalars[0] as usize {
                            let pair = a.data[row * a.cols + k].zip(b.data[k * b.cols + col]);
                            sum = sum.zip(pair).map(|(sum, (a, b))| f32::from_bits(a).mul_add(f32::from_bits(b), sum));
                        }
                        match acc {
                            None => sum.map(f32::to_bits),
                            Some(acc) => sum.zip(acc).map(|(sum, acc)| (f32::from_bits(acc) + sum).to_bits()),
                        }
                    }
                    other => panic!("the generator makes no {other:?}"),
                };
                out.data[row * out.cols + col] = element;
            }
        }
        frame.tiles[op.out.unwrap() as usize] = out;
    }
}

fn narrow(bits: u32, dtype: DType) -> u32 {
    match dtype {
        DType::F16 => half::f16::from_f32(f32::from_bits(bits)).to_f32().to_bits(),
        DType::BF16 => half::bf16::from_f32(f32::from_bits(bits)).to_f32().to_bits(),
        DType::I8 => bits as i8 as u32,
        _ => bits,
    }
}

fn cast(bits: u32, from: DType, to: DType, mode: Option<Rounding>) -> u32 {
    assert_eq!(mode, Some(Rounding::Rint), "the generator rounds to nearest even");
    match (from.is_float(), to.is_float()) {
        (true, false) => narrow((f32::from_bits(bits).round_ties_even() as i32) as u32, to),
        (false, true) => narrow((bits as i32 as f32).to_bits(), to),
        _ => narrow(bits, to),
    }
}

fn unary(op: OpCode, bits: u32, dtype: DType) -> u32 {
    let (float, int) = (f32::from_bits(bits), bits as i32);
    let result = match (op, dtype.is_float()) {
        (OpCode::Neg, true) => (-float).to_bits(),
        (OpCode::Neg, false) => int.wrapping_neg() as u32,
        (OpCode::Abs, true) => float.abs().to_bits(),
        (OpCode::Abs, false) => int.wrapping_abs() as u32,
        (_, true) => larger(float, 0.0).to_bits(),
        (_, false) => int.max(0) as u32,
    };
    narrow(result, dtype)
}

fn larger(a: f32, b: f32) -> f32 {
    match () {
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        _ if a == b => f32::from_bits(a.to_bits() & b.to_bits()),
        _ => a.max(b),
    }
}

fn binary(op: OpCode, a: u32, b: u32, dtype: DType) -> u32 {
    let result = if dtype.is_float() {
        let (a, b) = (f32::from_bits(a), f32::from_bits(b));
        match op {
            OpCode::Add => a + b,
            OpCode::Sub => a - b,
            OpCode::Mul => a * b,
            OpCode::Maximum => larger(a, b),
            _ => -larger(-a, -b),
        }
        .to_bits()
    } else {
        let (a, b) = (a as i32, b as i32);
        let value = match op {
            OpCode::Add => a.wrapping_add(b),
            OpCode::Sub => a.wrapping_sub(b),
            OpCode::Mul => a.wrapping_mul(b),
            OpCode::Maximum => a.max(b),
            _ => a.min(b),
        };
        value as u32
    };
    narrow(result, dtype)
}

/// The documented order of a sum: see [`crate::kernels::chain::ReduceFn`].
fn reduce(op: OpCode, row: &[u32], dtype: DType) -> u32 {
    if op == OpCode::RowMax {
        let (mut rest, lowest) =
            (row.iter().copied(), if dtype.is_float() { f32::NEG_INFINITY.to_bits() } else { i32::MIN as u32 });
        let first = rest.next().unwrap_or(lowest);
        return rest.fold(first, |a, b| binary(OpCode::Maximum, a, b, dtype));
    }
    if !dtype.is_float() {
        return narrow(row.iter().fold(0u32, |a, &b| a.wrapping_add(b)), dtype);
    }
    let mut lanes = [0f32; 16];
    for group in row.chunks(64) {
        let at = |index: usize| group.get(index).map_or(0.0, |&bits| f32::from_bits(bits));
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += (at(lane) + at(lane + 16)) + (at(lane + 32) + at(lane + 48));
        }
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    narrow(lanes[0].to_bits(), dtype)
}
