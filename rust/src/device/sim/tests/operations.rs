//! Every operation on every element type that it takes, against the reference: difficult values, partial regions, all forms
//! of the second argument.

use super::reference::{self, Matrix, from_bytes, rounded};
use super::run::run_on;
use super::{assert_same, behaviour::stmt};
use crate::dtype::{DType, Rounding};
use crate::kernels::Isa;
use crate::program::{
    Arg, Dim, Direction, FnParam, Function, LaunchArg, Loc, OpCode, Operand, Param, ParamKind, Program, StmtKind,
    TensorSlot, TileOp, TileSlot, verify,
};

const ROWS: u32 = 7;
const COLS: u32 = 35;

/// Element types that a tensor may have.
fn dtypes() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|dtype| dtype.is_dispatchable())
}

/// Elements in which a mistake shows: edges of the type, zeros of both signs, infinities, NaN, ordinary numbers.
fn values(dtype: DType, rows: u32, cols: u32, seed: u64) -> Matrix {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        -3.5,
        7.25,
        -7.75,
        65504.0,
        1e-7,
        3e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let size = dtype.size();
    let element = |at: u64| {
        // A step that is prime to both lists visits every pair of two tiles.
        let draw = at.wrapping_mul(7 + 4 * seed).wrapping_add(seed * 3);
        if dtype.is_float() {
            let value = floats[draw as usize % floats.len()];
            return rounded(value, dtype);
        }
        let ints = [0, 1, -1, 2, 3, -7, 31, 8, 100, i64::MIN, i64::MAX, 1 << 31, 0x7fff_ffff, -128, 127, 0x55aa_1234];
        let value = ints[draw as usize % ints.len()] >> if draw.is_multiple_of(5) { 64 - 8 * size as u32 } else { 0 };
        match dtype {
            DType::Bool => (value & 1) as u64,
            _ => from_bytes(&value.to_le_bytes()[..size], dtype),
        }
    };
    let (rows, cols) = (rows as usize, cols as usize);
    Matrix { dtype, rows, cols, data: (0..(rows * cols) as u64).map(|at| Some(element(at))).collect() }
}

/// A program that loads the first tiles from a tensor each, runs `op`, and stores its result to the last tensor.
fn program(tiles: Vec<TileSlot>, loaded: usize, op: TileOp) -> Program {
    let out = op.out.unwrap() as usize;
    let region = op.region;
    let slots: Vec<TensorSlot> =
        tiles[..loaded].iter().chain([&tiles[out]]).map(|tile| TensorSlot { dtype: tile.dtype, rank: 2 }).collect();
    let whole = |tile: &TileSlot| [tile.rows, tile.cols].map(|extent| Operand::Int(extent.into()));
    let boxed = |extents: [Operand; 2]| [Operand::Int(0), Operand::Int(0), extents[0], extents[1]].map(Arg::Scalar);
    let tile_op = |op, out, args, region| stmt(StmtKind::Tile(TileOp { op, out, args, region, mode: None }));
    let mut body = Vec::new();
    for (at, tile) in tiles[..loaded].iter().enumerate() {
        let args = [&[Arg::Tensor(at as u32)], &boxed(whole(tile))[..]].concat();
        body.push(tile_op(OpCode::Load, Some(at as u32), args, whole(tile)));
    }
    body.push(stmt(StmtKind::Tile(op)));
    let args = [&[Arg::Tile(out as u32), Arg::Tensor(loaded as u32)], &boxed(region)[..]].concat();
    body.push(tile_op(OpCode::Store, None, args, region));
    let params: Vec<FnParam> =
        (0..slots.len() as u32).map(|slot| FnParam::Tensor { slot, direction: Direction::InOut }).collect();
    let function = |body, tiles| Function {
        source: Default::default(),
        name: "f".into(),
        at: Loc::default(),
        params: params.clone(),
        scalars: vec![],
        tensors: slots.clone(),
        tiles,
        body,
    };
    let args = (0..slots.len() as u32).map(LaunchArg::Tensor).collect();
    let entry = function(vec![stmt(StmtKind::Launch { kernel: 0, args, blocks: Operand::Int(1) })], vec![]);
    let declared = tiles[..loaded].iter().chain([&tiles[out]]).map(|tile| Param {
        name: "x".into(),
        kind: ParamKind::Tensor {
            dtype: tile.dtype,
            dims: vec![Dim::Const(tile.rows.into()), Dim::Const(tile.cols.into())],
            direction: Direction::InOut,
        },
    });
    Program {
        name: "p".into(),
        files: vec![],
        symbols: vec![],
        params: declared.collect(),
        kernels: vec![function(body, tiles.clone())],
        entry,
    }
}

