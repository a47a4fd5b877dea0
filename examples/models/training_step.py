"""A training step on the device: layer norm, a linear classifier, cross entropy, all gradients, and AdamW in place.

What it teaches: parameters and moments are resident ``pl.InOut`` tensors, so that a step copies the batch in and the
loss out. Blocks add their part of a gradient with ``atomic=pl.AtomicType.Add``; ``a_trans`` and ``b_trans`` multiply
with transposed operands without moving them. What changes from step to step (Adam's bias corrections) comes in a
tensor: a scalar argument would be a constant of the compiled kernel, and each step would compile another.
"""

from __future__ import annotations

import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig

BATCH, FEATURES, CLASSES = 64, 64, 40
TILE = 16
RATE, BETA1, BETA2, EPSILON, DECAY = 1e-2, 0.9, 0.99, 1e-8, 1e-2
NORM_EPSILON = 1e-5
STEPS = 25


@pl.jit.inline
def one_hot(labels: pl.Tensor):
    """A row for each label, with 1 in its column."""
    row = pl.cast(pl.arange(0, [1, CLASSES], dtype=pl.INT32), pl.FP32)
    columns = pl.col_expand(pl.full([TILE, CLASSES], dtype=pl.FP32, value=0.0), row)
    return pl.cmp(columns, pl.row_expand(columns, pl.cast(labels, pl.FP32)))


@pl.jit.inline
def adamw(parameter: pl.Tensor, first: pl.Tensor, second: pl.Tensor, gradient: pl.Tensor, corrections: pl.Tensor):
    """One step, in place. `corrections` are `1 / (1 - beta ** step)` for both moments."""
    by_first = pl.read(corrections, [0])
    by_second = pl.read(corrections, [1])
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="adamw"):
        m = pl.add(pl.mul(first[:, :], BETA1), pl.mul(gradient[:, :], 1.0 - BETA1))
        v = pl.add(pl.mul(second[:, :], BETA2), pl.mul(pl.mul(gradient[:, :], gradient[:, :]), 1.0 - BETA2))
        step = pl.div(pl.mul(m, by_first), pl.add(pl.sqrt(pl.mul(v, by_second)), EPSILON))
        parameter[:, :] = pl.sub(pl.mul(parameter[:, :], 1.0 - RATE * DECAY), pl.mul(step, RATE))
        first[:, :] = m
        second[:, :] = v
    return parameter, first, second


