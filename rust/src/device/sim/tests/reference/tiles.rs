//! Operations on whole tiles, one loop over the elements of the result wherever possible.

use super::element::{
    binary, cast, compare, from_bytes, is_nan, is_zero, of_int, of_scalar, order, round_to, to_bytes, unary, wrap,
};
use super::{Element, Matrix};
use crate::dtype::DType;
use crate::program::{OpCode, Rounding, TileOp, TileSlot};

#[derive(Clone)]
pub struct Tile {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<Element>,
}

/// The arguments of an operation by kind; a tensor is an index into the memory.
pub struct Args {
    pub tiles: Vec<Tile>,
    pub scalars: Vec<i64>,
    pub tensor: Option<usize>,
}

impl Tile {
    fn undefined(slot: TileSlot) -> Self {
        let (rows, cols) = (slot.rows as usize, slot.cols as usize);
        Self { dtype: slot.dtype, rows, cols, data: vec![None; rows * cols] }
    }

    fn at(&self, row: usize, col: usize) -> Element {
        self.data[row * self.cols + col]
    }

    /// The element that stands for one of a region along axes where the tile has only one.
    fn broadcast(&self, row: usize, col: usize) -> Element {
        self.at(if self.rows == 1 { 0 } else { row }, if self.cols == 1 { 0 } else { col })
    }

    /// An element anywhere: outside the slot it is 0.
    fn find(&self, row: i64, col: i64) -> Element {
        let exists = (0..self.rows as i64).contains(&row) && (0..self.cols as i64).contains(&col);
        if exists { self.at(row as usize, col as usize) } else { Some(0) }
    }

    fn put(&mut self, row: i64, col: i64, value: Element) {
        if (0..self.rows as i64).contains(&row) && (0..self.cols as i64).contains(&col) {
            self.data[row as usize * self.cols + col as usize] = value;
        }
    }
}

/// An index, if it is defined.
fn index(element: Element) -> Option<i64> {
    element.map(|bits| bits as i64)
}

/// Operations without a result.
pub fn effect(op: &TileOp, [rows, cols]: [usize; 2], args: &Args, memory: &mut [Matrix]) {
    let matrix = &mut memory[args.tensor.unwrap()];
    let tile = &args.tiles[0];
    for row in 0..rows {
        for col in 0..cols {
            let value = tile.at(row, col).map(|bits| {
                if tile.dtype == matrix.dtype { bits } else { round_to(f32::from_bits(bits as u32), matrix.dtype) }
            });
            let place = match op.op {
                OpCode::ScatterTensor => {
                    // An undefined index may go anywhere: nothing is known of the tensor then.
                    let Some(at) = index(args.tiles[1].at(row, col)) else {
                        matrix.data.fill(None);
                        continue;
                    };
                    usize::try_from(at).ok().filter(|&at| at < matrix.data.len())
                }
                _ => Some((args.scalars[0] as usize + row) * matrix.cols + args.scalars[1] as usize + col),
            };
            let adds = op.op == OpCode::StoreAdd || (op.op == OpCode::ScatterTensor && args.scalars[0] == 1);
            if let Some(place) = place {
                let old = matrix.data[place];
                let sum = || old.zip(value).map(|(a, b)| binary(OpCode::Add, a, b, matrix.dtype));
                matrix.data[place] = if adds { sum() } else { value };
            }
        }
    }
}

/// The result of an operation.
pub fn value(op: &TileOp, region: [usize; 2], slot: TileSlot, args: &Args, memory: &[Matrix]) -> Tile {
    let mut out = Tile::undefined(slot);
    match op.op {
        OpCode::Reinterpret => reinterpret(&mut out, &args.tiles[0]),
        OpCode::Insert => insert(&mut out, region, args),
        OpCode::ScatterCols | OpCode::ScatterFlat | OpCode::ScatterStride | OpCode::ScatterRows => {
            scatter(op.op, &mut out, region, args);
        }
        OpCode::Sort32 => sort32(&mut out, region, args),
        OpCode::MergeSort => merge_sort(&mut out, region, args),
        OpCode::MergeLists => merge_lists(&mut out, region, args),
        OpCode::GatherCmpIndex => compare_index(&mut out, region, args),
        _ => {
            for row in 0..region[0] {
                for col in 0..region[1] {
                    let element = single(op, row, col, out.dtype, args, memory);
                    out.put(row as i64, col as i64, element);
                }
            }
        }
    }
    out
}

