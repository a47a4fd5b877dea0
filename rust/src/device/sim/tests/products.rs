//! Products whose operands lie transposed: through a view of the tensor, or by an operation on the tile.

use super::behaviour::{ONE, ZERO, int, kernel, launch, load, matrix, program, stmt, store, tile, value};
use super::reference::Matrix;
use super::run::run_on;
use crate::kernels::Isa;
use crate::program::{Arg, OpCode, Operand, Program, Stmt, StmtKind, ViewKind};

/// How an operand comes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Plain,
    /// The tensor is the transpose, and the kernel gets a transposed view of it.
    View,
    /// The tensor is the transpose, and the tile is transposed.
    Tile,
}

/// `c = a @ b` of `m x k` and `k x n`.
fn product([m, n, k]: [u32; 3], ways: [Way; 2]) -> Program {
    let turned = |way: Way, rows: u32, cols: u32| if way == Way::Plain { (rows, cols) } else { (cols, rows) };
    let shapes = [turned(ways[0], m, k), turned(ways[1], k, n), (m, n)];
    let mut entry: Vec<Stmt> = Vec::new();
    let mut passed = [0, 1, 2];
    let mut tiles = vec![(m, k), (k, n), (m, n)];
    let mut body = Vec::new();
    for (at, (way, rows, cols)) in [(ways[0], m, k), (ways[1], k, n)].into_iter().enumerate() {
        let slot = at as u32;
        if way == Way::View {
            passed[at] = slot + 3;
            let kind = ViewKind::Transpose { a: 0, b: 1 };
            entry.push(stmt(StmtKind::View { dst: slot + 3, src: slot, kind }));
        }
        if way == Way::Tile {
            let other = tiles.len() as u32;
            tiles.push((cols, rows));
            body.push(load(other, slot, [ZERO; 2], int(cols), int(rows)));
            body.push(tile(OpCode::Transpose, Some(slot), vec![Arg::Tile(other)], int(rows), int(cols)));
        } else {
            body.push(load(slot, slot, [ZERO; 2], int(rows), int(cols)));
        }
    }
    let args = vec![Arg::Tile(0), Arg::Tile(1), Arg::Scalar(Operand::Int(k.into()))];
    body.push(tile(OpCode::MatMul, Some(2), args, int(m), int(n)));
    body.push(store(2, 2, [ZERO; 2], int(m), int(n)));
    entry.push(launch(&passed, ONE));
    let shapes = shapes.map(|(rows, cols)| (rows.into(), cols.into()));
    program(&shapes, 2, entry, kernel(3, &tiles, body))
}

fn element(row: usize, col: usize) -> f32 {
    ((row * 7 + col * 3) % 11) as f32 / 8.0 - 0.5
}

/// The tensors of [`product`]; an operand that does not come plain lies transposed.
fn tensors([m, n, k]: [u32; 3], ways: [Way; 2]) -> [Matrix; 3] {
    let operand = |way: Way, rows: u32, cols: u32| match way {
        Way::Plain => matrix(rows as usize, cols as usize, element),
        _ => matrix(cols as usize, rows as usize, |row, col| element(col, row)),
    };
    [operand(ways[0], m, k), operand(ways[1], k, n), matrix(m as usize, n as usize, |_, _| 0.0)]
}

#[test]
fn operands_that_lie_transposed_give_the_same_product() {
    let ways = [Way::Plain, Way::View, Way::Tile];
    for extents in [[5, 7, 9], [1, 33, 4], [18, 35, 33]] {
        let [m, n, k] = extents.map(|extent| extent as usize);
        for isa in Isa::available() {
            for both in ways.into_iter().flat_map(|a| ways.map(|b| [a, b])) {
                let mut memory = tensors(extents, both);
                run_on(&product(extents, both), &mut memory, &[], isa, 1).unwrap();
                for at in 0..m * n {
                    let (row, col) = (at / n, at % n);
                    let want = (0..k).fold(0f32, |sum, k| element(row, k).mul_add(element(k, col), sum));
                    assert_eq!(value(&memory[2], row, col), want, "{isa} {both:?} {extents:?} at [{row}, {col}]");
                }
            }
        }
    }
}

#[test]
fn transposed_operands_are_cut_for_several_cores_in_the_right_places() {
    let extents = [96, 900, 700];
    let run = |ways, cores| {
        let mut memory = tensors(extents, ways);
        run_on(&product(extents, ways), &mut memory, &[], Isa::detect(), cores).unwrap();
        memory
    };
    let plain = run([Way::Plain; 2], 1);
    for ways in [[Way::View; 2], [Way::Tile; 2]] {
        assert_eq!(run(ways, 2)[2], plain[2], "{ways:?}");
    }
}
