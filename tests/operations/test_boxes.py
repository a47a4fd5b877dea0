"""Parts of tensors and of on-chip values, and what is valid of them."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError, KernelValueError


@pl.jit.incore
def boxes_past_the_end(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [8, 16], [16, 32], valid_shape=[rows, 4])
    pl.store(pl.fillpad(t), [0, 0], out)
    u = pl.slice(x, [16, 32], [8, 16], valid_shape=[rows, 4])
    pl.store(pl.fillpad(u), [16, 0], out)
    out = pl.store(pl.fillpad(pl.slice(x, [16, 32], [8, 16], clamp=True)), [32, 0], out)


def test_07_boxes_may_exceed_the_tensor_as_long_as_what_is_valid_lies_inside() -> None:
    x = f32(10, 20)
    out = run(boxes_past_the_end, x, empty(48, 32), 2)[-1].reshape(3, 16, 32)
    expected = np.zeros((16, 32), np.float32)
    expected[:2, :4] = x[8:, 16:]
    for have in out:
        np.testing.assert_array_equal(have, expected)


@pl.jit.incore
def parts_of_tiles(x: pl.Tensor, out: pl.Out[pl.Tensor], at: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [16, 32])
    pl.store(pl.slice(t, [4, 8], [2, 16]), [0, 0], out)
    pl.store(pl.slice(t, [4, 8], [at, at]), [4, 0], out)
    pl.store(pl.slice(t, [4, 8], [0, 0], valid_shape=[2, 5]), [8, 0], out)
    pl.store(pl.tile.extract(t, 3, 5, [4, 8], target_memory=pl.Mem.Mat), [12, 0], out)
    pl.store(pl.slice(t, [4, 8], [14, 0], valid_shape=[2, 8], pad_value=pl.PadValue.zero), [16, 0], out)


def test_a_slice_of_a_tile_is_a_copy_of_that_part() -> None:
    x = f32(16, 32)
    out = run(parts_of_tiles, x, empty(20, 8), 5)[-1].reshape(5, 4, 8)
    np.testing.assert_array_equal(out[0], x[2:6, 16:24])
    np.testing.assert_array_equal(out[1], x[5:9, 5:13])
    np.testing.assert_array_equal(out[2, :2, :5], x[:2, :5])
    assert np.isnan(out[2, 2:]).all()
    np.testing.assert_array_equal(out[3], x[3:7, 5:13])
    np.testing.assert_array_equal(out[4, :2], x[14:, :8])
    np.testing.assert_array_equal(out[4, 2:], 0)


@pl.jit.incore
def part_of_a_partly_valid_tile(x: pl.Tensor, out: pl.Out[pl.Tensor], rows: pl.Scalar[pl.INDEX]):
    t = pl.load(x, [0, 0], [16, 32], valid_shape=[rows, 20])
    out = pl.store(pl.fillpad(pl.slice(t, [8, 16], [4, 8]), pl.PadValue.max), [0, 0], out)


def test_a_part_has_valid_what_its_source_has_valid_there() -> None:
    x = f32(16, 32)
    for rows in (16, 7, 4, 2):
        out = run(part_of_a_partly_valid_tile, x, empty(8, 16), rows)[-1]
        inside = max(0, min(8, rows - 4))
        np.testing.assert_array_equal(out[:inside, :12], x[4 : 4 + inside, 8:20])
        assert np.isposinf(out[inside:]).all()
        assert np.isposinf(out[:, 12:]).all()


@pl.jit.incore
def past_the_end_of_a_tile(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.slice(pl.load(x, [0, 0], [16, 32]), [8, 8], [12, 0]), [0, 0], out)


def test_a_part_that_certainly_reaches_past_its_tile_is_refused() -> None:
    with pytest.raises(KernelValueError, match=r"axis 0 has 16 elements, the box goes from 12 to 20"):
        run(past_the_end_of_a_tile, f32(16, 32), empty(8, 8))


@pl.jit.incore
def assembled_on_chip(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    acc = pl.full([16, 32], dtype=pl.FP32, value=1.0)
    before = acc
    for i in pl.range(4):
        acc = pl.assemble(acc, pl.mul(pl.load(x, [i, 0], [2, 8]), 2.0), [i * 4, i * 8])
    pl.store(acc, [0, 0], out)
    pl.store(before, [16, 0], out)


def test_assembling_on_chip_makes_a_new_value() -> None:
    x = f32(8, 8)
    _, out = run(assembled_on_chip, x, empty(32, 32))
    expected = np.ones((16, 32), np.float32)
    for i in range(4):
        expected[i * 4 : i * 4 + 2, i * 8 : i * 8 + 8] = 2 * x[i : i + 2]
    np.testing.assert_array_equal(out[:16], expected)
    np.testing.assert_array_equal(out[16:], 1)


@pl.jit
def planes(x: pl.Tensor[[3, 4, 8], pl.FP32], out: pl.Out[pl.Tensor[[3, 2, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        whole = pl.mul(x, 1.0)
        part = pl.slice(whole, [3, 2, 8], [0, 1, 0])
        tall = pl.create_tensor([3, 4, 8], dtype=pl.FP32, init_value=0)
        tall = pl.assemble(tall, part, [0, 2, 0])
        out[:] = pl.add(part, pl.slice(tall, [3, 2, 8], [0, 2, 0]))
    return out


def test_parts_of_values_of_higher_rank_are_taken_plane_by_plane() -> None:
    x = f32(3, 4, 8)
    out = run(planes, x, empty(3, 2, 8))[-1]
    np.testing.assert_array_equal(out, 2 * x[:, 1:3])


@pl.jit.incore
def joined(x: pl.Tensor, y: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    a = pl.load(x, [0, 0], [4, 8], valid_shape=[4, n])
    both = pl.concat(a, pl.load(y, [0, 0], [4, 8]))
    out = pl.store(both, [0, 0], out)


def test_concat_packs_by_the_valid_columns_of_the_first() -> None:
    x, y = f32(4, 8), f32(4, 8, seed=1)
    for n in (8, 3, 0):
        out = run(joined, x, y, empty(4, 16), n)[-1]
        np.testing.assert_array_equal(out[:, : n + 8], np.concatenate([x[:, :n], y], 1))
        assert np.isnan(out[:, n + 8 :]).all()


@pl.jit.incore
def rows_gathered(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    acc = pl.create_tile([4, 8], dtype=pl.FP32, target_memory=pl.Mem.Mat)
    flipped = pl.create_l1([8, 4], pl.FP32)
    for i in pl.range(4):
        pl.gather_row(acc, x, [i, 0], [3 - i, 8], [1, 8])
        flipped = pl.gather_row(flipped, x, [0, i], [i, 0], [1, 8], True)
    pl.store(acc, [0, 0], out)
    pl.store(pl.tile.transpose(flipped, 0, 1), [4, 0], out)


def test_gather_row_fills_an_accumulator_in_place() -> None:
    x = f32(4, 16)
    _, out = run(rows_gathered, x, empty(8, 8))
    np.testing.assert_array_equal(out[:4], x[::-1, 8:])
    np.testing.assert_array_equal(out[4:], x[:, :8])


@pl.jit.incore
def added(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    out = pl.store(t, [0, 0], out, atomic=pl.AtomicType.Add)
    out = pl.assemble(out, t, [0, 0], atomic=pl.AtomicType.Add)
    out = pl.store(t, [4, 0], out)


def test_28_atomic_adds_are_in_ascending_order_and_round_each_time() -> None:
    x = f32(4, 8)
    out = np.full((8, 8), 1.0, np.float16)
    _, result = run(added, x, out)
    step = (x.astype(np.float16).astype(np.float32) + np.float32(1)).astype(np.float16)
    expected = (x.astype(np.float16).astype(np.float32) + step.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(result[:4], expected)
    np.testing.assert_array_equal(result[4:], x.astype(np.float16))


@pl.jit.incore
def added_on_chip(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.tensor.full([4, 8], pl.FP32, 0.0)
    out = pl.store(pl.assemble(t, x, [0, 0], atomic=pl.AtomicType.Add), [0, 0], out)


def test_only_device_memory_is_added_to_atomically() -> None:
    with pytest.raises(KernelTypeError, match="only device memory is added to atomically"):
        run(added_on_chip, f32(4, 8), empty(4, 8))


@pl.jit.incore
def argument_order(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [2, 4], [4, 8]), [0, 0], out)
    pl.store(pl.slice(x, [4, 8], [2, 4]), [4, 0], out)


def test_06_slice_takes_the_shape_first_and_load_the_offsets() -> None:
    x = f32(16, 32)
    _, out = run(argument_order, x, empty(8, 8))
    np.testing.assert_array_equal(out[:4], x[2:6, 4:12])
    np.testing.assert_array_equal(out[4:], x[2:6, 4:12])


@pl.jit
def valid_in_memory(
    x: pl.Tensor[[10, 16], pl.FP32], out: pl.InOut[pl.Tensor[[24, 16], pl.FP32]], n: pl.Scalar[pl.INDEX]
):
    part = pl.slice(x, [8, 16], [4, 0], valid_shape=[n, 16])
    flipped = pl.transpose(part, 0, 1)
    narrower = pl.set_validshape(x, n, 3)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:8, :] = pl.fillpad(pl.add(part, 1.0))
        out[8:16, 0:4] = pl.fillpad(pl.slice(part, [8, 4], [1, 2]))
        out[16:20, :] = pl.fillpad(pl.slice(narrower, [4, 16], [0, 0]))
        out[20:24, 0:8] = pl.fillpad(pl.slice(flipped, [4, 8], [0, 0]))
    return out


def test_a_slice_in_orchestration_code_carries_what_is_valid_of_it() -> None:
    x = f32(10, 16)
    for n in (6, 2, 1):
        out = run(valid_in_memory, x, np.full((24, 16), 7, np.float32), n)[1]
        expected = np.full((24, 16), 7, np.float32)
        expected[:8] = 0
        expected[:n] = x[4 : 4 + n] + 1
        expected[8:16, :4] = 0
        expected[8 : 8 + n - 1, :4] = x[5 : 4 + n, 2:6]
        expected[16:20] = 0
        expected[16 : 16 + min(n, 4), :3] = x[: min(n, 4), :3]
        expected[20:24, :8] = 0
        expected[20:24, :n] = x[4 : 4 + n, :4].T
        np.testing.assert_array_equal(out, expected)


@pl.jit
def subscripts(
    x: pl.Tensor[[8, 16], pl.FP32], rounds: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[24, 16], pl.FP32]]
):
    n = pl.read(rounds, [0])
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, 1.0)
        acc = pl.create_tensor([8, 16], dtype=pl.FP32, init_value=0)
        kept = acc
        for i in pl.range(n):
            if i % 2 == 0:
                acc[i : i + 1, 4:12] = pl.add(t[i : i + 1, 0:8], t[i : i + 1, 8:16])
            else:
                acc[i, :] = t[7 - i]
        out[0:8, :] = acc
        out[8:16, :] = kept
        out[16:22, 0:13] = pl.fillpad(t[2:n, 3:16])
    return out


def test_parts_of_on_chip_values_are_read_and_written_by_subscript() -> None:
    x = f32(8, 16)
    for n in (8, 3):
        *_, out = run(subscripts, x, np.array([n], np.int32), empty(24, 16))
        expected = np.zeros((24, 16), np.float32)
        for i in range(n):
            if i % 2 == 0:
                expected[i, 4:12] = x[i, :8] + x[i, 8:]
            else:
                expected[i] = x[7 - i]
        expected[16 : 16 + n - 2, :13] = x[2:n, 3:]
        np.testing.assert_array_equal(out[:16], expected[:16])
        np.testing.assert_array_equal(out[16:22, :13], expected[16:22, :13])


@pl.jit.incore
def tiles_stay_matrices(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 16])
    row = t[3]
    out = pl.store(pl.add(row, t[4, :]), [0, 0], out)
    out = pl.store(t[0:2, 8], [1, 0], out)


def test_20_tiles_never_have_fewer_than_two_axes() -> None:
    x = f32(8, 16)
    _, out = run(tiles_stay_matrices, x, empty(3, 16))
    np.testing.assert_array_equal(out[0], x[3] + x[4])
    np.testing.assert_array_equal(out[1:, 0], x[:2, 8])


@pl.jit.incore
def box_stored_twice(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], narrow: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [8, 40])
    u = pl.neg(t)
    most = pl.row_max(u, t)
    late = pl.row_expand_add(u, most)
    pl.store(late, [0, 0], out)
    pl.store(u, [0, 0], out)
    pl.store(pl.row_max(late, t), [0, 0], narrow)
    pl.store(most, [0, 0], narrow)
    pl.store(late, [0, 0], x)
    pl.store(u, [0, 0], x)


def test_the_last_store_to_a_box_wins_whatever_each_has_to_wait_for() -> None:
    given = f32(8, 40)
    x, out, narrow = run(box_stored_twice, given, empty(8, 40), empty(8, 1))
    np.testing.assert_array_equal(x, -given)
    np.testing.assert_array_equal(out, -given)
    np.testing.assert_array_equal(narrow, (-given).max(axis=1, keepdims=True))
