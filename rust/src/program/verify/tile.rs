//! The rules of operations on tiles: arguments, element types, and extents.

use super::{Broken, Check, Checker, rule, scalar_type};
use crate::dtype::DType;
use crate::program::{Arg, Family, Loc, Operand, ScalarType, TileOp, TileSlot};

impl Checker<'_> {
    pub(super) fn tile_op(&self, at: Loc, op: &TileOp) -> Check {
        rule!(!self.entry, at, "tile operations are in kernels only");
        let name = op.op.name();
        let family = op.op.family();
        rule!((op.mode.is_some()) == (family == Family::Cast), at, "{name}: only cast has a rounding");
        self.ints(at, &op.region)?;
        let (out, args) = (op.out, &op.args[..]);
        if family == Family::Store {
            rule!(out.is_none(), at, "store has no result");
            let (tile, tensor) = match args {
                [Arg::Tile(tile), Arg::Tensor(tensor), rest @ ..] => {
                    self.box_args(at, *tensor, rest)?;
                    (self.tile(at, *tile)?, self.tensor(at, *tensor)?)
                }
                _ => return Err(Broken { at, message: "store takes a tile, a tensor and a box".into() }),
            };
            let narrowing = tile.dtype == DType::F32 && matches!(tensor.dtype, DType::F16 | DType::BF16);
            rule!(tile.dtype == tensor.dtype || narrowing, at, "store of {} into {}", tile.dtype, tensor.dtype);
            return fits(at, op, tile);
        }
        let Some(out) = out else {
            return Err(Broken { at, message: format!("{name} needs a result") });
        };
        let out = self.tile(at, out)?;
        fits(at, op, out)?;
        match (family, args) {
            (Family::Load, [Arg::Tensor(tensor), rest @ ..]) => {
                self.box_args(at, *tensor, rest)?;
                let source = self.tensor(at, *tensor)?;
                rule!(source.dtype == out.dtype, at, "load of {} into {}", source.dtype, out.dtype);
            }
            (Family::Move, [Arg::Tile(a)]) => self.full_arg(at, op, *a, out, true)?,
            (Family::Cast, [Arg::Tile(a)]) => self.full_arg(at, op, *a, out, false)?,
            (Family::Unary, [Arg::Tile(a)]) => {
                rule!(!op.op.floats_only() || out.dtype.is_float(), at, "{name} of {}", out.dtype);
                self.full_arg(at, op, *a, out, true)?;
            }
            (Family::Fill, [Arg::Scalar(value)]) => self.operand(at, *value, scalar_type(out.dtype))?,
            (Family::Undef, []) => {}
            (Family::Binary, [Arg::Tile(a), Arg::Scalar(b)]) => {
                self.full_arg(at, op, *a, out, true)?;
                self.operand(at, *b, scalar_type(out.dtype))?;
            }
            (Family::Binary, [Arg::Tile(a), Arg::Tile(b)]) => {
                self.full_arg(at, op, *a, out, true)?;
                let b = self.tile(at, *b)?;
                rule!(b.dtype == out.dtype, at, "{name}: {} with {}", out.dtype, b.dtype);
                let rows_fit = b.rows == 1 || region_fits(op.region[0], b.rows, out.rows);
                let cols_fit = b.cols == 1 || region_fits(op.region[1], b.cols, out.cols);
                rule!(rows_fit && cols_fit, at, "{name}: {} x {} does not broadcast", b.rows, b.cols);
            }
            (Family::RowReduce, [Arg::Tile(a), Arg::Scalar(cols)]) => {
                let a = self.tile(at, *a)?;
                rule!(a.dtype == out.dtype, at, "{name}: {} to {}", a.dtype, out.dtype);
                let one = op.region[1] == Operand::Int(1) && out.cols == 1;
                rule!(one, at, "{name}: the result and its region have one column");
                rule!(region_fits(op.region[0], a.rows, out.rows), at, "{name}: more rows than the argument has");
                self.operand(at, *cols, ScalarType::Int)?;
                rule!(region_fits(*cols, a.cols, a.cols), at, "{name}: more columns than the argument has");
            }
            (Family::MatMul(false), [Arg::Tile(a), Arg::Tile(b), Arg::Scalar(k)]) => {
                self.matmul(at, op, out, *a, *b, *k)?;
            }
            (Family::MatMul(true), [Arg::Tile(acc), Arg::Tile(a), Arg::Tile(b), Arg::Scalar(k)]) => {
                self.full_arg(at, op, *acc, out, true)?;
                self.matmul(at, op, out, *a, *b, *k)?;
            }
            _ => return Err(Broken { at, message: format!("{name}: wrong arguments") }),
        }
        Ok(())
    }

    fn matmul(&self, at: Loc, op: &TileOp, out: TileSlot, a: u32, b: u32, k: Operand) -> Check {
        let (a, b) = (self.tile(at, a)?, self.tile(at, b)?);
        rule!(a.dtype == b.dtype, at, "matmul of {} with {}", a.dtype, b.dtype);
        let wanted = match a.dtype {
            DType::F32 | DType::F16 | DType::BF16 => DType::F32,
            DType::I8 => DType::I32,
            other => return Err(Broken { at, message: format!("matmul of {other}") }),
        };
        rule!(out.dtype == wanted, at, "matmul of {} gives {wanted}, not {}", a.dtype, out.dtype);
        self.operand(at, k, ScalarType::Int)?;
        let fit = region_fits(op.region[0], a.rows, out.rows)
            && region_fits(op.region[1], b.cols, out.cols)
            && region_fits(k, a.cols, a.cols.min(b.rows));
        rule!(fit, at, "matmul: {} x {} with {} x {}", a.rows, a.cols, b.rows, b.cols);
        Ok(())
    }

    /// An argument that has the region of the result.
    fn full_arg(&self, at: Loc, op: &TileOp, arg: u32, out: TileSlot, same_dtype: bool) -> Check {
        let arg = self.tile(at, arg)?;
        let name = op.op.name();
        rule!(!same_dtype || arg.dtype == out.dtype, at, "{name}: {} to {}", arg.dtype, out.dtype);
        let fit = region_fits(op.region[0], arg.rows, out.rows) && region_fits(op.region[1], arg.cols, out.cols);
        rule!(fit, at, "{name}: {} x {} for a result of {} x {}", arg.rows, arg.cols, out.rows, out.cols);
        Ok(())
    }

    fn box_args(&self, at: Loc, tensor: u32, rest: &[Arg]) -> Check {
        let rank = self.tensor(at, tensor)?.rank as usize;
        rule!(rest.len() == 2 * rank, at, "a box of rank {rank} has {} numbers", 2 * rank);
        for arg in rest {
            let Arg::Scalar(operand) = *arg else {
                return Err(Broken { at, message: "a box is made of scalars".into() });
            };
            self.operand(at, operand, ScalarType::Int)?;
        }
        Ok(())
    }
}

fn fits(at: Loc, op: &TileOp, tile: TileSlot) -> Check {
    let fit = region_fits(op.region[0], tile.rows, tile.rows) && region_fits(op.region[1], tile.cols, tile.cols);
    rule!(fit, at, "{}: the region exceeds {} x {}", op.op.name(), tile.rows, tile.cols);
    Ok(())
}

/// Whether a constant extent fits; a run-time one fits when the argument is no smaller than `bound`, which the device
/// checks it against.
fn region_fits(extent: Operand, available: u32, bound: u32) -> bool {
    match extent {
        Operand::Int(extent) => (0..=i64::from(available)).contains(&extent),
        _ => available >= bound,
    }
}
