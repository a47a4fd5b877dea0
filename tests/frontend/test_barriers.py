"""`pl.system.syncall`: blocks read what other blocks wrote before the barrier, and keep their own values across it."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


@pl.jit
def normalised(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    sums = pl.create_tensor([1, 4], pl.FP32)
    for b in pl.spmd(4, name_hint="rows"):
        row = x[b : b + 1, :]
        mine = pl.exp(row)
        scale = pl.cast(b + 1, pl.FP32)
        sums[:, b : b + 1] = pl.row_sum(mine)
        target = out[b : b + 1, :]
        pl.system.syncall()
        total = pl.row_sum(sums)
        mine = pl.row_expand_div(mine, total)
        pl.system.syncall(core_type="mix", mode="hard")
        out[b : b + 1, :] = pl.mul(mine, scale)
    return out


def test_23_blocks_read_after_the_barrier_what_others_wrote_before_it() -> None:
    x = f32(4, 8)
    want = np.exp(x) / np.exp(x).sum() * np.arange(1, 5)[:, None]
    np.testing.assert_allclose(run(normalised, x, empty(4, 8))[1], want, rtol=1e-5)


@pl.jit.incore
def shifted(x: pl.Tensor, shared: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    b = pl.get_block_idx()
    valid = pl.min(n, 8 - b)
    mine = pl.load(x, [b, 0], [1, 8], valid_shape=[1, valid])
    shared = pl.store(mine, [b, 0], shared)
    last = b == pl.get_block_num() - 1
    pl.system.syncall()
    view = pl.reshape(shared, [4, 8])
    if last:
        other = pl.load(view, [0, 0], [1, 8], valid_shape=[1, 2])
    else:
        other = pl.load(view, [b + 1, 0], [1, 8], valid_shape=[1, 2])
    pl.store(mine, [b, 0], out)
    pl.system.syncall()
    pl.store(other, [b, 0], out)


@pl.jit
def ring(x: pl.Tensor, out: pl.Out[pl.Tensor], blocks: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX]):
    shared = pl.create_tensor([4, 8], pl.FP32, init_value=0.0)
    for _ in pl.range(2):
        with pl.spmd(blocks):
            shifted(x, shared, out, n)
    return out


@pytest.mark.parametrize("runtime", [False, True])
@pytest.mark.parametrize(("blocks", "n"), [(4, 6), (1, 3), (0, 3)])
def test_a_kernel_function_may_have_barriers_too(blocks: int, n: int, runtime: bool) -> None:
    x = f32(4, 8)
    want = empty(4, 8)
    for b in range(blocks):
        valid = min(n, 8 - b)
        want[b, :valid] = x[b, :valid]
        want[b, :2] = x[(b + 1) % blocks, :2]
    np.testing.assert_array_equal(run(ring, x, empty(4, 8), blocks, n, runtime=runtime)[1], want)


def test_a_barrier_in_a_branch_or_loop_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for b in pl.spmd(4):
            for i in pl.range(2):
                pl.system.syncall()
            for i in pl.unroll(2):
                pl.system.syncall()
            out[b : b + 1, :] = x[b : b + 1, :]
        return out

    with pytest.raises(ir.KernelError) as caught:
        kernel.lower(f32(4, 8), empty(4, 8))
    (diagnostic,) = caught.value.diagnostics
    assert "pl.system.syncall inside a branch or loop" in diagnostic.message
    assert "put the barrier at the top level of the kernel" in diagnostic.hint


def test_a_barrier_outside_a_kernel_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.system.syncall()
        return out

    with pytest.raises(TypeError, match="misplaced"):
        kernel.lower(f32(4, 8), empty(4, 8))
