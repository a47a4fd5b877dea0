//! The compact form of a pass: opcodes of fixed size, operands resolved to places in the frame.

use super::calls::Call;
use super::lane::Bound;
use super::{BinaryFn, Conversion, ReduceFn, UnaryFn};
use crate::dtype::{DType, Rounding};

/// One instruction of a pass. Operands are byte offsets into the frame (see [`super::frame`]): of an entry where the
/// operand is memory, of a word where it is a scalar, of an accumulator where it is a reduction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Op {
    pub code: Code,
    /// Bytes that operand `a` advances for each column.
    pub step_a: u8,
    /// Bytes that operand `b` advances for each column.
    pub step_b: u8,
    pub a: u32,
    /// Operand of the second of joined instructions; a number where the code says so.
    pub b: u32,
}

/// How an operand of 32-bit lanes is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// A vector from memory.
    Vec,
    /// One word in every lane.
    Word,
}

/// The table of functions. `$then!` gets it whole; the interpreter makes its arms of it and [`Code`] its variants.
///
/// - `unary`: functions of the accumulator.
/// - `long`: the same for functions that are also in [`super::calls`]: only the interpreter of the largest whole chunks, which
///   does most of the work, has them inline.
/// - `binary`: opcode with a vector and with a word, of `f(acc, operand)`.
/// - `reversed`: the same of `f(operand, acc)`, for the functions that do not commute.
/// - `bound`: [`Bound`]s, with a word.
/// - `convert`: conversions of the accumulator.
/// - `narrow`: element types below 32 bits: opcodes that read into the accumulator and into a temporary, how, and their size.
/// - `half`: element type, how it widens, then each `f`: `f(acc, operand)` of an operand that other functions have to read
///   through a temporary, which costs a store and a load for each vector.
/// - `loaded`: opcode with a vector and with a word, of a load, then `f(acc, operand)`.
/// - `stored`: the same of `f(acc, operand)`, then a store to memory, then the end of the chunk.
/// - `fused`: access of the first operand, of the second, `f`, then each `g`: `g(f(acc, first), second)`, each rounded as
///   ever.
/// - `bounded`: `f`, then each bound with the opcodes of the bound after `f` and before it, both with words.
///
/// Instructions are joined because a dispatch costs what two vectors of the cheapest functions cost: six products take 50
/// cycles a chunk instead of 75, layer norm takes 0.87 of the time, softmax, whose time is in its exponential, 0.98.
macro_rules! functions {
    ($then:ident) => {
        $then! {
            unary { NegF AbsF SquareF RecipF SqrtF RsqrtF NegI AbsI NotI }
            long { LogF log_f }
            binary {
                AddF AddFVec AddFWord; SubF SubFVec SubFWord; MulF MulFVec MulFWord; DivF DivFVec DivFWord;
                MaxF MaxFVec MaxFWord; MinF MinFVec MinFWord;
                AddI AddIVec AddIWord; SubI SubIVec SubIWord; MulI MulIVec MulIWord;
                MaxI MaxIVec MaxIWord; MinI MinIVec MinIWord; MaxU MaxUVec MaxUWord; MinU MinUVec MinUWord;
                AndI AndIVec AndIWord; OrI OrIVec OrIWord; XorI XorIVec XorIWord;
                ShlI ShlIVec ShlIWord; ShrI ShrIVec ShrIWord; ShrU ShrUVec ShrUWord;
                EqF EqFVec EqFWord; NeF NeFVec NeFWord; LtF LtFVec LtFWord; LeF LeFVec LeFWord;
                GtF GtFVec GtFWord; GeF GeFVec GeFWord;
                EqI EqIVec EqIWord; NeI NeIVec NeIWord; LtI LtIVec LtIWord; LeI LeIVec LeIWord;
                GtI GtIVec GtIWord; GeI GeIVec GeIWord;
                LtU LtUVec LtUWord; LeU LeUVec LeUWord; GtU GtUVec GtUWord; GeU GeUVec GeUWord;
            }
            reversed {
                SubF RevSubFVec RevSubFWord; DivF RevDivFVec RevDivFWord;
                SubI RevSubIVec RevSubIWord;
                ShlI RevShlIVec RevShlIWord; ShrI RevShrIVec RevShrIWord; ShrU RevShrUVec RevShrUWord;
            }
            bound { AtLeast AtMost Relu }
            convert {
                RoundF16 (Conversion::RoundF16); RoundBF16 (Conversion::RoundBF16); IntToFloat (Conversion::I32ToF32);
                UintToFloat (Conversion::U32ToF32);
                ToIntTrunc (Conversion::F32ToI32(Rounding::Trunc)); ToIntRint (Conversion::F32ToI32(Rounding::Rint));
                ToIntRound (Conversion::F32ToI32(Rounding::Round)); ToIntFloor (Conversion::F32ToI32(Rounding::Floor));
                ToIntCeil (Conversion::F32ToI32(Rounding::Ceil)); ToIntOdd (Conversion::F32ToI32(Rounding::Odd));
                WrapI8 (Conversion::WrapI8); WrapI16 (Conversion::WrapI16); WrapU8 (Conversion::WrapU8);
                WrapU16 (Conversion::WrapU16); ToBool (Conversion::ToBool);
            }
            narrow {
                F16 LoadF16 WidenF16 widen_f16 load_h load_h_part 2;
                BF16 LoadBF16 WidenBF16 widen_bf16 load_h load_h_part 2;
                I16 LoadI16 WidenI16 widen_i16 load_h load_h_part 2;
                U16 LoadU16 WidenU16 widen_u16 load_h load_h_part 2;
                I8 LoadI8 WidenI8 widen_i8 load_b load_b_part 1;
                U8 LoadU8 WidenU8 widen_u8 load_b load_b_part 1;
            }
            half {
                F16 widen_f16: AddF AddFF16; SubF SubFF16; MulF MulFF16;;
                BF16 widen_bf16: AddF AddFBF16; SubF SubFBF16; MulF MulFBF16;;
            }
            loaded {
                AddF LoadAddVec LoadAddWord; SubF LoadSubVec LoadSubWord; MulF LoadMulVec LoadMulWord;
            }
            stored {
                AddF AddVecStore AddWordStore; SubF SubVecStore SubWordStore; MulF MulVecStore MulWordStore;
            }
            fused {
                Word Word AddF: AddF AddAddWW; SubF AddSubWW; MulF AddMulWW;;
                Word Word SubF: AddF SubAddWW; SubF SubSubWW; MulF SubMulWW;;
                Word Word MulF: AddF MulAddWW; SubF MulSubWW; MulF MulMulWW;;
                Word Vec AddF: AddF AddAddWV; SubF AddSubWV; MulF AddMulWV;;
                Word Vec SubF: AddF SubAddWV; SubF SubSubWV; MulF SubMulWV;;
                Word Vec MulF: AddF MulAddWV; SubF MulSubWV; MulF MulMulWV;;
                Vec Word AddF: AddF AddAddVW; SubF AddSubVW; MulF AddMulVW;;
                Vec Word SubF: AddF SubAddVW; SubF SubSubVW; MulF SubMulVW;;
                Vec Word MulF: AddF MulAddVW; SubF MulSubVW; MulF MulMulVW;;
                Vec Vec AddF: AddF AddAddVV; SubF AddSubVV; MulF AddMulVV;;
                Vec Vec SubF: AddF SubAddVV; SubF SubSubVV; MulF SubMulVV;;
                Vec Vec MulF: AddF MulAddVV; SubF MulSubVV; MulF MulMulVV;;
            }
            bounded {
                AddF: AtLeast AddAtLeast AtLeastAdd; AtMost AddAtMost AtMostAdd; Relu AddRelu ReluAdd;;
                SubF: AtLeast SubAtLeast AtLeastSub; AtMost SubAtMost AtMostSub; Relu SubRelu ReluSub;;
                MulF: AtLeast MulAtLeast AtLeastMul; AtMost MulAtMost AtMostMul; Relu MulRelu ReluMul;;
            }
        }
    };
}
pub(super) use functions;

