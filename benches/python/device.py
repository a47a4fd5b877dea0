"""This project in a contest: a worker, resident copies of tensors, and handles on them."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
from measure import Contest

from pypto.runtime import ChipWorker, DeviceTensor, RunConfig


class Bench:
    """A worker with `cores` cores; at the end of the `with` block it and what was resident are gone."""

    def __init__(self, cores: int) -> None:
        self.worker = ChipWorker(config=RunConfig(cores=cores))
        self.held: list[DeviceTensor] = []

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()
        self.worker.close()

    def resident(self, tensor: torch.Tensor) -> DeviceTensor:
        """A copy on the device."""
        self.held.append(self.worker.alloc_tensor(tensor.shape, tensor.dtype, init=tensor))
        return self.held[-1]

    def free(self) -> None:
        """Frees all that is resident: contests that are over need it no longer."""
        while self.held:
            self.worker.free_tensor(self.held.pop())

    def add(self, contest: Contest, kernel: Any, *args: torch.Tensor, name: str = "pypto") -> None:
        """The kernel on resident copies of `args`."""
        names: dict[str, Any] = {f"resident_{number}": self.resident(tensor) for number, tensor in enumerate(args)}
        statement = f"handle({', '.join(names)})"
        contest.add(name, statement, names | {"handle": self.worker.register(kernel.compile(*args))})

    def add_in_turn(
        self, contest: Contest, kernel: Any, x: torch.Tensor, weights: list[torch.Tensor], out: torch.Tensor, name: str
    ) -> None:
        """`kernel(x, weight, out)` with each of the weights in turn, so that they come from memory."""
        handle = self.worker.register(kernel.compile(x, weights[0], out))
        own_x, own_out = self.resident(x), self.resident(out)
        turn = turns([self.resident(weight) for weight in weights])
        for _ in range(3 * len(weights)):  # packs each of them
            handle(own_x, next(turn), own_out)
        contest.add(name, "handle(x, next(turn), out)", {"handle": handle, "x": own_x, "out": own_out, "turn": turn})


def turns(things: list[Any]) -> Iterator[Any]:
    """The things again and again."""
    while True:
        yield from things
