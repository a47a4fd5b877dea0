//! Random well-formed programs from a list of choices, so that a failure shrinks to a short one.

use super::*;
use crate::dtype::Rounding;
use crate::kernels::chain::{BinaryFn, Conversion, Dst, ReduceFn, RowInst, RowSrc, Src, UnaryFn};

const FLOAT_TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const INT_TYPES: [DType; 7] = [DType::I32, DType::I8, DType::I16, DType::U8, DType::U16, DType::U32, DType::Bool];

pub(super) const FLOAT_UNARY: [UnaryFn; 14] = [
    UnaryFn::NegF,
    UnaryFn::AbsF,
    UnaryFn::SquareF,
    UnaryFn::ExpF,
    UnaryFn::RecipF,
    UnaryFn::SqrtF,
    UnaryFn::RsqrtF,
    UnaryFn::LogF,
    UnaryFn::SinF,
    UnaryFn::CosF,
    UnaryFn::ExpH,
    UnaryFn::LogH,
    UnaryFn::SinH,
    UnaryFn::CosH,
];
pub(super) const INT_UNARY: [UnaryFn; 3] = [UnaryFn::NegI, UnaryFn::AbsI, UnaryFn::NotI];
pub(super) const FLOAT_BINARY: [BinaryFn; 8] = {
    use BinaryFn::*;
    [AddF, SubF, MulF, DivF, MaxF, MinF, FmodF, RemF]
};
/// Of floats, with an integer as the result.
pub(super) const FLOAT_TO_INT: [BinaryFn; 6] = {
    use BinaryFn::*;
    [EqF, NeF, LtF, LeF, GtF, GeF]
};
pub(super) const INT_BINARY: [BinaryFn; 28] = {
    use BinaryFn::*;
    [
        AddI, SubI, MulI, DivI, MaxI, MinI, FmodI, RemI, DivU, FmodU, MaxU, MinU, AndI, OrI, XorI, ShlI, ShrI, ShrU,
        EqI, NeI, LtI, LeI, GtI, GeI, LtU, LeU, GtU, GeU,
    ]
};

/// Decisions, taken from a list; when it is used up, always the first option.
pub(super) struct Choices<'a>(pub std::slice::Iter<'a, u32>);

impl Choices<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |&choice| choice as usize % n)
    }

    fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }
}

/// Whether a lane is a float: the only type that matters for what may be done with it.
#[derive(Clone, Copy, PartialEq)]
struct Float(bool);

struct Generator<'a> {
    choices: Choices<'a>,
    program: ChainProgram,
    temps: Vec<Option<Float>>,
    row_bufs: Vec<Option<Float>>,
    slots: Vec<Option<Float>>,
    /// Operands that stand for all rows are only read.
    repeated: Vec<bool>,
}

/// A program, and which of its memory operands have one row for all.
pub(super) fn generate(choices: Choices<'_>) -> (ChainProgram, Vec<bool>) {
    let mut generator = Generator {
        choices,
        program: ChainProgram { temps: 3, row_bufs: 2, slots: 4, ..ChainProgram::default() },
        temps: vec![],
        row_bufs: vec![None; 2],
        slots: vec![None; 4],
        repeated: vec![],
    };
    for float in [true, true, false, true, false] {
        let dtype = if float { generator.choices.of(&FLOAT_TYPES) } else { generator.choices.of(&INT_TYPES) };
        generator.program.mems.push(MemDecl { dtype });
        generator.repeated.push(generator.choices.below(4) == 1);
    }
    let flat = generator.choices.below(3) == 0;
    if flat {
        (generator.program.row_bufs, generator.program.slots) = (0, 0);
        (generator.row_bufs, generator.slots) = (vec![], vec![]);
    }
    let phases = if flat { 1 } else { 1 + generator.choices.below(3) };
    for _ in 0..phases {
        let phase = generator.phase();
        generator.program.phases.push(phase);
    }
    (generator.program, generator.repeated)
}