macro_rules! define {
    (
        unary { $($unary:ident)* }
        long { $($long:ident $long_f:ident)* }
        binary { $($b:ident $b_vec:ident $b_word:ident;)* }
        reversed { $($r:ident $r_vec:ident $r_word:ident;)* }
        bound { $($bound:ident)* }
        convert { $($c:ident ($conversion:pat);)* }
        narrow { $($n:ident $n_load:ident $n_widen:ident $widen:ident $load:ident $part:ident $size:literal;)* }
        half { $($h:ident $h_widen:ident: $($h_f:ident $half:ident;)*;)* }
        loaded { $($l:ident $l_vec:ident $l_word:ident;)* }
        stored { $($s:ident $s_vec:ident $s_word:ident;)* }
        fused { $($fa:ident $ga:ident $f:ident: $($g:ident $fused:ident;)*;)* }
        bounded { $($u:ident: $($u_bound:ident $after:ident $before:ident;)*;)* }
    ) => {
        /// What an [`Op`] does.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub(super) enum Code {
            /// Ends the pass over the chunk.
            End,
            /// Ends the row, or the phase where it is run alone.
            Stop,
            /// The [`RowOp`](super::compile::RowOp) number `b`.
            Row,
            /// Puts the accumulator `a` at `b` in every lane, which is the start of a reduction.
            Begin,
            /// Begins a pass over the row, whose `b` instructions are next.
            Pass,
            /// The loop number `step_b` instead of the `a` instructions after this, where there are chunks of its size; the
            /// instructions that it is made of are those from `b` on of the tails. `step_a`: its
            /// [`pace`](super::passes::pace).
            Loop,
            /// What whole chunks leave of the row, by the code from `b` on.
            Tail,
            /// Puts the result of the [`Reduction`](super::compile::Reduction) number `b` into its slot.
            Finish,
            LoadVec,
            LoadWord,
            /// The indices of the columns, from the first in `a`.
            LoadColumn,
            /// The same to the temporary `b`.
            ColumnToTemp,
            /// To a memory operand; past the caches where its entry says so.
            StoreMem,
            /// To a temporary or a row buffer.
            StoreTemp,
            /// `StoreMem`, then `End`.
            StoreMemEnd,
            /// `ReduceSumF`, then `End`.
            SumEnd,
            /// `ReduceMaxF`, then `End`.
            MaxEnd,
            /// `LoadVec`, then `ReduceSumF` into `b`, then `End`.
            LoadSumEnd,
            /// `LoadVec`, then `ReduceMaxF` into `b`, then `End`.
            LoadMaxEnd,
            /// `SquareF`, then `ReduceSumF` into `b`, then `End`.
            SquareSumEnd,
            /// `StoreTemp`, then `ReduceSumF` into `b`, then `End`.
            StoreSumEnd,
            StoreF16,
            StoreBF16,
            Store16,
            Store8,
            ReduceSumF,
            ReduceMaxF,
            ReduceMinF,
            ReduceSumI,
            ReduceMaxI,
            ReduceMinI,
            ReduceProdF,
            ReduceProdI,
            ReduceMaxU,
            ReduceMinU,
            /// The accumulator where `a` is not zero, else `b`.
            SelectVecVec,
            SelectVecWord,
            SelectWordVec,
            SelectWordWord,
            /// `a` where the accumulator is not zero, else `b`.
            PickVecVec,
            PickVecWord,
            PickWordVec,
            PickWordWord,
            /// The [`Call`] number `b` of the accumulator.
            CallUnary,
            /// The [`Call`] number `b` of the accumulator and `a`.
            CallVec,
            CallWord,
            /// The [`Call`] number `b` of `a` and the accumulator.
            RevCallVec,
            RevCallWord,
            /// Asks for the chunk of the next row, or for as much as that in the other pass: `step_b` is an
            /// [`Asked`](super::passes::Asked).
            Prefetch,
            ExpF,
            $($unary,)*
            $($long,)*
            $($b_vec, $b_word,)*
            $($r_vec, $r_word,)*
            $($bound,)*
            $($c,)*
            $($n_load, $n_widen,)*
            $($($half,)*)*
            $($l_vec, $l_word,)*
            $($s_vec, $s_word,)*
            $($($fused,)*)*
            $($($after, $before,)*)*
        }

        impl Code {
            /// `f(acc)`, where that is an instruction of its own.
            fn own_unary(f: UnaryFn) -> Option<Self> {
                match f {
                    $(UnaryFn::$unary => Some(Code::$unary),)*
                    UnaryFn::ExpF => Some(Code::ExpF),
                    $(UnaryFn::$long => Some(Code::$long),)*
                    _ => None,
                }
            }

            /// `f(acc, operand)`, where that is an instruction of its own.
            fn own_binary(f: BinaryFn, access: Access) -> Option<Self> {
                match f {
                    $(BinaryFn::$b => Some(match access { Access::Vec => Code::$b_vec, Access::Word => Code::$b_word }),)*
                    _ => None,
                }
            }

            /// `f(operand, acc)`, where that is an instruction of its own.
            fn own_reversed(f: BinaryFn, access: Access) -> Option<Self> {
                match f {
                    $(BinaryFn::$r => Some(match access { Access::Vec => Code::$r_vec, Access::Word => Code::$r_word }),)*
                    _ => Code::own_binary(f.mirrored().unwrap_or(f), access),
                }
            }

            pub fn bound(bound: Bound) -> Self {
                match bound { $(Bound::$bound => Code::$bound,)* }
            }

            /// A conversion of the accumulator, where that is an instruction of its own.
            fn own_convert(conversion: Conversion) -> Option<Self> {
                match conversion {
                    Conversion::F32ToI32(Rounding::None) => Some(Code::ToIntTrunc),
                    $($conversion => Some(Code::$c),)*
                    _ => None,
                }
            }

            /// Reads elements of a narrow type into the accumulator; `None` for 32-bit types.
            pub fn load(dtype: DType) -> Option<Self> {
                match dtype {
                    DType::Bool => Some(Code::LoadU8),
                    $(DType::$n => Some(Code::$n_load),)*
                    _ => None,
                }
            }

            /// Reads elements of a narrow type into a temporary; `None` for 32-bit types.
            pub fn widen(dtype: DType) -> Option<Self> {
                match dtype {
                    DType::Bool => Some(Code::WidenU8),
                    $(DType::$n => Some(Code::$n_widen),)*
                    _ => None,
                }
            }

            /// `f(acc, operand)` of an operand of a narrow type, where there is an instruction for it.
            pub fn half(f: BinaryFn, dtype: DType) -> Option<Self> {
                match (f, dtype) {
                    $($((BinaryFn::$h_f, DType::$h) => Some(Code::$half),)*)*
                    _ => None,
                }
            }

            /// The instruction that does what these do one after the other, where there is one. Only whole chunks have these.
            pub fn join(codes: &[Code]) -> Option<Self> {
                let is = |code: Code, f: BinaryFn, access: Access| Some(code) == Code::own_binary(f, access);
                match *codes {
                    [Code::StoreMem, Code::End] => Some(Code::StoreMemEnd),
                    [Code::ReduceSumF, Code::End] => Some(Code::SumEnd),
                    [Code::ReduceMaxF, Code::End] => Some(Code::MaxEnd),
                    [Code::LoadVec, Code::ReduceSumF, Code::End] => Some(Code::LoadSumEnd),
                    [Code::LoadVec, Code::ReduceMaxF, Code::End] => Some(Code::LoadMaxEnd),
                    [Code::SquareF, Code::ReduceSumF, Code::End] => Some(Code::SquareSumEnd),
                    [Code::StoreTemp, Code::ReduceSumF, Code::End] => Some(Code::StoreSumEnd),
                    $(
                        [Code::LoadVec, code] if is(code, BinaryFn::$l, Access::Vec) => Some(Code::$l_vec),
                        [Code::LoadVec, code] if is(code, BinaryFn::$l, Access::Word) => Some(Code::$l_word),
                    )*
                    $(
                        [code, Code::StoreMem, Code::End] if is(code, BinaryFn::$s, Access::Vec) => Some(Code::$s_vec),
                        [code, Code::StoreMem, Code::End] if is(code, BinaryFn::$s, Access::Word) => Some(Code::$s_word),
                    )*
                    $($(
                        [first, second]
                            if is(first, BinaryFn::$f, Access::$fa) && is(second, BinaryFn::$g, Access::$ga) =>
                        {
                            Some(Code::$fused)
                        }
                    )*)*
                    $($(
                        [f, Code::$u_bound] if is(f, BinaryFn::$u, Access::Word) => Some(Code::$after),
                        [Code::$u_bound, f] if is(f, BinaryFn::$u, Access::Word) => Some(Code::$before),
                    )*)*
                    _ => None,
                }
            }
        }
    };
}
functions!(define);

