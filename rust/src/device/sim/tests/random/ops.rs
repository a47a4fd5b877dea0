//! Random operations on whole tiles: windows, insertions, selections, gathers, scatters, sorting.

use super::{CLASSES, COLS, FREE, Generator, INDEX, N, ROWS, TENSORS, tile};
use crate::dtype::DType;
use crate::program::{Arg, OpCode, Operand, Stmt};

/// Classes by number.
const WIDE: usize = 0;
const INTS: usize = 3;
const COLUMN_OF_INTS: usize = 4;
const ROW: usize = 5;
const TRUTH: usize = 6;
const LONG: usize = 7;
const TURNED: usize = 9;
const ROW_OF_INTS: usize = 10;

fn int(value: i64) -> Arg {
    Arg::Scalar(Operand::Int(value))
}

impl Generator<'_, '_> {
    /// Where a window begins: often inside, sometimes across an edge, sometimes known only at run time.
    fn start(&mut self) -> Arg {
        let scalar = self.choices.of(&[
            Operand::Int(0),
            Operand::Int(1),
            Operand::Int(2),
            Operand::Int(-1),
            Operand::Int(7),
            Operand::Var(INDEX[0]),
            Operand::Var(INDEX[1]),
            Operand::Var(FREE),
        ]);
        Arg::Scalar(scalar)
    }

    /// How many of `most` rows or columns.
    fn count(&mut self, most: u32) -> Arg {
        let n = if most == ROWS { Operand::Var(N) } else { Operand::Int(most.into()) };
        Arg::Scalar(self.choices.of(&[
            Operand::Int(most.into()),
            Operand::Int(i64::from(most) / 2),
            Operand::Int(1),
            n,
        ]))
    }

    /// A slot of another class with this element type.
    fn relative(&mut self, dtype: DType) -> (u32, u32, u32) {
        let classes: Vec<usize> = (0..CLASSES.len()).filter(|&class| CLASSES[class].0 == dtype).collect();
        let class = self.choices.of(&classes);
        (self.slot(class), CLASSES[class].1, CLASSES[class].2)
    }

    fn of(&mut self, class: usize) -> Arg {
        Arg::Tile(self.slot(class))
    }

