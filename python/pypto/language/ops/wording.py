"""What the documentation says beside a row: the shapes and dtypes of a rule, and what each parameter is.

Parameters of one name mean the same in all operations, but for `OF_ONE`; so a name is told once.
"""

from __future__ import annotations

from typing import Final

from pypto.language.ops.table import Form, Op

_SAME = "The result has the shape of the operands"
_PROMOTED = (
    "Two dtypes become one: a float beside an integer wins, the wider wins, signed beats unsigned, and FP16 with BF16 "
    "gives FP32."
)
_COLUMNS = "`[M, N]` with `[M, 1]` gives `[M, N]`; both are numbers."
_ROWS = "`[M, N]` with `[1, N]` gives `[M, N]`; both are numbers."
_PRODUCT = (
    "`[M, K]` with `[K, N]` gives `[M, N]`: FP32 of FP32, FP16 or BF16, INT32 of INT8; both operands have one dtype."
)
_INDICES = "Indices are INT32 or UINT32."
_HINT = "Of no effect on this device."

SHAPES: Final[dict[str, str]] = {
    "binary": f"{_SAME}, which are numbers of equal shapes but for a column, as said. {_PROMOTED}",
    "binary_scalar": "The result has the shape and the dtype of `lhs`, which holds numbers.",
    "unary": "The result has the shape and the dtype of the value, which holds numbers.",
    "unary_float": (
        "The result has the shape and the dtype of the value, FP32, FP16 or BF16. It is within 2 units in the last "
        "place of the exact result, and the same on every instruction set."
    ),
    "leaky": f"{_SAME}. {_PROMOTED}",
    "cast": "The result has the shape of the value. What no chain of conversions leads to is refused, with what is.",
    "partial": f"{_SAME}, which are numbers of equal shapes. {_PROMOTED}",
    "carry": f"{_SAME}, which are numbers of equal shapes. {_PROMOTED}",
    "compare": "Operands are numbers of equal shapes, or a value and a scalar.",
    "select": f"All values have one shape. {_PROMOTED}",
    "bitwise": f"{_SAME}, which are integers of equal shapes, or a value and an integer scalar. {_PROMOTED}",
    "bitwise_scalar": "The result has the shape and the dtype of `lhs`, which holds integers.",
    "bit_not": "The result has the shape and the dtype of the value, which holds integers.",
    "create_tensor": "Extents of device memory may be scalars of run time; those of on-chip values are constants.",
    "create_tile": "Extents are constants.",
    "create_l1": "Extents are constants.",
    "full": "Extents are constants.",
    "arange": "The shape is `[1, N]` of constants, the dtype an integer.",
    "random": "Extents are constants.",
    "tri": "The shape is `[M, N]` of constants.",
    "load": "`shapes` are constants, one for each axis of the tensor; the result is an on-chip value of its dtype.",
    "store": "The tile has the dtype of the tensor, or is FP32 and the tensor FP16 or BF16.",
    "move": "Shape and dtype stay.",
    "extract": "The shape is `[M, N]` of constants; the dtype stays.",
    "slice": "One extent and one offset for each axis; the dtype stays. On-chip values have constant extents.",
    "assemble": "One offset for each axis of the target.",
    "concat": f"`[M, A]` and `[M, B]` give `[M, A + B]`. {_PROMOTED}",
    "reshape": "The number of elements stays, and the dtype.",
    "transpose": "The extents of both axes change places; the dtype stays.",
    "transpose_view": "`[M, N]` gives `[N, M]`.",
    "reinterpret_view": "The number of bytes stays.",
    "view": "The number of elements stays.",
    "set_validshape": "The value is a matrix, `[M, N]`; it keeps shape and dtype.",
    "fillpad": "Shape and dtype stay.",
    "fillpad_expand": "The result has the extents of `shape`, none smaller than before, and the dtype of the value.",
    "read": "The scalar has the dtype of the element.",
    "write": "One index for each axis.",
    "dim": "An INDEX scalar: the number of elements along the axis.",
    "no_dep": "An argument of a task.",
    "dump_tag": _HINT,
    "gather_row": "The dtype of both is the same.",
    "matmul": _PRODUCT,
    "matmul_acc": f"{_PRODUCT} The accumulator has the shape and dtype of the product.",
    "matmul_bias": _PRODUCT,
    "row_reduce": "The dtype stays, but for `argmax` and `argmin`. Only valid columns count.",
    "col_reduce": "The dtype stays, but for `argmax` and `argmin`. Only valid rows count.",
    "row_expand_binary": f"{_COLUMNS} {_PROMOTED}",
    "col_expand_binary": f"{_ROWS} {_PROMOTED}",
    "row_expand": "`[M, N]` of the dtype of `v`.",
    "col_expand": "`[M, N]` of the dtype of `v`.",
    "expands": "Shape and dtype of the target.",
    "expand_clone": "The shape of the target, the dtype of `src`.",
    "gather": f"The result has the shape of `index` and the dtype of the value. {_INDICES}",
    "tile_gather": f"The result has the shape of `indices`. {_INDICES}",
    "gatherb": "Each offset stands for 32 bytes: `[M, N]` offsets give `[M, N * 32 / size]` elements.",
    "gather_mask": "`[M, N]` gives `[M, N / 2]`, `[M, N / 4]` or, of pattern 7, `[M, N]`.",
    "gather_compare": "Counts are INT32 or UINT32.",
    "paged_gather": f"`[max_indices, size]` of the dtype of `src`. {_INDICES}",
    "scatter": f"The result has the shape of the value that is written to. {_INDICES}",
    "tile_scatter": f"The shape of `indexes` is that of `src`. {_INDICES}",
    "scatter_mask": "`dst` has 2 or 4 times as many columns as `src`, or as many for pattern 7.",
    "scatter_update": f"`src` has one row of the width of `input` for each index. {_INDICES}",
    "mscatter": f"The tensor has the dtype of `src`. {_INDICES}",
    "mgather": f"The result has the dtype of `mem`. {_INDICES}",
    "sort32": "FP32 or FP16; `idx` is UINT32 of the shape of `src`.",
    "mrgsort": "The result has as many columns as all lists together.",
    "block_scalar": "An integer scalar.",
    "lane_index": "An integer scalar.",
    "lane_only": "Only inside `pl.split_aiv`.",
    "nothing": _HINT,
    "syncall": "In a kernel that runs as blocks of `pl.spmd`.",
    "task_id": "A TASK_ID scalar, of orchestration code.",
    "clusters": "An integer scalar.",
    "vector_cores": "An integer scalar.",
    "array_create": "The number of elements is constant.",
    "get_element": "A scalar of the dtype of the array.",
    "update_element": "The array.",
    "handle": _HINT,
}
"""By the rule of a row: what goes in and what comes out."""

