//! The machine against an interpreter that is as plain as possible, on every instruction set of this processor.

mod accuracy;
mod ahead;
mod functions;
mod guard;
mod halves;
mod loops;
mod pairs;
mod program;
mod random;
mod reference;
mod rows;

use super::{ChainProgram, ChainRun, Inst, Machine, MemArg, MemDecl, Phase};
use crate::dtype::DType;
use crate::kernels::Isa;

/// Lengths around vectors, chunks and groups of every instruction set.
const SIZES: [usize; 14] = [1, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 128, 129, 200];

/// A memory operand of a test: rows of `cols` elements with a gap of `gap` bytes between them, filled with a pattern that
/// must survive.
#[derive(Clone, PartialEq, Debug)]
struct Operand {
    dtype: DType,
    bytes: Vec<u8>,
    /// Bytes before column 0 of row 0, for odd alignments.
    offset: usize,
    row_stride: usize,
}

impl Operand {
    fn new(dtype: DType, rows: usize, cols: usize, gap: usize, offset: usize) -> Self {
        let row_stride = cols * dtype.size() + gap;
        Operand { dtype, bytes: vec![0xa5; offset + row_stride * rows + 64], offset, row_stride }
    }

    /// One row that stands for all.
    fn repeated(dtype: DType, cols: usize) -> Self {
        Operand { row_stride: 0, ..Self::new(dtype, 1, cols, 0, 0) }
    }

    fn at(&self, row: usize, col: usize) -> usize {
        self.offset + row * self.row_stride + col * self.dtype.size()
    }

    /// The element as the bits of a lane.
    fn get(&self, row: usize, col: usize) -> u32 {
        let bytes = &self.bytes[self.at(row, col)..];
        let word = || u16::from_le_bytes([bytes[0], bytes[1]]);
        match self.dtype {
            DType::F16 => half::f16::from_bits(word()).to_f32().to_bits(),
            DType::BF16 => u32::from(word()) << 16,
            DType::I8 => bytes[0] as i8 as u32,
            DType::U8 | DType::Bool => bytes[0].into(),
            DType::I16 => word() as i16 as u32,
            DType::U16 => word().into(),
            _ => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        }
    }