    pub(super) fn whole(&mut self, class: usize, out: u32, region: [Operand; 2], body: &mut Vec<Stmt>) {
        use OpCode::*;
        let (dtype, class_rows, class_cols) = CLASSES[class];
        let number = dtype != DType::Bool;
        let full = class_rows == ROWS && class_cols == COLS;
        let made = match self.choices.below(21) {
            0..3 => {
                let (from, _, _) = self.relative(dtype);
                Some((Extract, vec![Arg::Tile(from), self.start(), self.start()]))
            }
            3..6 => {
                let (from, rows, cols) = self.relative(dtype);
                let place = [self.start(), self.start()];
                let counts = [self.count(rows), self.count(cols)];
                Some((Insert, [&[Arg::Tile(out), Arg::Tile(from)], &place[..], &counts].concat()))
            }
            6 => {
                let (from, rows, cols) = self.relative(dtype);
                let value = self.value(dtype);
                Some((FillPad, vec![Arg::Tile(from), self.count(rows), self.count(cols), Arg::Scalar(value)]))
            }
            7 if full => {
                let mask = self.choices.of(&[TRUTH, TRUTH, WIDE, INTS, LONG]);
                let mask = self.of(mask);
                let mut value = || match self.choices.below(3) {
                    0 => Arg::Scalar(self.value(dtype)),
                    _ => self.of(class),
                };
                let (a, b) = (value(), value());
                Some((Select, vec![mask, a, b]))
            }
            8 if full => {
                let other = self.full();
                let op = self.choices.of(&[CmpEq, CmpNe, CmpLt, CmpLe, CmpGt, CmpGe]);
                let left = self.of(other);
                let right = match self.choices.below(3) {
                    0 => Arg::Scalar(self.value(CLASSES[other].0)),
                    _ => self.of(other),
                };
                Some((op, vec![left, right]))
            }
            9 => self.reshaped(class),
            10 => self.reduced(class),
            11 if full => {
                let (op, index) = (self.choices.of(&[GatherCols, GatherFlat]), self.of(INTS));
                let (from, _, cols) = self.relative(dtype);
                Some((op, vec![Arg::Tile(from), index, int(cols.into())]))
            }
            12 => {
                let (from, _, _) = self.relative(dtype);
                let stride = self.choices.of(&[1, 2, -1, 4]);
                Some((GatherStride, vec![Arg::Tile(from), self.start(), int(stride)]))
            }
            13 if full => self.scattered(class, out),
            14 if full && number && TENSORS.contains(&dtype) => {
                let (tensor, _) = self.tensor(class);
                let index = self.of(INTS);
                match self.choices.below(3) {
                    0 => Some((GatherTensor, vec![Arg::Tensor(tensor), index])),
                    mode => {
                        let args = vec![Arg::Tile(out), index, Arg::Tensor(tensor), int(mode as i64 - 1)];
                        body.push(tile(ScatterTensor, None, args, region));
                        None
                    }
                }
            }
            15 if full && number && TENSORS.contains(&dtype) => {
                let (tensor, row) = self.tensor(class);
                let place = [Operand::Int(row), Operand::Int(0), region[0], region[1]].map(Arg::Scalar);
                body.push(tile(StoreAdd, None, [&[Arg::Tile(out), Arg::Tensor(tensor)], &place[..]].concat(), region));
                None
            }
            16 if number => {
                let op = self.choices.of(&[PartAdd, PartMul, PartMax, PartMin]);
                let (a, b) = (self.of(class), self.of(class));
                let counts = [class_rows, class_cols, class_rows, class_cols].map(|most| self.count(most));
                Some((op, [&[a, b], &counts[..]].concat()))
            }
            17 => self.sorted(class, out, body),
            18 if full => {
                self.joined(class, out, region, body);
                None
            }
            19 if number => {
                let scalars = [self.choices.of(&[-3, 0, 5]), self.choices.of(&[1, -2, 7])];
                Some((Iota, scalars.map(int).to_vec()))
            }
            _ => {
                let upper = Operand::Bool(self.choices.below(2) == 1);
                Some((Tri, vec![self.start(), Arg::Scalar(upper)]))
            }
        };
        if let Some((op, args)) = made {
            body.push(tile(op, Some(out), args, region));
        }
    }

    /// The same elements or bytes in another shape.
    fn reshaped(&mut self, class: usize) -> Option<(OpCode, Vec<Arg>)> {
        let (dtype, rows, cols) = CLASSES[class];
        let fits = |broadcast: usize| {
            let (other, other_rows, other_cols) = CLASSES[broadcast];
            other == dtype && (other_rows == rows || other_rows == 1) && (other_cols == cols || other_cols == 1)
        };
        Some(match self.choices.below(3) {
            0 if class == WIDE => (OpCode::Transpose, vec![self.of(TURNED)]),
            0 if class == TURNED => (OpCode::Transpose, vec![self.of(WIDE)]),
            1 => {
                let bytes = |class: usize| {
                    let (dtype, rows, cols) = CLASSES[class];
                    rows * cols * dtype.size() as u32
                };
                let same: Vec<usize> = (0..CLASSES.len())
                    .filter(|&other| CLASSES[other].0 != DType::Bool && bytes(other) == bytes(class))
                    .collect();
                if dtype == DType::Bool {
                    return None;
                }
                let from = self.choices.of(&same);
                (OpCode::Reinterpret, vec![self.of(from)])
            }
            _ => {
                let from: Vec<usize> = (0..CLASSES.len()).filter(|&other| fits(other)).collect();
                let from = self.choices.of(&from);
                (OpCode::Expand, vec![self.of(from)])
            }
        })
    }

