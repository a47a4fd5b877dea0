"""Where orchestration code and kernels meet: shapes of parameters, and single elements."""

import linecache
import re
from typing import Any

import numpy as np
import pytest
import torch
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


@pl.jit.incore
def doubled(
    x: pl.Tensor[[16, 128], pl.FP32],
    out: pl.Out[pl.Tensor[[16, 128], pl.FP32]],
    rows: pl.Scalar[pl.INDEX],
    cols: pl.Scalar[pl.INDEX],
):
    t = pl.load(x, [0, 0], [16, 128], valid_shape=[rows, cols])
    out = pl.store(pl.mul(t, 2.0), [0, 0], out)
    return out


@pl.jit
def with_slices(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for row in pl.range(0, n, 16):
        rows = pl.min(n - row, 16)
        doubled(x[row : row + rows, 32:96], out[row : row + rows, 32:96], rows, 64)
        doubled(x[row : row + 16, 96:224], out[row : row + 16, 96:224], rows, 4)
    return out


@pytest.mark.parametrize("n", [16, 20, 1])
def test_19_a_parameter_may_be_declared_bigger_than_the_slice_that_it_gets(n: int) -> None:
    """Reads and writes go by the slice's own strides, and only what is valid must exist."""
    x = f32(20, 100)
    want = empty(20, 100)
    want[:n, 32:100] = x[:n, 32:100] * 2
    np.testing.assert_array_equal(run(with_slices, x, empty(20, 100), n, runtime=True)[1], want)


@pl.jit.incore
def copied(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, 1.0)
    return out


@pl.jit
def two_shapes(a: pl.Tensor, b: pl.Tensor, a_out: pl.Out[pl.Tensor], b_out: pl.Out[pl.Tensor]):
    a_out = copied(a, a_out)
    b_out = copied(b, b_out)
    return a_out, b_out


def test_19_each_call_site_gets_the_kernel_of_its_own_shapes() -> None:
    a, b = f32(4, 8), f32(2, 16, seed=1)
    _, _, a_out, b_out = run(two_shapes, a, b, empty(4, 8), empty(2, 16))
    np.testing.assert_array_equal(a_out, a + 1)
    np.testing.assert_array_equal(b_out, b + 1)


@pl.jit
def waits(x: pl.Tensor, counts: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(counts, [0], pl.cast(pl.read(counts, [1]) + 1, pl.INT32))
    n = counts[0]
    for i in pl.range(n):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[i : i + 1, :] = x[i : i + 1, :]
    pl.write(counts, [2], pl.cast(n * 2, pl.INT32))
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(counts, [3], pl.cast(pl.read(counts, [2]) + n, pl.INT32))
    return out


def test_21_reading_an_element_waits_for_the_task_that_writes_it_and_tasks_see_what_is_written() -> None:
    x, out = f32(4, 8), empty(4, 8)
    want = out.copy()
    want[:3] = x[:3]
    _, counts, got = run(waits, x, np.int32([9, 2, 9, 9]), out)
    np.testing.assert_array_equal(got, want)
    assert counts.tolist() == [3, 2, 6, 9]


@pytest.mark.parametrize("inside", [False, True], ids=["orchestration", "kernel"])
@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("INT32", "n", False),
        ("INT8", "200", False),
        ("INT64", "pl.cast(n, pl.INT32)", False),
        ("FP32", "pl.cast(n, pl.INT32)", False),
        ("BF16", "pl.cast(1.5, pl.FP16)", False),
        ("INT32", "1.5", False),
        ("FP16", "1.5", False),
        ("BF16", "0", False),
        ("INT8", "-128", False),
        ("FP32", "5", False),
        ("BOOL", "0", False),
        ("FP32", "1.5", True),
        ("INT64", "n + 5", True),
        ("INDEX", "5", True),
        ("BOOL", "n == 1", True),
        ("INT32", "pl.cast(n, pl.INT32)", True),
        ("FP16", "pl.cast(1.5, pl.FP16)", True),
    ],
)
def test_21_a_written_element_has_exactly_the_dtype_of_the_tensor_and_literals_have_theirs(
    dtype: str, value: str, fits: bool, inside: bool, tmp_path
) -> None:
    scope = "    with pl.at(level=pl.Level.CORE_GROUP):\n    " if inside else ""

    def lower(value: str) -> None:
        path = tmp_path / "writes.py"
        path.write_text(
            "import pypto.language as pl\n\n\n@pl.jit\n"
            f"def kernel(out: pl.InOut[pl.Tensor[[4], pl.{dtype}]], n: pl.Scalar[pl.INDEX]):\n"
            f"{scope}    pl.write(out, [0], {value})\n    return out\n"
        )
        linecache.checkcache(str(path))
        names: dict[str, Any] = {"__name__": "writes"}
        exec(compile(path.read_text(), str(path), "exec"), names)
        names["kernel"].lower(n=pl.RUNTIME)

    if fits:
        lower(value)
        return
    with pytest.raises(ir.KernelTypeError) as caught:
        lower(value)
    (diagnostic,) = caught.value.diagnostics
    assert re.match(rf"pl\.write: an? \w+ scalar for {dtype} elements; the dtypes must be equal", diagnostic.message)
    words, advised = diagnostic.hint.split(": ")
    assert (words, advised) == ("convert it", f"pl.cast({value}, pl.{dtype})")
    lower(advised)