impl Code {
    /// Writes the accumulator to memory of this type.
    pub fn store(dtype: DType) -> Self {
        match dtype {
            DType::F16 => Code::StoreF16,
            DType::BF16 => Code::StoreBF16,
            _ => match dtype.size() {
                1 => Code::Store8,
                2 => Code::Store16,
                _ => Code::StoreMem,
            },
        }
    }

    pub fn reduce(f: ReduceFn) -> Self {
        match f {
            ReduceFn::SumF => Code::ReduceSumF,
            ReduceFn::MaxF => Code::ReduceMaxF,
            ReduceFn::MinF => Code::ReduceMinF,
            ReduceFn::SumI => Code::ReduceSumI,
            ReduceFn::MaxI => Code::ReduceMaxI,
            ReduceFn::MinI => Code::ReduceMinI,
            ReduceFn::ProdF => Code::ReduceProdF,
            ReduceFn::ProdI => Code::ReduceProdI,
            ReduceFn::MaxU => Code::ReduceMaxU,
            ReduceFn::MinU => Code::ReduceMinU,
        }
    }

    pub fn select(when: Access, other: Access) -> Self {
        match (when, other) {
            (Access::Vec, Access::Vec) => Code::SelectVecVec,
            (Access::Vec, Access::Word) => Code::SelectVecWord,
            (Access::Word, Access::Vec) => Code::SelectWordVec,
            (Access::Word, Access::Word) => Code::SelectWordWord,
        }
    }

