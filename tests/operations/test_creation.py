"""Values that are made on chip."""

import numpy as np
import pytest
from checking import empty, f32, run
from interp.movement import philox
from random_programs import kernel_of

import pypto.language as pl
from pypto.ir import KernelTypeError, KernelValueError


@pl.jit.incore
def lines(out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    pl.store(pl.arange(5, [1, 16]), [0, 0], out)
    pl.store(pl.tile.ci(n, [1, 16], descending=True), [1, 0], out)
    pl.store(pl.reinterpret_view(pl.arange(4294967290, [1, 16], dtype=pl.UINT32), pl.INT32), [2, 0], out)


def test_arange_counts_up_or_down_and_wraps() -> None:
    out = run(lines, empty(3, 16, dtype=np.int32), 3)[-1]
    np.testing.assert_array_equal(out[0], np.arange(5, 21))
    np.testing.assert_array_equal(out[1], 3 - np.arange(16))
    np.testing.assert_array_equal(out[2], (np.arange(16) - 6).astype(np.int32))


@pl.jit.incore
def triangles(out: pl.Out[pl.Tensor], d: pl.Scalar[pl.INDEX]):
    pl.store(pl.tri(0, [6, 9]), [0, 0], out)
    pl.store(pl.tri(d, [6, 9], upper=True), [6, 0], out)
    pl.store(pl.cast(pl.tri(-2, [6, 9], valid_shape=[4, 5], dtype=pl.FP32), pl.INT32), [12, 0], out)


def test_tri_has_ones_up_to_or_from_a_diagonal_on() -> None:
    for d in (-1, 0, 3):
        out = run(triangles, empty(18, 9, dtype=np.int32), d)[-1]
        np.testing.assert_array_equal(out[:6], np.tri(6, 9, dtype=np.int32))
        np.testing.assert_array_equal(out[6:12], np.triu(np.ones((6, 9), np.int32), d))
        np.testing.assert_array_equal(out[12:16, :5], np.tri(6, 9, -2, dtype=np.int32)[:4, :5])
        assert (out[16:] == 77).all()


@pl.jit.incore
def dice(out: pl.Out[pl.Tensor]):
    pl.store(pl.random(1, 2, 3, 4, 5, 6, [4, 10]), [0, 0], out)
    pl.store(pl.tile.random(1, 2, 4294967295, 4294967295, 5, 6, [4, 10], valid_shape=[2, 7], rounds=7), [4, 0], out)


def test_philox_gives_its_known_answers() -> None:
    # From the paper's known-answer test of Philox4x32 with 10 rounds.
    assert philox([0, 0], [0, 0, 0, 0], 10) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 0xFFFFFFFF
    assert philox([ones, ones], [ones] * 4, 10) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_random_bits_are_those_of_a_counter() -> None:
    out = run(dice, empty(8, 10, dtype=np.uint32))[-1]
    words = [word for block in range(10) for word in philox([1, 2], [3 + block, 4, 5, 6], 10)]
    np.testing.assert_array_equal(out[:4].reshape(-1), np.array(words, np.uint32))
    words = philox([1, 2], [0xFFFFFFFF, 0xFFFFFFFF, 5, 6], 7)
    words += [word for block in range(3) for word in philox([1, 2], [block, 0, 6, 6], 7)]
    np.testing.assert_array_equal(out[4:6, :7].reshape(-1), np.array(words[:14], np.uint32))


@pl.jit.incore
def filled(x: pl.Tensor, out: pl.Out[pl.Tensor], s: pl.Scalar[pl.FP32]):
    t = pl.load(x, [0, 0], [4, 8], valid_shape=[3, 8])
    pl.store(pl.expands(t, s), [0, 0], out)
    pl.store(pl.col_expand(t, pl.load(x, [3, 0], [1, 8])), [4, 0], out)
    pl.store(pl.row_expand(t, pl.load(x, [0, 2], [4, 1])), [8, 0], out)
    pl.store(pl.expand_clone(pl.load(x, [1, 1], [1, 1]), x), [12, 0], out)


def test_a_template_gives_shape_and_validity_not_elements() -> None:
    x = f32(4, 8)
    out = run(filled, x, empty(16, 8), 2.5)[-1]
    np.testing.assert_array_equal(out[:3], 2.5)
    np.testing.assert_array_equal(out[4:7], np.broadcast_to(x[3], (3, 8)))
    np.testing.assert_array_equal(out[8:11], np.broadcast_to(x[:3, 2:3], (3, 8)))
    assert np.isnan(out[[3, 7, 11]]).all()
    np.testing.assert_array_equal(out[12:], x[1, 1])


@pl.jit
def not_zeroed(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[12, 8], pl.FP32]]):
    scratch = pl.create_tensor([4, 8], dtype=pl.FP32, init_value=2.0)
    with pl.at(level=pl.Level.CORE_GROUP):
        on_chip = pl.create_tensor([4, 8], dtype=pl.FP32)
        on_chip = pl.assemble(on_chip, pl.slice(x, [2, 8], [0, 0]), [1, 0])
        out[0:4, :] = on_chip
        out[4:8, :] = scratch
        out[8:12, :] = pl.create_tensor([4, 8], dtype=pl.FP32, init_value=3)
    return out


