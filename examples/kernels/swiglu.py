"""SwiGLU, the gate of a transformer's feed-forward block: out = silu(x @ gate) * (x @ up).

What it teaches: tensor-level code. Inside ``with pl.at(...)``, which is one kernel launch, whole tensors are written as
values and the compiler makes the tiles, loads and moves. Matrix products of BF16 give FP32, the arithmetic stays in
FP32, and one cast rounds at the end. An output is written by ``out[:] = ...``; a bare ``out = ...`` would only name a
value.
"""

import torch

import pypto.language as pl


@pl.jit
def swiglu(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, out: pl.Out[pl.Tensor]):
    """One launch computes both products, the gate and the result."""
    with pl.at(level=pl.Level.CORE_GROUP):
        g = pl.matmul(x, gate, out_dtype=pl.FP32)
        u = pl.matmul(x, up, out_dtype=pl.FP32)
        sigmoid = pl.recip(pl.add(pl.exp(pl.mul(g, -1.0)), 1.0))
        out[:] = pl.cast(pl.mul(pl.mul(g, sigmoid), u), pl.BF16)
    return out


def main() -> None:
    """Runs it and compares with torch in FP32.

    The one rounding to BF16 costs half a unit, 2**-9 of the value; the FP32 error in front of it may push it to the
    neighbour, which makes it 2**-8. Near zero the error of the FP32 sums counts: 1e-5.
    """
    torch.manual_seed(0)
    x = torch.randn(16, 256).to(torch.bfloat16)
    gate, up = ((torch.randn(256, 512) / 16).to(torch.bfloat16) for _ in range(2))
    out = torch.empty(16, 512, dtype=torch.bfloat16)
    swiglu(x, gate, up, out)
    wanted = torch.nn.functional.silu(x.float() @ gate.float()) * (x.float() @ up.float())
    torch.testing.assert_close(out.float(), wanted, rtol=2**-8, atol=1e-5)
    print("silu(x @ gate) * (x @ up) in BF16: equal to torch within one unit of BF16")


if __name__ == "__main__":
    main()