/// The element of a result that depends on nothing but its place.
fn single(op: &TileOp, row: usize, col: usize, dtype: DType, args: &Args, memory: &[Matrix]) -> Element {
    use OpCode::*;
    let (tiles, scalars) = (&args.tiles[..], &args.scalars[..]);
    let (r, c) = (row as i64, col as i64);
    let full = |at: usize| tiles[at].at(row, col);
    // The second argument of an operation of two.
    let second =
        |dtype: DType| tiles.get(1).map_or_else(|| Some(of_scalar(scalars[0], dtype)), |tile| tile.broadcast(row, col));
    let valid = |rows: usize, cols: usize, tile: &Tile| {
        r < scalars[rows] && c < scalars[cols] && row < tile.rows && col < tile.cols
    };
    match op.op {
        Load => {
            let matrix = &memory[args.tensor.unwrap()];
            matrix.data[(scalars[0] as usize + row) * matrix.cols + scalars[1] as usize + col]
        }
        Move => full(0),
        Fill => Some(of_scalar(scalars[0], dtype)),
        Undef => None,
        Iota => Some(of_int(scalars[0].wrapping_add(scalars[1].wrapping_mul(c)), dtype)),
        Tri => {
            let edge = r.saturating_add(scalars[0]);
            Some(of_int((if scalars[1] != 0 { c >= edge } else { c <= edge }).into(), dtype))
        }
        Random => random(scalars, row * region_cols(op, args) + col),
        Cast => full(0).map(|bits| cast(bits, tiles[0].dtype, dtype, op.mode.unwrap_or(Rounding::None))),
        Expand => tiles[0].broadcast(row, col),
        Neg | Abs | Relu | Recip | Sqrt | BitNot => full(0).map(|bits| unary(op.op, bits, dtype)),
        Add | Sub | Mul | Div | Fmod | Rem | Maximum | Minimum | BitAnd | BitOr | BitXor | Shl | Shr => {
            full(0).zip(second(dtype)).map(|(a, b)| binary(op.op, a, b, dtype))
        }
        CmpEq | CmpNe | CmpLt | CmpLe | CmpGt | CmpGe => {
            let of = tiles[0].dtype;
            full(0).zip(second(of)).map(|(a, b)| of_int(compare(op.op, a, b, of).into(), dtype))
        }
        Select => {
            let (mut tile, mut scalar) = (tiles[1..].iter(), scalars.iter());
            let mut next = |arg: usize| match op.args[arg] {
                crate::program::Arg::Scalar(_) => Some(of_scalar(*scalar.next().unwrap(), dtype)),
                _ => tile.next().unwrap().broadcast(row, col),
            };
            let (a, b) = (next(1), next(2));
            full(0).and_then(|mask| if is_zero(mask, tiles[0].dtype) { b } else { a })
        }
        RowSum | RowMax | RowMin | RowProd => {
            let elements: Option<Vec<u64>> = (0..scalars[0] as usize).map(|col| tiles[0].at(row, col)).collect();
            elements.map(|elements| fold(op.op, &elements, dtype))
        }
        ColSum | ColMax | ColMin | ColProd => {
            let elements: Option<Vec<u64>> = (0..scalars[0] as usize).map(|row| tiles[0].at(row, col)).collect();
            elements.map(|elements| fold(op.op, &elements, dtype))
        }
        RowArgmax | RowArgmin => {
            place((0..scalars[0] as usize).map(|col| tiles[0].at(row, col)), op.op, tiles[0].dtype)
        }
        ColArgmax | ColArgmin => {
            place((0..scalars[0] as usize).map(|row| tiles[0].at(row, col)), op.op, tiles[0].dtype)
        }
        Extract => tiles[0].find(r.saturating_add(scalars[0]), c.saturating_add(scalars[1])),
        Transpose => tiles[0].at(col, row),
        FillPad => {
            if valid(0, 1, &tiles[0]) {
                full(0)
            } else {
                Some(of_scalar(scalars[2], dtype))
            }
        }
        PartAdd | PartMul | PartMax | PartMin => {
            let op = match op.op {
                PartAdd => Add,
                PartMul => Mul,
                PartMax => Maximum,
                _ => Minimum,
            };
            match (valid(0, 1, &tiles[0]), valid(2, 3, &tiles[1])) {
                (true, true) => full(0).zip(full(1)).map(|(a, b)| binary(op, a, b, dtype)),
                (true, false) => full(0),
                (false, true) => full(1),
                (false, false) => Some(0),
            }
        }
        GatherCols => index(full(1)).and_then(|at| if at < scalars[0] { tiles[0].find(r, at) } else { Some(0) }),
        GatherFlat => index(full(1)).and_then(|at| {
            if at < 0 || scalars[0] <= 0 { Some(0) } else { tiles[0].find(at / scalars[0], at % scalars[0]) }
        }),
        GatherStride => tiles[0].find(r, c.saturating_mul(scalars[1]).saturating_add(scalars[0])),
        GatherCmpCount => (0..scalars[3] as usize)
            .map(|col| selected(&tiles[0], row, col, scalars))
            .sum::<Option<i64>>()
            .map(|n| n as u64),
        GatherTensor => index(full(0)).and_then(|at| {
            let matrix = &memory[args.tensor.unwrap()];
            usize::try_from(at).ok().and_then(|at| matrix.data.get(at).copied()).unwrap_or(Some(0))
        }),
        MatMul | MatMulAcc => {
            let acc = (op.op == MatMulAcc).then(|| full(0));
            let [a, b] = &tiles[tiles.len() - 2..] else { panic!() };
            let mut sum = Some(0f32);
            for k in 0..scalars[0] as usize {
                let pair = a.at(row, k).zip(b.at(k, col));
                sum =
                    sum.zip(pair).map(|(sum, (a, b))| f32::from_bits(a as u32).mul_add(f32::from_bits(b as u32), sum));
            }
            match acc {
                None => sum.map(|sum| sum.to_bits().into()),
                Some(acc) => sum.zip(acc).map(|(sum, acc)| (f32::from_bits(acc as u32) + sum).to_bits().into()),
            }
        }
        other => panic!("{other:?} is not in the reference"),
    }
}

