"""What is valid of device memory: said by slices and annotations, carried into kernels."""

from typing import Any

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto.ir import KernelTypeError, KernelValueError

N = pl.dynamic("N")


def filled(shape: tuple[int, int], valid: tuple[int, int], value: np.ndarray) -> np.ndarray:
    """`value` in the valid corner, 0 elsewhere."""
    result = np.zeros(shape, np.float32)
    result[: valid[0], : valid[1]] = value[: valid[0], : valid[1]]
    return result


@pl.program
class Annotated:
    @pl.function(type=pl.FunctionType.InCore)
    def fill(
        self,
        x: pl.Tensor[
            [16, 32],
            pl.FP32,
            pl.TensorView(valid_shape=[10, 20], stride=[32, 1], layout=pl.TensorLayout.ND),
        ],
        out: pl.Out[pl.Tensor[[16, 32], pl.FP32]],
    ) -> pl.Tensor[[16, 32], pl.FP32]:
        t: pl.Tile[[16, 32], pl.FP32, pl.MemRef(pl.MemorySpace.Vec, 0, 2048, 0)] = pl.load(x, [0, 0], [16, 32])
        u: pl.Tile[[16, 32], pl.FP32, pl.MemorySpace.Vec, pl.TileView(valid_shape=[16, 32])] = pl.fillpad(t)
        out = pl.store(u, [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self, x: pl.Tensor[[16, 32], pl.FP32, pl.NZ], out: pl.Out[pl.Tensor[[16, 32], pl.FP32]]
    ) -> pl.Tensor[[16, 32], pl.FP32]:
        out = self.fill(x, out)
        return out


def test_an_annotation_says_what_is_valid_of_a_parameter() -> None:
    x = f32(16, 32)
    _, out = run(Annotated, x, empty(16, 32))
    np.testing.assert_array_equal(out, filled((16, 32), (10, 20), x))


@pl.program
class Narrowed:
    @pl.function(type=pl.FunctionType.InCore)
    def fill(
        self,
        x: pl.Tensor[[8, 16], pl.FP32, pl.TensorView(valid_shape=[5, 16])],
        out: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    ) -> pl.Tensor[[8, 16], pl.FP32]:
        out = pl.store(pl.fillpad(pl.load(x, [0, 0], [8, 16])), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[8, 16], pl.FP32],
        rows: pl.Tensor[[1], pl.INT32],
        out: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    ) -> pl.Tensor[[8, 16], pl.FP32]:
        n = pl.read(rows, [0])
        part = pl.slice(x, [8, 16], [0, 0], valid_shape=[n, 9])
        out = self.fill(part, out)
        return out


def test_of_an_argument_and_its_annotation_the_smaller_part_is_valid() -> None:
    x = f32(8, 16)
    for n in (8, 5, 3, 0):
        *_, out = run(Narrowed, x, np.array([n], np.int32), empty(8, 16))
        np.testing.assert_array_equal(out, filled((8, 16), (min(n, 5), 9), x))


@pl.jit.incore
def fill(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    t = pl.load(x, [0, 0], [8, 16])
    out = pl.store(pl.fillpad(t), [0, 0], out)
    return out


@pl.jit.inline
def fill_inline(x: pl.Tensor, out: pl.Tensor):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(pl.add(x, 0.0))
    return out


@pl.jit
def two_callers(
    x: pl.Tensor[[32, 16], pl.FP32],
    a: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    b: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    c: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    d: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    n: pl.Scalar[pl.INDEX],
):
    part = pl.slice(x, [8, 16], [4, 0], valid_shape=[n, 7])
    a = fill(part, a)
    b = fill(x[4:12, :], b)
    c = fill_inline(part, c)
    again = pl.slice(part, [8, 16], [1, 2])
    d = fill(again, d)
    return a, b, c, d


@pytest.mark.parametrize("runtime", [False, True])
def test_a_kernel_sees_what_its_caller_says_is_valid(runtime: bool) -> None:
    x = f32(32, 16)
    for n in (7, 3, 0):
        outs = [empty(8, 16) for _ in range(4)]
        _, a, b, c, d = run(two_callers, x, *outs, n, runtime=runtime)
        np.testing.assert_array_equal(a, filled((8, 16), (n, 7), x[4:]))
        np.testing.assert_array_equal(b, x[4:12])
        np.testing.assert_array_equal(c, filled((8, 16), (n, 7), x[4:]))
        np.testing.assert_array_equal(d, filled((8, 16), (max(n - 1, 0), 5), np.pad(x, ((0, 0), (0, 2)))[5:, 2:]))


@pl.jit
def indexed_beyond(
    x: pl.Tensor[[4, 8, 16], pl.FP32], out: pl.Out[pl.Tensor[[32, 16], pl.FP32]], n: pl.Scalar[pl.INDEX]
):
    part = pl.slice(x, [4, 8, 16], [0, 0, 0], valid_shape=[n, 5, 16])
    plane = part[2]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[0:8, :] = pl.fillpad(pl.add(plane, 0.0))
        out[8:16, :] = pl.fillpad(part[1])
        t = pl.add(part, 0.0)
        out[16:24, :] = pl.fillpad(t[3])
        out[24:32, :] = pl.fillpad(t[0])
    return out


def test_of_an_index_beyond_what_is_valid_nothing_is_valid() -> None:
    x = f32(4, 8, 16)
    for n in (4, 3, 2, 0):
        _, out = run(indexed_beyond, x, empty(32, 16), n)
        for start, plane in ((0, 2), (8, 1), (16, 3), (24, 0)):
            expected = filled((8, 16), (5 if plane < n else 0, 16), x[plane])
            np.testing.assert_array_equal(out[start : start + 8], expected)


@pl.jit
def relabelled(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]):
    label = pl.tensor.view(x, [8, 16], layout=pl.NZ)
    rows = pl.tensor.view(label, [16, 8], [11, 8], layout=pl.TensorLayout.DN)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(pl.add(rows, 1.0))
    return out


