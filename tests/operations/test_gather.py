"""Picking and putting by index, by pattern, by comparison; sorting."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError, KernelValueError


@pl.jit.incore
def picked(x: pl.Tensor, idx: pl.Tensor, out: pl.Out[pl.Tensor]):
    where = pl.load(idx, [0, 0], [4, 6])
    t = pl.load(x, [0, 0], [4, 8])
    pl.store(pl.gather(t, dim=-1, index=where), [0, 0], out)
    pl.store(pl.tile.gather(t, where, t), [4, 0], out)


def test_12_gather_of_tensors_picks_columns_and_of_tiles_flat_elements() -> None:
    x = f32(4, 8)
    idx = np.random.default_rng(0).integers(-3, 36, (4, 6)).astype(np.int32)
    *_, out = run(picked, x, idx, empty(8, 6), clean=False)
    columns = np.where((idx >= 0) & (idx < 8), np.take_along_axis(x, np.clip(idx, 0, 7), 1), 0)
    flat = np.where((idx >= 0) & (idx < 32), x.reshape(-1)[np.clip(idx, 0, 31)], 0)
    np.testing.assert_array_equal(out[:4], columns)
    np.testing.assert_array_equal(out[4:], flat)


@pl.jit.incore
def by_pattern(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    pl.store(pl.tile.gather_mask(t, 1), [0, 0], out)
    pl.store(pl.tile.gather_mask(t, pl.tile.MaskPattern.P1010), [4, 0], out)
    pl.store(pl.gather(t, mask_pattern=pl.tensor.MaskPattern.P0001), [8, 0], out)
    pl.store(pl.gather(t, mask_pattern=4), [12, 0], out)
    pl.store(pl.gather(t, mask_pattern=5), [16, 0], out)
    pl.store(pl.gather(t, mask_pattern=6), [20, 0], out)
    pl.store(pl.gather(t, mask_pattern=7), [24, 0], out)
    partly = pl.set_validshape(t, 4, 5)
    pl.store(pl.tile.gather_mask(partly, 1), [28, 0], out)


def test_12_mask_patterns_read_from_right_to_left() -> None:
    x = f32(4, 8)
    _, out = run(by_pattern, x, empty(32, 8))
    for start, (first, step) in enumerate(((0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4), (0, 1))):
        expected = x[:, first::step]
        np.testing.assert_array_equal(out[start * 4 : start * 4 + 4, : expected.shape[1]], expected)
    np.testing.assert_array_equal(out[28:, :3], x[:, 0:5:2])
    assert np.isnan(out[28:, 3:]).all()


@pl.jit.incore
def as_bits(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.gather(pl.load(x, [0, 0], [4, 8]), mask_pattern=2, output_dtype=pl.UINT32), [0, 0], out)


def test_12_output_dtype_of_gather_is_the_same_bits() -> None:
    x = f32(4, 8)
    _, out = run(as_bits, x, empty(4, 4, dtype=np.uint32))
    np.testing.assert_array_equal(out, x.view(np.uint32)[:, 1::2])


@pl.jit.incore
def put(x: pl.Tensor, idx: pl.Tensor, src: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    where = pl.load(idx, [0, 0], [4, 3])
    values = pl.load(src, [0, 0], [4, 3])
    pl.store(pl.scatter(t, dim=-1, index=where, src=values), [0, 0], out)
    half = pl.load(src, [0, 0], [4, 4])
    pl.store(pl.scatter(half, mask_pattern=2, dst=t), [4, 0], out)
    pl.store(pl.tile.scatter_mask(pl.tile.muls(t, 1.0), half, 2), [8, 0], out)
    changed = pl.tile.muls(t, 1.0)
    pl.tile.scatter(changed, values, where)
    pl.store(changed, [12, 0], out)


def test_12_scatter_of_tensors_keeps_the_destination_and_of_tiles_zero_fills() -> None:
    x, src = f32(4, 8), f32(4, 4, seed=1)
    idx = np.array([[7, 0, 3], [1, 1, 1], [9, -1, 2], [5, 4, 6]], np.int32)
    *_, out = run(put, x, idx, src, empty(16, 8), clean=False)
    by_index, flat = x.copy(), x.copy().reshape(-1)
    for row, col in np.ndindex(idx.shape):
        if 0 <= idx[row, col] < 8:
            by_index[row, idx[row, col]] = src[row, col]
        if 0 <= idx[row, col] < 32:
            flat[idx[row, col]] = src[row, col]
    blended, zeroed = x.copy(), np.zeros_like(x)
    blended[:, 1::2] = zeroed[:, 1::2] = src
    for have, want in zip(out.reshape(4, 4, 8), (by_index, blended, zeroed, flat.reshape(4, 8)), strict=True):
        np.testing.assert_array_equal(have, want)


@pl.jit.incore
def compared(x: pl.Tensor, places: pl.Out[pl.Tensor], counts: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 16], valid_shape=[4, 13])
    where, many = pl.tile.gather_compare(t, 2, t, cmp_mode="gt", offset=100, out_cols=5)
    places = pl.store(where, [0, 0], places)
    counts = pl.store(many, [0, 0], counts)


def test_gather_compare_lists_where_a_comparison_holds() -> None:
    x = np.random.default_rng(3).integers(0, 5, (4, 16)).astype(np.int32)
    _, places, counts = run(compared, x, empty(4, 5, dtype=np.int32), empty(4, 1, dtype=np.int32))
    for row in range(4):
        found = np.flatnonzero(x[row, :13] > 2) + 100
        np.testing.assert_array_equal(places[row], [*found, 0, 0, 0, 0, 0][:5])
        assert counts[row, 0] == len(found)


@pl.jit.incore
def blocks(x: pl.Tensor, offsets: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.gatherb(pl.load(x, [0, 0], [4, 16]), pl.load(offsets, [0, 0], [2, 3])), [0, 0], out)


def test_gatherb_picks_blocks_of_32_bytes() -> None:
    x = f32(4, 16)
    offsets = np.array([[0, 64, 32], [224, 4, 1000]], np.uint32)
    *_, out = run(blocks, x, offsets, empty(2, 24))
    flat = np.concatenate([x.reshape(-1), np.zeros(512, np.float32)])
    expected = [[flat[at // 4 : at // 4 + 8] for at in row] for row in offsets.tolist()]
    np.testing.assert_array_equal(out, np.array(expected).reshape(2, 24))


@pl.jit.incore
def from_memory(table: pl.Tensor, rows: pl.Tensor, idx: pl.Tensor, out: pl.Out[pl.Tensor]):
    picked_rows = pl.mgather(table, pl.load(rows, [0, 0], [1, 4]))
    pl.store(picked_rows, [0, 0], out)
    pl.store(pl.mgather(table, pl.load(idx, [0, 0], [4, 8]), coalesce="elem"), [4, 0], out)
    pl.store(pl.mgather(table, pl.load(rows, [0, 0], [1, 4]), gather_oob="clamp"), [8, 0], out)
    pl.store(pl.mgather(table, pl.load(rows, [0, 0], [1, 4]), gather_oob="wrap"), [12, 0], out)


def test_mgather_reads_rows_or_elements_of_device_memory() -> None:
    table = f32(10, 8)
    rows = np.array([[3, 0, 12, -1]], np.int32)
    idx = np.random.default_rng(0).integers(-5, 90, (4, 8)).astype(np.int32)
    *_, out = run(from_memory, table, rows, idx, empty(16, 8), clean=False)
    np.testing.assert_array_equal(out[:4], np.stack([table[3], table[0], np.zeros(8), np.zeros(8)]))
    np.testing.assert_array_equal(
        out[4:8], np.where((idx >= 0) & (idx < 80), table.reshape(-1)[np.clip(idx, 0, 79)], 0)
    )
    np.testing.assert_array_equal(out[8:12], table[[3, 0, 9, 0]])
    np.testing.assert_array_equal(out[12:], table[[3, 0, 2, 9]])


@pl.jit.incore
def to_memory(x: pl.Tensor, rows: pl.Tensor, idx: pl.Tensor, out: pl.InOut[pl.Tensor], other: pl.InOut[pl.Tensor]):
    t = pl.load(x, [0, 0], [4, 8])
    out = pl.mscatter(t, pl.load(rows, [0, 0], [1, 4]), out)
    other = pl.mscatter(t, pl.load(idx, [0, 0], [4, 8]), other)


def test_mscatter_writes_rows_or_elements_of_device_memory() -> None:
    x = f32(4, 8)
    rows = np.array([[3, 0, 12, 5]], np.int32)
    idx = np.random.default_rng(0).permutation(100)[:32].reshape(4, 8).astype(np.int32)
    *_, out, other = run(
        to_memory, x, rows, idx, np.zeros((10, 8), np.float32), np.zeros((10, 8), np.float32), clean=False
    )
    expected = np.zeros((10, 8), np.float32)
    expected[[3, 0, 5]] = x[[0, 1, 3]]
    np.testing.assert_array_equal(out, expected)
    flat = np.zeros(100, np.float32)
    flat[idx.reshape(-1)] = x.reshape(-1)
    np.testing.assert_array_equal(other.reshape(-1), flat[:80])


@pl.jit
def rows_replaced(x: pl.Tensor, idx: pl.Tensor, src: pl.Tensor, cache: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        cache = pl.scatter_update(cache, -2, idx, src)
        value = pl.scatter_update(pl.mul(x, 1.0), dim=-2, index=idx, src=src)
        out[:] = value
    return cache, out


def test_scatter_update_replaces_whole_rows() -> None:
    x, src = f32(8, 6), f32(4, 6, seed=1)
    idx = np.array([[6, 1], [3, 6]], np.int32)
    *_, cache, out = run(rows_replaced, x, idx, src, x.copy(), empty(8, 6))
    expected = x.copy()
    for row, at in zip(src, idx.reshape(-1), strict=True):
        expected[at] = row
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(cache, expected)


@pl.jit
def rows_in_every_spelling(x: pl.Tensor, idx: pl.Tensor, src: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        value = pl.mul(x, 1.0)
        out[0:8, :] = pl.scatter_update(value, idx, src)
        out[8:16, :] = pl.scatter_update(value, idx, src, dim=-2)
        out[16:24, :] = pl.scatter_update(value, idx, src=src)
        out[24:32, :] = pl.scatter_update(value, src=src, index=idx)
        out[32:40, :] = pl.scatter_update(value, -2, idx, src=src)
    return out


def test_scatter_update_takes_its_axis_first_last_or_not_at_all() -> None:
    x, src = f32(8, 6), f32(4, 6, seed=1)
    idx = np.array([[6, 1], [3, 5]], np.int32)
    *_, out = run(rows_in_every_spelling, x, idx, src, empty(40, 6))
    expected = x.copy()
    expected[idx.reshape(-1)] = src
    np.testing.assert_array_equal(out.reshape(5, 8, 6), np.broadcast_to(expected, (5, 8, 6)))


@pl.jit
def paged(
    pool: pl.Tensor[[24, 16], pl.FP16],
    table: pl.Tensor[[1, 6], pl.INT32],
    places: pl.Tensor[[1, 8], pl.INT32],
    out: pl.Out[pl.Tensor[[8, 10], pl.FP16]],
    turned: pl.Out[pl.Tensor[[10, 8], pl.FP16]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.paged_gather(pool, places, table, 4, 10, 8, col_off=3)
        turned[:] = pl.paged_gather(pool, places, table, 4, 10, 8, col_off=3, is_trans=True)
    return out, turned


def test_paged_gather_finds_rows_through_the_page_table() -> None:
    pool = f32(24, 16).astype(np.float16)
    table = np.array([[5, 0, 3, 1, 2, 4]], np.int32)
    places = np.array([[0, 23, 7, 8, 9, 10, 4, 1]], np.int32)
    *_, out, turned = run(paged, pool, table, places, empty(8, 10, dtype=np.float16), empty(10, 8, dtype=np.float16))
    rows = table[0][places[0] // 4] * 4 + places[0] % 4
    np.testing.assert_array_equal(out, pool[rows, 3:13])
    np.testing.assert_array_equal(turned, pool[rows, 3:13].T)


@pl.jit.incore
def sorted_by_32(x: pl.Tensor, values: pl.Out[pl.Tensor], indices: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [2, 128])
    line = pl.arange(0, [1, 128], dtype=pl.UINT32)
    pairs = pl.sort32(t, pl.col_expand(pl.reinterpret_view(t, pl.UINT32), line))
    first = pl.slice(pairs, [1, 256], [0, 0])
    merged = pl.mrgsort(first, block_len=64)
    values = pl.store(pl.gather(merged, mask_pattern=1), [0, 0], values)
    indices = pl.store(pl.gather(merged, mask_pattern=2, output_dtype=pl.UINT32), [0, 0], indices)
    values = pl.store(pl.gather(pairs, mask_pattern=1), [1, 0], values)
    indices = pl.store(pl.gather(pairs, mask_pattern=2, output_dtype=pl.UINT32), [1, 0], indices)


def test_13_sort32_keeps_the_bits_of_indices_and_mrgsort_merges_groups_of_four() -> None:
    random = np.random.default_rng(0)
    x = np.round(random.standard_normal((2, 128)) * 4).astype(np.float32)  # with many ties
    _, values, indices = run(sorted_by_32, x, empty(3, 128), empty(3, 128, dtype=np.uint32))
    order = np.lexsort((np.arange(128), -x[0]))
    np.testing.assert_array_equal(values[0], x[0][order])
    np.testing.assert_array_equal(indices[0], order)
    for row in range(2):
        for start in range(0, 128, 32):
            block = x[row, start : start + 32]
            order = np.lexsort((np.arange(32), -block))
            np.testing.assert_array_equal(values[1 + row, start : start + 32], block[order])
            np.testing.assert_array_equal(indices[1 + row, start : start + 32], order + start)


@pl.jit.incore
def incomplete(x: pl.Tensor, values: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [1, 192])
    pairs = pl.sort32(t, pl.arange(0, [1, 192], dtype=pl.UINT32))
    values = pl.store(pl.gather(pl.mrgsort(pairs, block_len=64), mask_pattern=1), [0, 0], values)


def test_13_an_incomplete_last_group_stays_as_it_is() -> None:
    x = f32(1, 192)
    _, values = run(incomplete, x, empty(1, 192))
    np.testing.assert_array_equal(values[0, :128], np.sort(x[0, :128])[::-1])
    for start in (128, 160):
        np.testing.assert_array_equal(values[0, start : start + 32], np.sort(x[0, start : start + 32])[::-1])


@pl.jit.incore
def lists_merged(x: pl.Tensor, values: pl.Out[pl.Tensor], indices: pl.Out[pl.Tensor]):
    a = pl.sort32(pl.load(x, [0, 0], [1, 32]), pl.arange(0, [1, 32], dtype=pl.UINT32))
    b = pl.sort32(pl.load(x, [0, 32], [1, 32]), pl.arange(32, [1, 32], dtype=pl.UINT32))
    c = pl.sort32(pl.load(x, [0, 64], [1, 32]), pl.arange(64, [1, 32], dtype=pl.UINT32))
    three = pl.mrgsort(a, b, c)
    values = pl.store(pl.gather(three, mask_pattern=1), [0, 0], values)
    indices = pl.store(pl.gather(three, mask_pattern=2, output_dtype=pl.UINT32), [0, 0], indices)


def test_13_lists_are_merged_in_descending_order_ties_by_the_earlier_list() -> None:
    x = np.round(np.random.default_rng(1).standard_normal((1, 96)) * 3).astype(np.float32)
    _, values, indices = run(lists_merged, x, empty(1, 96), empty(1, 96, dtype=np.uint32))
    order = np.lexsort((np.arange(96), -x[0]))
    np.testing.assert_array_equal(values[0], x[0][order])
    np.testing.assert_array_equal(indices[0], order)


@pl.jit.incore
def halves_sorted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pairs = pl.sort32(pl.load(x, [0, 0], [1, 32]), pl.arange(70000, [1, 32], dtype=pl.UINT32))
    out = pl.store(pl.reinterpret_view(pairs, pl.UINT16), [0, 0], out)


def test_13_fp16_has_four_half_slots_per_element() -> None:
    x = f32(1, 32).astype(np.float16)
    _, out = run(halves_sorted, x, empty(1, 128, dtype=np.uint16))
    order = np.argsort(-x[0], kind="stable")
    slots = out.reshape(32, 4)
    np.testing.assert_array_equal(slots[:, 0], x[0][order].view(np.uint16))
    np.testing.assert_array_equal(slots[:, 1], 0)
    np.testing.assert_array_equal(slots[:, 2] + (slots[:, 3].astype(np.uint32) << 16), order + 70000)


@pl.jit.incore
def sorted_with_int32(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [1, 32])
    out = pl.store(pl.sort32(t, pl.arange(0, [1, 32])), [0, 0], out)


@pl.jit.incore
def gathered_with_floats(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [1, 32])
    out = pl.store(pl.gather(t, dim=0, index=pl.cast(t, pl.INT32)), [0, 0], out)


def test_wrong_indices_and_axes_are_refused() -> None:
    with pytest.raises(KernelTypeError, match="sorts FP32 or FP16 with UINT32 indices, got FP32 and INT32"):
        run(sorted_with_int32, f32(1, 32), empty(1, 64))
    with pytest.raises(KernelValueError, match=r"pl\.gather: dim is 0"):
        run(gathered_with_floats, f32(1, 32), empty(1, 32))
