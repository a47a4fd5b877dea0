"""Random kernels over partly valid values mean what their text says, whatever paths the values took.

Values have three axes, each partly valid by runtime extents. Boxes begin at runtime offsets and reach over the edge of
what they are taken from. The reference is the text itself, run as Python over arrays that know what of them is valid.
"""

from types import SimpleNamespace

import numpy as np
from checking import run
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import TILES, blocks, kernel_of, render, scalar, tile

SOURCE, BOX = (4, 6, 12), (3, 4, 8)

number = st.one_of(scalar.map("({} % 5)".format), st.integers(0, 4).map(str))
extent = st.one_of(scalar.map("pl.min({}, 3)".format), st.integers(0, 3).map(str))
columns = st.one_of(scalar.map("pl.min({} * 2, 8)".format), st.integers(0, 8).map(str))
offsets = st.builds("[{}, {}, {}]".format, number, number, number)
valid = st.builds("[{}, {}, {}]".format, extent, extent, columns)
pad = st.sampled_from(["pl.PadValue.zero", "pl.PadValue.min", "pl.PadValue.max", "0"])
whole = st.builds("pl.fillpad({}, {})".format, tile, pad)
plane = st.builds("pl.reshape({}, [12, 8])".format, whole)
narrowed = st.builds("pl.set_validshape({}, pl.min({} * 4, 12), {})".format, plane, scalar, columns)
piece = st.builds("pl.slice({}, [2, 3, 4], {}, clamp=True)".format, tile, offsets)
bit = st.one_of(scalar.map("{} % 2".format), st.sampled_from(["0", "1"]))
place = st.builds("[{}, {}, {}]".format, bit, bit, number)

operation = st.one_of(
    st.builds("{} = pl.slice(x, [3, 4, 8], {}, valid_shape={}, clamp=True)".format, tile, offsets, valid),
    st.builds("{} = pl.slice(x, [3, 4, 8], {}, clamp=True)".format, tile, offsets),
    st.builds("{} = pl.slice({}, [3, 4, 8], {}, valid_shape={}, clamp=True)".format, tile, tile, offsets, valid),
    st.builds("{} = pl.slice({}, [3, 4, 8], {}, clamp=True, pad_value={})".format, tile, tile, offsets, pad),
    st.builds("{} = {}".format, tile, whole),
    st.builds("{} = pl.{}({})".format, tile, st.sampled_from(["neg", "abs", "relu"]), tile),
    st.builds("{} = pl.add({}, {})".format, tile, tile, st.sampled_from(["1.0", "-2.0"])),
    st.builds("{} = pl.{}({}, {})".format, tile, st.sampled_from(["add", "maximum"]), whole, whole),
    st.builds("{} = pl.part_{}({}, {})".format, tile, st.sampled_from(["add", "max"]), tile, tile),
    st.builds("{0} = pl.row_expand_sub({1}, pl.row_max({1}))".format, tile, tile),
    st.builds("{} = pl.assemble({}, {}, {})".format, tile, whole, piece, place),
    st.builds("{} = pl.transpose(pl.add(pl.transpose({}, 1, 2), 1.0), 1, 2)".format, tile, tile),
    st.builds("{} = pl.transpose(pl.neg(pl.transpose({}, 0, 1)), 0, 1)".format, tile, tile),
    st.builds("{} = pl.reshape(pl.fillpad({}, {}), [3, 4, 8])".format, tile, narrowed, pad),
    st.builds("{} = pl.reshape(pl.set_validshape({}, 12, 8), [3, 4, 8])".format, tile, narrowed),
    st.builds("{} = pl.reshape(pl.neg(pl.reshape({}, [3, 1, 4, 8])), [3, 4, 8])".format, tile, tile),
)


class Part:
    """An array of which a box at the origin is valid; NaN elsewhere, unless it may be declared valid again."""

    def __init__(self, value: np.ndarray, extents: tuple[int, ...]) -> None:
        self.value, self.valid = value, tuple(extents)

    @property
    def box(self) -> tuple[slice, ...]:
        return tuple(slice(0, part) for part in self.valid)

    def map(self, function) -> "Part":
        result = np.full_like(self.value, np.nan)
        result[self.box] = function(self.value[self.box])
        return Part(result, self.valid)


def part_of(value: np.ndarray | Part) -> Part:
    return value if isinstance(value, Part) else Part(value, value.shape)


