"""`pypto run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from pypto.cli.session import Request, session
from pypto.runtime import benchmark


@dataclass(frozen=True)
class Output:
    """What one output holds.

    Attributes:
        name: The parameter.
        shape: Its extents.
        dtype: Its element type, as torch calls it.
        minimum: Smallest finite element; None where there is none.
        maximum: Largest finite element; None where there is none.
        mean: Mean of the finite elements, in float64; None where there is none.
        not_finite: Elements that are NaN or infinite.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    minimum: float | None
    maximum: float | None
    mean: float | None
    not_finite: int


@dataclass(frozen=True)
class Result:
    """One launch."""

    kernel: str
    outputs: tuple[Output, ...]
    host_wall_us: float
    device_wall_us: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "kernel": self.kernel,
            "host_wall_us": self.host_wall_us,
            "device_wall_us": self.device_wall_us,
            "outputs": [vars(one) for one in self.outputs],
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table of the outputs, and the two times."""
        table = Table()
        for title in ("output", "shape", "dtype", "min", "max", "mean", "not finite"):
            table.add_column(title, justify="left" if title in ("output", "shape", "dtype") else "right")
        for one in self.outputs:
            shape = "x".join(map(str, one.shape))
            numbers = ("-" if value is None else f"{value:.6g}" for value in (one.minimum, one.maximum, one.mean))
            table.add_row(one.name, shape, one.dtype, *numbers, str(one.not_finite))
        yield table
        yield f"{self.kernel}: host {self.host_wall_us:,.1f} us, device {self.device_wall_us:,.1f} us"


def run_once(request: Request) -> Result:
    """Launches a kernel once."""
    with session(request) as opened:
        stats = benchmark(opened.compiled, opened.arguments, rounds=1, warmup=0, worker=opened.worker)
        outputs = tuple(describe(name, tensor) for name, tensor in opened.outputs().items())
        return Result(opened.kernel.name, outputs, stats.host_wall_us[0], stats.device_wall_us[0])


def describe(name: str, tensor: torch.Tensor) -> Output:
    """What a tensor holds."""
    values = tensor.to(torch.float64).flatten()
    finite = values[torch.isfinite(values)]
    low, high, mean = map(float, (finite.min(), finite.max(), finite.mean())) if len(finite) else (None, None, None)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Output(name, tuple(tensor.shape), dtype, low, high, mean, len(values) - len(finite))
