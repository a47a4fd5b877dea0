"""Keep a weight on the device, and see what that is worth.

A layer ``out = x @ W`` runs for batches of different sizes. Passed as a host tensor, the 8 MiB weight is copied to the
device in every call. Allocated once with ``alloc_tensor(init=...)`` it stays there: no bytes of it cross again, in
either direction. The table at the end shows what changes (the time of the whole launch and the bytes) and what must
not get worse (the device's own time).

Run it: ``python examples/runtime/resident_weight.py [--platform a2a3sim] [--rounds 50]``
"""

import argparse
from statistics import median

import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import BenchmarkStats, ChipWorker, DeviceTensor, RunConfig, benchmark

M = pl.dynamic("M")  # rows of a batch: any number, decided by each call
K = 1024
N = 4096
# One kernel call makes a block of ROWS x COLS of the result and adds it up in steps of DEPTH: what is on chip at once
# fits the buffers of a 910B (64 KiB for the right operand of a product, 128 KiB for the sums).
ROWS = 64
COLS = 256
DEPTH = 128

BATCHES = (1, 16, 40)
TURNS = 5  # of measuring with the weight on the host, then resident

# The kernel multiplies FP16 values exactly, adds them in FP32 and rounds once, when it stores FP16: half a unit in the
# last place, 2**-11 of the value. The sums in FP32 run in another order than the reference's, which may push a result
# over a rounding boundary: another half. `ATOL` is the FP32 error of a sum of 1,024 products of order 1/32.
RTOL = 2**-10
ATOL = 2e-5


@pl.program
class MyKernel:
    """out[M, 4096] = x[M, 1024] @ w[1024, 4096], FP16 in and out, FP32 in between."""

    @pl.function(type=pl.FunctionType.InCore)
    def multiply_block(
        self,
        x: pl.Tensor[[M, K], pl.FP16],
        w: pl.Tensor[[K, N], pl.FP16],
        out: pl.Out[pl.Tensor[[M, N], pl.FP16]],
        row: pl.Scalar[pl.INDEX],
        rows: pl.Scalar[pl.INDEX],
        col: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[M, N], pl.FP16]:
        """One block of the result: `rows` rows from `row` on, COLS columns from `col` on."""
        x_l1 = pl.load(x, [row, 0], [ROWS, DEPTH], valid_shape=[rows, DEPTH], target_memory=pl.Mem.Mat)
        w_l1 = pl.load(w, [0, col], [DEPTH, COLS], target_memory=pl.Mem.Mat)
        x_l0 = pl.move(x_l1, target_memory=pl.Mem.Left)
        w_l0 = pl.move(w_l1, target_memory=pl.Mem.Right)
        acc = pl.matmul(x_l0, w_l0)
        for k in pl.range(DEPTH, K, DEPTH):
            x_l1 = pl.load(x, [row, k], [ROWS, DEPTH], valid_shape=[rows, DEPTH], target_memory=pl.Mem.Mat)
            w_l1 = pl.load(w, [k, col], [DEPTH, COLS], target_memory=pl.Mem.Mat)
            x_l0 = pl.move(x_l1, target_memory=pl.Mem.Left)
            w_l0 = pl.move(w_l1, target_memory=pl.Mem.Right)
            acc = pl.matmul_acc(acc, x_l0, w_l0)
        out = pl.store(acc, [row, col], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[M, K], pl.FP16],
        w: pl.Tensor[[K, N], pl.FP16],
        out: pl.Out[pl.Tensor[[M, N], pl.FP16]],
    ) -> pl.Tensor[[M, N], pl.FP16]:
        """Cuts the result into blocks; the last block of rows may be short."""
        for row in pl.range(0, M, ROWS):
            rows = pl.min(M - row, ROWS)
            for col in pl.range(0, N, COLS):
                out = self.multiply_block(x, w, out, row, rows, col)
        return out


def check(out: torch.Tensor, batch: torch.Tensor, weight: torch.Tensor) -> None:
    """Raises when `out` is not the product, as torch computes it in FP32."""
    torch.testing.assert_close(out.float(), batch.float() @ weight.float(), rtol=RTOL, atol=ATOL)


def line_of_table(rows: int, where: str, turns: list[BenchmarkStats]) -> str:
    """One line of the table: medians of the times of all turns, bytes of one launch."""
    host = median(time for stats in turns for time in stats.host_wall_us)
    device = median(time for stats in turns for time in stats.device_wall_us)
    return f"{rows:>5} {where:<10} {host:>12.1f} {device:>14.1f} {turns[0].h2d_bytes:>12,} {turns[0].d2h_bytes:>12,}"


def main() -> None:
    """Runs the job with the weight on the host, then resident, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="a2a3sim", help="a2a3sim, the simulated chip, or a2a3, a real one")
    parser.add_argument("--rounds", type=int, default=50, help="measured launches for each line of the table")
    options = parser.parse_args()

    torch.manual_seed(0)
    host_weight = (torch.randn(K, N) / K**0.5).to(torch.float16)
    batches = [torch.randn(rows, K).to(torch.float16) for rows in BATCHES]

    cfg = RunConfig(platform=options.platform)
    compiled = ir.compile(MyKernel, platform=cfg.platform)

    lines = []
    with ChipWorker(config=cfg) as w:
        weight = w.alloc_tensor((K, N), torch.float16, init=host_weight)  # the one copy of the weight
        places: dict[str, torch.Tensor | DeviceTensor] = {"host": host_weight, "resident": weight}
        for where in places:
            for batch in batches:
                out = torch.empty(batch.shape[0], N, dtype=torch.float16)
                compiled(batch, places[where], out)
                check(out, batch, host_weight)
        for batch in batches:
            out = torch.empty(batch.shape[0], N, dtype=torch.float16)
            turns: dict[str, list[BenchmarkStats]] = {where: [] for where in places}
            # In turns, so that what else the machine does meanwhile falls on both alike.
            for _ in range(TURNS):
                for where, place in places.items():
                    stats = benchmark(compiled, [batch, place, out], rounds=-(-options.rounds // TURNS), warmup=3)
                    turns[where].append(stats)
            lines += [line_of_table(batch.shape[0], where, turns[where]) for where in places]
        w.free_tensor(weight)

    print(f"out[M, {N}] = x[M, {K}] @ W[{K}, {N}] on {cfg.platform}, one compiled program; medians of {options.rounds}")
    print(f"All results equal torch's within {RTOL:.1e} of the value (one unit of FP16).\n")
    print(f"{'rows':>5} {'W is':<10} {'host wall us':>12} {'device wall us':>14} {'H2D bytes':>12} {'D2H bytes':>12}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
