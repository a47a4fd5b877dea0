"""Programs that are registered once and launched by hand: a service that knows them by name, and a training loop.

What it teaches: ``worker.register`` makes a program ready and gives a handle; calling the handle is the shortest way to
launch. Registering is what costs, so it happens at the start: ``aicpu_dlopen_count`` rises by one for each distinct
program, and by nothing in launches or where an equal program comes again. A weight that a program updates in place
(``pl.InOut``) and that is resident never leaves the device between the steps of a training.
"""

from __future__ import annotations

import argparse
from types import TracebackType

import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, RunConfig

ROWS, INPUTS, OUTPUTS = 32, 64, 16
RATE, EPOCHS = 0.05, 40


@pl.jit
def relu(x: pl.Tensor[[ROWS, INPUTS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, INPUTS], pl.FP32]]):
    """`max(x, 0)`."""
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.maximum(x, pl.full([ROWS, INPUTS], dtype=pl.FP32, value=0.0))
    return out


@pl.jit
def softmax(x: pl.Tensor[[ROWS, INPUTS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, INPUTS], pl.FP32]]):
    """Softmax along rows."""
    with pl.at(level=pl.Level.CORE_GROUP):
        powers = pl.exp(pl.row_expand_sub(x, pl.row_max(x)))
        out[:] = pl.row_expand_div(powers, pl.row_sum(powers))
    return out


@pl.jit
def train_step(
    x: pl.Tensor[[ROWS, INPUTS], pl.FP32],
    target: pl.Tensor[[ROWS, OUTPUTS], pl.FP32],
    weight: pl.InOut[pl.Tensor[[INPUTS, OUTPUTS], pl.FP32]],
    errors: pl.Out[pl.Tensor[[ROWS, OUTPUTS], pl.FP32]],
):
    """One step of gradient descent for `x @ weight = target` in the mean square; `errors` as they were before it."""
    with pl.at(level=pl.Level.CORE_GROUP):
        off = pl.sub(pl.matmul(x, weight), target)
        errors[:] = off
        gradient = pl.matmul(x, off, a_trans=True)
        weight[:] = pl.sub(weight, pl.mul(gradient, 2.0 * RATE / ROWS))
    return errors


class Service:
    """Answers requests that name a program. Everything is ready before the first one comes."""

    def __init__(self, config: RunConfig, programs: dict[str, ir.CompiledProgram]) -> None:
        self.worker = ChipWorker(config)
        before = self.worker.aicpu_dlopen_count
        self.handles = {}
        for name, program in programs.items():
            self.handles[name] = self.worker.register(program)
            before += 1
            assert self.worker.aicpu_dlopen_count == before, "each distinct program is loaded once, at register"

    def answer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """Runs the program of this name.

        Raises:
            KeyError: There is none.
        """
        return self.handles[name](x)

    def __enter__(self) -> Service:
        self.worker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.__exit__(kind, error, trace)


def serve(config: RunConfig) -> None:
    """Twenty requests to two programs, compared with torch: FP32 on both sides, so a few units of the last place."""
    answers = {"relu": torch.relu, "softmax": lambda x: torch.softmax(x, -1)}
    with Service(config, {"relu": relu.compile(), "softmax": softmax.compile()}) as service:
        loaded = service.worker.aicpu_dlopen_count
        for number in range(20):
            name = ("relu", "softmax")[number % 2]
            x = torch.randn(ROWS, INPUTS)
            torch.testing.assert_close(service.answer(name, x), answers[name](x), rtol=1e-5, atol=1e-6)
        assert service.worker.aicpu_dlopen_count == loaded, "launches load nothing"
        again = service.worker.register(relu.compile())
        assert service.worker.aicpu_dlopen_count == loaded, "an equal program is known"
        assert again.cid == service.handles["relu"].cid
    print(f"service: 20 requests to {loaded} programs by name, {loaded} loads, all before the first request")


def train(config: RunConfig) -> None:
    """Learns a weight that only the device has, beside torch doing the same on the host."""
    truth = torch.randn(INPUTS, OUTPUTS)
    weight = torch.zeros(INPUTS, OUTPUTS)
    with ChipWorker(config) as worker, worker.zeros((INPUTS, OUTPUTS), torch.float32) as resident:
        step = worker.register(train_step.compile())
        batches = [torch.randn(ROWS, INPUTS) for _ in range(8)]
        losses = []
        before = worker.counters()
        for _ in range(EPOCHS):
            for x in batches:
                errors = torch.empty(ROWS, OUTPUTS)
                step(x, x @ truth, resident, errors)
                losses.append(errors.square().mean().item())
                off = x @ weight - x @ truth
                # Both sides add FP32 products in another order; 320 steps that contract do not let that grow.
                torch.testing.assert_close(errors, off, rtol=1e-4, atol=1e-4)
                weight -= 2 * RATE / ROWS * (x.T @ off)
        after = worker.counters()
        steps = len(losses)
        moved = (after["h2d_bytes"] - before["h2d_bytes"]) // steps
        assert moved == (ROWS * INPUTS + ROWS * OUTPUTS) * 4, "the weight is in no copy"
        torch.testing.assert_close(resident.to_host(), weight, rtol=1e-4, atol=1e-4)
        assert losses[-1] < 1e-3 * losses[0]
    print(f"training: {steps} steps, loss {losses[0]:.2f} -> {losses[-1]:.1e}, the weight stayed on the device")


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="a2a3sim", help="a2a3sim, the simulated chip, or a2a3, a real one")
    config = RunConfig(platform=parser.parse_args().platform)
    torch.manual_seed(0)
    serve(config)
    train(config)


if __name__ == "__main__":
    main()
