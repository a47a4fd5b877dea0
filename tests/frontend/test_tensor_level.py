"""Tensor-level code in scopes: slices as snapshots, writes through boxes, ranks, views in orchestration code."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError, KernelValueError


@pl.jit
def whole_tensors(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(pl.mul(x, 2.0), y)
    return out


def test_whole_tensors_are_loaded_computed_and_written() -> None:
    x, y = f32(16, 32), f32(16, 32, seed=1)
    out = run(whole_tensors, x, y, empty(16, 32))[-1]
    np.testing.assert_array_equal(out, x * np.float32(2) + y)


@pl.jit
def snapshot(x: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        a = x[0:16, :]
        x[0:16, :] = pl.mul(a, 0.0)
        x[16:32, :] = a
    return x


def test_18_a_slice_in_a_kernel_is_a_snapshot() -> None:
    x = f32(32, 8)
    (out,) = run(snapshot, x)
    np.testing.assert_array_equal(out, np.concatenate([x[:16] * 0, x[:16]]))


@pl.jit.incore
def double(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, x)
    return out


@pl.jit
def alias(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.range(2):
        part = out[i * 16 : i * 16 + 16, :]
        part = double(x[i * 16 : i * 16 + 16, :], part)
    return out


def test_18_a_slice_in_orchestration_code_is_an_alias() -> None:
    x = f32(32, 8)
    _, out = run(alias, x, empty(32, 8))
    np.testing.assert_array_equal(out, x + x)


@pl.jit
def dropped_axes(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for b in pl.range(3):
            plane = x[b]
            line = x[b, 1]
            out[b, :, 0:8] = pl.mul(plane, 2.0)
            out[b, 0, 8:16] = line
    return out


def test_a_scalar_index_drops_its_axis_and_writing_lifts_the_rank_again() -> None:
    x = f32(3, 4, 8)
    _, out = run(dropped_axes, x, empty(3, 4, 16))
    np.testing.assert_array_equal(out[:, :, :8], x * 2)
    np.testing.assert_array_equal(out[:, 0, 8:], x[:, 1])
    assert np.isnan(out[:, 1:, 8:]).all()


@pl.jit
def dynamic_start(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for k in pl.range(0, 32, 8):
            out[:, k : k + 8] = pl.exp(x[:, k : k + 8])
    return out


def test_a_runtime_start_with_a_constant_length_has_a_static_extent() -> None:
    x = f32(4, 32)
    _, out = run(dynamic_start, x, empty(4, 32))
    np.testing.assert_allclose(out, np.exp(x), rtol=3e-7)


@pl.jit
def partial_slice(x: pl.Tensor, n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.slice(x, [16, 32], [0, 0], valid_shape=[n, 32])
        out = pl.assemble(out, pl.add(t, 1.0), [0, 0])
    return out


def test_06_slice_takes_the_shape_first_and_validity_limits_what_is_read_and_written() -> None:
    x = f32(5, 32)
    out = run(partial_slice, x, 5, empty(16, 32))[-1]
    np.testing.assert_array_equal(out[:5], x + 1)
    assert np.isnan(out[5:]).all()


@pl.jit
def transposed_operand(x: pl.Tensor, w: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, 0:8] = pl.matmul(x, w[0:8, :], b_trans=True)
        out[:, 8:16] = pl.matmul(x, w[8:16, :], b_trans=True)
    return out


def test_a_transposed_operand_in_device_memory() -> None:
    x, w = f32(4, 32), f32(16, 32, seed=1)
    out = run(transposed_operand, x, w, empty(4, 16))[-1]
    np.testing.assert_allclose(out, x @ w.T, rtol=1e-4, atol=1e-5)


@pl.jit
def on_chip_create(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    scratch = pl.create_tensor([16, 8], dtype=pl.FP32, init_value=1.5)
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.create_tensor([16, 8], dtype=pl.FP32, init_value=2)
        out[:] = pl.add(pl.add(x, acc), scratch)
    return out


def test_16_create_tensor_is_device_memory_outside_scopes_and_on_chip_inside() -> None:
    x = f32(16, 8)
    _, out = run(on_chip_create, x, empty(16, 8))
    np.testing.assert_array_equal(out, (x + np.float32(2)) + np.float32(1.5))


@pl.jit
def blocks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.spmd(4):
        out[i * 8 : i * 8 + 8, :] = pl.neg(x[i * 8 : i * 8 + 8, :])
    with pl.spmd(2):
        j = pl.get_block_idx()
        out = pl.store(pl.load(x, [j, 0], [1, 8]), [32 + j, 0], out)
    return out


def test_spmd_runs_its_body_for_each_block() -> None:
    x = f32(32, 8)
    _, out = run(blocks, x, empty(34, 8))
    np.testing.assert_array_equal(out, np.concatenate([-x, x[:2]]))


@pl.jit.incore
def one_row(x: pl.Tensor, i: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    out[i : i + 1, :] = pl.add(x[i : i + 1, :], 1.0)
    return out


@pl.jit
def block_dependent(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.spmd(4):
        i = pl.get_block_idx()
        out = one_row(x, i, out)
    return out


def test_a_body_that_asks_for_its_block_is_run_by_every_block() -> None:
    x = f32(4, 8)
    _, out = run(block_dependent, x, empty(4, 8))
    np.testing.assert_array_equal(out, x + 1)


@pl.jit
def reshaped(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    flat = pl.reshape(x, [8, 16])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(flat, 0.0)
    return out


def test_reshape_of_device_memory_is_a_view() -> None:
    x = f32(4, 4, 8)
    _, out = run(reshaped, x, empty(8, 16))
    np.testing.assert_array_equal(out, x.reshape(8, 16))


@pl.jit
def misplaced(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    y = pl.add(x, x)
    out[:] = y
    return out


def test_tensor_arithmetic_in_orchestration_code_is_refused() -> None:
    with pytest.raises(KernelTypeError) as caught:
        misplaced.lower(f32(4, 4), f32(4, 4))
    assert "Misplaced tensor op pl.add: it computes, and this is orchestration code" in str(caught.value)
    assert "with pl.at(level=pl.Level.CORE_GROUP):" in str(caught.value)


@pl.jit
def beyond(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = x[8:24, :]
    return out


def test_a_box_that_certainly_reaches_past_its_tensor_is_refused() -> None:
    with pytest.raises(
        KernelValueError, match=r"reaches past the end of 'x': axis 0 has 16 elements, the box ends at 24"
    ):
        beyond.lower(f32(16, 4), f32(16, 4))


@pl.jit
def ordered(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.manual_scope():
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="first") as first:
            out[0:2, :] = x[0:2, :]
        with pl.at(level=pl.Level.CORE_GROUP, deps=[first], optimizations=[pl.split(pl.SplitMode.NONE)]) as second:
            out[2:4, :] = pl.neg(x[2:4, :])
    with pl.spmd(1, deps=[first, second]) as _:
        i = pl.get_block_idx()
        out[i : i + 1, :] = pl.add(out[i : i + 1, :], 1.0)
    return out


def test_scheduling_hints_change_no_result() -> None:
    x = f32(4, 8)
    _, out = run(ordered, x, empty(4, 8))
    np.testing.assert_array_equal(out, np.concatenate([x[:1] + 1, x[1:2], -x[2:]]))


def test_a_misspelled_keyword_of_a_scope_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP, name_hnt="first"):
            out[:] = x
        return out

    with pytest.raises(KernelTypeError, match=r"pl\.at has no parameter 'name_hnt'"):
        kernel.lower(f32(4, 8), empty(4, 8))