fn region_cols(op: &TileOp, _: &Args) -> usize {
    match op.region[1] {
        crate::program::Operand::Int(cols) => cols as usize,
        other => panic!("random over {other:?} columns"),
    }
}

/// Philox4x32: the word of element `at`.
fn random(scalars: &[i64], at: usize) -> Element {
    let low = |at: usize| u128::from(scalars[at] as u32);
    let counter = (low(2) | low(3) << 32 | low(4) << 64 | low(5) << 96).wrapping_add(at as u128 / 4);
    let (mut k0, mut k1) = (scalars[0] as u32, scalars[1] as u32);
    let mut x = [counter as u32, (counter >> 32) as u32, (counter >> 64) as u32, (counter >> 96) as u32];
    for _ in 0..scalars[6] {
        let a = 0xD251_1F53u64 * u64::from(x[0]);
        let b = 0xCD9E_8D57u64 * u64::from(x[2]);
        x = [(b >> 32) as u32 ^ x[1] ^ k0, b as u32, (a >> 32) as u32 ^ x[3] ^ k1, a as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    Some(x[at % 4].into())
}

fn reinterpret(out: &mut Tile, x: &Tile) {
    let bytes: Vec<Option<u8>> = x
        .data
        .iter()
        .flat_map(|element| match element {
            Some(bits) => to_bytes(*bits, x.dtype).into_iter().map(Some).collect(),
            None => vec![None; x.dtype.size()],
        })
        .collect();
    for (element, bytes) in out.data.iter_mut().zip(bytes.chunks(out.dtype.size())) {
        let bytes: Option<Vec<u8>> = bytes.iter().copied().collect();
        *element = bytes.map(|bytes| from_bytes(&bytes, out.dtype));
    }
}

/// The first argument over the region.
fn start_from(out: &mut Tile, [rows, cols]: [usize; 2], x: &Tile) {
    for row in 0..rows {
        for col in 0..cols {
            out.put(row as i64, col as i64, x.at(row, col));
        }
    }
}

fn insert(out: &mut Tile, region: [usize; 2], args: &Args) {
    let [target, src] = &args.tiles[..] else { panic!() };
    start_from(out, region, target);
    for row in 0..args.scalars[2] {
        for col in 0..args.scalars[3] {
            let (to_row, to_col) = (args.scalars[0].saturating_add(row), args.scalars[1].saturating_add(col));
            out.put(to_row, to_col, src.at(row as usize, col as usize));
        }
    }
}

fn scatter(op: OpCode, out: &mut Tile, region: [usize; 2], args: &Args) {
    start_from(out, region, &args.tiles[0]);
    let (src, index_tile) = match op {
        OpCode::ScatterFlat => (&args.tiles[1], Some(&args.tiles[2])),
        OpCode::ScatterStride => (&args.tiles[1], None),
        _ => (&args.tiles[2], Some(&args.tiles[1])),
    };
    let [rows, cols] = &args.scalars[args.scalars.len() - 2..] else { panic!() };
    let width = out.cols as i64;
    for row in 0..(*rows).min(src.rows as i64) {
        for col in 0..(*cols).min(src.cols as i64) {
            let value = src.at(row as usize, col as usize);
            let at = match (op, index_tile) {
                (OpCode::ScatterRows, Some(tile)) => match tile.data.get(row as usize) {
                    Some(element) => index(*element),
                    None => continue,
                },
                (_, Some(tile)) if row >= tile.rows as i64 || col >= tile.cols as i64 => continue,
                (_, Some(tile)) => index(tile.at(row as usize, col as usize)),
                (_, None) => Some(col.saturating_mul(args.scalars[1]).saturating_add(args.scalars[0])),
            };
            let Some(at) = at else {
                out.data.fill(None);
                return;
            };
            match op {
                OpCode::ScatterFlat if at >= 0 => out.put(at / width, at % width, value),
                OpCode::ScatterFlat => {}
                OpCode::ScatterRows => out.put(at, col, value),
                _ => out.put(row, at, value),
            }
        }
    }
}

/// A reduction in the documented order: sums and products of rows of floats go by 16 lanes
/// (see [`crate::kernels::chain::ReduceFn`]), everything else one after the other.
fn fold(op: OpCode, elements: &[u64], dtype: DType) -> u64 {
    use OpCode::*;
    let lanes = matches!(op, RowSum | RowProd) && dtype.is_float();
    let (f, empty) = match op {
        RowSum | ColSum => (Add, 0),
        RowProd | ColProd => (Mul, 1),
        RowMax | ColMax => (Maximum, i64::MIN),
        _ => (Minimum, i64::MAX),
    };
    let wide = if dtype.is_float() { DType::F32 } else { dtype };
    if lanes {
        let identity = of_int(empty, DType::F32);
        let mut lanes = [identity; 16];
        for group in elements.chunks(64) {
            let at = |index: usize| group.get(index).copied().unwrap_or(identity);
            for (lane, acc) in lanes.iter_mut().enumerate() {
                let first = binary(f, at(lane), at(lane + 16), wide);
                let second = binary(f, at(lane + 32), at(lane + 48), wide);
                *acc = binary(f, *acc, binary(f, first, second, wide), wide);
            }
        }
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                lanes[lane] = binary(f, lanes[lane], lanes[lane + half], wide);
            }
        }
        return round_to(f32::from_bits(lanes[0] as u32), dtype);
    }
    let mut rest = elements.iter().copied();
    let Some(first) = rest.next() else { return extreme(f, empty, dtype) };
    let all = rest.fold(first, |a, b| binary(f, a, b, wide));
    if dtype.is_float() { round_to(f32::from_bits(all as u32), dtype) } else { all }
}

