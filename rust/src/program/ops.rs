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
        /// `a // b` of integers without sign; a zero divisor yields 0. Narrower unsigned integers need none of these: in 64
        /// bits they are positive.
        FloorDivU64 "floordiv_u64",
        /// `a % b` of integers without sign; a zero divisor yields 0.
        ModU64 "mod_u64",
        /// `a >> b` of an integer without sign: zeros come in.
        ShrU64 "shr_u64",
        /// The smaller of integers without sign.
        MinU64 "min_u64",
        /// The larger of integers without sign.
        MaxU64 "max_u64",
        /// `a < b` of integers without sign.
        LtU64 "lt_u64",
        /// `a <= b` of integers without sign.
        LeU64 "le_u64",
        /// `a > b` of integers without sign.
        GtU64 "gt_u64",
        /// `a >= b` of integers without sign.
        GeU64 "ge_u64",
        /// Integer without sign to float.
        U64ToFloat "u64_to_float",
        /// Float to integer without sign, toward zero, saturating.
        ToU64 "to_u64",
    }
}

named_enum! {
    /// An operation on tiles. `R x C` is the region. A tile argument "broadcasts" when its slot has one column (its value
    /// stands for the whole row) or one row (for the whole column).
    ///
    /// Arithmetic on floats is done in binary32 with one rounding to the element type per operation; integers wrap at the
    /// width of their type, and unsigned types compare and divide as such. Truth values are 0 or 1.
    OpCode {
        /// `load(tensor, offset..., extent...)`: reads the box; leading axes merge into rows. `extent` is the valid box.
        Load "load",
        /// `store(tile, tensor, offset..., extent...)`: writes the region into the box. A binary32 tile may be stored to
        /// a 16-bit float tensor; it is rounded to nearest even.
        Store "store",
        /// `store_add(tile, tensor, offset..., extent...)`: adds the region to the box. Elements are converted to the
        /// tensor's type as by `store` and added there with one rounding; blocks of a launch add in ascending order.
        StoreAdd "store_add",
        /// `move(tile)`: a copy, same element type.
        Move "move",
        /// `fill(scalar)`: every element. The scalar is converted to the element type.
        Fill "fill",
        /// `undef()`: the result has no defined value (`create_tile`).
        Undef "undef",
        /// `iota(start, step)`: `start + step * column` as a wrapping 64-bit integer, converted to the element type.
        Iota "iota",
        /// `tri(diagonal, upper)`: 1 where `column <= row + diagonal` (`upper`: `>=`), else 0.
        Tri "tri",
        /// `random(key0, key1, c0, c1, c2, c3, rounds)`: Philox4x32 with 1 to 32 `rounds`, a constant. Element `i` (row-major
        /// in the region) is word `i % 4` of the block whose 128-bit counter is `c + i / 4`, `c0` the low word. UINT32.
        Random "random",
        /// `cast(tile)`: to the element type of the result. Floats to integers round by the mode and saturate at the limits
        /// of the type, NaN gives 0. Integers to floats round to nearest even, by way of binary32; integers to integers
        /// wrap; anything to BOOL is `!= 0`.
        Cast "cast",
        /// `expand(tile)`: the tile, which broadcasts, over the region.
        Expand "expand",
        /// `add(tile, tile or scalar)`; integers wrap. The second tile may broadcast.
        Add "add",
        /// `sub(a, b)`, arguments as `add`.
        Sub "sub",
        /// `mul(a, b)`, arguments as `add`.
        Mul "mul",
        /// `div(a, b)`, arguments as `add`; integers truncate, division by zero yields 0.
        Div "div",
        /// `fmod(a, b)`, arguments as `add`: `a - b * trunc(a / b)`, the sign of `a`; integers yield 0 where `b` is 0.
        Fmod "fmod",
        /// `rem(a, b)`, arguments as `add`: `a - b * floor(a / b)`, the sign of `b`; integers yield 0 where `b` is 0.
        Rem "rem",
        /// `maximum(a, b)`, arguments as `add`. NaN if either is NaN.
        Maximum "maximum",
        /// `minimum(a, b)`, arguments as `add`. NaN if either is NaN.
        Minimum "minimum",
        /// `bit_and(a, b)` of integers or truth values, arguments as `add`.
        BitAnd "bit_and",
        /// `bit_or(a, b)`, as `bit_and`.
        BitOr "bit_or",
        /// `bit_xor(a, b)`, as `bit_and`.
        BitXor "bit_xor",
        /// `shl(a, b)` of integers, arguments as `add`. A count that is negative or not below the width gives 0.
        Shl "shl",
        /// `shr(a, b)` of integers, arguments as `add`: arithmetic for signed types. A count that is negative or not below
        /// the width gives 0, or -1 for a negative number.
        Shr "shr",
        /// `cmp_eq(a, b)`: 1 or 0 in the result, whose element type is any; `a` and `b` have one type, arguments as `add`.
        CmpEq "cmp_eq",
        /// `cmp_ne(a, b)`, as `cmp_eq`; true where either is NaN.
        CmpNe "cmp_ne",
        /// `cmp_lt(a, b)`, as `cmp_eq`; false where either is NaN.
        CmpLt "cmp_lt",
        /// `cmp_le(a, b)`, as `cmp_lt`.
        CmpLe "cmp_le",
        /// `cmp_gt(a, b)`, as `cmp_lt`.
        CmpGt "cmp_gt",
        /// `cmp_ge(a, b)`, as `cmp_lt`.
        CmpGe "cmp_ge",
        /// `select(mask, a, b)`: `a` where the mask (any element type) is not 0, else `b`. `a` and `b` are tiles that may
        /// broadcast, or scalars.
        Select "select",
        /// `exp(tile)` of floats, at most 2 ULP.
        Exp "exp",
        /// `log(tile)` of floats, natural, at most 2 ULP.
        Log "log",
        /// `recip(tile)`: `1 / x` of floats.
        Recip "recip",
        /// `sqrt(tile)` of floats, correctly rounded.
        Sqrt "sqrt",
        /// `rsqrt(tile)`: `1 / sqrt(x)` of floats, at most 2 ULP.
        Rsqrt "rsqrt",
        /// `sin(tile)` of floats, at most 2 ULP for every argument.
        Sin "sin",
        /// `cos(tile)` of floats, at most 2 ULP for every argument.
        Cos "cos",
        /// `relu(tile)`: `max(x, 0)`.
        Relu "relu",
        /// `neg(tile)`.
        Neg "neg",
        /// `abs(tile)`.
        Abs "abs",
        /// `bit_not(tile)` of integers.
        BitNot "bit_not",
        /// `row_sum(tile, cols)`: `R x cols` to `R x 1`; the region is `R x 1`. Floats accumulate in binary32 in the order
        /// that `kernels` documents, and are rounded once.
        RowSum "row_sum",
        /// `row_max(tile, cols)`: `R x cols` to `R x 1`; no columns yield the lowest value. NaN if any is NaN.
        RowMax "row_max",
        /// `row_min(tile, cols)`.
        RowMin "row_min",
        /// `row_prod(tile, cols)`: as `row_sum`; no columns yield 1.
        RowProd "row_prod",
        /// `col_sum(tile, rows)`: `rows x C` to `1 x C`; the region is `1 x C`. Floats accumulate in binary32 in ascending
        /// rows, starting from the first, and are rounded once; no rows yield 0.
        ColSum "col_sum",
        /// `col_max(tile, rows)`: no rows yield the lowest value. NaN if any is NaN.
        ColMax "col_max",
        /// `col_min(tile, rows)`: no rows yield the highest value.
        ColMin "col_min",
        /// `col_prod(tile, rows)`: as `col_sum`; no rows yield 1.
        ColProd "col_prod",
        /// `row_argmax(tile, cols)`: `R x cols` to `R x 1` INT32, the first place of the largest; the first NaN wins; 0 for
        /// no columns.
        RowArgmax "row_argmax",
        /// `row_argmin(tile, cols)`.
        RowArgmin "row_argmin",
        /// `col_argmax(tile, rows)`: `rows x C` to `1 x C` INT32.
        ColArgmax "col_argmax",
        /// `col_argmin(tile, rows)`.
        ColArgmin "col_argmin",
        /// `extract(tile, row, col)`: `out[r, c] = tile[row + r, col + c]`, 0 outside the tile's slot.
        Extract "extract",
        /// `insert(target, src, row, col, rows, cols)`: `target` with `src[0:rows, 0:cols]` at `[row, col]`. What lies
        /// outside the slot of the result is dropped.
        Insert "insert",
        /// `transpose(tile)`: `out[r, c] = tile[c, r]`.
        Transpose "transpose",
        /// `reinterpret(tile)`: the bytes of the tile's slot, row-major, as those of the result's, which has as many.
        Reinterpret "reinterpret",
        /// `fillpad(tile, rows, cols, value)`: `tile[r, c]` where `r < rows` and `c < cols`, else `value`. `rows` and
        /// `cols` count only as far as the tile has them.
        FillPad "fillpad",
        /// `part_add(a, b, a_rows, a_cols, b_rows, b_cols)`: the sum where both are valid, the one that is where one is,
        /// else 0. Validity counts only as far as the tile has room.
        PartAdd "part_add",
        /// `part_mul(...)`, as `part_add`.
        PartMul "part_mul",
        /// `part_max(...)`, as `part_add`.
        PartMax "part_max",
        /// `part_min(...)`, as `part_add`.
        PartMin "part_min",
        /// `gather_cols(x, index, x_cols)`: `out[r, c] = x[r, index[r, c]]`. Here and below an index is INT32 or UINT32, and
        /// one outside reads 0 or writes nothing.
        GatherCols "gather_cols",
        /// `gather_flat(x, index, x_cols)`: `out[r, c] = x[i / x_cols, i % x_cols]` with `i = index[r, c]`.
        GatherFlat "gather_flat",
        /// `gather_stride(x, start, stride)`: `out[r, c] = x[r, start + c * stride]`.
        GatherStride "gather_stride",
        /// `gather_bytes(x, offsets)`: the `k`-th 32 bytes of a row of the result are the 32 bytes at `offsets[r, k]` in
        /// the slot of `x`.
        GatherBytes "gather_bytes",
        /// `gather_cmp_index(x, k, cmp, offset, cols)`: for each row the places `offset + c`, `c < cols`, where `x[r, c]`
        /// compares true with the scalar `k`, ascending, then zeros. `cmp`: 0 eq, 1 ne, 2 lt, 3 le, 4 gt, 5 ge.
        GatherCmpIndex "gather_cmp_index",
        /// `gather_cmp_count(x, k, cmp, offset, cols)`: `R x 1`, how many places there are. `offset` is ignored.
        GatherCmpCount "gather_cmp_count",
        /// `gather_tensor(tensor, index)`: `out[r, c]` is element `index[r, c]` of the tensor, counted row-major.
        GatherTensor "gather_tensor",
        /// `scatter_cols(dst, index, src, rows, cols)`: `dst` with `out[r, index[r, c]] = src[r, c]` for `r < rows`,
        /// `c < cols`, in ascending order.
        ScatterCols "scatter_cols",
        /// `scatter_flat(dst, src, index, rows, cols)`: `dst` with the element `index[r, c]` of its slot, counted
        /// row-major, set to `src[r, c]`.
        ScatterFlat "scatter_flat",
        /// `scatter_stride(dst, src, start, stride, rows, cols)`: `dst` with `out[r, start + c * stride] = src[r, c]`.
        ScatterStride "scatter_stride",
        /// `scatter_rows(dst, index, src, rows, cols)`: `dst` with `out[i, 0:cols] = src[k, 0:cols]` for `k < rows`, where
        /// `i` is element `k` of the slot of `index`, counted row-major.
        ScatterRows "scatter_rows",
        /// `scatter_tensor(tile, index, tensor, mode)`: sets (`mode` 0) element `index[r, c]` of the tensor, counted
        /// row-major, to the element of the tile, or adds to it (1), in ascending order. No result.
        ScatterTensor "scatter_tensor",
        /// `sort32(x, index, cols)`: each 32 columns of `x` (FP32 or FP16) in descending order with their indices; equal
        /// elements by ascending index. The result has two columns per element, value and index bits (FP16: four, value,
        /// 0, low and high half of the index). NaN counts as smaller than all numbers.
        Sort32 "sort32",
        /// `merge_sort(x, block_len, cols)`: merges each four sorted runs of `block_len` columns of `sort32`'s form in one
        /// row; an incomplete last group stays. Equal elements keep the order of their runs.
        MergeSort "merge_sort",
        /// `merge_lists(a, b[, c[, d]], a_cols, b_cols[, ...])`: merges two to four sorted rows of `sort32`'s form.
        MergeLists "merge_lists",
        /// `matmul(a, b, k)`: `a` is `R x k`, `b` is `k x C`, same element type; the result is binary32 (INT32 for INT8).
        /// Each element is one sum in ascending `k` of exact products, starting from 0, with one rounding per step.
        MatMul "matmul",
        /// `matmul_acc(acc, a, b, k)`: `acc + matmul(a, b, k)`, one more rounding.
        MatMulAcc "matmul_acc",
    }
}
