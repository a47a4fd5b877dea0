"""Random kernels mean what Python means by the same text.

The text of a kernel is also a Python program over numpy arrays, once `pl` is a module of numpy functions: that is the
reference. Each program is tried twice: as one kernel, and as orchestration code in which every operation on tiles has a
scope of its own, so that values cross scopes everywhere.
"""

from types import SimpleNamespace

import numpy as np
from checking import run
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import SCALARS, TILES, blocks, kernel_of, render, scalar, small, tile

on_tiles = st.one_of(
    st.builds("{} = pl.{}({}, {})".format, tile, st.sampled_from(["add", "sub", "maximum", "minimum"]), tile, tile),
    st.builds("{} = pl.{}({})".format, tile, st.sampled_from(["neg", "abs", "relu"]), tile),
    st.builds("{} = pl.mul({}, {})".format, tile, tile, st.sampled_from(["0.5", "-1.0", "2.0"])),
    st.builds("{} = pl.add({}, pl.cast({}, pl.FP32))".format, tile, tile, scalar),
)
extremum = st.sampled_from(["max", "min"])
part = st.builds("pl.slice({}, [2, 4], [{}, {}])".format, tile, st.integers(0, 2), st.integers(0, 4))
narrowed = st.builds(
    "pl.set_validshape({}, {}, pl.min({}, 8))".format, tile, st.integers(0, 4), st.sampled_from(["n0", "n1", "5"])
)
on_parts = st.one_of(
    st.builds("{} = pl.transpose(pl.reshape({}, [8, 4]), 0, 1)".format, tile, tile),
    st.builds("{0} = pl.row_expand_sub({1}, pl.row_{2}({3}, {3}))".format, tile, tile, extremum, tile),
    st.builds("{0} = pl.col_expand_sub({1}, pl.col_{2}({3}))".format, tile, tile, extremum, tile),
    st.builds("{} = pl.assemble({}, {}, [{}, {}])".format, tile, tile, part, st.integers(0, 2), st.integers(0, 4)),
    st.builds("{} = pl.assemble({}, {}, [{} % 3, 2])".format, tile, tile, part, scalar),
    st.builds("{} = pl.concat(pl.slice({}, [4, 4], [0, 4]), pl.slice({}, [4, 4], [0, 0]))".format, tile, tile, tile),
    st.builds("{} = pl.concat(pl.tile.gather_mask({}, 1), pl.tile.gather_mask({}, 2))".format, tile, tile, tile),
    st.builds("{0} = pl.sel(pl.tile.cmp({1}, {2}, cmp_type={3}), {2}, {1}, {1})".format, tile, tile, tile, small),
    st.builds("{} = pl.fillpad({}, {})".format, tile, narrowed, st.sampled_from(["0", "pl.PadValue.zero"])),
    st.builds("{} = pl.fillpad(pl.part_add({}, {}))".format, tile, narrowed, tile),
)


def source(body: list, scoped: bool) -> str:
    """The kernel: loads every tile, runs the body, stores every tile and every scalar."""
    head = [f"t{number} = pl.load(x, [{4 * number}, 0], [4, 8])" for number in range(TILES)]
    head += [f"n{number} = {number + 1}" for number in range(SCALARS)]
    tail = [f"out = pl.store(t{number}, [{4 * number}, 0], out)" for number in range(TILES)]
    tail += [f"pl.write(out, [{4 * TILES}, {number}], pl.cast(n{number}, pl.FP32))" for number in range(SCALARS)]
    indent = "    "
    if scoped:
        wrapped = [f"{indent}with pl.at(level=pl.Level.CORE_GROUP):"]
        lines = [*wrapped, *(indent * 2 + line for line in head), *render(body, indent, True)]
        lines += [*wrapped, *(indent * 2 + line for line in tail)]
    else:
        lines = [*(indent + line for line in head), *render(body, indent, False), *(indent + line for line in tail)]
    decorator = "@pl.jit" if scoped else "@pl.jit.incore"
    signature = (
        f"def kernel(x: pl.Tensor[[{4 * TILES}, 8], pl.FP32], out: pl.Out[pl.Tensor[[{4 * TILES + 1}, 8], pl.FP32]]):"
    )
    return "\n".join(["import pypto.language as pl", "", decorator, signature, *lines, "    return out", ""])


