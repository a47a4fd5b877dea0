"""Subscripts of on-chip values: parts, elements, writing, ranks, runtime ends; boxes beyond the tensor."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


@pl.jit.incore
def parts(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 16])
    upper = t[0:4, 0:8]
    row = t[6]
    column = t[0:4, 8:9]
    out = pl.store(pl.row_expand_add(upper, column), [0, 0], out)
    out = pl.store(row, [4, 0], out)
    out = pl.store(t[7, :], [5, 0], out)
    pl.write(out, [6, 0], t[3, 5])
    return out


def test_20_parts_of_a_tile_keep_two_axes() -> None:
    x = f32(8, 16)
    out = run(parts, x, empty(8, 16))[1]
    np.testing.assert_allclose(out[:4, :8], x[:4, :8] + x[:4, 8:9], rtol=1e-6)
    np.testing.assert_array_equal(out[4:6], x[6:8])
    assert out[6, 0] == x[3, 5]


@pl.jit
def tensor_level(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = x[:, :, :]
        plane = t[1]
        line = pl.add(plane[2], 1.0)
        out[0, :, :] = pl.neg(plane)
        out[1, 0, :] = line
        out[1, 1:3, :] = t[0, 1:3, :]
    return out


def test_20_tensor_values_lose_indexed_axes() -> None:
    x = f32(2, 4, 8)
    out = run(tensor_level, x, empty(2, 4, 8))[1]
    np.testing.assert_array_equal(out[0], -x[1])
    np.testing.assert_array_equal(out[1, 0], x[1, 2] + 1)
    np.testing.assert_array_equal(out[1, 1:3], x[0, 1:3])


@pl.jit
def written(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.full([4, 8], pl.FP32, 0.0)
        before = acc
        for i in pl.range(4):
            if i < n:
                acc[i : i + 1, :] = pl.mul(x[i : i + 1, :], 2.0)
            else:
                acc[i, 0:4] = x[i, 4:8]
        out[0:4, :] = acc
        out[4:8, :] = before
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize("n", [0, 3])
def test_a_box_of_an_on_chip_value_is_written_and_other_names_keep_theirs(n: int, runtime: bool) -> None:
    x = f32(4, 8)
    want = np.zeros((8, 8), np.float32)
    want[:n] = x[:n] * 2
    want[n:4, :4] = x[n:, 4:]
    np.testing.assert_array_equal(run(written, x, empty(8, 8), n, runtime=runtime)[1], want)


@pl.jit.incore
def runtime_end(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [8, 16])
    part = t[2:n, 4:]
    out = pl.store(part, [0, 0], out)
    out = pl.store(pl.row_sum(t[:, 0:n], t), [0, 15], out)
    return out


@pytest.mark.parametrize(("n", "runtime"), [(3, False), (8, False), (2, True), (5, True), (8, True)])
def test_a_runtime_end_of_a_tile_slice_narrows_what_is_valid(n: int, runtime: bool) -> None:
    x = f32(8, 16)
    want = empty(8, 16)
    want[: n - 2, :12] = x[2:n, 4:]
    want[:, 15] = x[:, :n].sum(1)
    np.testing.assert_allclose(run(runtime_end, x, empty(8, 16), n, runtime=runtime)[1], want, rtol=1e-5)


@pl.jit
def across_scopes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.add(x, 1.0)
    first = t[0:2, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:2, :] = first
        out[2:4, :] = t[2:4, :]
        pl.write(out, [0, 0], t[3, 7])
    if t[0, 1] > 100.0:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.neg(t)
    return out


def test_16_a_value_of_a_scope_is_sliced_outside() -> None:
    x = f32(4, 8)
    want = x + 1
    want[0, 0] = want[3, 7]
    np.testing.assert_array_equal(run(across_scopes, x, empty(4, 8))[1], want)


@pl.jit.incore
def wide(x: pl.Tensor[[16, 8], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    out = pl.store(pl.load(x, [0, 0], [16, 8], valid_shape=[n, 8]), [0, 0], out)
    return out


@pl.jit
def past_the_end(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tail = x[8:24, :]
    out = wide(tail, 4, out)
    return out


def test_07_a_view_may_reach_past_its_tensor_if_only_what_exists_is_read() -> None:
    x = f32(12, 8)
    out = run(past_the_end, x, empty(16, 8), device=True)[1]
    np.testing.assert_array_equal(out[:4], x[8:])


REFUSED = {
    "t[0:9, :]": ("reaches past", None),
    "t[n:8, :]": (
        "along axis 0 starts where only the run time knows",
        "pl.slice(t, shape, [i, 0])",
    ),
    "t[:, n : n + 4]": ("lower bounds are constants", "load that part"),
    "pl.mul(x, 2.0)[n:8, :]": ("both ends of the slice along axis 0", "valid_shape"),
    "t[-1]": ("negative indices", "count from the start"),
    "t[::2, :]": ("a slice with a step", "pl.range"),
    "t[..., 0]": ("`...` is not part", "missing trailing axes"),
    "t[0, 0, 0]": ("3 indices for", "at most 2"),
    "pl.read(x, [8, 0])": ("pl.read: index 8 is outside axis 0 of pl.Tensor[[8, 16], pl.FP32]", "indices are 0 to 7"),
    "pl.read(t, [0, -1])": ("pl.read: index -1 is outside axis 1 of pl.Tile[[8, 16], pl.FP32]", "indices are 0 to 15"),
    "pl.write(x, [0, 16], 1.0)": ("pl.write: index 16 is outside axis 1", "indices are 0 to 15"),
}


@pytest.mark.parametrize("expression", list(REFUSED))
def test_subscripts_that_the_language_lacks_are_refused(expression: str, tmp_path) -> None:
    message, advice = REFUSED[expression]
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\n@pl.jit.incore\n"
        "def kernel(x: pl.Tensor[[8, 16], pl.FP32], n: pl.Scalar[pl.INDEX]):\n"
        f"    t = pl.load(x, [0, 0], [8, 16])\n    y = {expression}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert advice is None or advice in diagnostic.hint


def test_a_value_of_another_shape_is_refused_and_may_be_reshaped() -> None:
    @pl.jit
    def sums(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.row_sum(x)
        return out

    with pytest.raises(ir.KernelTypeError, match=r"shape \[4, 1\] is written to a box of shape \[4\]\s") as caught:
        sums.compile()
    assert caught.value.diagnostics[0].hint == "the shapes must be equal: pl.reshape(x, [4])"

    @pl.jit
    def reshaped(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.reshape(pl.row_sum(x), [4])
        return out

    x = f32(4, 8)
    np.testing.assert_allclose(run(reshaped, x, empty(4))[1], x.sum(axis=1), rtol=1e-5, atol=1e-6)