/// What nothing reduces to.
fn extreme(f: OpCode, empty: i64, dtype: DType) -> u64 {
    let float = match f {
        OpCode::Maximum => f32::NEG_INFINITY,
        OpCode::Minimum => f32::INFINITY,
        _ => empty as f32,
    };
    if dtype.is_float() {
        return float.to_bits().into();
    }
    let bits = dtype.size() as u32 * 8;
    let signed = dtype.kind() == crate::dtype::DTypeKind::Signed;
    let (lowest, highest) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    match f {
        OpCode::Maximum => wrap(lowest, dtype),
        OpCode::Minimum => wrap(highest, dtype),
        _ => wrap(empty.into(), dtype),
    }
}

/// Where the largest or smallest is first.
fn place(elements: impl Iterator<Item = Element>, op: OpCode, dtype: DType) -> Element {
    use std::cmp::Ordering::{Greater, Less};
    let elements: Vec<u64> = elements.collect::<Option<_>>()?;
    let wanted = if matches!(op, OpCode::RowArgmax | OpCode::ColArgmax) { Greater } else { Less };
    if let Some(at) = elements.iter().position(|&bits| is_nan(bits, dtype)) {
        return Some(at as u64);
    }
    let mut best = 0;
    for at in 1..elements.len() {
        if order(elements[at], elements[best], dtype) == Some(wanted) {
            best = at;
        }
    }
    Some(best as u64)
}

/// 1 where the element compares true; an undefined one is undefined.
fn selected(x: &Tile, row: usize, col: usize, scalars: &[i64]) -> Option<i64> {
    use OpCode::*;
    let op = [CmpEq, CmpNe, CmpLt, CmpLe, CmpGt, CmpGe][scalars[1] as usize];
    x.at(row, col).map(|bits| compare(op, bits, of_scalar(scalars[0], x.dtype), x.dtype).into())
}