EXACT = {
    "FP16": ["pl.cast(0, pl.FP16)", "pl.cast(1.1, pl.FP16)", "pl.const(1.1, pl.FP16)", "pl.const(3, pl.FP16)"],
    "BF16": ["pl.cast(0, pl.BF16)", "pl.cast(1.1, pl.BF16)", "pl.const(1.1, pl.BF16)", "pl.const(3, pl.BF16)"],
    "FP32": ["1.1", "pl.cast(3, pl.FP32)", "pl.cast(pl.const(1.5, pl.FP16), pl.FP32)", "pl.const(2, pl.FP32)"],
    "INT8": ["pl.cast(300, pl.INT8)", "pl.cast(-1.5, pl.INT8)", "pl.const(7, pl.INT8)", "pl.cast(True, pl.INT8)"],
    "UINT32": [
        "pl.cast(7, pl.UINT32)",
        "pl.const(4294967295, pl.UINT32)",
        "pl.cast(n, pl.UINT32)",
        "pl.read(out, [0])",
    ],
    "INT64": ["5", "n", "pl.cast(2.0, pl.INT64)", "pl.read(out, [0]) + 1"],
    "BOOL": ["True", "pl.cast(1, pl.BOOL)", "n == 4", "pl.cast(0, pl.BOOL)"],
}
WRITTEN = {
    "FP16": [0, 1.1, 1.1, 3],
    "BF16": [0, 1.1, 1.1, 3],
    "FP32": [1.1, 3, 1.5, 2],
    "INT8": [44, -1, 7, 1],
    "UINT32": [7, 2**32 - 1, 3, 7],
    "INT64": [5, 3, 2, 6],
    "BOOL": [True, True, False, False],
}


@pytest.mark.parametrize("dtype", EXACT)
def test_converted_numbers_are_written_as_their_nearest_elements(dtype: str, tmp_path) -> None:
    path = tmp_path / f"written_{dtype}.py"
    lines = "".join(f"        pl.write(out, [{i}], {value})\n" for i, value in enumerate(EXACT[dtype]))
    path.write_text(
        "import pypto.language as pl\n\n\n@pl.jit\n"
        f"def kernel(out: pl.InOut[pl.Tensor[[4], pl.{dtype}]], n: pl.Scalar[pl.INDEX]):\n"
        f"    with pl.at(level=pl.Level.CORE_GROUP):\n{lines}    return out\n"
    )
    names: dict[str, Any] = {"__name__": "written"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    torch_dtype = getattr(pl, dtype).to_torch()
    out = torch.zeros(4, dtype=torch_dtype)
    names["kernel"](out, 3)
    assert torch.equal(out, torch.tensor(WRITTEN[dtype]).to(torch_dtype))
