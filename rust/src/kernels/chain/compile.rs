//! From the program to the compact form.

use super::code::{Access, Code, Function, Op};
use super::frame::Layout;
use super::lane::Bound;
use super::passes::{Ahead, Asked, Parts, asked, op, pace, pass, runs_ahead, runs_behind};
use super::recompute::recompute;
use super::{BinaryFn, ChainProgram, Conversion, Dst, Inst, Phase, ReduceFn, RowInst, RowSrc, Src, UnaryFn};
use crate::dtype::DType;

/// A program whose operands are resolved to places in the frame.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The code of each phase, up to its `Stop`.
    pub phases: Vec<Vec<Op>>,
    /// The same of all phases at a time.
    pub row: Vec<Op>,
    /// Where the first pass of the next row can run within the second of this one.
    pub ahead: Option<Ahead>,
    pub tables: Tables,
    pub layout: Layout,
    /// The memory operand that is read where row buffers are written.
    pub beside: Option<u16>,
    pub consts: Vec<u32>,
    /// Whether rows are independent of each other and of their length, so that a dense region is one long row.
    pub flattens: bool,
    /// Whether chunks of any size give the same: sums and products of floats are put together in chunks of at least 64 lanes. Loops
    /// have chunks of one size, and keep little in registers.
    pub any_chunk: bool,
}

/// What instructions refer to by number.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub rows: Vec<RowOp>,
    pub reductions: Vec<Reduction>,
    /// The passes again, without joined instructions, for what whole chunks leave of a row.
    pub tail: Vec<Op>,
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
    Select { to: u32, when: u32, then: u32, other: u32 },
}

pub(super) fn compile(program: &ChainProgram) -> Compiled {
    let program = &recompute(program);
    let mut compiler =
        Compiler { program, layout: Layout::default(), consts: Vec::new(), staging: 0, whose: Whose::ThisRow };
    compiler.plan();
    let mut tables = Tables::default();
    let parts: Vec<Parts> =
        program.phases.iter().enumerate().map(|(i, phase)| compiler.parts(i, phase, &mut tables)).collect();
    let mut phases: Vec<Vec<Op>> = parts.iter().map(|parts| parts.code(&mut tables)).collect();
    let row = [phases.concat(), vec![op(Code::Stop)]].concat();
    let ahead = runs_ahead(program).then(|| compiler.ahead(&parts, &phases, &mut tables));
    phases.iter_mut().for_each(|phase| phase.push(op(Code::Stop)));
    let columns = |inst: &Inst| inst.sources().contains(&Some(Src::Column));
    let by_row = program.row_bufs > 0
        || program.slots > 0
        || program.phases.iter().any(|phase| phase.body.iter().any(columns))
        || program.phases.iter().any(|phase| !phase.prologue.is_empty() || !phase.epilogue.is_empty());
    let ordered = |inst: &Inst| matches!(inst, Inst::Reduce(ReduceFn::SumF | ReduceFn::ProdF, _));
    let any_chunk = !program.phases.iter().flat_map(|phase| &phase.body).any(ordered)
        && !row.iter().any(|op| op.code == Code::Loop);
    Compiled {
        any_chunk,
        phases,
        row,
        ahead,
        tables,
        beside: read_beside_buffers(program),
        layout: compiler.layout,
        consts: compiler.consts,
        flattens: !by_row && program.phases.len() == 1,
    }
}

fn read_beside_buffers(program: &ChainProgram) -> Option<u16> {
    let writes = |phase: &&Phase| phase.body.iter().any(|inst| matches!(inst, Inst::Store(Dst::RowBuf(_))));
    let sources = program.phases.iter().find(writes)?.body.iter().flat_map(Inst::sources).flatten();
    sources.into_iter().find_map(|src| if let Src::Mem(mem) = src { Some(mem) } else { None })
}

fn reductions(phase: &Phase) -> u32 {
    phase.body.iter().filter(|inst| matches!(inst, Inst::Reduce(..))).count() as u32
}

