"""`pl.split_aiv`: both vector lanes run the region, each with values of its own."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


@pl.jit
def halves(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        scores = pl.matmul(q, k, b_trans=True)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            mine = pl.aiv_shard(scores)
            top = pl.row_max(mine)
            probs = pl.exp(pl.row_expand_sub(mine, top))
            total = pl.row_sum(probs)
            joined = pl.aic_gather(probs)
        result = pl.matmul(joined, v)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            part = pl.row_expand_div(pl.aiv_shard(result), total)
            out[lane * 4 : lane * 4 + 4, :] = part
    return out


def test_each_lane_has_its_half_and_keeps_its_values_until_the_next_region() -> None:
    q, k, v = f32(8, 16), f32(32, 16, seed=1), f32(32, 8, seed=2)
    scores = np.exp(q @ k.T - (q @ k.T).max(1, keepdims=True))
    want = scores @ v / scores.sum(1, keepdims=True)
    np.testing.assert_allclose(run(halves, q, k, v, empty(8, 8))[-1], want, rtol=1e-4, atol=1e-5)


@pl.jit
def online(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        best = pl.full([4, 1], pl.FP32, -1000.0)
        for i in pl.range(3):
            block = x[:, i * 8 : i * 8 + 8]
            for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
                best = pl.maximum(best, pl.row_max(pl.aiv_shard(block)))
                if lane == 1:
                    best = pl.add(best, 1.0)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):
            out[pl.get_subblock_idx() * 4 : pl.get_subblock_idx() * 4 + 4, :] = best
    return out


def test_a_loop_around_a_region_carries_a_value_for_each_lane() -> None:
    x = f32(8, 24)
    want = empty(8, 1)
    want[:4, 0] = x[:4].max(1)
    low = np.full(4, -1000, np.float32)
    for i in range(3):
        low = np.maximum(low, x[4:, i * 8 : i * 8 + 8].max(1)) + 1
    want[4:, 0] = low
    np.testing.assert_allclose(run(online, x, empty(8, 1))[1], want, rtol=1e-6)


@pl.jit
def columns_in_a_loop(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
            for i in pl.range(2):
                part = pl.mul(pl.aiv_shard(x[i * 4 : i * 4 + 4, :]), pl.cast(lane + 1, pl.FP32))
                whole = pl.aic_gather(part)
                if lane == 0:
                    out[i * 4 : i * 4 + 4, :] = whole
    return out


def test_a_loop_that_gathers_is_entered_by_both_lanes() -> None:
    x = f32(8, 16)
    want = x * np.repeat([1, 2], 8).astype(np.float32)
    np.testing.assert_array_equal(run(columns_in_a_loop, x, empty(8, 16))[1], want)


@pl.jit
def whole_lanes(x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.add(x, 1.0)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            acc = pl.add(pl.aiv_shard(acc), 10.0)
            out[lane * 4 : lane * 4 + 4, :] = pl.add(out[0:4, :], acc)
    return out


def test_22_without_a_split_both_lanes_run_the_whole_body() -> None:
    x, out = f32(4, 8), f32(8, 8, seed=1)
    first = out[:4] + x + 11
    want = np.concatenate([first, first + x + 11])
    np.testing.assert_allclose(run(whole_lanes, x, out)[1], want, rtol=1e-5)


REFUSED = {
    "for l in pl.split_aiv(4, mode=pl.SplitMode.NONE): pass": ("a core has 2 vector lanes", "pl.split_aiv(2"),
    "for l in pl.split_aiv(2): pass": ("takes the number of lanes and mode=", "pl.split_aiv(2"),
    "for l in pl.split_aiv(2, mode=1): pass": ("the mode must be a pl.SplitMode", "pl.SplitMode.UP_DOWN"),
    "y = pl.aiv_shard(t)": ("pl.aiv_shard outside pl.split_aiv", "for lane in pl.split_aiv"),
    "for l in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN): y = pl.aiv_shard(t)": ("[3, 8] has no halves", "pad it"),
    "for l in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN): y = pl.add(t, z)": ("'z' has no value here", "assign it"),
}


@pytest.mark.parametrize("statement", REFUSED, ids=list(REFUSED))
def test_misused_lanes_are_refused_with_advice(statement: str, tmp_path) -> None:
    message, advice = REFUSED[statement]
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\n@pl.jit.incore\ndef kernel(x: pl.Tensor[[3, 8], pl.FP32]):\n"
        f"    t = pl.load(x, [0, 0], [3, 8])\n    {statement}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower()
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert advice in diagnostic.hint


def test_a_region_outside_a_kernel_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            pass
        return out

    with pytest.raises(SyntaxError, match="split_aiv outside a kernel"):
        kernel.lower(f32(4, 8), empty(4, 8))
