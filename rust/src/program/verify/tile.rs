//! The rules of operations on tiles: arguments, element types, and extents. What each takes stands in the table
//! [`OpCode::rule`].

use super::{Broken, Check, Checker, rule, scalar_type};
use crate::dtype::DType;
use crate::program::{
    Arg, ArgRule, Cover, Element, Loc, OpCode, Operand, RegionRule, ScalarType, TensorSlot, TileOp, TileSlot,
};

impl Checker<'_> {
    pub(super) fn tile_op(&self, at: Loc, op: &TileOp) -> Check {
        rule!(!self.entry, at, "tile operations are in kernels only");
        let name = op.op.name();
        rule!((op.mode.is_some()) == (op.op == OpCode::Cast), at, "{name}: only cast has a rounding");
        self.ints(at, &op.region)?;
        let rules = op.op.rule();
        rule!(op.out.is_some() || rules.out.is_none(), at, "{name} needs a result");
        rule!(op.out.is_none() || rules.out.is_some(), at, "{name} has no result");
        let tiles: Vec<TileSlot> = op
            .args
            .iter()
            .filter_map(|arg| if let Arg::Tile(slot) = *arg { Some(self.tile(at, slot)) } else { None })
            .collect::<Check<_>>()?;
        // Without a result, the region is one of the first argument.
        let out = match op.out {
            Some(out) => self.tile(at, out)?,
            None => *tiles.first().ok_or_else(|| Broken { at, message: format!("{name} takes a tile first") })?,
        };
        let fit = region_fits(op.region[0], out.rows, out.rows) && region_fits(op.region[1], out.cols, out.cols);
        rule!(fit, at, "{name}: the region exceeds {} x {}", out.rows, out.cols);
        let one = Operand::Int(1);
        match rules.region {
            RegionRule::Free => {}
            RegionRule::Column => {
                rule!(op.region[1] == one && out.cols == 1, at, "{name}: the result and its region have one column");
            }
            RegionRule::Row => {
                rule!(op.region[0] == one && out.rows == 1, at, "{name}: the result and its region have one row");
            }
        }
        if let Some(types) = rules.out {
            rule!(types.has(out.dtype), at, "{name} does not give {}", out.dtype);
        }
        let place = Place { at, op, out, tiles: &tiles };
        if op.op == OpCode::MergeLists {
            return self.lists(&place);
        }
        let mut args = op.args.iter();
        let mut tensor = None;
        for rule in rules.args {
            if let ArgRule::Box = rule {
                let declared: TensorSlot = tensor.expect("the table has a tensor before each box");
                self.box_args(at, declared, args.as_slice())?;
                args = [].iter();
                continue;
            }
            let Some(&arg) = args.next() else {
                return Err(Broken { at, message: format!("{name} takes more arguments") });
            };
            if let Some(found) = self.arg(&place, *rule, arg)? {
                tensor = Some(found);
            }
        }
        rule!(args.as_slice().is_empty(), at, "{name} takes fewer arguments");
        match op.op {
            OpCode::MatMul => self.product(&place, tiles[0], tiles[1]),
            OpCode::MatMulAcc => self.product(&place, tiles[1], tiles[2]),
            _ => Ok(()),
        }
    }

    /// Checks one argument; a tensor's slot is returned.
    fn arg(&self, place: &Place<'_>, rule: ArgRule, arg: Arg) -> Check<Option<TensorSlot>> {
        let (at, name) = (place.at, place.op.op.name());
        match (rule, arg) {
            (ArgRule::Tile(cover, element) | ArgRule::Either(cover, element), Arg::Tile(slot)) => {
                let tile = self.tile(at, slot)?;
                place.element(element, tile.dtype)?;
                place.covers(cover, tile)?;
            }
            (ArgRule::Either(_, element) | ArgRule::Scalar(element), Arg::Scalar(value)) => {
                let dtype = match element {
                    Element::First => place.first()?.dtype,
                    _ => place.out.dtype,
                };
                self.operand(at, value, scalar_type(dtype))?;
            }
            (ArgRule::Tensor(element), Arg::Tensor(slot)) => {
                let tensor = self.tensor(at, slot)?;
                place.element(element, tensor.dtype)?;
                return Ok(Some(tensor));
            }
            (ArgRule::Target, Arg::Tensor(slot)) => {
                let (tile, tensor) = (place.first()?, self.tensor(at, slot)?);
                let narrowing = tile.dtype == DType::F32 && matches!(tensor.dtype, DType::F16 | DType::BF16);
                rule!(tile.dtype == tensor.dtype || narrowing, at, "{name} of {} into {}", tile.dtype, tensor.dtype);
                return Ok(Some(tensor));
            }
            (ArgRule::Int, Arg::Scalar(value)) => self.operand(at, value, ScalarType::Int)?,
            (ArgRule::Bool, Arg::Scalar(value)) => self.operand(at, value, ScalarType::Bool)?,
            (ArgRule::Within(axis), Arg::Scalar(value)) => {
                self.operand(at, value, ScalarType::Int)?;
                let first = place.first()?;
                let extent = [first.rows, first.cols][axis];
                rule!(region_fits(value, extent, extent), at, "{name}: {value:?} of {extent} rows or columns");
            }
            (ArgRule::Const(from, to), Arg::Scalar(value)) => {
                let fits = matches!(value, Operand::Int(value) if (from..=to).contains(&value));
                rule!(fits, at, "{name}: {value:?} is no constant from {from} to {to}");
            }
            _ => return Err(Broken { at, message: format!("{name}: wrong arguments") }),
        }
        Ok(None)
    }

    /// `merge_lists`: tiles, then an extent for each.
    fn lists(&self, place: &Place<'_>) -> Check {
        let (at, count) = (place.at, place.tiles.len());
        let (lists, extents) = place.op.args.split_at(count.min(place.op.args.len()));
        let paired = lists.iter().all(|arg| matches!(arg, Arg::Tile(_))) && extents.len() == count;
        rule!(paired && (2..=4).contains(&count), at, "merge_lists takes 2 to 4 tiles and as many extents");
        for (&tile, &extent) in place.tiles.iter().zip(extents) {
            place.element(Element::Out, tile.dtype)?;
            self.arg(place, ArgRule::Int, extent)?;
        }
        Ok(())
    }

    fn product(&self, place: &Place<'_>, a: TileSlot, b: TileSlot) -> Check {
        let (at, op, out) = (place.at, place.op, place.out);
        rule!(a.dtype == b.dtype, at, "matmul of {} with {}", a.dtype, b.dtype);
        let wanted = match a.dtype {
            DType::F32 | DType::F16 | DType::BF16 => DType::F32,
            DType::I8 => DType::I32,
            other => return Err(Broken { at, message: format!("matmul of {other}") }),
        };
        rule!(out.dtype == wanted, at, "matmul of {} gives {wanted}, not {}", a.dtype, out.dtype);
        let Some(&Arg::Scalar(k)) = op.args.last() else { unreachable!("checked by the table") };
        rule!(
            region_fits(k, a.cols.min(b.rows), a.cols.min(b.rows)),
            at,
            "matmul: {} x {} with {} x {}",
            a.rows,
            a.cols,
            b.rows,
            b.cols
        );
        Ok(())
    }

    fn box_args(&self, at: Loc, tensor: TensorSlot, rest: &[Arg]) -> Check {
        let rank = tensor.rank as usize;
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

/// An operation with the slots that its rules refer to.
struct Place<'a> {
    at: Loc,
    op: &'a TileOp,
    /// The result's slot, or the first tile's where there is no result.
    out: TileSlot,
    tiles: &'a [TileSlot],
}

