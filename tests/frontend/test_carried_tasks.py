"""Task ids that loops carry with `init_values`: what is declared by them is what the sanitizer takes as the order."""

import numpy as np
import pytest
from checking import f32, run

import pypto.language as pl


@pl.jit.incore
def plus(x: pl.InOut[pl.Tensor], by: pl.Scalar[pl.FP32]):
    x[:] = pl.add(x, by)
    return x


@pl.jit
def chains(x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor], outside: pl.InOut[pl.Tensor]):
    with pl.manual_scope():
        outside, p = pl.submit(plus, outside, 1.0)
        x, first = pl.submit(plus, x, 1.0)
        for _, (p, q) in pl.range(3, init_values=(first, None)):  # `p` inside is another
            x, p1 = pl.submit(plus, x, 2.0, deps=[p])
            y, q1 = pl.submit(plus, y, 4.0, deps=[q])
            last, tail = pl.yield_(p1, q1)
        x, _ = pl.submit(plus, x, 8.0, deps=[last])
        for k, t in pl.while_(init_values=(0, tail)):
            pl.cond(k < 2)
            y, t1 = pl.submit(plus, y, 16.0, deps=[t])
            k_end, t_end = pl.yield_(k + 1, t1)
        y, _ = pl.submit(plus, y, pl.cast(k_end, pl.FP32), deps=[t_end])
        outside, _ = pl.submit(plus, outside, 1.0, deps=[p])
    return x, y, outside


def test_a_loop_carries_task_ids_from_round_to_round_and_out() -> None:
    x, y, z = f32(4, 8), f32(4, 8, seed=1), f32(4, 8, seed=2)
    for got, want in zip(run(chains, x, y, z), (x + 15, y + 46, z + 2), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pl.jit
def swapped(x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor]):
    with pl.manual_scope():
        x, a = pl.submit(plus, x, 1.0)
        y, b = pl.submit(plus, y, 1.0)
        for _, (p, q) in pl.range(3, init_values=(a, b)):
            a, b = pl.yield_(q, p)
        a, b = b, a
        x, _ = pl.submit(plus, x, 2.0, deps=[a])
        y, _ = pl.submit(plus, y, 2.0, deps=[b])
    return x, y


def test_names_swap_their_task_ids() -> None:
    """Three rounds and the swap behind them leave each name with its own; otherwise the sanitizer finds a race."""
    x, y = f32(4, 8), f32(4, 8, seed=1)
    for got, want in zip(run(swapped, x, y), (x + 3, y + 3), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pl.jit
def carries_a_dtype(x: pl.InOut[pl.Tensor]):
    for _, (t,) in pl.range(2, init_values=(pl.FP32,)):
        t1 = pl.yield_(t)
    return x


def test_what_a_loop_cannot_carry_is_refused_with_what_it_can() -> None:
    with pytest.raises(TypeError, match="a loop carries scalars, tiles, tensors and task ids, got"):
        carries_a_dtype.lower(f32(4, 8))