class PartialLanguage(SimpleNamespace):
    """The operations that these kernels use."""

    FP32 = np.float32
    PadValue = SimpleNamespace(zero=0.0, min=-np.inf, max=np.inf)
    min = min
    range = range

    def slice(self, x, shape, at, valid_shape=None, clamp=False, pad_value=None):
        x = part_of(x)
        room = (max(0, have - start) for have, start in zip(x.valid, at, strict=True))
        inside = tuple(map(min, shape if valid_shape is None else valid_shape, room))
        result = np.full(shape, np.nan, np.float32)
        box = tuple(slice(start, start + part) for start, part in zip(at, inside, strict=True))
        if 0 not in inside:
            result[tuple(slice(0, part) for part in inside)] = x.value[box]
        part = Part(result, inside)
        return part if pad_value is None else self.fillpad(part, pad_value)

    def fillpad(self, x, pad):
        result = np.full_like(x.value, pad)
        result[x.box] = x.value[x.box]
        return Part(result, result.shape)

    def neg(self, x):
        return x.map(np.negative)

    def abs(self, x):
        return x.map(np.abs)

    def relu(self, x):
        return x.map(lambda value: np.maximum(value, np.float32(0)))

    def add(self, x, y):
        return x.map(lambda value: value + (y.value[x.box] if isinstance(y, Part) else np.float32(y)))

    def maximum(self, x, y):
        return x.map(lambda value: np.maximum(value, y.value[x.box]))

    def part(self, x, y, function):
        extents = tuple(map(max, x.valid, y.valid))
        here = [np.zeros(x.value.shape, bool) for _ in range(2)]
        for mask, part in zip(here, (x, y), strict=True):
            mask[part.box] = True
        only = np.where(here[0], x.value, np.where(here[1], y.value, np.float32(0)))
        result = np.full_like(x.value, np.nan)
        box = tuple(slice(0, part) for part in extents)
        result[box] = np.where(here[0] & here[1], function(x.value, y.value), only)[box]
        return Part(result, extents)

    def part_add(self, x, y):
        return self.part(x, y, np.add)

    def part_max(self, x, y):
        return self.part(x, y, np.maximum)

    def row_max(self, x):
        masked = np.full_like(x.value, -np.inf)
        masked[x.box] = x.value[x.box]
        return Part(masked.max(-1, keepdims=True), (*x.valid[:-1], 1))

    def row_expand_sub(self, x, y):
        return Part(np.where(np.isnan(x.value), np.nan, x.value - y.value).astype(np.float32), x.valid)

    def assemble(self, x, y, at):
        value = x.value.copy()
        for place in np.ndindex(y.valid):
            to = tuple(start + step for start, step in zip(at, place, strict=True))
            if all(index < size for index, size in zip(to, value.shape, strict=True)):
                value[to] = y.value[place]
        return Part(value, x.valid)

    def transpose(self, x, a, b):
        extents = list(x.valid)
        extents[a], extents[b] = extents[b], extents[a]
        return Part(x.value.swapaxes(a, b).copy(), extents)

    def reshape(self, x, shape):
        kept = {(12, 8): shape, (3, 1, 4, 8): (x.valid[0], 1, *x.valid[1:])}.get(tuple(shape))
        if kept is None:  # back to three axes
            kept = shape if len(x.valid) == 2 else (x.valid[0], *x.valid[2:])
        return Part(x.value.reshape(shape), tuple(kept))

    def set_validshape(self, x, rows, cols):
        return Part(x.value, (rows, cols))

    def cast(self, value, dtype):
        return dtype(value)

    def store(self, value, at, out):
        box = tuple(slice(start, start + part) for start, part in zip(at, value.valid, strict=True))
        out[box] = value.value[value.box]
        return out


def source(body: list, scoped: bool) -> str:
    """The kernel: three values, the body over them, and what is valid of each stored."""
    head = [f"t{number} = pl.slice(x, [3, 4, 8], [{number % 2}, {number}, 2 * {number}])" for number in range(TILES)]
    head += ["n0 = n", "n1 = n + 1"]
    tail = [f"out = pl.store(t{number}, [{3 * number}, 0, 0], out)" for number in range(TILES)]
    indent, level = "    ", "with pl.at(level=pl.Level.CORE_GROUP):"
    if scoped:
        lines = [indent + level, *(indent * 2 + line for line in head[:TILES])]
        lines += [*(indent + line for line in head[TILES:]), *render(body, indent, True)]
        lines += [indent + level, *(indent * 2 + line for line in tail)]
    else:
        lines = [*(indent + line for line in head), *render(body, indent, False), *(indent + line for line in tail)]
    decorator = "@pl.jit" if scoped else "@pl.jit.incore"
    signature = (
        f"def kernel(x: pl.Tensor[{list(SOURCE)}, pl.FP32], n: pl.Scalar[pl.INDEX], "
        f"out: pl.Out[pl.Tensor[{[3 * TILES, *BOX[1:]]}, pl.FP32]]):"
    )
    return "\n".join(["import pypto.language as pl", "", decorator, signature, *lines, "    return out", ""])


def reference(text: str, x: np.ndarray, n: int, out: np.ndarray) -> None:
    """Runs the text of an unscoped kernel as Python."""
    scope = {"pl": PartialLanguage()}
    exec("def kernel(x, n, out):\n" + text.split("]):\n", 1)[1], scope)
    with np.errstate(all="ignore"):
        scope["kernel"](x, n, out)


@settings(max_examples=25, deadline=None)
@given(blocks(2, False, operation), st.integers(0, 4), st.booleans())
def test_random_programs_over_partly_valid_values_mean_what_python_means(
    tmp_path_factory, body: list, n: int, runtime: bool
) -> None:
    x = np.random.default_rng(1).integers(-8, 8, SOURCE).astype(np.float32)
    expected = np.full((3 * TILES, *BOX[1:]), np.nan, np.float32)
    reference(source(body, scoped=False), x.copy(), n, expected)
    directory = tmp_path_factory.mktemp("random")
    for scoped in (False, True):
        kernel = kernel_of(source(body, scoped), directory / f"kernel_{scoped}.py")
        *_, out = run(kernel, x, n, np.full_like(expected, np.nan), runtime=runtime)
        np.testing.assert_array_equal(out, expected)
