"""The matrix of operations: creation, conversions, movement, and other views of the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from interp.movement import philox
from interp.numbers import rounded, saturated, to_int
from operations.case import FLOATS, INTEGERS, Cases, Reference, Sizes, upper

import pypto.language as pl
from pypto.frontend.rules.convert import NATIVE, chain

_case = Cases()
CASES = _case.all


def converted(values: np.ndarray, have: str, want: str, mode: str) -> np.ndarray:
    """Hop by hop along the chain of conversions, every hop in the mode."""
    steps = chain(getattr(pl, have), getattr(pl, want))
    assert steps is not None
    current = getattr(pl, have)
    for step in steps:
        with np.errstate(all="ignore"):
            if current.is_float and step.is_integer:
                values = saturated(to_int(values, mode), step)
            else:
                values = rounded(values, step)
        current = step
    return values


for _have in (dtype.name for dtype in NATIVE):
    for _want in (dtype.name for dtype in NATIVE if dtype.name != _have):
        _case(
            "cast",
            f"pl.cast({{0}}, pl.{_want}, mode='rint')",
            lambda a, have=_have, want=_want: converted(a, have, want, "rint"),
            dtypes=(_have,),
            result=_want,
        )

# Creation: the box is static, and all of it is valid.
_FULL: dict[str, Any] = {"operands": (), "out": "full", "boxed": True, "whole_box": True}
_case("full", "pl.full([{R}, {C}], pl.{dtype}, 3)", lambda s: np.full((s.box_rows, s.box_cols), 3), **_FULL)
for _word, _step in (("False", 1), ("True", -1)):
    _case(
        "arange",
        f"pl.arange(200, [1, {{C}}], dtype=pl.{{dtype}}, descending={_word})",
        lambda s, step=_step: 200 + step * np.arange(s.box_cols)[None],
        **{**_FULL, "out": "row", "dtypes": ("INT16", "INT32", "INT64", "UINT16", "UINT32")},
    )
for _upper in (False, True):
    _case(
        "tri",
        f"pl.tri(1, [{{R}}, {{C}}], dtype=pl.{{dtype}}, upper={_upper})",
        lambda s, up=_upper: np.triu(_ones(s), 1) if up else np.tril(_ones(s), 1),
        **{**_FULL, "dtypes": ("FP32", "FP16", "BF16", "INT16", "INT32", "UINT16", "UINT32")},
    )


def _ones(sizes: Sizes) -> np.ndarray:
    return np.ones((sizes.box_rows, sizes.box_cols))


def _random(sizes: Sizes) -> np.ndarray:
    count = sizes.box_rows * sizes.box_cols
    words = [word for block in range(-(-count // 4)) for word in philox([1, 2], [3 + block, 4, 5, 6], 10)]
    return np.array(words[:count], np.int64).reshape(sizes.box_rows, sizes.box_cols)


_case("random", "pl.random(1, 2, 3, 4, 5, 6, [{R}, {C}])", _random, **{**_FULL, "dtypes": ("UINT32",)})


# Movement.
def _same(a: np.ndarray) -> np.ndarray:
    return a


_case("load", "{0}", _same)
_case("store", "{0}", _same, dtypes=("FP32",), result="FP16")
_case("store", "{0}", _same, dtypes=("FP32",), result="BF16")
_case("move", "pl.move({0}, pl.MemorySpace.Mat)", _same)
_case(
    "gather_row",
    "line = pl.create_tile([{R}, {C}], pl.{dtype})\n"
    "pl.set_validshape(pl.gather_row(line, {x0}, [0, 0], [0, 0], [{r}, {c}]), {r}, {c})",
    _same,
)
_case(
    "extract",
    "pl.tile.extract({0}, {r} // 2, {c} // 2, [{R} - {r} // 2, {C} - {c} // 2], target_memory=pl.Mem.Vec)",
    lambda a: a[a.shape[0] // 2 :, a.shape[1] // 2 :],
    out="rest",
)
_case(
    "slice",
    "pl.slice({0}, [{R} - {r} // 2, {C} - {c} // 2], [{r} // 2, {c} // 2])",
    lambda a: a[a.shape[0] // 2 :, a.shape[1] // 2 :],
    out="rest",
)


def _put(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = a.copy()
    out[a.shape[0] - b.shape[0] :, a.shape[1] - b.shape[1] :] = b
    return out


_case("assemble", "pl.assemble({0}, {1}, [{r} // 2, {c} // 2])", _put, ("full", "rest"))
_case("concat", "pl.concat({0}, {1})", lambda a, b: np.concatenate([a, b], 1), ("full", "full"), out="twice")
_case("transpose", "pl.transpose({0}, 0, 1)", np.transpose, out="turned")
_case("transpose_view", "pl.tile.transpose_view({0})", np.transpose, out="turned")
_case("reinterpret_view", "pl.reinterpret_view(pl.reinterpret_view({0}, pl.UINT8), pl.{dtype})", _same)
_case(
    "set_validshape",
    "pl.set_validshape({0}, ({r} + 1) // 2, ({c} + 1) // 2)",
    lambda a: a[: upper(a.shape[0]), : upper(a.shape[1])],
    out="half",
)


def _padded(shape: tuple[int, int], a: np.ndarray, value: float) -> np.ndarray:
    out = np.full(shape, value, a.dtype)
    out[: a.shape[0], : a.shape[1]] = a
    return out


_BOX: dict[str, Any] = {"boxed": True, "whole_box": True}
_case(
    "reshape",
    "pl.reshape(pl.fillpad({0}), [{C}, {R}])",
    lambda s, a: _padded(s.box("full"), a, 0).reshape(s.box("turned")),
    out="turned",
    **_BOX,
)
for _spelling in ("pl.fillpad", "pl.tile.fillpad_inplace"):
    _case(
        _spelling.rpartition(".")[2],
        f"{_spelling}({{0}}, pl.PadValue.zero)",
        lambda s, a: _padded(s.box("full"), a, 0),
        **_BOX,
    )
for _pad, _limit in (("max", np.inf), ("min", -np.inf)):
    _case(
        "fillpad",
        f"pl.fillpad({{0}}, pad_value=pl.PadValue.{_pad})",
        lambda s, a, v=_limit: _padded(s.box("full"), a, v),
        dtypes=FLOATS,
        **_BOX,
    )
    for _dtype in INTEGERS:
        _value = getattr(np.iinfo(_dtype.lower()), _pad)
        _case(
            "fillpad",
            f"pl.fillpad({{0}}, pad_value=pl.PadValue.{_pad})",
            lambda s, a, v=_value: _padded(s.box("full"), a, v),
            dtypes=(_dtype,),
            **_BOX,
        )
_case(
    "fillpad_expand",
    "pl.fillpad_expand({0}, [{R} + 3, {C} + 9])",
    lambda s, a: _padded(s.box("larger"), a, 0),
    out="larger",
    **_BOX,
)


for _name, _combine in (("add", np.add), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)):

    def _combined(a: np.ndarray, b: np.ndarray, combine: Reference = _combine) -> np.ndarray:
        out, both = a.copy(), (slice(upper(a.shape[0])), slice(upper(a.shape[1])))
        out[both] = combine(a[both], b[both])
        return out

    _short = "pl.set_validshape({1}, ({r} + 1) // 2, ({c} + 1) // 2)"
    _case(f"part_{_name}", f"pl.part_{_name}({{0}}, {_short})", _combined, ("full", "full"))