/// What a row instruction reads.
fn row_sources(inst: &RowInst) -> [Option<RowSrc>; 3] {
    match *inst {
        RowInst::Load { .. } => [None; 3],
        RowInst::Store { src, .. } | RowInst::Unary { src, .. } | RowInst::Convert { src, .. } => {
            [Some(src), None, None]
        }
        RowInst::Binary { a, b, .. } => [Some(a), Some(b), None],
        RowInst::Select { when, then, other, .. } => [Some(when), Some(then), Some(other)],
    }
}

struct Compiler<'a> {
    program: &'a ChainProgram,
    layout: Layout,
    consts: Vec<u32>,
    /// The first temporary of those that operands go through which are no vectors of 32-bit lanes in memory.
    staging: u32,
    /// Whose memory operands are meant.
    whose: Whose,
}

/// A row beside the one that a frame is for.
#[derive(Clone, Copy)]
enum Whose {
    ThisRow,
    NextRow,
    RowBefore,
}

impl Compiler<'_> {
    /// Finds how much of everything there is: offsets depend on it.
    fn plan(&mut self) {
        let program = self.program;
        let mut scalars = 0;
        let mut stages = 0;
        let mut word = |src: RowSrc| match src {
            RowSrc::Scalar(index) => scalars = scalars.max(u32::from(index) + 1),
            RowSrc::Const(bits) if !self.consts.contains(&bits) => self.consts.push(bits),
            _ => {}
        };
        for phase in &program.phases {
            for inst in &phase.body {
                for (at, src) in inst.sources().into_iter().flatten().enumerate() {
                    let staged = match src {
                        Src::Scalar(index) => {
                            word(RowSrc::Scalar(index));
                            false
                        }
                        Src::Const(bits) => {
                            word(RowSrc::Const(bits));
                            false
                        }
                        Src::Column => true,
                        Src::Mem(mem) => self.program.mems[usize::from(mem)].dtype.size() < 4,
                        _ => false,
                    };
                    if staged && !matches!(inst, Inst::Load(_)) {
                        stages = stages.max(at as u32 + 1);
                    }
                }
            }
            for inst in phase.prologue.iter().chain(&phase.epilogue) {
                row_sources(inst).into_iter().flatten().for_each(&mut word);
            }
        }
        let rest = program.phases.get(1..).unwrap_or_default();
        self.staging = program.temps.into();
        self.layout = Layout {
            mems: program.mems.len() as u32,
            ahead: if runs_ahead(program) { program.mems.len() as u32 } else { 0 },
            behind: if runs_behind(program) { program.mems.len() as u32 } else { 0 },
            temps: u32::from(program.temps) + stages,
            row_bufs: program.row_bufs.into(),
            consts: self.consts.len() as u32,
            scalars,
            slots: program.slots.into(),
            accumulators: self.first_reductions() + rest.iter().map(reductions).max().unwrap_or(0),
        };
    }

    /// Reductions of the first phase: their accumulators are their own, since they may be those of the next row.
    fn first_reductions(&self) -> u32 {
        self.program.phases.first().map_or(0, reductions)
    }

    /// The rows of a region in which each runs the first pass of the next, and the last of the one before.
    fn ahead(&self, parts: &[Parts], phases: &[Vec<Op>], tables: &mut Tables) -> Ahead {
        let beside = |whose| Compiler { layout: self.layout, consts: self.consts.clone(), whose, ..*self };
        let next = beside(Whose::NextRow);
        let [first, second, ..] = parts else { unreachable!("two passes run ahead") };
        let stop = [op(Code::Stop)];
        let waits = runs_behind(self.program);
        let mut behind = Vec::new();
        if waits {
            beside(Whose::RowBefore).body(&self.program.phases[2], 0, &mut behind);
        }
        let mut requests = Vec::new();
        next.prefetches(Asked::All, &mut requests);
        let mut both = Vec::new();
        self.body(&self.program.phases[1], self.first_reductions(), &mut both);
        next.body(&self.program.phases[0], 0, &mut both);
        let rest = [&phases[2..].concat()[..], &stop].concat();
        let after = if waits { [&parts[2].prologue[..], &stop].concat() } else { rest.clone() };
        let mut row = |behind: &[Op]| {
            let joint = pass(&[&requests[..], behind, &both].concat(), 0, tables);
            [&first.ends[..], &second.prologue, &first.begins, &second.begins, &joint, &second.ends, &after].concat()
        };
        let (opening, row) = (row(&[]), row(&behind));
        Ahead {
            first: [&first.begins[..], &pass(&first.body, first.pace, tables), &stop].concat(),
            opening,
            row,
            last: [&pass(&behind, 0, tables)[..], &first.ends, &phases[1], &rest].concat(),
        }
    }

    /// The code of the phase `index`.
    fn parts(&self, index: usize, phase: &Phase, tables: &mut Tables) -> Parts {
        let accumulators = if index == 0 { 0 } else { self.first_reductions() };
        let places = (accumulators..).map(|at| self.layout.accumulator(at));
        let reduced = phase.body.iter().filter_map(|inst| match *inst {
            Inst::Reduce(f, slot) => Some((f, self.layout.slot(slot.into()))),
            _ => None,
        });
        let reductions: Vec<Reduction> =
            places.zip(reduced).map(|(accumulator, (f, slot))| Reduction { f, accumulator, slot }).collect();
        let begins = reductions.iter().map(|of| Op { a: of.accumulator, b: of.f.identity(), ..op(Code::Begin) });
        let begins = begins.collect();
        let mut body = Vec::new();
        if let Some(part) = asked(self.program, index) {
            self.prefetches(part, &mut body);
        }
        self.body(phase, accumulators, &mut body);
        let prologue = self.rows(&phase.prologue, tables);
        let first = tables.reductions.len() as u32;
        tables.reductions.extend(reductions);
        let finishes = (first..tables.reductions.len() as u32).map(|number| Op { b: number, ..op(Code::Finish) });
        let mut ends: Vec<Op> = finishes.collect();
        ends.extend(self.rows(&phase.epilogue, tables));
        Parts { prologue, begins, body, pace: pace(self.program, index), ends }
    }

    /// The instructions of a pass, whose reductions have the accumulators from this one on.
    fn body(&self, phase: &Phase, mut accumulator: u32, body: &mut Vec<Op>) {
        for (at, inst) in phase.body.iter().enumerate() {
            match *inst {
                Inst::Load(src) => self.load(body, src),
                Inst::Store(dst) => body.push(self.store(dst)),
                Inst::Unary(f) => body.push(function(Code::unary(f))),
                Inst::Binary(f, Src::Const(bits)) | Inst::BinaryRev(f, Src::Const(bits))
                    if let Some(bound) = Bound::of(f, bits) =>
                {
                    let has_minus_zero = at == 0 || may_be_minus_zero(&phase.body[at - 1]);
                    let bound = if has_minus_zero { bound } else { bound.without_minus_zero() };
                    body.push(Op { a: self.constant(bits), ..op(Code::bound(bound)) });
                }
                Inst::Binary(f, src) => self.binary(body, f, src, false),
                Inst::BinaryRev(f, src) => self.binary(body, f, src, true),
                Inst::Convert(conversion) => {
                    if !self.is_done_by_store(conversion, &phase.body[at + 1..]) {
                        body.push(function(Code::convert(conversion)));
                    }
                }
                Inst::Select { when, other } => self.two(body, Code::select, when, other),
                Inst::Pick { then, other } => self.two(body, Code::pick, then, other),
                Inst::Reduce(f, _) => {
                    body.push(Op { a: self.layout.accumulator(accumulator), ..op(Code::reduce(f)) });
                    accumulator += 1;
                }
            }
        }
    }

    /// Row instructions by number.
    fn rows(&self, insts: &[RowInst], tables: &mut Tables) -> Vec<Op> {
        let first = tables.rows.len() as u32;
        tables.rows.extend(insts.iter().map(|inst| self.row(inst)));
        (first..tables.rows.len() as u32).map(|number| Op { b: number, ..op(Code::Row) }).collect()
    }

    /// Asks for a part of the next row of what the program reads: a new row is out of reach of the hardware's prefetcher. In
    /// order, and into the second-level cache, which leaves the line buffers of the first to the pass itself. Of the time with
    /// this, for rms norm (two passes) and layer norm (three) of 4,096 columns: every other line in each of two passes 1.2 and
    /// 1.5, into the first-level cache 1.4 and 1.2, no requests 1.3 and 1.27.
    fn prefetches(&self, part: Asked, body: &mut Vec<Op>) {
        let mut seen = Vec::new();
        for phase in &self.program.phases {
            for src in phase.body.iter().flat_map(Inst::sources).flatten() {
                if let Src::Mem(mem) = src
                    && !seen.contains(&mem)
                {
                    seen.push(mem);
                    let (a, step_a) = self.mem(mem);
                    body.push(Op { a, step_a, step_b: part as u8, ..op(Code::Prefetch) });
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
        let mem = mem.into();
        let entry = match self.whose {
            Whose::ThisRow => self.layout.mem(mem),
            Whose::NextRow => self.layout.ahead(mem),
            Whose::RowBefore => self.layout.behind(mem),
        };
        (entry, size as u8)
    }

    fn load(&self, body: &mut Vec<Op>, src: Src) {
        if src == Src::Column {
            body.push(Op { a: self.layout.first_col(), ..op(Code::LoadColumn) });
            return;
        }
        if let Src::Mem(mem) = src
            && let Some(code) = Code::load(self.dtype(mem))
        {
            let (a, step_a) = self.mem(mem);
            body.push(Op { a, step_a, ..op(code) });
            return;
        }
        let (access, a, step_a) = self.operand(body, src, 0);
        let code = match access {
            Access::Vec => Code::LoadVec,
            Access::Word => Code::LoadWord,
        };
        body.push(Op { a, step_a, ..op(code) });
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
        // Sums and products are the same from either side.
        if let Src::Mem(mem) = src
            && let Some(half) = Code::half(f, self.dtype(mem))
            && (!reversed || f != BinaryFn::SubF)
        {
            let (a, step_a) = self.mem(mem);
            body.push(Op { a, step_a, ..op(half) });
            return;
        }
        let (access, a, step_a) = self.operand(body, src, 0);
        let code = if reversed { Code::reversed(f, access) } else { Code::binary(f, access) };
        body.push(Op { a, step_a, ..function(code) });
    }

    /// An instruction of two operands.
    fn two(&self, body: &mut Vec<Op>, code: impl Fn(Access, Access) -> Code, first: Src, second: Src) {
        let (first_access, a, step_a) = self.operand(body, first, 0);
        let (second_access, b, step_b) = self.operand(body, second, 1);
        body.push(Op { code: code(first_access, second_access), step_a, step_b, a, b });
    }

    /// An operand as 32-bit lanes; one that has to be made goes through the staging temporary of this number.
    fn operand(&self, body: &mut Vec<Op>, src: Src, staging: u32) -> (Access, u32, u8) {
        let staged = |body: &mut Vec<Op>, made: Op| {
            let b = self.layout.temp(self.staging + staging);
            body.push(Op { b, ..made });
            (Access::Vec, b, 0)
        };
        match src {
            Src::Column => staged(body, Op { a: self.layout.first_col(), ..op(Code::ColumnToTemp) }),
            Src::Mem(mem) => {
                let (a, step_a) = self.mem(mem);
                match Code::widen(self.dtype(mem)) {
                    Some(widen) => staged(body, Op { a, step_a, ..op(widen) }),
                    None => (Access::Vec, a, step_a),
                }
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
            RowSrc::Row => self.layout.row(),
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
            RowInst::Select { slot: to, when, then, other } => {
                RowOp::Select { to: slot(to), when: word(when), then: word(then), other: word(other) }
            }
        }
    }
}

fn function((code, b): Function) -> Op {
    Op { b, ..op(code) }
}

/// Whether an instruction may leave -0. A sum is that of two -0 alone.
fn may_be_minus_zero(inst: &Inst) -> bool {
    match inst {
        Inst::Binary(BinaryFn::AddF, Src::Const(bits)) => *bits == (-0.0f32).to_bits(),
        Inst::Unary(f) => !matches!(f, UnaryFn::AbsF | UnaryFn::SquareF | UnaryFn::ExpF),
        _ => true,
    }
}
