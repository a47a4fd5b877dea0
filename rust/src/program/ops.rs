//! The operations of a program. One enum per level; each variant documents its arguments.
//!
//! These are the *core* operations. The language has more names than this (`row_expand_mul`, `muls`, ...): the frontend's
//! table says which core operations each becomes, and a test compares both lists.

use serde::{Deserialize, Serialize};

macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vmeta])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All of them, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name in the serialised form.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

named_enum! {
    /// An operation on scalars. Where integers and floats are both possible, all arguments have one type, which is the result's.
    ScalarOp {
        /// `a`: any type.
        Copy "copy",
        /// `a + b`; integers wrap at 64 bits.
        Add "add",
        /// `a - b`.
        Sub "sub",
        /// `a * b`.
        Mul "mul",
        /// `a / b` of two floats.
        Div "div",
        /// `floor(a / b)`; a zero divisor of integers yields 0.
        FloorDiv "floordiv",
        /// `a - b * floor(a / b)`, the sign of `b`; a zero divisor of integers yields 0.
        Mod "mod",
        /// `a << b` of integers.
        Shl "shl",
        /// `a >> b` of integers, arithmetic.
        Shr "shr",
        /// The smaller.
        Min "min",
        /// The larger.
        Max "max",
        /// `-a`.
        Neg "neg",
        /// `~a` of an integer.
        BitNot "bitnot",
        /// `not a` of a truth value.
        Not "not",
        /// Both truth values.
        And "and",
        /// Either truth value.
        Or "or",
        /// `a == b`, any one type; the result is a truth value.
        Eq "eq",
        /// `a != b`.
        Ne "ne",
        /// `a < b` of numbers.
        Lt "lt",
        /// `a <= b` of numbers.
        Le "le",
        /// `a > b` of numbers.
        Gt "gt",
        /// `a >= b` of numbers.
        Ge "ge",
        /// Integer or truth value to float.
        ToFloat "to_float",
        /// Float (toward zero, saturating) or truth value to integer.
        ToInt "to_int",
        /// Number to truth value: not equal to zero.
        ToBool "to_bool",
        /// Integer narrowed to 8 bits, sign-extended.
        WrapI8 "wrap_i8",
        /// Integer narrowed to 16 bits, sign-extended.
        WrapI16 "wrap_i16",
        /// Integer narrowed to 32 bits, sign-extended.
        WrapI32 "wrap_i32",
        /// Integer narrowed to 8 bits, zero-extended.
        WrapU8 "wrap_u8",
        /// Integer narrowed to 16 bits, zero-extended.
        WrapU16 "wrap_u16",
        /// Integer narrowed to 32 bits, zero-extended.
        WrapU32 "wrap_u32",
        /// Float rounded to binary16 and back.
        RoundF16 "round_f16",
        /// Float rounded to bfloat16 and back.
        RoundBF16 "round_bf16",
        /// Index of the block in its task; no arguments.
        BlockIdx "block_idx",
        /// Number of blocks of the task; no arguments.
        BlockNum "block_num",
    }
}

named_enum! {
    /// An operation on tiles. `R x C` is the region. A tile argument "broadcasts" when its slot has one column (its value
    /// stands for the whole row) or one row (for the whole column).
    OpCode {
        /// `load(tensor, offset..., extent...)`: reads the box; leading axes merge into rows. `extent` is the valid box.
        Load "load",
        /// `store(tile, tensor, offset..., extent...)`: writes the region into the box. A binary32 tile may be stored to
        /// a 16-bit float tensor; it is rounded to nearest even.
        Store "store",
        /// `move(tile)`: a copy, same element type.
        Move "move",
        /// `fill(scalar)`: every element. The scalar is converted to the element type.
        Fill "fill",
        /// `undef()`: the result has no defined value (`create_tile`).
        Undef "undef",
        /// `cast(tile)`: to the element type of the result.
        Cast "cast",
        /// `add(tile, tile or scalar)`; integers wrap. The second tile may broadcast.
        Add "add",
        /// `sub(a, b)`, arguments as `add`.
        Sub "sub",
        /// `mul(a, b)`, arguments as `add`.
        Mul "mul",
        /// `div(a, b)`, arguments as `add`; integers truncate, division by zero yields 0.
        Div "div",
        /// `maximum(a, b)`, arguments as `add`. NaN if either is NaN.
        Maximum "maximum",
        /// `minimum(a, b)`, arguments as `add`. NaN if either is NaN.
        Minimum "minimum",
        /// `exp(tile)` of floats.
        Exp "exp",
        /// `recip(tile)`: `1 / x` of floats.
        Recip "recip",
        /// `relu(tile)`: `max(x, 0)`.
        Relu "relu",
        /// `neg(tile)`.
        Neg "neg",
        /// `abs(tile)`.
        Abs "abs",
        /// `sqrt(tile)` of floats, correctly rounded.
        Sqrt "sqrt",
        /// `row_sum(tile, cols)`: `R x cols` to `R x 1`; the region is `R x 1`. Floats accumulate in binary32 in the order
        /// that `kernels` documents.
        RowSum "row_sum",
        /// `row_max(tile, cols)`: `R x cols` to `R x 1`; no columns yield the lowest value. NaN if any is NaN.
        RowMax "row_max",
        /// `row_min(tile, cols)`.
        RowMin "row_min",
        /// `matmul(a, b, k)`: `a` is `R x k`, `b` is `k x C`, same element type; the result is binary32 (INT32 for INT8).
        /// Each element is one sum in ascending `k` of exact products, starting from 0, with one rounding per step.
        MatMul "matmul",
        /// `matmul_acc(acc, a, b, k)`: `acc + matmul(a, b, k)`, one more rounding.
        MatMulAcc "matmul_acc",
    }
}
