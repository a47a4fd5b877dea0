"""Random chains of operations over values of mixed dtypes give, bit for bit, what each step rounded by itself gives.

Fusing, conversions on the way, unsigned and narrow integers, partly valid rows and every instruction set come together
here; every operation that is drawn has one right result.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interp.numbers import NUMPY, rounded
from operations.case import FLOATS, INTEGERS, NUMBERS
from operations.cases import COMPARISONS
from operations.cases_movement import converted
from operations.harness import compare, from_torch, kernel_of, launch, to_torch
from operations.test_matrix import AVAILABLE

import pypto.language as pl
from pypto.frontend.rules.convert import NATIVE

BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
EXPANDING = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
OF_NUMBERS = {"neg": np.negative, "abs": np.abs, "relu": lambda x: np.where(x < 0, 0, x)}
OF_FLOATS = {"sqrt": np.sqrt, "recip": lambda x: 1 / x}
OF_HALVES = {"exp": np.exp, "sin": np.sin, "cos": np.cos}
CONVERTED = tuple(dtype.name for dtype in NATIVE)
MODES = ("none", "rint", "round", "floor", "ceil", "trunc")


class Value(NamedTuple):
    """A tile: its name, its dtype, and its elements as the dtype has them."""

    name: str
    dtype: str
    array: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        return self.array.astype(np.float64 if self.dtype in FLOATS else np.int64)


def step(draw: Any, values: list[Value]) -> tuple[str, str, np.ndarray]:
    """One more operation: its text, the dtype of the result, and the exact result of this step."""
    x = draw(st.sampled_from(values[-4:]))
    y = draw(st.sampled_from([value for value in values if value.dtype == x.dtype]))
    a, b = x.exact, y.exact
    kind = draw(st.sampled_from(["two", "scalar", "one", "cast", "compare", "select", "row", "col"]))
    if kind == "two":
        name = draw(st.sampled_from(list(BINARY)))
        return f"pl.{name}({x.name}, {y.name})", x.dtype, BINARY[name](a, b)
    if kind == "scalar":
        name = draw(st.sampled_from(list(BINARY)))
        number = draw(st.sampled_from([2, 0.5, -1.25] if x.dtype in FLOATS else [2, 3, 7]))
        return f"pl.{name}({x.name}, {number})", x.dtype, BINARY[name](a, a.dtype.type(number))
    if kind == "one":
        functions = OF_NUMBERS | (OF_FLOATS if x.dtype in FLOATS else {"not_": np.invert})
        if x.dtype in ("FP16", "BF16"):
            functions |= OF_HALVES
        name = draw(st.sampled_from(list(functions)))
        return f"pl.{name}({x.name})", x.dtype, functions[name](a)
    if kind == "cast" and x.dtype in CONVERTED:
        dtype, mode = draw(st.sampled_from(CONVERTED)), draw(st.sampled_from(MODES))
        return f"pl.cast({x.name}, pl.{dtype}, mode={mode!r})", dtype, converted(x.array, x.dtype, dtype, mode)
    if kind in ("row", "col"):
        name, pick = draw(st.sampled_from(list(EXPANDING))), draw(st.sampled_from(["max", "min"]))
        narrow = getattr(a, pick)(1 if kind == "row" else 0, keepdims=True)
        scratch = f", {x.name}" if kind == "row" else ""
        text = f"pl.{kind}_expand_{name}({x.name}, pl.{kind}_{pick}({x.name}{scratch}))"
        return text, x.dtype, EXPANDING[name](a, narrow)
    number = draw(st.integers(0, 5))
    holds = COMPARISONS[number](a, b)
    if kind == "select":
        text = f"pl.sel(pl.tile.cmp({x.name}, {y.name}, cmp_type={number}), {x.name}, {y.name}, {x.name})"
        return text, x.dtype, np.where(holds, a, b)
    return f"pl.tensor.cmp({x.name}, {y.name}, cmp_type={number})", x.dtype, holds.astype(a.dtype)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_chains_of_mixed_dtypes_round_each_step(tmp_path_factory, monkeypatch, data) -> None:
    draw = data.draw
    rows, cols = draw(st.sampled_from([1, 3, 8, 17])), draw(st.sampled_from([1, 7, 16, 33, 64, 129]))
    more = draw(st.sampled_from([0, 5]))
    monkeypatch.setenv("PYPTO_ISA", draw(st.sampled_from(AVAILABLE)))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    values, params, lines = [], [], []
    for number, dtype in enumerate(draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3))):
        if dtype in INTEGERS:
            array = random.integers(0, 100, (rows, cols)).astype(NUMPY[dtype])
        else:
            array = rounded(random.standard_normal((rows, cols)) * 3, getattr(pl, dtype))
        values.append(Value(f"t{number}", dtype, array))
        params.append(f"x{number}: pl.Tensor[[{rows}, {cols}], pl.{dtype}]")
        box = f"[{rows + more}, {cols + more}], valid_shape=[{rows}, {cols}]"
        lines.append(f"t{number} = pl.load(x{number}, [0, 0], {box})")
    given = len(values)
    for number in itertools.islice(itertools.count(given), draw(st.integers(1, 8))):
        with np.errstate(all="ignore"):
            text, dtype, exact = step(draw, values)
            values.append(Value(f"t{number}", dtype, rounded(exact, getattr(pl, dtype))))
        lines.append(f"t{number} = {text}")
    results = values[given:][-3:]
    for number, value in enumerate(results):
        params.append(f"out{number}: pl.Out[pl.Tensor[[{rows}, {cols}], pl.{value.dtype}]]")
        # The last store wins, also over one that had to wait for a reduction.
        late = f"pl.row_expand_sub({value.name}, pl.row_max({value.name}, {value.name}))"
        lines.append(f"pl.store({late}, [0, 0], out{number})")
        lines.append(f"pl.store({value.name}, [0, 0], out{number})")
    head = ["import pypto.language as pl", "", "@pl.jit.incore", f"def kernel({', '.join(params)}):"]
    text = "\n".join([*head, *(f"    {line}" for line in lines), ""])
    kernel = kernel_of(text, tmp_path_factory.mktemp("chains") / "kernel.py")
    outs = [to_torch(np.zeros((rows, cols), NUMPY[value.dtype]), value.dtype) for value in results]
    launch(kernel, *(to_torch(value.array, value.dtype) for value in values[:given]), *outs)
    for value, out in zip(results, outs, strict=True):
        compare(from_torch(out), value.array, value.dtype, 0, f"{value.name}\n{text}")