    pub fn pick(then: Access, other: Access) -> Self {
        match (then, other) {
            (Access::Vec, Access::Vec) => Code::PickVecVec,
            (Access::Vec, Access::Word) => Code::PickVecWord,
            (Access::Word, Access::Vec) => Code::PickWordVec,
            (Access::Word, Access::Word) => Code::PickWordWord,
        }
    }
}

/// An opcode with the number of the function that it calls or may call, 0 where there is none.
pub(super) type Function = (Code, u32);

impl Code {
    pub fn unary(f: UnaryFn) -> Function {
        function(Code::own_unary(f), Code::CallUnary, Call::Unary(f))
    }

    pub fn convert(conversion: Conversion) -> Function {
        function(Code::own_convert(conversion), Code::CallUnary, Call::Convert(conversion))
    }

    /// `f(acc, operand)`.
    pub fn binary(f: BinaryFn, access: Access) -> Function {
        let called = match access {
            Access::Vec => Code::CallVec,
            Access::Word => Code::CallWord,
        };
        function(Code::own_binary(f, access), called, Call::Binary(f))
    }

    /// `f(operand, acc)`.
    pub fn reversed(f: BinaryFn, access: Access) -> Function {
        let called = match access {
            Access::Vec => Code::RevCallVec,
            Access::Word => Code::RevCallWord,
        };
        function(Code::own_reversed(f, access), called, Call::Binary(f))
    }
}

/// The instruction of its own, where there is one, else the one that calls.
fn function(own: Option<Code>, called: Code, call: Call) -> Function {
    match (own, call.index()) {
        (Some(own), index) => (own, index.unwrap_or(0)),
        (None, index) => (called, index.expect("functions that are no instructions are called")),
    }
}
