//! From the program to the compact form.

use super::code::{Access, Code, Op};
use super::frame::Layout;
use super::lane::Bound;
use super::{BinaryFn, ChainProgram, Conversion, Dst, Inst, Phase, ReduceFn, RowInst, RowSrc, Src, UnaryFn};
use crate::dtype::DType;

/// A program whose operands are resolved to places in the frame.
#[derive(Debug)]
pub(super) struct Compiled {
    pub phases: Vec<CompiledPhase>,
    pub layout: Layout,
    pub consts: Vec<u32>,
    /// Whether rows are independent of each other and of their length, so that a dense region is one long row.
    pub flattens: bool,
}

#[derive(Debug)]
pub(super) struct CompiledPhase {
    pub prologue: Vec<RowOp>,
    /// For whole chunks, with fused instructions.
    pub whole: Vec<Op>,
    /// For the last chunk of a row: the same without them.
    pub tail: Vec<Op>,
    pub reductions: Vec<Reduction>,
    pub epilogue: Vec<RowOp>,
}

/// A reduction of a pass: where it accumulates and where its result goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    pub f: ReduceFn,
    pub accumulator: u32,
    pub slot: u32,
}

/// A [`RowInst`] whose operands are byte offsets into the frame.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowOp {
    Load { to: u32, entry: u32, dtype: DType },
    Store { entry: u32, dtype: DType, from: u32 },
    Unary { to: u32, f: UnaryFn, from: u32 },
    Binary { to: u32, f: BinaryFn, a: u32, b: u32 },
    Convert { to: u32, conversion: Conversion, from: u32 },
}

pub(super) fn compile(program: &ChainProgram) -> Compiled {
    let mut compiler = Compiler { program, layout: Layout::default(), consts: Vec::new(), staging: 0 };
    compiler.plan();
    let phases: Vec<_> = program.phases.iter().enumerate().map(|(i, phase)| compiler.phase(i, phase)).collect();
    let by_row = program.row_bufs > 0
        || program.slots > 0
        || program.phases.iter().any(|phase| !phase.prologue.is_empty() || !phase.epilogue.is_empty());
    Compiled {
        phases,
        layout: compiler.layout,
        consts: compiler.consts,
        flattens: !by_row && program.phases.len() == 1,
    }
}

struct Compiler<'a> {
    program: &'a ChainProgram,
    layout: Layout,
    consts: Vec<u32>,
    /// The temporary that narrow operands of binary instructions are widened into.
    staging: u32,
}