def test_a_view_says_what_is_valid_and_its_layout_is_a_label() -> None:
    x = f32(8, 16)
    _, out = run(relabelled, x, empty(16, 8))
    np.testing.assert_array_equal(out, filled((16, 8), (11, 8), x.reshape(16, 8) + 1))


@pl.jit
def bits(
    x: pl.Tensor[[8, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[8, 16], pl.INT32]],
    halves: pl.Out[pl.Tensor[[8, 20], pl.INT16]],
    flat: pl.Out[pl.Tensor[[4, 64], pl.INT16]],
):
    words = pl.reinterpret_view(x, pl.INT32)
    corner = pl.reinterpret_view(x[:, 4:14], pl.INT16)
    lines = pl.reinterpret_view(x, pl.INT16, shape=[4, 64])
    back = pl.reinterpret_view(out, pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        halves[:] = pl.tensor.full([8, 20], pl.INT16, 0)
        halves[:] = pl.ors(corner, 0)
        flat[:] = pl.ors(lines, 0)
        back[:] = pl.abs(pl.reinterpret_view(pl.ors(words, 0), pl.FP32))
    return out, halves, flat


def test_orchestration_code_reads_and_writes_the_same_bits_as_another_dtype() -> None:
    x = f32(8, 16)
    outs = empty(8, 16, dtype=np.int32), empty(8, 20, dtype=np.int16), empty(4, 64, dtype=np.int16)
    _, out, halves, flat = run(bits, x, *outs)
    np.testing.assert_array_equal(out.view(np.float32), np.abs(x))
    np.testing.assert_array_equal(halves, np.ascontiguousarray(x[:, 4:14]).view(np.int16))
    np.testing.assert_array_equal(flat, x.view(np.int16).reshape(4, 64))


@pl.jit
def bits_of_a_part(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 32], pl.INT16]], n: pl.Scalar[pl.INDEX]):
    part = pl.slice(x, [8, 16], [0, 0], valid_shape=[n, 5])
    halves = pl.reinterpret_view(part, pl.INT16)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.fillpad(pl.ors(halves, 0))
    return out


def test_a_reinterpreted_slice_has_the_same_bytes_valid() -> None:
    x = f32(8, 16)
    for n in (8, 3):
        _, out = run(bits_of_a_part, x, empty(8, 32, dtype=np.int16), n)
        expected = np.zeros((8, 32), np.int16)
        expected[:n, :10] = x.view(np.int16)[:n, :10]
        np.testing.assert_array_equal(out, expected)


@pl.jit
def other_bytes(x: pl.Tensor[[8, 15], pl.INT8], out: pl.Out[pl.Tensor[[8, 15], pl.INT8]]):
    words = pl.reinterpret_view(x, pl.INT32)
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.reinterpret_view(words, pl.INT8)
    return out


def test_bytes_that_are_no_whole_number_of_elements_are_refused() -> None:
    with pytest.raises(KernelValueError, match=r"has other bytes than \[8, 3\] of INT32"):
        run(other_bytes, empty(8, 15, dtype=np.int8), empty(8, 15, dtype=np.int8))


def test_annotations_of_validity_are_checked() -> None:
    views = (
        (pl.TensorView(valid_shape=[2]), r"valid_shape of pl.TensorView has one item for each of the 2 axes"),
        (pl.TensorView(valid_shape=[5, 8]), r"valid_shape 5 is not within the extent 4"),
        (pl.TensorView(valid_shape=[4, 2.5]), r"an item of valid_shape is an int or a pl.dynamic object, got 2.5"),
        (pl.TensorView(stride=[1]), r"stride of pl.TensorView has one item for each of the 2 axes"),
    )
    for view, text in views:
        annotation = pl.Tensor[[4, 8], pl.FP32, view]
        with pytest.raises(KernelTypeError, match=text):

            @pl.function
            def kernel(x: annotation):
                pass

    annotation = pl.Tensor[[4, 8], pl.FP32, pl.TensorView(valid_shape=[N, 8])]
    with pytest.raises(ValueError, match=r'valid_shape names pl.dynamic\("N"\), which is no extent of a parameter'):

        @pl.function
        def other(x: annotation):
            pass