/// Compares chip and reference; `false` for an operation that the rules refuse.
fn agrees(tiles: Vec<TileSlot>, loaded: usize, op: TileOp) -> bool {
    let program = program(tiles.clone(), loaded, op.clone());
    if verify(&program).is_err() {
        return false;
    }
    let out = tiles[op.out.unwrap() as usize];
    let memory: Vec<Matrix> = tiles[..loaded]
        .iter()
        .chain([&out])
        .enumerate()
        .map(|(at, tile)| values(tile.dtype, tile.rows, tile.cols, at as u64 + 1))
        .collect();
    let mut expected = memory.clone();
    assert!(reference::run(&program, &mut expected, &[]));
    for isa in Isa::available() {
        let mut got = memory.clone();
        run_on(&program, &mut got, &[], isa, 1).unwrap();
        assert_same(
            &got,
            &expected,
            &format!("{isa} {op:?} of {:?}", tiles.iter().map(|tile| tile.dtype).collect::<Vec<_>>()),
        );
    }
    true
}

fn slot(dtype: DType, rows: u32, cols: u32) -> TileSlot {
    TileSlot { dtype, rows, cols }
}

fn op(op: OpCode, out: u32, args: Vec<Arg>, region: [u32; 2]) -> TileOp {
    TileOp { op, out: Some(out), args, region: region.map(|extent| Operand::Int(extent.into())), mode: None }
}

const REGIONS: [[u32; 2]; 3] = [[ROWS, COLS], [5, 33], [1, 1]];

#[test]
fn elementwise_operations_agree_for_every_type() {
    use OpCode::*;
    let mut accepted = 0;
    for dtype in dtypes() {
        let full = slot(dtype, ROWS, COLS);
        let others = [full, slot(dtype, ROWS, 1), slot(dtype, 1, COLS)];
        for region in REGIONS {
            for code in [Neg, Abs, Relu, Recip, Sqrt, BitNot] {
                accepted += usize::from(agrees(vec![full, full], 1, op(code, 1, vec![Arg::Tile(0)], region)));
            }
            for code in [Add, Sub, Mul, Div, Fmod, Rem, Maximum, Minimum, BitAnd, BitOr, BitXor, Shl, Shr] {
                for other in others {
                    let args = vec![Arg::Tile(0), Arg::Tile(1)];
                    accepted += usize::from(agrees(vec![full, other, full], 2, op(code, 2, args, region)));
                }
                let scalar = if dtype.is_float() { Operand::Float(-2.5) } else { Operand::Int(-7) };
                let args = vec![Arg::Tile(0), Arg::Scalar(scalar)];
                accepted += usize::from(agrees(vec![full, full], 1, op(code, 1, args, region)));
            }
        }
    }
    assert!(accepted > 1000, "only {accepted} forms were accepted");
}

#[test]
fn comparisons_and_selections_agree_for_every_type() {
    use OpCode::*;
    let mut accepted = 0;
    for dtype in dtypes() {
        let full = slot(dtype, ROWS, COLS);
        for (to, code) in dtypes().zip([CmpEq, CmpNe, CmpLt, CmpLe, CmpGt, CmpGe].into_iter().cycle()) {
            let out = slot(to, ROWS, COLS);
            let args = vec![Arg::Tile(0), Arg::Tile(1)];
            accepted += usize::from(agrees(vec![full, full, out], 2, op(code, 2, args, [5, 33])));
            let masked = vec![Arg::Tile(0), Arg::Tile(1), Arg::Tile(2)];
            let row = slot(to, 1, COLS);
            accepted += usize::from(agrees(vec![full, out, row, out], 3, op(Select, 3, masked, [5, 33])));
        }
        for code in [CmpEq, CmpNe, CmpLt, CmpLe, CmpGt, CmpGe] {
            let args = vec![Arg::Tile(0), Arg::Tile(1)];
            accepted += usize::from(agrees(
                vec![full, full, slot(DType::Bool, ROWS, COLS)],
                2,
                op(code, 2, args.clone(), [5, 33]),
            ));
            // Columns beside a full tile run as row instructions.
            accepted += usize::from(agrees(
                vec![slot(dtype, ROWS, 1), slot(dtype, ROWS, 1), slot(DType::F32, ROWS, 1)],
                2,
                op(code, 2, args, [5, 1]),
            ));
        }
    }
    assert!(accepted > 300, "only {accepted} forms were accepted");
}

