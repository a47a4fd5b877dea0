"""A matrix product with explicit tiles.

What it teaches: the way of a tile through the memories of the cube core (device memory, then ``Mat``, then ``Left`` and
``Right``, then ``Acc``); sums over blocks of the inner dimension, ``matmul`` for the first and ``matmul_acc`` for the
others; a transposed view of a tile costs nothing.
"""

import torch

import pypto.language as pl

M, K, N = 128, 256, 128
BM, BK, BN = 64, 64, 64


@pl.jit.incore
def product_block(
    a: pl.Tensor[[M, K], pl.FP16],
    b: pl.Tensor[[N, K], pl.FP16],
    c: pl.Out[pl.Tensor[[M, N], pl.FP32]],
    row: pl.Scalar[pl.INDEX],
    col: pl.Scalar[pl.INDEX],
):
    """One block of `a @ b.T`: `b` is stored with a row for each column of the result."""
    a_l1 = pl.load(a, [row, 0], [BM, BK], target_memory=pl.Mem.Mat)
    b_l1 = pl.load(b, [col, 0], [BN, BK], target_memory=pl.Mem.Mat)
    left = pl.move(a_l1, target_memory=pl.Mem.Left)
    right = pl.move(pl.tile.transpose_view(b_l1), target_memory=pl.Mem.Right)
    acc = pl.matmul(left, right)
    for k in pl.pipeline(BK, K, BK, stage=2):
        a_l1 = pl.load(a, [row, k], [BM, BK], target_memory=pl.Mem.Mat)
        b_l1 = pl.load(b, [col, k], [BN, BK], target_memory=pl.Mem.Mat)
        left = pl.move(a_l1, target_memory=pl.Mem.Left)
        right = pl.move(pl.tile.transpose_view(b_l1), target_memory=pl.Mem.Right)
        acc = pl.matmul_acc(acc, left, right)
    c = pl.store(acc, [row, col], c)
    return c


@pl.jit
def product(a: pl.Tensor[[M, K], pl.FP16], b: pl.Tensor[[N, K], pl.FP16], c: pl.Out[pl.Tensor[[M, N], pl.FP32]]):
    """All blocks; they are independent of each other."""
    for row in pl.parallel(0, M, BM):
        for col in pl.parallel(0, N, BN):
            c = product_block(a, b, c, row, col)
    return c


def main() -> None:
    """Compares with torch in FP64.

    Products of FP16 numbers are exact in FP32, each of the 256 additions rounds once: at most 256 half units of the sum
    of magnitudes, which is what the tolerance says.
    """
    torch.manual_seed(0)
    a, b = torch.randn(M, K).half(), torch.randn(N, K).half()
    c = torch.empty(M, N)
    product(a, b, c)
    want = a.double() @ b.double().T
    bound = (a.double().abs() @ b.double().abs().T) * K * 2**-24
    assert bool(((c.double() - want).abs() <= bound).all())
    print(f"{M} x {K} x {N} in tiles of {BM} x {BK} x {BN}: within the bound of FP32 sums")


if __name__ == "__main__":
    main()