@pl.jit
def training_step(
    x: pl.Tensor[[BATCH, FEATURES], pl.FP32],
    labels: pl.Tensor[[BATCH, 1], pl.INT32],
    corrections: pl.Tensor[[2], pl.FP32],
    norm: pl.InOut[pl.Tensor[[2, FEATURES], pl.FP32]],
    norm_first: pl.InOut[pl.Tensor[[2, FEATURES], pl.FP32]],
    norm_second: pl.InOut[pl.Tensor[[2, FEATURES], pl.FP32]],
    weight: pl.InOut[pl.Tensor[[CLASSES, FEATURES], pl.FP32]],
    weight_first: pl.InOut[pl.Tensor[[CLASSES, FEATURES], pl.FP32]],
    weight_second: pl.InOut[pl.Tensor[[CLASSES, FEATURES], pl.FP32]],
    loss: pl.Out[pl.Tensor[[1, 1], pl.FP32]],
):
    """Updates `norm` (gain, then shift) and `weight` by a batch; `loss` is its mean cross entropy before that."""
    norm_gradient = pl.create_tensor([2, FEATURES], dtype=pl.FP32, init_value=0.0)
    weight_gradient = pl.create_tensor([CLASSES, FEATURES], dtype=pl.FP32, init_value=0.0)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="clear"):
        loss[:, :] = pl.full([1, 1], dtype=pl.FP32, value=0.0)
    for block in pl.spmd(BATCH // TILE, name_hint="gradients"):
        rows = x[block * TILE : block * TILE + TILE, :]
        centred = pl.sub(rows, pl.mul(pl.row_sum(rows), 1.0 / FEATURES))
        variance = pl.mul(pl.row_sum(pl.mul(centred, centred)), 1.0 / FEATURES)
        unit = pl.row_expand_mul(centred, pl.rsqrt(pl.add(variance, NORM_EPSILON)))
        hidden = pl.col_expand_add(pl.col_expand_mul(unit, norm[0:1, :]), norm[1:2, :])

        logits = pl.matmul(hidden, weight[:, :], b_trans=True)
        shifted = pl.row_expand_sub(logits, pl.row_max(logits))
        powers = pl.exp(shifted)
        total = pl.row_sum(powers)
        target = one_hot(labels[block * TILE : block * TILE + TILE, :])
        losses = pl.sub(pl.log(total), pl.row_sum(pl.mul(shifted, target)))
        loss = pl.assemble(loss, pl.mul(pl.col_sum(losses), 1.0 / BATCH), [0, 0], atomic=pl.AtomicType.Add)

        back = pl.mul(pl.sub(pl.row_expand_div(powers, total), target), 1.0 / BATCH)
        to_hidden = pl.matmul(back, weight[:, :])
        of_gain = pl.col_sum(pl.mul(to_hidden, unit))
        weight_gradient = pl.assemble(
            weight_gradient, pl.matmul(back, hidden, a_trans=True), [0, 0], atomic=pl.AtomicType.Add
        )
        norm_gradient = pl.assemble(norm_gradient, of_gain, [0, 0], atomic=pl.AtomicType.Add)
        norm_gradient = pl.assemble(norm_gradient, pl.col_sum(to_hidden), [1, 0], atomic=pl.AtomicType.Add)
    norm, norm_first, norm_second = adamw(norm, norm_first, norm_second, norm_gradient, corrections)
    weight, weight_first, weight_second = adamw(weight, weight_first, weight_second, weight_gradient, corrections)
    return loss


def corrections_of(step: int) -> torch.Tensor:
    """What undoes the start of the moments at 0; steps count from 1."""
    return torch.tensor([1 / (1 - BETA1**step), 1 / (1 - BETA2**step)])


class Reference:
    """The same training in FP64, with torch's gradients."""

    def __init__(self, *starts: torch.Tensor) -> None:
        self.parameters = [start.double().requires_grad_() for start in starts]
        self.moments = [(torch.zeros_like(start).double(), torch.zeros_like(start).double()) for start in starts]

    def step(self, x: torch.Tensor, labels: torch.Tensor, number: int) -> float:
        """The loss of a batch, before the parameters follow its gradients."""
        norm, weight = self.parameters
        hidden = torch.nn.functional.layer_norm(x.double(), (FEATURES,), norm[0], norm[1], eps=NORM_EPSILON)
        loss = torch.nn.functional.cross_entropy(hidden @ weight.T, labels[:, 0].long())
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for parameter, (first, second), gradient in zip(self.parameters, self.moments, gradients, strict=True):
                first.lerp_(gradient, 1 - BETA1)
                second.lerp_(gradient**2, 1 - BETA2)
                size = (second / (1 - BETA2**number)).sqrt() + EPSILON
                parameter.mul_(1 - RATE * DECAY).sub_(RATE * first / (1 - BETA1**number) / size)
        return loss.item()


def main() -> None:
    """Losses and parameters follow those of the reference.

    Adam divides a gradient by its own size, so that a parameter whose gradient nearly vanishes moves by up to `RATE` in
    a direction that rounding decides; the largest deviation is a small part of the `STEPS * RATE` that all could move.
    """
    torch.manual_seed(0)
    x, labels = torch.randn(BATCH, FEATURES), torch.randint(0, CLASSES, (BATCH, 1), dtype=torch.int32)
    norm = torch.stack([torch.ones(FEATURES), torch.zeros(FEATURES)])
    weight = torch.randn(CLASSES, FEATURES) * 0.1
    reference = Reference(norm, weight)
    losses, wanted = [], []
    with ChipWorker(config=RunConfig(platform="a2a3sim")) as worker:
        state = [
            worker.alloc_tensor(tuple(start.shape), torch.float32, init=start)
            for start in (norm, *[torch.zeros_like(norm)] * 2, weight, *[torch.zeros_like(weight)] * 2)
        ]
        loss = torch.zeros(1, 1)
        sample = [x, labels, corrections_of(1), *[t.to_host() for t in state], loss]
        handle = worker.register(training_step.compile(*sample))
        for step in range(1, STEPS + 1):
            handle(x, labels, corrections_of(step), *state, loss)
            losses.append(loss.item())
            wanted.append(reference.step(x, labels, step))
        trained = [state[0].to_host(), state[3].to_host()]
        for tensor in state:
            worker.free_tensor(tensor)
    off = max(abs(a - b) for a, b in zip(losses, wanted, strict=True))
    assert off < 1e-5, off
    assert losses[-1] < losses[0] / 2, losses
    moved = max((a.double() - b).abs().max().item() for a, b in zip(trained, reference.parameters, strict=True))
    assert moved < STEPS * RATE / 1000, moved
    print(
        f"{STEPS} steps: the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}, FP64's with it to {off:.0e}; "
        f"parameters agree to {moved:.0e}"
    )


if __name__ == "__main__":
    main()