_SCRATCH = "scratch for the real chip; this device needs none and does not look at it"
_LABEL = "a hint for the real chip; of no effect here"
_FIRST = "the first list of pairs; with `block_len` the row of runs"

PARAMETERS: Final[dict[str, str]] = {
    "a_trans": "whether `lhs` is given as `[K, M]`",
    "acc": "the accumulator that the result is added to",
    "acc_phase": _LABEL,
    "array": "the array",
    "atomic": "`AtomicType.Add` adds to what is there; `AtomicType.None_` replaces it",
    "axis": "number of the axis, from 0; negative ones count from the end",
    "axis1": "one of the axes",
    "axis2": "the other axis",
    "b_trans": "whether `rhs` is given as `[N, K]`",
    "bias": "`[1, N]`",
    "blayout": _LABEL,
    "block_len": "columns of a run, 2 for each element; 64 stand for 32 elements",
    "block_size": "rows of a page; a constant",
    "block_table": "the page of each block of rows, a tensor of INT32",
    "c_matrix_nz": _LABEL,
    "clamp": "whether the valid part is cut where the source ends",
    "cmp_mode": "'eq', 'ne', 'lt', 'le', 'gt' or 'ge', or its number from 0 to 5",
    "cmp_type": "number of the comparison, 0 to 5",
    "coalesce": "'row': one number for each row of the result; 'elem': one for each element",
    "col_off": "first column of `src`",
    "col_vec": "`[1, N]`",
    "core_type": _LABEL,
    "count_dtype": "dtype of the counts; INT32 if not given",
    "counter0": "lowest 32 bits of the counter",
    "counter1": "next 32 bits of the counter",
    "counter2": "next 32 bits of the counter",
    "counter3": "highest 32 bits of the counter",
    "ctx": "what `make_context` gave",
    "data": "the value or tensor",
    "deps": "ids of the tasks to wait for",
    "descending": "whether the numbers fall",
    "diagonal": "columns that the diagonal is shifted to the right by",
    "dim": "-1: along the columns",
    "drop_dims": "axes of extent 1 that the result does not have",
    "dst": "what is written to",
    "dst_offset": "row and column of `dst`, in elements",
    "dtype": "dtype of the elements",
    "event": "what `async_prefetch` gave",
    "event_id": "number of the event",
    "exhausted": _LABEL,
    "extent": "number of elements; a constant",
    "ffts_mode": _LABEL,
    "flat_layout": _LABEL,
    "gather_oob": "what an index outside reads",
    "gm_workspace": _SCRATCH,
    "high_precision": "asks the real chip for more digits; this device always gives them",
    "idx": "indices",
    "index": "indices",
    "index_col": "first column, in elements",
    "index_row": "first row, in elements",
    "indexes": "place of each element, counted row by row",
    "indices": "indices",
    "init_cond": "where true, the accumulator counts as 0",
    "init_value": "a number that every element gets; nothing defined if not given",
    "input": "the value",
    "is_b_matrix": _LABEL,
    "is_trans": "whether the axes of the result are swapped",
    "key0": "lower 32 bits of the key",
    "key1": "upper 32 bits of the key",
    "kvalue": "the scalar, or one for each row `[M, 1]`, that elements are compared with",
    "layout": _LABEL,
    "lhs": "left operand",
    "manual_dep": "whether tasks that share the tensor wait for each other only where `deps=` says so",
    "mask": "where the first value is taken",
    "mask_pattern": "number of the pattern, 1 to 7",
    "max_indices": "number of indices, and of rows of the result; a constant",
    "mem": "the tensor that is read, in device memory",
    "memory_space": _LABEL,
    "mode": "'none', 'rint', 'round', 'floor', 'ceil', 'trunc' or 'odd'",
    "offset": "first element along each axis, in elements",
    "offsets": "first element along each axis, in elements",
    "out_cols": "columns of the result; a constant",
    "out_dtype": "checked; the value has the dtype of the accumulator whatever it says",
    "output_dtype": "dtype that the bits are read as",
    "output_tensor": "the tensor that is written, in device memory",
    "pad_value": "`PadValue.zero`, `min` or `max`, or 0, inf, -inf",
    "pinned": _LABEL,
    "pipe": _LABEL,
    "rhs": "right operand",
    "rhs2": "third operand",
    "rounds": "rounds of the generator",
    "row_vec": "`[M, 1]`",
    "scalar": "a number",
    "scratch": _SCRATCH,
    "session_handle": "what `session` gave",
    "shape": "extents, in elements",
    "shapes": "extents of the box, in elements",
    "size": "number of columns of the result; a constant",
    "slayout": _LABEL,
    "slope": "a number, or a value with one for each element",
    "source": "what is put there",
    "space": "memory space of the result; a label",
    "span": "ignored",
    "src": "the value that is read",
    "src0": _FIRST,
    "src1": "the second list",
    "src2": "the third list",
    "src3": "the fourth list",
    "src_offset": "first row and column of `src`, in elements",
    "start": "the first number",
    "target": "what is written to",
    "target_memory": "memory space of the result: `pl.Mem.Vec`, `Mat`, `Left`, `Right`, ...; on this device a label",
    "target_type": "dtype of the result",
    "tensor": "the tensor",
    "tile": "the value",
    "tmp": _SCRATCH,
    "tmp_tile": _SCRATCH,
    "transpose": "whether `[r, c]` is placed as `[c, r]`",
    "upper": "whether the ones are above the diagonal",
    "used_cores": _LABEL,
    "valid_cols": "columns that are valid",
    "valid_rows": "rows that are valid",
    "valid_shape": "extents that are valid, in elements; all of the box if not given",
    "value": "the scalar",
    "workspace": _SCRATCH,
    "x": "the value",
}
"""What a parameter is, by its name."""