ROWS = pl.dynamic("rows")


@pl.program
class Counted:
    @pl.function(type=pl.FunctionType.InCore)
    def fill(
        self,
        x: pl.Tensor[[8, 16], pl.FP32, pl.TensorView(valid_shape=[ROWS, 9])],
        out: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
        rows: pl.Scalar[pl.INDEX],
    ):
        return pl.store(pl.fillpad(pl.load(x, [0, 0], [8, 16])), [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[8, 16], pl.FP32],
        rows: pl.Tensor[[1], pl.INT32],
        out: pl.Out[pl.Tensor[[8, 16], pl.FP32]],
    ):
        out = self.fill(x, out, pl.read(rows, [0]))
        return out


@pytest.mark.parametrize("rows", [0, 3, 8])
def test_a_scalar_parameter_says_how_much_of_another_is_valid(rows: int) -> None:
    x = f32(8, 16)
    *_, out = run(Counted, x, np.array([rows], np.int32), empty(8, 16))
    np.testing.assert_array_equal(out, filled((8, 16), (rows, 9), x))


@pl.jit
def chosen_view(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    k = pl.read(n, [0])
    s = pl.slice(x, [16, 64], [0, 0], valid_shape=[k + 1, 64])
    if k > 8:
        s = pl.slice(x, [16, 64], [0, 0], valid_shape=[k - 3, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.fillpad(s[:, :])
    return out


@pl.jit
def carried_view(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    s = pl.slice(x, [16, 64], [0, 0], valid_shape=[5, 64])
    for i in pl.range(3):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:, :] = pl.fillpad(s[:, :])
        s = pl.slice(x, [16, 64], [0, 0], valid_shape=[i + 1, 64])
    return out


@pl.jit
def chosen_number(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    k = pl.read(n, [0])
    rows = k + 1
    if k > 8:
        rows = k - 3
    s = pl.slice(x, [16, 64], [0, 0], valid_shape=[rows, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.fillpad(s[:, :])
    return out


@pl.jit
def chosen_place(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    k = pl.read(n, [0])
    s = pl.slice(x, [16, 64], [0, 0], valid_shape=[k, 64])
    if k > 8:
        s = pl.slice(x, [16, 64], [2, 0], valid_shape=[k, 64])
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.fillpad(s[:, :])
    return out


def test_a_view_keeps_what_is_valid_of_it_where_paths_meet() -> None:
    """It kept the extents of one path, also where another was taken."""
    for kernel, error, text in (
        (chosen_view, KernelTypeError, "of the view 's', other extents are valid on each path"),
        (carried_view, KernelValueError, "of the view 's', other extents are valid before the loop than at its end"),
    ):
        with pytest.raises(error, match=text):
            kernel.lower(f32(16, 64), np.array([5], np.int32), empty(16, 64))


@pytest.mark.parametrize("k", [5, 9])
def test_a_path_may_choose_the_number_or_the_place(k: int) -> None:
    x, n = f32(16, 64), np.array([k], np.int32)
    *_, out = run(chosen_number.lower(x, n, empty(16, 64)), x, n, empty(16, 64))
    np.testing.assert_array_equal(out, filled((16, 64), (k - 3 if k > 8 else k + 1, 64), x))
    *_, out = run(chosen_place.lower(x, n, empty(16, 64)), x, n, empty(16, 64))
    np.testing.assert_array_equal(out, filled((16, 64), (k, 64), x[2:] if k > 8 else x))


@pl.jit
def chosen_tile(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.cast(pl.read(n, [0]), pl.INDEX)
        if k > 8:
            t = pl.load(x, [0, 0], [16, 64], valid_shape=[k + 1, 64])
        else:
            t = pl.neg(pl.load(x, [0, 0], [16, 64], valid_shape=[k + 1, 64]))
        out = pl.store(pl.fillpad(t), [0, 0], out)
    return out


@pl.jit
def chosen_again(
    x: pl.Tensor[[16, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        k = pl.cast(pl.read(n, [0]), pl.INDEX)
        t = pl.load(x, [0, 0], [16, 64], valid_shape=[k + 1, 64])
        first = t
        if k > 8:
            t = pl.load(x, [0, 0], [16, 64], valid_shape=[k + 1, 64])
        else:
            t = pl.neg(pl.load(x, [0, 0], [16, 64], valid_shape=[k + 1, 64]))
        out = pl.store(pl.add(pl.fillpad(t), pl.sub(pl.fillpad(first), pl.fillpad(first))), [0, 0], out)
    return out


@pytest.mark.parametrize("kernel", [chosen_tile, chosen_again])
@pytest.mark.parametrize("k", [5, 9])
def test_a_tile_of_either_arm_has_the_number_of_that_arm(kernel: Any, k: int) -> None:
    """It had that of the first arm, which is no number where the second ran."""
    x, n = f32(16, 64), np.array([k], np.int32)
    *_, out = run(kernel.lower(x, n, empty(16, 64)), x, n, empty(16, 64))
    np.testing.assert_array_equal(out, filled((16, 64), (k + 1, 64), x if k > 8 else -x))