    fn set(&mut self, row: usize, col: usize, lane: u32) {
        let bits = match self.dtype {
            DType::F16 => half::f16::from_f32(f32::from_bits(lane)).to_bits().into(),
            DType::BF16 => half::bf16::from_f32(f32::from_bits(lane)).to_bits().into(),
            _ => lane,
        };
        let at = self.at(row, col);
        let size = self.dtype.size();
        self.bytes[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// A region with its operands.
#[derive(Clone)]
struct Case {
    rows: usize,
    cols: usize,
    /// Index of the first row and column.
    first: [u32; 2],
    operands: Vec<Operand>,
    scalars: Vec<u32>,
}

impl Case {
    /// Runs the machine; the operands hold the results.
    fn run(&mut self, program: &ChainProgram, isa: Isa) {
        let machine = Machine::new(program.clone(), isa);
        let bytes = machine.scratch_bytes(self.cols);
        let mut scratch = vec![[0xffu64; 8]; bytes.div_ceil(64) + 1];
        let start = scratch.as_mut_ptr().cast::<u8>();
        let start = start.wrapping_add(start.align_offset(64));
        let mems: Vec<_> = self
            .operands
            .iter_mut()
            .map(|operand| MemArg {
                data: operand.bytes.as_mut_ptr().wrapping_add(operand.offset),
                row_stride: operand.row_stride as isize,
                stream: true,
            })
            .collect();
        let run = ChainRun {
            rows: self.rows,
            cols: self.cols,
            first: self.first,
            mems: &mems,
            scalars: &self.scalars,
            scratch: start,
        };
        // SAFETY: every operand has `rows` rows of `cols` elements, the scratch memory is aligned and long enough.
        unsafe { machine.run(&run) };
    }

    /// Runs the program on each instruction set and by the reference, and compares all memory, gaps included.
    #[track_caller]
    fn check(&self, program: &ChainProgram) {
        self.check_columns(program, self.cols);
    }

    /// As `check`, for programs whose results are in the first `written` columns.
    #[track_caller]
    fn check_columns(&self, program: &ChainProgram, written: usize) {
        let mut expected = self.clone();
        reference::run(program, &mut expected);
        for isa in Isa::available() {
            let mut actual = self.clone();
            actual.run(program, isa);
            for (index, (actual, expected)) in actual.operands.iter().zip(&expected.operands).enumerate() {
                if let Some(at) = first_difference(actual, expected, self.rows, written) {
                    panic!("{isa}, {}x{}, mem {index} ({}): {at}\n{program:#?}", self.rows, self.cols, actual.dtype);
                }
            }
        }
    }
}

/// Where two operands differ. NaNs in float elements are all alike: their payloads are not specified.
fn first_difference(actual: &Operand, expected: &Operand, rows: usize, cols: usize) -> Option<String> {
    let (mut a, mut e) = (actual.clone(), expected.clone());
    for row in 0..rows {
        for col in 0..cols {
            let (x, y) = (actual.get(row, col), expected.get(row, col));
            let nan = |bits: u32| actual.dtype.is_float() && f32::from_bits(bits).is_nan();
            if x != y && !(nan(x) && nan(y)) {
                return Some(format!("[{row}, {col}] is {}, not {}", show(actual.dtype, x), show(actual.dtype, y)));
            }
            a.set(row, col, 0);
            e.set(row, col, 0);
        }
    }
    (a != e).then(|| "bytes outside the region differ".to_owned())
}

fn show(dtype: DType, lane: u32) -> String {
    if dtype.is_float() { format!("{:?} ({lane:#010x})", f32::from_bits(lane)) } else { format!("{}", lane as i32) }
}

/// A program of one phase without row instructions.
fn chain(dtypes: &[DType], body: &[Inst]) -> ChainProgram {
    ChainProgram {
        phases: vec![Phase { body: body.to_vec(), ..Phase::default() }],
        mems: dtypes.iter().map(|&dtype| MemDecl { dtype }).collect(),
        ..ChainProgram::default()
    }
}

/// Lanes that are hard for functions of floats.
const FLOATS: [f32; 32] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    -3.5,
    0.499_999_97,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN_POSITIVE,
    1e-40,
    -1e-45,
    2_147_483_648.0,
    2_147_483_520.0,
    -2_147_483_648.0,
    -2_147_483_904.0,
    8_388_607.5,
    -4_194_303.5,
    65_519.0,
    65_520.0,
    5.96e-8,
    2.98e-8,
    88.72,
    -103.9,
    3.140_625,
    -0.031_243_186,
];

const INTEGERS: [i32; 12] = [0, 1, -1, 2, -7, 100, 127, 128, -129, 65_536, i32::MAX, i32::MIN];

/// What operands are filled with.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Values {
    /// Zeros, infinities, NaN, subnormals, extremes, any bits.
    Hard,
    /// Ordinary numbers, whose sums show the order in which they were added.
    Tame,
}

/// A lane for a place.
fn lane(dtype: DType, values: Values, seed: usize) -> u32 {
    let mixed = (seed as u32).wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    let ordinary = (mixed >> 8) as f32 / 65_536.0 - 128.0;
    if values == Values::Tame {
        return if dtype.is_float() { (ordinary / 32.0).to_bits() } else { ordinary as i32 as u32 };
    }
    match (dtype.is_float(), seed % 3) {
        (true, 0) => FLOATS[seed / 3 % FLOATS.len()].to_bits(),
        (true, 1) => ordinary.to_bits(),
        (false, 0) => INTEGERS[seed / 3 % INTEGERS.len()] as u32,
        (false, 1) => mixed % 200,
        _ => mixed,
    }
}

/// Fills an operand with values for its type.
fn fill(operand: &mut Operand, rows: usize, cols: usize, values: Values, seed: usize) {
    for row in 0..rows {
        for col in 0..cols {
            operand.set(row, col, lane(operand.dtype, values, seed + row * cols + col));
        }
    }
}