_SPREAD = "a value of which only the shape, and for `expands` the dtype, matter"

OF_ONE: Final[dict[tuple[str, str], str]] = {
    ("create_l1", "transpose"): _LABEL,
    ("create_tile", "transpose"): _LABEL,
    ("fillpad", "value"): "the value",
    ("fillpad_expand", "value"): "the value",
    ("part_add", "src0"): "left operand",
    ("part_mul", "src0"): "left operand",
    ("part_max", "src0"): "left operand",
    ("part_min", "src0"): "left operand",
    ("part_add", "src1"): "right operand",
    ("part_mul", "src1"): "right operand",
    ("part_max", "src1"): "right operand",
    ("part_min", "src1"): "right operand",
    ("concat", "src0"): "the value on the left",
    ("concat", "src1"): "the value on the right",
    ("row_expand", "lhs"): _SPREAD,
    ("row_expand", "rhs"): "`v`, `[M, 1]`",
    ("row_expand", "target"): _SPREAD,
    ("col_expand", "lhs"): _SPREAD,
    ("col_expand", "rhs"): "`v`, `[1, N]`",
    ("col_expand", "target"): _SPREAD,
    ("col_expand", "tensor"): _SPREAD,
    ("expands", "target"): _SPREAD,
    ("expand_clone", "target"): _SPREAD,
    ("gather", "offset"): "added to each column that is found",
    ("gather_compare", "offset"): "added to each column that is found",
    ("gatherb", "offset"): "offsets in bytes, INT32 or UINT32",
    ("get_element", "index"): "number of the element",
    ("update_element", "index"): "number of the element",
    ("scatter", "input"): "what is written to; with `mask_pattern` what is spread",
    ("scatter_update", "*args"): "`dim`, `index`, `src`: -2, `[b, s]` row numbers, and the rows",
    ("scatter_update", "**kwargs"): "the same by name",
    ("alloc", "size"): "number of bytes; a constant",
    ("syncall", "mode"): _LABEL,
}
"""Where a name means something else than elsewhere: by operation and parameter."""


def of_parameter(op: Op, name: str) -> str:
    """What a parameter of an operation is."""
    return OF_ONE.get((op.name, name)) or PARAMETERS[name.lstrip("*")]


def docstring(form: Form) -> str:
    """The docstring of the function that stands for a form."""
    op = form.op
    if not op.supported:
        return f"{op.doc}\n\nA kernel that uses it is refused: it {op.refusal}."
    parts = [op.doc, SHAPES[op.rule]]
    if form.params:
        lines = (f"    {param.name}: {_sentence(of_parameter(op, param.name))}" for param in form.params)
        parts.append("Args:\n" + "\n".join(lines))
    parts.append(
        "Raises:\n"
        "    pypto.ir.KernelError: While a kernel is compiled: an operand does not fit.\n"
        "    RuntimeError: It was called as plain Python, outside of a kernel."
    )
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