#[test]
fn conversions_agree_between_all_types_and_for_all_roundings() {
    let modes = [
        Rounding::None,
        Rounding::Rint,
        Rounding::Round,
        Rounding::Floor,
        Rounding::Ceil,
        Rounding::Trunc,
        Rounding::Odd,
    ];
    for from in dtypes() {
        for to in dtypes() {
            for mode in modes {
                let tiles = vec![slot(from, ROWS, COLS), slot(to, ROWS, COLS)];
                let cast = TileOp { mode: Some(mode), ..op(OpCode::Cast, 1, vec![Arg::Tile(0)], [ROWS, COLS]) };
                assert!(agrees(tiles, 1, cast), "{from} to {to}");
            }
        }
    }
}

#[test]
fn reductions_agree_for_every_type() {
    use OpCode::*;
    let mut accepted = 0;
    for dtype in dtypes() {
        let full = slot(dtype, ROWS, COLS);
        for count in [0, 1, 5, i64::from(COLS)] {
            for code in [RowSum, RowMax, RowMin, RowProd, RowArgmax, RowArgmin] {
                let out = if matches!(code, RowArgmax | RowArgmin) { DType::I32 } else { dtype };
                let args = vec![Arg::Tile(0), Arg::Scalar(Operand::Int(count))];
                accepted += usize::from(agrees(vec![full, slot(out, ROWS, 1)], 1, op(code, 1, args, [5, 1])));
            }
            for code in [ColSum, ColMax, ColMin, ColProd, ColArgmax, ColArgmin] {
                let out = if matches!(code, ColArgmax | ColArgmin) { DType::I32 } else { dtype };
                let args = vec![Arg::Tile(0), Arg::Scalar(Operand::Int(count.min(ROWS.into())))];
                accepted += usize::from(agrees(vec![full, slot(out, 1, COLS)], 1, op(code, 1, args, [1, 33])));
            }
        }
    }
    assert!(accepted > 400, "only {accepted} forms were accepted");
}

#[test]
fn functions_of_floats_are_within_two_units_in_the_last_place() {
    type Exact = fn(f64) -> f64;
    let functions: [(OpCode, Exact); 5] = [
        (OpCode::Exp, f64::exp),
        (OpCode::Log, f64::ln),
        (OpCode::Rsqrt, |x| 1.0 / x.sqrt()),
        (OpCode::Sin, f64::sin),
        (OpCode::Cos, f64::cos),
    ];
    let tiles = vec![slot(DType::F32, ROWS, COLS); 2];
    let input = |at: usize| (at as f32 * 0.37 - 11.0) * if at.is_multiple_of(3) { 1.0 } else { 0.01 };
    for (code, exact) in functions {
        let program = program(tiles.clone(), 1, op(code, 1, vec![Arg::Tile(0)], [ROWS, COLS]));
        let data = (0..(ROWS * COLS) as usize).map(|at| Some(u64::from(input(at).to_bits())));
        let x = Matrix { dtype: DType::F32, rows: ROWS as usize, cols: COLS as usize, data: data.collect() };
        let mut memory = [x.clone(), x];
        run_on(&program, &mut memory, &[], Isa::detect(), 1).unwrap();
        for (at, got) in memory[1].data.iter().enumerate() {
            let (got, want) = (f32::from_bits(got.unwrap() as u32), exact(input(at).into()));
            if want.is_nan() {
                assert!(got.is_nan(), "{code:?} of {}: {got}", input(at));
                continue;
            }
            // The distance of binary32 numbers at the result; 2 of them are the promise.
            let unit = f64::from(f32::from_bits((want as f32).abs().to_bits() + 1)) - f64::from((want as f32).abs());
            assert!((f64::from(got) - want).abs() <= 2.0 * unit, "{code:?} of {}: {got}, not {want}", input(at));
        }
    }
}