impl Place<'_> {
    fn first(&self) -> Check<TileSlot> {
        let message = || format!("{} takes a tile first", self.op.op.name());
        self.tiles.first().copied().ok_or_else(|| Broken { at: self.at, message: message() })
    }

    fn element(&self, element: Element, dtype: DType) -> Check {
        let fits = match element {
            Element::Out => dtype == self.out.dtype,
            Element::First => dtype == self.first()?.dtype,
            Element::Of(types) => types.has(dtype),
        };
        rule!(fits, self.at, "{}: an argument of {dtype} for {}", self.op.op.name(), self.out.dtype);
        Ok(())
    }

    /// Whether the slot of an argument has what the region needs of it.
    fn covers(&self, cover: Cover, tile: TileSlot) -> Check {
        let [rows, cols] = self.op.region;
        let out = self.out;
        let fits = match cover {
            Cover::Region => region_fits(rows, tile.rows, out.rows) && region_fits(cols, tile.cols, out.cols),
            Cover::Broadcast => {
                (tile.rows == 1 || region_fits(rows, tile.rows, out.rows))
                    && (tile.cols == 1 || region_fits(cols, tile.cols, out.cols))
            }
            Cover::Rows => region_fits(rows, tile.rows, out.rows),
            Cover::Cols => region_fits(cols, tile.cols, out.cols),
            Cover::Transposed => region_fits(rows, tile.cols, out.rows) && region_fits(cols, tile.rows, out.cols),
            Cover::Bytes => bytes(tile) == bytes(out),
            Cover::Any => true,
        };
        let name = self.op.op.name();
        rule!(fits, self.at, "{name}: {} x {} for a result of {} x {}", tile.rows, tile.cols, out.rows, out.cols);
        Ok(())
    }
}

fn bytes(tile: TileSlot) -> u64 {
    u64::from(tile.rows) * u64::from(tile.cols) * tile.dtype.size() as u64
}

/// Whether a constant extent fits; a run-time one fits when the argument is no smaller than `bound`, which the device
/// checks it against.
fn region_fits(extent: Operand, available: u32, bound: u32) -> bool {
    match extent {
        Operand::Int(extent) => (0..=i64::from(available)).contains(&extent),
        _ => available >= bound,
    }
}