impl Compiler<'_> {
    /// Finds how much of everything there is: offsets depend on it.
    fn plan(&mut self) {
        let program = self.program;
        let mut scalars = 0;
        let mut stages = false;
        let mut word = |src: Src| match src {
            Src::Scalar(index) => scalars = scalars.max(u32::from(index) + 1),
            Src::Const(bits) if !self.consts.contains(&bits) => self.consts.push(bits),
            _ => {}
        };
        for phase in &program.phases {
            for inst in &phase.body {
                match *inst {
                    Inst::Load(src) => word(src),
                    Inst::Binary(_, src) | Inst::BinaryRev(_, src) => {
                        word(src);
                        stages |= matches!(src, Src::Mem(mem) if self.program.mems[usize::from(mem)].dtype.size() < 4);
                    }
                    _ => {}
                }
            }
            for inst in phase.prologue.iter().chain(&phase.epilogue) {
                let mut row_word = |src: RowSrc| {
                    word(match src {
                        RowSrc::Slot(slot) => Src::Slot(slot),
                        RowSrc::Scalar(scalar) => Src::Scalar(scalar),
                        RowSrc::Const(bits) => Src::Const(bits),
                    });
                };
                match *inst {
                    RowInst::Load { .. } => {}
                    RowInst::Store { src, .. } | RowInst::Unary { src, .. } | RowInst::Convert { src, .. } => {
                        row_word(src)
                    }
                    RowInst::Binary { a, b, .. } => {
                        row_word(a);
                        row_word(b);
                    }
                }
            }
        }
        let reductions = |phase: &Phase| phase.body.iter().filter(|inst| matches!(inst, Inst::Reduce(..))).count();
        self.staging = program.temps.into();
        self.layout = Layout {
            mems: program.mems.len() as u32,
            temps: u32::from(program.temps) + u32::from(stages),
            row_bufs: program.row_bufs.into(),
            consts: self.consts.len() as u32,
            scalars,
            slots: program.slots.into(),
            accumulators: program.phases.iter().map(reductions).max().unwrap_or(0) as u32,
        };
    }

    fn phase(&self, index: usize, phase: &Phase) -> CompiledPhase {
        let mut body = Vec::with_capacity(phase.body.len() + 1);
        let mut reductions = Vec::new();
        if index + 1 == self.program.phases.len() && index > 0 {
            self.prefetches(&mut body);
        }
        for (at, inst) in phase.body.iter().enumerate() {
            match *inst {
                Inst::Load(src) => body.push(self.load(src)),
                Inst::Store(dst) => body.push(self.store(dst)),
                Inst::Unary(f) => body.push(op(Code::unary(f))),
                Inst::Binary(f, Src::Const(bits)) | Inst::BinaryRev(f, Src::Const(bits))
                    if let Some(bound) = Bound::of(f, bits) =>
                {
                    body.push(Op { a: self.constant(bits), ..op(Code::bound(bound)) });
                }
                Inst::Binary(f, src) => self.binary(&mut body, f, src, false),
                Inst::BinaryRev(f, src) => self.binary(&mut body, f, src, true),
                Inst::Convert(conversion) => {
                    if !self.is_done_by_store(conversion, &phase.body[at + 1..]) {
                        body.push(op(Code::convert(conversion)));
                    }
                }
                Inst::Reduce(f, slot) => {
                    let accumulator = self.layout.accumulator(reductions.len() as u32);
                    reductions.push(Reduction { f, accumulator, slot: self.layout.slot(slot.into()) });
                    body.push(Op { a: accumulator, ..op(Code::reduce(f)) });
                }
            }
        }
        body.push(op(Code::End));
        CompiledPhase {
            prologue: phase.prologue.iter().map(|inst| self.row(inst)).collect(),
            whole: fuse(&body),
            tail: body,
            reductions,
            epilogue: phase.epilogue.iter().map(|inst| self.row(inst)).collect(),
        }
    }

    /// In the last of several passes, asks for the next row of what the program reads: the passes before it worked from the
    /// caches, so the memory is idle, and a new row is out of reach of the hardware's prefetcher.
    fn prefetches(&self, body: &mut Vec<Op>) {
        let mut seen = Vec::new();
        for phase in &self.program.phases {
            for inst in &phase.body {
                let (Inst::Load(Src::Mem(mem)) | Inst::Binary(_, Src::Mem(mem)) | Inst::BinaryRev(_, Src::Mem(mem))) =
                    *inst
                else {
                    continue;
                };
                if !seen.contains(&mem) {
                    seen.push(mem);
                    let (a, step_a) = self.mem(mem);
                    body.push(Op { a, step_a, ..op(Code::Prefetch) });
                }
            }
        }
    }

    /// Whether a rounding is repeated by the store after it and nothing else sees its result.
    fn is_done_by_store(&self, conversion: Conversion, rest: &[Inst]) -> bool {
        let by = match conversion {
            Conversion::RoundF16 => DType::F16,
            Conversion::RoundBF16 => DType::BF16,
            _ => return false,
        };
        matches!(rest.first(), Some(Inst::Store(Dst::Mem(mem))) if self.dtype(*mem) == by)
            && matches!(rest.get(1), None | Some(Inst::Load(_)))
    }

    fn dtype(&self, mem: u16) -> DType {
        self.program.mems[usize::from(mem)].dtype
    }

    /// Entry and step of a memory operand.
    fn mem(&self, mem: u16) -> (u32, u8) {
        let size = self.dtype(mem).size();
        debug_assert!(size <= 4, "lanes are 32 bits wide");
        (self.layout.mem(mem.into()), size as u8)
    }

    fn load(&self, src: Src) -> Op {
        if let Src::Mem(mem) = src
            && let Some(code) = Code::load(self.dtype(mem))
        {
            let (a, step_a) = self.mem(mem);
            return Op { a, step_a, ..op(code) };
        }
        let (access, a, step_a) = self.operand(src);
        let code = match access {
            Access::Vec => Code::LoadVec,
            Access::Word => Code::LoadWord,
        };
        Op { a, step_a, ..op(code) }
    }

    fn store(&self, dst: Dst) -> Op {
        let (code, (a, step_a)) = match dst {
            Dst::Mem(mem) => (Code::store(self.dtype(mem)), self.mem(mem)),
            Dst::Temp(temp) => (Code::StoreTemp, (self.layout.temp(temp.into()), 0)),
            Dst::RowBuf(buf) => (Code::StoreTemp, (self.layout.row_buf(buf.into()), 4)),
        };
        Op { a, step_a, ..op(code) }
    }

    fn binary(&self, body: &mut Vec<Op>, f: BinaryFn, src: Src, reversed: bool) {
        let code = |access| if reversed { Code::reversed(f, access) } else { Code::binary(f, access) };
        if let Src::Mem(mem) = src
            && let Some(widen) = Code::widen(self.dtype(mem))
        {
            let (a, step_a) = self.mem(mem);
            // Sums and products are the same from either side.
            if let Some(half) = Code::half(f, self.dtype(mem))
                && (!reversed || f != BinaryFn::SubF)
            {
                body.push(Op { a, step_a, ..op(half) });
                return;
            }
            let b = self.layout.temp(self.staging);
            body.push(Op { a, step_a, b, ..op(widen) });
            body.push(Op { a: b, ..op(code(Access::Vec)) });
            return;
        }
        let (access, a, step_a) = self.operand(src);
        body.push(Op { a, step_a, ..op(code(access)) });
    }

    /// A source of 32-bit lanes.
    fn operand(&self, src: Src) -> (Access, u32, u8) {
        match src {
            Src::Mem(mem) => {
                let (a, step) = self.mem(mem);
                (Access::Vec, a, step)
            }
            Src::Temp(temp) => (Access::Vec, self.layout.temp(temp.into()), 0),
            Src::RowBuf(buf) => (Access::Vec, self.layout.row_buf(buf.into()), 4),
            Src::Slot(slot) => (Access::Word, self.layout.slot(slot.into()), 0),
            Src::Scalar(scalar) => (Access::Word, self.layout.scalar(scalar.into()), 0),
            Src::Const(bits) => (Access::Word, self.constant(bits), 0),
        }
    }

    fn constant(&self, bits: u32) -> u32 {
        let index = self.consts.iter().position(|&other| other == bits).expect("planned");
        self.layout.constant(index as u32)
    }

    fn row(&self, inst: &RowInst) -> RowOp {
        let slot = |slot: u16| self.layout.slot(slot.into());
        let word = |src: RowSrc| match src {
            RowSrc::Slot(index) => slot(index),
            RowSrc::Scalar(index) => self.layout.scalar(index.into()),
            RowSrc::Const(bits) => self.constant(bits),
        };
        match *inst {
            RowInst::Load { slot: to, mem } => {
                RowOp::Load { to: slot(to), entry: self.mem(mem).0, dtype: self.dtype(mem) }
            }
            RowInst::Store { mem, src } => {
                RowOp::Store { entry: self.mem(mem).0, dtype: self.dtype(mem), from: word(src) }
            }
            RowInst::Unary { slot: to, f, src } => RowOp::Unary { to: slot(to), f, from: word(src) },
            RowInst::Binary { slot: to, f, a, b } => RowOp::Binary { to: slot(to), f, a: word(a), b: word(b) },
            RowInst::Convert { slot: to, conversion, src } => {
                RowOp::Convert { to: slot(to), conversion, from: word(src) }
            }
        }
    }
}

fn op(code: Code) -> Op {
    Op { code, step_a: 0, step_b: 0, a: 0, b: 0 }
}

/// Joins neighbours that have an instruction of their own.
fn fuse(body: &[Op]) -> Vec<Op> {
    let mut fused = Vec::with_capacity(body.len());
    let mut rest = body;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if let [second, tail @ ..] = tail
            && let Some(code) = first.code.fuse(second.code)
        {
            fused.push(Op { code, b: second.a, step_b: second.step_a, ..*first });
            rest = tail;
        } else {
            fused.push(*first);
        }
    }
    fused
}
