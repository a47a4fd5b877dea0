"""Two values of different dtypes, and a scalar beside a value."""

import itertools

import numpy as np
import pytest
from checking import empty, f32, run
from random_programs import kernel_of

import pypto.language as pl
from pypto.ir import KernelTypeError

DTYPES = {
    "FP32": np.float32,
    "FP16": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT16": np.int16,
    "INT8": np.int8,
    "UINT32": np.uint32,
    "UINT16": np.uint16,
    "UINT8": np.uint8,
}
TEXT = """
import pypto.language as pl

@pl.jit
def kernel(x: pl.Tensor[[4, 16], pl.{a}], y: pl.Tensor[[4, 16], pl.{b}], out: pl.Out[pl.Tensor[[4, 16], pl.{c}]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, y)
    return out
"""


def stronger(a: str, b: str) -> str:
    def strength(name: str) -> tuple[bool, int, bool]:
        return name.startswith("FP"), np.dtype(DTYPES[name]).itemsize, not name.startswith("U")

    return max(a, b, key=strength)


def converts(source: str, target: str) -> bool:
    """Whether the chip has a chain of conversions; signed and unsigned of one width have the same bits."""
    same_width = np.dtype(DTYPES[source]).itemsize == np.dtype(DTYPES[target]).itemsize
    integers = not source.startswith("FP") and not target.startswith("FP")
    return (integers and same_width) or not {"UINT16", "UINT32"} & {source, target}


@pytest.mark.parametrize(("a", "b"), list(itertools.permutations(DTYPES, 2)))
def test_of_two_dtypes_the_stronger_is_that_of_the_result(a: str, b: str, tmp_path) -> None:
    c = stronger(a, b)
    kernel = kernel_of(TEXT.format(a=a, b=b, c=c), tmp_path / "kernel.py")
    x = np.arange(1, 65).reshape(4, 16).astype(DTYPES[a])
    y = np.arange(64, 0, -1).reshape(4, 16).astype(DTYPES[b])
    arguments = (x, y, empty(4, 16, dtype=DTYPES[c]))
    weak = b if c == a else a
    if converts(weak, c):
        np.testing.assert_array_equal(run(kernel, *arguments)[-1], np.full((4, 16), 65, DTYPES[c]))
    else:
        with pytest.raises(KernelTypeError, match=f"{weak} beside {c}: the chip has no conversion from {weak} to {c}"):
            run(kernel, *arguments)


def test_signed_beside_unsigned_of_one_width_wraps_and_never_saturates(tmp_path) -> None:
    kernel = kernel_of(TEXT.format(a="UINT8", b="INT8", c="INT8"), tmp_path / "kernel.py")
    x, y = np.arange(192, 256, dtype=np.uint8).reshape(4, 16), np.arange(-32, 32, dtype=np.int8).reshape(4, 16)
    out = run(kernel, x, y, empty(4, 16, dtype=np.int8))[-1]
    np.testing.assert_array_equal(out, (x.astype(np.int64) + y).astype(np.int8))


@pl.jit.incore
def literal(x: pl.Tensor[[4, 16], pl.INT32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
    out = pl.store(pl.mul(pl.load(x, [0, 0], [4, 16]), 0.5), [0, 0], out)
    return out


def test_a_float_literal_promotes_integers() -> None:
    x = np.arange(64, dtype=np.int32).reshape(4, 16)
    _, out = run(literal, x, empty(4, 16))
    np.testing.assert_array_equal(out, x / np.float32(2))


@pl.jit.incore
def with_index(x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]], n: pl.Scalar[pl.INDEX]):
    out = pl.store(pl.add(pl.load(x, [0, 0], [4, 16]), n), [0, 0], out)
    return out


def test_a_runtime_index_beside_floats_is_cast_first() -> None:
    with pytest.raises(KernelTypeError, match=r"an INDEX scalar beside an FP32 value(.|\n)*pl\.cast\(n, pl\.FP32\)"):
        run(with_index, f32(4, 16), empty(4, 16), 3, runtime=True)
