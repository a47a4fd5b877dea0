"""A product whose inner dimension is split among blocks that add to one result.

What it teaches: a long inner dimension and a small result leave most cores without work, unless several of them work on
one block of the result; ``atomic=pl.AtomicType.Add`` adds what each of them has to device memory; the memory is not
zeroed for a kernel, so a task of its own does that first. Here blocks add in ascending order, so the result is the same
every time.
"""

import torch

import pypto.language as pl

M, K, N = 32, 2048, 64
SPLITS = 8
PART = K // SPLITS


@pl.jit
def split_product(a: pl.Tensor[[M, K], pl.FP32], b: pl.Tensor[[K, N], pl.FP32], c: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    """`a @ b` as the sum of `SPLITS` products."""
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="zero"):
        c[:] = pl.full([M, N], dtype=pl.FP32, value=0.0)
    for part in pl.spmd(SPLITS, name_hint="part"):
        k = part * PART
        product = pl.matmul(a[:, k : k + PART], b[k : k + PART, :])
        c = pl.assemble(c, product, [0, 0], atomic=pl.AtomicType.Add)
    return c


def main() -> None:
    """Compares with torch in FP64, and one run with another.

    Each of the sums has 256 terms, and 8 of them are added: at most 264 half units of the sum of magnitudes.
    """
    torch.manual_seed(0)
    a, b = torch.randn(M, K), torch.randn(K, N)
    c, again = torch.empty(M, N), torch.empty(M, N)
    split_product(a, b, c)
    split_product(a, b, again)
    assert torch.equal(c, again)
    bound = (a.double().abs() @ b.double().abs()) * (PART + SPLITS) * 2**-24
    assert bool(((c.double() - a.double() @ b.double()).abs() <= bound).all())
    print(f"{M} x {K} x {N} in {SPLITS} parts that add atomically: within the bound, and the same every time")


if __name__ == "__main__":
    main()