impl Generator<'_> {
    fn phase(&mut self) -> Phase {
        let prologue = self.rows();
        self.temps = vec![None; 3];
        let mut acc = Float(self.choices.below(2) == 0);
        let mut body = vec![Inst::Load(self.src(acc))];
        let mut reduced = Vec::new();
        for _ in 0..self.choices.below(12) {
            match self.choices.below(11) {
                0 => {
                    acc = Float(self.choices.below(2) == 0);
                    body.push(Inst::Load(self.src(acc)));
                }
                1 => body.push(Inst::Unary(self.unary(acc))),
                2 => {
                    let (conversion, to) = self.conversion(acc);
                    acc = to;
                    body.push(Inst::Convert(conversion));
                }
                3 => {
                    let f = self.binary(acc);
                    body.push(Inst::BinaryRev(f, self.src(acc)));
                }
                4 => body.push(Inst::Store(self.dst(acc))),
                5 if self.slots.len() > reduced.len() => {
                    let slot = reduced.len() as u16;
                    let reductions: &[ReduceFn] = if acc.0 {
                        &[ReduceFn::SumF, ReduceFn::MaxF, ReduceFn::MinF, ReduceFn::ProdF]
                    } else {
                        &[
                            ReduceFn::SumI,
                            ReduceFn::MaxI,
                            ReduceFn::MinI,
                            ReduceFn::ProdI,
                            ReduceFn::MaxU,
                            ReduceFn::MinU,
                        ]
                    };
                    // Its old value may be read until the pass ends.
                    reduced.push(acc);
                    body.push(Inst::Reduce(self.choices.of(reductions), slot));
                }
                6 if acc.0 => {
                    let f = self.choices.of(&FLOAT_TO_INT);
                    let src = self.src(acc);
                    body.push(if self.choices.below(2) == 0 { Inst::Binary(f, src) } else { Inst::BinaryRev(f, src) });
                    acc = Float(false);
                }
                6 => {
                    acc = Float(self.choices.below(2) == 0);
                    body.push(Inst::Pick { then: self.src(acc), other: self.src(acc) });
                }
                7 => body.push(Inst::Select { when: self.src(Float(false)), other: self.src(acc) }),
                _ => {
                    let f = self.binary(acc);
                    body.push(Inst::Binary(f, self.src(acc)));
                }
            }
        }
        body.push(Inst::Store(self.dst(acc)));
        for (slot, &float) in reduced.iter().enumerate() {
            self.slots[slot] = Some(float);
        }
        Phase { prologue, body, epilogue: self.rows() }
    }

    fn rows(&mut self) -> Vec<RowInst> {
        let mut insts = Vec::new();
        if self.slots.is_empty() {
            return insts;
        }
        for _ in 0..self.choices.below(4) {
            let slot = self.choices.below(self.slots.len()) as u16;
            let float = Float(self.choices.below(2) == 0);
            let mut to = float;
            insts.push(match self.choices.below(6) {
                0 => RowInst::Load { slot, mem: self.mem(float, false) },
                1 => RowInst::Unary { slot, f: self.unary(float), src: self.row_src(float) },
                2 => {
                    let src = self.row_src(float);
                    let (conversion, result) = self.conversion(float);
                    to = result;
                    RowInst::Convert { slot, conversion, src }
                }
                3 if self.writable(float) => {
                    insts.push(RowInst::Store { mem: self.mem(float, true), src: self.row_src(float) });
                    continue;
                }
                4 => RowInst::Select {
                    slot,
                    when: self.row_src(Float(false)),
                    then: self.row_src(float),
                    other: self.row_src(float),
                },
                _ => {
                    let f = self.binary(float);
                    RowInst::Binary { slot, f, a: self.row_src(float), b: self.row_src(float) }
                }
            });
            self.slots[usize::from(slot)] = Some(to);
        }
        insts
    }

    fn writable(&self, float: Float) -> bool {
        self.program
            .mems
            .iter()
            .zip(&self.repeated)
            .any(|(decl, &repeated)| decl.dtype.is_float() == float.0 && !repeated)
    }

    fn mem(&mut self, float: Float, write: bool) -> u16 {
        let fits: Vec<u16> = (0..self.program.mems.len())
            .filter(|&i| self.program.mems[i].dtype.is_float() == float.0 && !(write && self.repeated[i]))
            .map(|i| i as u16)
            .collect();
        self.choices.of(&fits)
    }

    fn held(places: &[Option<Float>], float: Float) -> Vec<u16> {
        (0..places.len()).filter(|&i| places[i] == Some(float)).map(|i| i as u16).collect()
    }

    fn src(&mut self, float: Float) -> Src {
        let mut options = vec![Src::Mem(self.mem(float, false))];
        options.push(Src::Scalar(if float.0 { 0 } else { 1 }));
        options.push(Src::Const(lane(
            if float.0 { DType::F32 } else { DType::I32 },
            Values::Hard,
            self.choices.below(96),
        )));
        if !float.0 {
            options.push(Src::Column);
        }
        options.extend(Self::held(&self.temps, float).into_iter().map(Src::Temp));
        options.extend(Self::held(&self.row_bufs, float).into_iter().map(Src::RowBuf));
        options.extend(Self::held(&self.slots, float).into_iter().map(Src::Slot));
        self.choices.of(&options)
    }

    fn row_src(&mut self, float: Float) -> RowSrc {
        let mut options = vec![RowSrc::Scalar(if float.0 { 0 } else { 1 })];
        options.push(RowSrc::Const(lane(
            if float.0 { DType::F32 } else { DType::I32 },
            Values::Hard,
            self.choices.below(96),
        )));
        if !float.0 {
            options.push(RowSrc::Row);
        }
        options.extend(Self::held(&self.slots, float).into_iter().map(RowSrc::Slot));
        self.choices.of(&options)
    }

    fn dst(&mut self, float: Float) -> Dst {
        let options: &[usize] = match (self.writable(float), self.row_bufs.is_empty()) {
            (true, false) => &[0, 1, 2],
            (true, true) => &[0, 1],
            (false, false) => &[1, 2],
            (false, true) => &[1],
        };
        match self.choices.of(options) {
            0 => Dst::Mem(self.mem(float, true)),
            1 => {
                let temp = self.choices.below(self.temps.len());
                self.temps[temp] = Some(float);
                Dst::Temp(temp as u16)
            }
            _ => {
                let buf = self.choices.below(self.row_bufs.len());
                self.row_bufs[buf] = Some(float);
                Dst::RowBuf(buf as u16)
            }
        }
    }

    fn unary(&mut self, float: Float) -> UnaryFn {
        if float.0 { self.choices.of(&FLOAT_UNARY) } else { self.choices.of(&INT_UNARY) }
    }

    fn binary(&mut self, float: Float) -> BinaryFn {
        if float.0 { self.choices.of(&FLOAT_BINARY) } else { self.choices.of(&INT_BINARY) }
    }

    fn conversion(&mut self, float: Float) -> (Conversion, Float) {
        use Rounding::*;
        match (float.0, self.choices.below(2)) {
            (true, 0) => (self.choices.of(&[Conversion::RoundF16, Conversion::RoundBF16]), float),
            (true, _) => {
                let rounding = self.choices.of(&[None, Rint, Round, Floor, Ceil, Trunc, Odd]);
                (
                    if self.choices.below(2) == 0 {
                        Conversion::F32ToI32(rounding)
                    } else {
                        Conversion::F32ToU32(rounding)
                    },
                    Float(false),
                )
            }
            (false, 0) => (self.choices.of(&[Conversion::I32ToF32, Conversion::U32ToF32]), Float(true)),
            (false, _) => {
                use Conversion::*;
                (self.choices.of(&[WrapI8, WrapI16, WrapU8, WrapU16, ToBool]), float)
            }
        }
    }
}