class Narrowed:
    """A value of which a part is valid."""

    def __init__(self, value, rows, cols):
        self.value, self.rows, self.cols = value, rows, cols


class NumpyLanguage(SimpleNamespace):
    """The operations that random kernels use, on numpy arrays."""

    FP32 = np.float32
    PadValue = SimpleNamespace(zero=0)
    range, min = range, min
    add, sub, maximum, minimum = np.add, np.subtract, np.maximum, np.minimum
    neg, abs = np.negative, np.abs
    row_expand_sub = col_expand_sub = np.subtract
    set_validshape = Narrowed

    def __init__(self):
        super().__init__(tile=self)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def transpose(self, x, a, b):
        return x.swapaxes(a, b).copy()

    def row_max(self, x, scratch):
        return x.max(1, keepdims=True)

    def row_min(self, x, scratch):
        return x.min(1, keepdims=True)

    def col_max(self, x):
        return x.max(0, keepdims=True)

    def col_min(self, x):
        return x.min(0, keepdims=True)

    def slice(self, x, shape, at):
        return x[at[0] : at[0] + shape[0], at[1] : at[1] + shape[1]].copy()

    def assemble(self, x, part, at):
        x = x.copy()
        x[at[0] : at[0] + part.shape[0], at[1] : at[1] + part.shape[1]] = part
        return x

    def concat(self, a, b):
        return np.concatenate([a, b], 1)

    def gather_mask(self, x, pattern):
        return x[:, pattern - 1 :: 2].copy()

    def cmp(self, a, b, cmp_type):
        return (np.equal, np.not_equal, np.less, np.less_equal)[cmp_type](a, b)

    def sel(self, mask, a, b, tmp):
        return np.where(mask, a, b)

    def fillpad(self, x, pad=0):
        filled = np.zeros_like(x.value)
        filled[: x.rows, : x.cols] = x.value[: x.rows, : x.cols]
        return filled

    def part_add(self, a, b):
        only = np.ones(b.shape, bool)
        only[: a.rows, : a.cols] = False
        return Narrowed(np.where(only, b, a.value + b), *b.shape)

    def relu(self, x):
        return np.maximum(x, np.float32(0))

    def mul(self, x, factor):
        return x * np.float32(factor)

    def cast(self, value, dtype):
        return dtype(value)

    def load(self, x, offsets, shape):
        return x[offsets[0] : offsets[0] + shape[0], : shape[1]].copy()

    def store(self, value, offsets, out):
        out[offsets[0] : offsets[0] + value.shape[0], : value.shape[1]] = value
        return out

    def write(self, out, at, value):
        out[tuple(at)] = value


def reference(text: str, x: np.ndarray, out: np.ndarray) -> None:
    """Runs the text of an unscoped kernel as Python."""
    body = text.split("]):\n", 1)[1]
    scope = {"pl": NumpyLanguage(), "np": np}
    exec("def kernel(x, out):\n" + body, scope)
    with np.errstate(all="ignore"):
        scope["kernel"](x, out)


@settings(max_examples=60, deadline=None)
@given(blocks(3, False, st.one_of(on_tiles, on_parts)))
def test_random_programs_mean_what_python_means(tmp_path_factory, body: list) -> None:
    x = np.random.default_rng(1).integers(-8, 8, (4 * TILES, 8)).astype(np.float32)
    expected = np.full((4 * TILES + 1, 8), np.nan, np.float32)
    plain = source(body, scoped=False)
    reference(plain, x.copy(), expected)
    directory = tmp_path_factory.mktemp("random")
    for scoped in (False, True):
        kernel = kernel_of(source(body, scoped), directory / f"kernel_{scoped}.py")
        _, out = run(kernel, x, np.full_like(expected, np.nan), device=True)
        np.testing.assert_array_equal(out, expected)
