//! A plain interpreter of programs: statement by statement, element by element, in the simplest way. An element that nothing
//! defined is `None` and makes what is computed from it undefined too.

mod element;
mod tiles;

pub use element::{from_bytes, round_to as rounded, to_bytes};

use crate::dtype::DType;
use crate::program::{Arg, Function, LaunchArg, Operand, Place, Program, ScalarOp, Stmt, StmtKind, TileOp};
use std::collections::HashMap;
use tiles::{Args, Tile};

/// An element: the bits of a binary32 number for floats, of a sign- or zero-extended integer for others.
pub type Element = Option<u64>;

/// A row-major matrix in device memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<Element>,
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
                frame.scalars[*dst as usize] = element.unwrap_or(0) as i64;
            }
            StmtKind::Write { dst, index, value } => {
                let at = (frame.int(index[0]) as usize, frame.int(index[1]) as usize);
                let value = frame.int(*value);
                match *dst {
                    Place::Tensor(slot) => {
                        let matrix = &mut self.memory[frame.tensors[&slot]];
                        matrix.data[at.0 * matrix.cols + at.1] = Some(element::of_scalar(value, matrix.dtype));
                    }
                    Place::Tile(slot) => {
                        let tile = &mut frame.tiles[slot as usize];
                        tile.data[at.0 * tile.cols + at.1] = Some(element::of_scalar(value, tile.dtype));
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
        let mut args = Args { tiles: Vec::new(), scalars: Vec::new(), tensor: None };
        for arg in &op.args {
            match *arg {
                Arg::Tile(slot) => args.tiles.push(frame.tiles[slot as usize].clone()),
                Arg::Scalar(operand) => args.scalars.push(frame.int(operand)),
                Arg::Tensor(slot) => args.tensor = Some(frame.tensors[&slot]),
            }
        }
        let region = [frame.int(op.region[0]) as usize, frame.int(op.region[1]) as usize];
        let memory = &mut *self.memory;
        let Some(out) = op.out else { return tiles::effect(op, region, &args, memory) };
        let slot = frame.function.tiles[out as usize];
        frame.tiles[out as usize] = tiles::value(op, region, slot, &args, memory);
    }
}