fn compare_index(out: &mut Tile, [rows, cols]: [usize; 2], args: &Args) {
    let (x, scalars) = (&args.tiles[0], &args.scalars);
    for row in 0..rows {
        let found: Option<Vec<i64>> = (0..scalars[3] as usize).map(|col| selected(x, row, col, scalars)).collect();
        let places = found.map(|found| {
            let places = found.iter().enumerate().filter(|&(_, &hit)| hit == 1).map(|(col, _)| scalars[2] + col as i64);
            places.collect::<Vec<_>>()
        });
        for col in 0..cols {
            let element = places.as_ref().map(|places| wrap(places.get(col).copied().unwrap_or(0).into(), out.dtype));
            out.put(row as i64, col as i64, element);
        }
    }
}

/// What sorting compares, and what moves with it, in columns.
type Record = Vec<Element>;

/// Larger for what comes first; NaN comes last.
fn key(value: u64) -> (bool, f32) {
    let value = f32::from_bits(value as u32);
    if value.is_nan() { (false, 0.0) } else { (true, value) }
}

fn sort32(out: &mut Tile, [rows, _]: [usize; 2], args: &Args) {
    let (x, indices) = (&args.tiles[0], &args.tiles[1]);
    assert_eq!(x.dtype, DType::F32, "the generator sorts binary32");
    for row in 0..rows {
        for start in (0..args.scalars[0] as usize).step_by(32) {
            let columns = start..(start + 32).min(args.scalars[0] as usize);
            let pairs: Option<Vec<(u64, u32)>> =
                columns.clone().map(|col| x.at(row, col).zip(indices.at(row, col).map(|bits| bits as u32))).collect();
            let sorted = pairs.map(|mut pairs| {
                pairs.sort_by(|a, b| key(b.0).partial_cmp(&key(a.0)).unwrap().then(a.1.cmp(&b.1)));
                pairs
            });
            for (at, col) in columns.enumerate() {
                let pair = sorted.as_ref().map(|sorted| sorted[at]);
                out.put(row as i64, 2 * col as i64, pair.map(|pair| pair.0));
                out.put(row as i64, 2 * col as i64 + 1, pair.map(|pair| pair.1.into()));
            }
        }
    }
}

/// Merges lists of records; the first of equal ones stays first. Undefined values make all undefined.
fn merge(lists: Vec<Vec<Record>>) -> Vec<Record> {
    let total = lists.iter().map(Vec::len).sum();
    let values: Option<Vec<u64>> = lists.iter().flatten().map(|record| record[0]).collect();
    if values.is_none() {
        return vec![vec![None; 2]; total];
    }
    let mut lists: Vec<std::collections::VecDeque<Record>> = lists.into_iter().map(Into::into).collect();
    let mut merged = Vec::new();
    while merged.len() < total {
        let head = |list: &std::collections::VecDeque<Record>| list.front().map(|record| key(record[0].unwrap()));
        let mut best: Option<usize> = None;
        for (at, list) in lists.iter().enumerate() {
            if let Some(value) = head(list)
                && best.is_none_or(|best| value > head(&lists[best]).unwrap())
            {
                best = Some(at);
            }
        }
        merged.push(lists[best.unwrap()].pop_front().unwrap());
    }
    merged
}

/// Records of the first row of a tile of binary32.
fn records(x: &Tile, from: usize, count: usize) -> Vec<Record> {
    (from..from + count).map(|at| vec![x.at(0, 2 * at), x.at(0, 2 * at + 1)]).collect()
}

fn write_records(out: &mut Tile, from: usize, records: &[Record], limit: usize) {
    for (at, record) in records.iter().enumerate() {
        for (half, &element) in record.iter().enumerate() {
            let col = 2 * (from + at) + half;
            if col < limit {
                out.put(0, col as i64, element);
            }
        }
    }
}

fn merge_sort(out: &mut Tile, [_, cols]: [usize; 2], args: &Args) {
    let x = &args.tiles[0];
    start_from(out, [1, cols], x);
    let run = (args.scalars[0].clamp(0, args.scalars[1]) / 2) as usize;
    let groups = if run == 0 { 0 } else { args.scalars[1] as usize / 2 / (4 * run) };
    for group in 0..groups {
        let start = group * 4 * run;
        let lists = (0..4).map(|at| records(x, start + at * run, run)).collect();
        write_records(out, start, &merge(lists), cols);
    }
}

fn merge_lists(out: &mut Tile, [_, cols]: [usize; 2], args: &Args) {
    let lists = args.tiles.iter().zip(&args.scalars).map(|(tile, &extent)| {
        let count = extent.clamp(0, tile.cols as i64) as usize / 2;
        records(tile, 0, count)
    });
    let merged = merge(lists.collect());
    write_records(out, 0, &merged[..merged.len().min(cols / 2)], cols);
}