    /// A row or a column of a full tile.
    fn reduced(&mut self, class: usize) -> Option<(OpCode, Vec<Arg>)> {
        use OpCode::*;
        let columns = [ColSum, ColMax, ColMin, ColProd];
        Some(match class {
            ROW => (self.choices.of(&columns), vec![self.of(WIDE), self.count(ROWS)]),
            ROW_OF_INTS => match self.choices.below(2) {
                0 => (self.choices.of(&columns), vec![self.of(INTS), self.count(ROWS)]),
                _ => {
                    let from = self.choices.of(&[WIDE, INTS, LONG]);
                    (self.choices.of(&[ColArgmax, ColArgmin]), vec![self.of(from), self.count(ROWS)])
                }
            },
            COLUMN_OF_INTS => {
                let from = self.choices.of(&[WIDE, INTS, LONG]);
                let op = self.choices.of(&[RowArgmax, RowArgmin, GatherCmpCount]);
                let mut args = vec![self.of(from)];
                if op == GatherCmpCount {
                    args.extend([Arg::Scalar(self.value(CLASSES[from].0)), int(3), int(0)]);
                }
                args.push(self.count(COLS));
                (op, args)
            }
            INTS => {
                let value = self.value(DType::F32);
                let compare = self.choices.below(6) as i64;
                let args = [Arg::Scalar(value), int(compare), int(1), int(COLS.into())];
                (GatherCmpIndex, [&[self.of(WIDE)], &args[..]].concat())
            }
            _ => return None,
        })
    }

    /// A tile put together from the left columns of two others, with what is often done to it.
    fn joined(&mut self, class: usize, out: u32, region: [Operand; 2], body: &mut Vec<Stmt>) {
        let dtype = CLASSES[class].0;
        let (cut, cols) = (self.choices.of(&[8i64, 19, 1]), i64::from(COLS));
        body.push(tile(OpCode::Undef, Some(out), vec![], region));
        // Sometimes a column is missing, sometimes the parts overlap.
        for (start, count) in [(0, cut), (self.choices.of(&[cut, cut, cut + 1, cut - 1]), cols - cut)] {
            let place = [0, start, i64::from(ROWS), count.min(cols - start).max(0)].map(int);
            body.push(tile(
                OpCode::Insert,
                Some(out),
                [&[Arg::Tile(out), self.of(class)], &place[..]].concat(),
                region,
            ));
        }
        if dtype != DType::Bool && self.choices.below(2) == 0 {
            let value = Arg::Scalar(self.value(dtype));
            body.push(tile(OpCode::Mul, Some(out), vec![Arg::Tile(out), value], region));
        }
        if TENSORS.contains(&dtype) {
            let (tensor, row) = self.tensor(class);
            let place = [Operand::Int(row), Operand::Int(0), region[0], region[1]].map(Arg::Scalar);
            body.push(tile(OpCode::Store, None, [&[Arg::Tile(out), Arg::Tensor(tensor)], &place[..]].concat(), region));
        }
    }

    fn scattered(&mut self, class: usize, out: u32) -> Option<(OpCode, Vec<Arg>)> {
        use OpCode::*;
        let (src, index) = (self.of(class), self.of(INTS));
        let counts = [self.count(ROWS), self.count(COLS)];
        let target = Arg::Tile(out);
        Some(match self.choices.below(4) {
            0 => (ScatterCols, [&[target, index, src], &counts[..]].concat()),
            1 => (ScatterFlat, [&[target, src, index], &counts[..]].concat()),
            2 => (ScatterRows, [&[target, index, src], &counts[..]].concat()),
            _ => {
                let stride = self.choices.of(&[1, 2, -1]);
                (ScatterStride, [&[target, src, self.start(), int(stride)], &counts[..]].concat())
            }
        })
    }

    fn sorted(&mut self, class: usize, out: u32, body: &mut Vec<Stmt>) -> Option<(OpCode, Vec<Arg>)> {
        match class {
            WIDE => {
                // Nine records fit into the columns of the result.
                let region = [Operand::Int(ROWS.into()), Operand::Int(18)];
                let args = vec![self.of(WIDE), self.of(INTS), int(9)];
                body.push(tile(OpCode::Sort32, Some(out), args, region));
                None
            }
            ROW => match self.choices.below(2) {
                0 => Some((OpCode::MergeSort, vec![self.of(ROW), int(4), int(18)])),
                _ => {
                    let region = [Operand::Int(1), Operand::Int(18)];
                    let args = vec![self.of(ROW), self.of(ROW), self.of(ROW), int(8), int(6), int(4)];
                    body.push(tile(OpCode::MergeLists, Some(out), args, region));
                    None
                }
            },
            _ => None,
        }
    }
}
