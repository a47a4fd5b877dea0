"""Where orchestration code and kernels meet: shapes of parameters, and single elements."""

import numpy as np
import pytest
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
        ("FP16", "1.5", True),
        ("INT8", "-128", True),
        ("FP32", "5", True),
        ("INT32", "pl.cast(n, pl.INT32)", True),
        ("FP16", "pl.cast(1.5, pl.FP16)", True),
    ],
)
def test_21_a_written_element_has_exactly_the_dtype_of_the_tensor_and_literals_take_it(
    dtype: str, value: str, fits: bool, inside: bool, tmp_path
) -> None:
    scope = "    with pl.at(level=pl.Level.CORE_GROUP):\n    " if inside else ""
    path = tmp_path / "writes.py"
    path.write_text(
        "import pypto.language as pl\n\n\n@pl.jit\n"
        f"def kernel(out: pl.InOut[pl.Tensor[[4], pl.{dtype}]], n: pl.Scalar[pl.INDEX]):\n"
        f"{scope}    pl.write(out, [0], {value})\n    return out\n"
    )
    names: dict[str, object] = {"__name__": "writes"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    if fits:
        names["kernel"].lower(n=pl.RUNTIME)
        return
    with pytest.raises(ir.KernelTypeError) as caught:
        names["kernel"].lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert "pl.write" in diagnostic.message
    assert f"convert it: pl.cast(x, pl.{dtype})" in diagnostic.hint