def test_17_created_tensors_are_not_zeroed_unless_they_are_given_a_value() -> None:
    x = f32(4, 8)
    _, out = run(not_zeroed, x, empty(12, 8))
    np.testing.assert_array_equal(out[1:3], x[:2])
    assert np.isnan(out[[0, 3]]).all()  # undefined: the interpreter marks it, the device may have anything
    np.testing.assert_array_equal(out[4:8], 2)
    np.testing.assert_array_equal(out[8:], 3)


@pl.jit
def geometry(out: pl.Out[pl.Tensor[[1, 2], pl.INT32]]):
    none = pl.system.task_invalid()
    with pl.at(level=pl.Level.CORE_GROUP, deps=[none]):
        pl.write(out, [0, 0], pl.cast(pl.system.available_aiv_count(), pl.INT32))
        pl.write(out, [0, 1], pl.cast(pl.system.available_cluster_count(), pl.INT32))
    return out


def test_the_chip_has_the_geometry_of_the_910b() -> None:
    (out,) = run(geometry, empty(1, 2, dtype=np.int32))
    np.testing.assert_array_equal(out, [[48, 24]])


@pl.jit.incore
def hints(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    context = pl.prefetch.make_context()
    event = pl.prefetch.async_prefetch(x, context)
    pl.prefetch.wait(event, pl.prefetch.session(context))
    pl.system.sync_set(0, pipe=pl.PipeType.MTE2)
    pl.system.sync_wait(0, pipe=pl.PipeType.V)
    pl.system.set_ffts(x)
    pl.system.cacheinvalid(x, [4, 8], [0, 0])
    out = pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)


def test_prefetches_events_and_cache_control_change_no_number() -> None:
    x = f32(4, 8)
    _, out = run(hints, x, empty(4, 8))
    np.testing.assert_array_equal(out, x)


@pl.jit.incore
def changed_in_place(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    other = t
    pl.write(t, [1, 2], 5.0)
    out = pl.store(other, [0, 0], out)


def test_writing_an_element_changes_a_tile_under_all_its_names() -> None:
    x = f32(4, 8)
    _, out = run(changed_in_place, x, empty(4, 8))
    x[1, 2] = 5
    np.testing.assert_array_equal(out, x)


@pl.jit.incore
def half_of_an_integer(out: pl.Out[pl.Tensor]):
    out = pl.store(pl.tile.full([4, 8], pl.INT32, 0.5), [0, 0], out)


@pl.jit.incore
def two_rows(out: pl.Out[pl.Tensor]):
    out = pl.store(pl.arange(0, [2, 8]), [0, 0], out)


@pl.jit.incore
def float_line(out: pl.Out[pl.Tensor]):
    out = pl.store(pl.arange(0, [1, 8], dtype=pl.FP32), [0, 0], out)


def test_wrong_creations_are_refused() -> None:
    with pytest.raises(KernelTypeError, match=r"0\.5 is not an integer, and the dtype is INT32"):
        half_of_an_integer.lower(empty(4, 8, dtype=np.int32))
    with pytest.raises(KernelValueError, match=r"makes one row, got shape \[2, 8\]"):
        two_rows.lower(empty(2, 8, dtype=np.int32))
    with pytest.raises(KernelTypeError, match="makes integers, got FP32"):
        float_line.lower(empty(1, 8))


FILLED = """
import math
import pypto.language as pl

@pl.jit
def kernel(out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    t = pl.create_tensor([4, 8], pl.{dtype}, init_value={value})
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.cast(t, pl.FP32)
    return out
"""


@pytest.mark.parametrize(("dtype", "value"), [("BF16", "1.0"), ("FP16", "-2.0"), ("FP32", "math.inf")])
def test_device_memory_starts_as_nothing_that_the_runtime_cannot_fill_in(dtype: str, value: str, tmp_path) -> None:
    kernel = kernel_of(FILLED.format(dtype=dtype, value=value), tmp_path / "kernel.py")
    with pytest.raises(KernelValueError, match=rf"device memory of {dtype} cannot start as (.|\n)*pl\.full\(shape"):
        run(kernel, empty(4, 8))


@pytest.mark.parametrize(("dtype", "value"), [("BF16", "0.0"), ("FP32", "1.5"), ("INT32", "-3")])
def test_device_memory_starts_as_its_init_value(dtype: str, value: str, tmp_path) -> None:
    kernel = kernel_of(FILLED.format(dtype=dtype, value=value), tmp_path / "kernel.py")
    np.testing.assert_array_equal(run(kernel, empty(4, 8))[-1], np.full((4, 8), float(value), np.float32))
