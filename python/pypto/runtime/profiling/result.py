"""What a profile found, as objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from pypto.runtime.profiling.peaks import Peaks

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True)
class Operation:
    """One operation of the source within a step; numbers are of one launch.

    Attributes:
        name: The core operation, such as `mul`; `pl.row_expand_mul` and `pl.muls` are one too.
        file: Source file.
        line: Line in it.
        dtype: Element type that it computes with.
        us: Microseconds. None for loads and stores that a product or a whole-tile operation does itself: their time is
            in that operation's.
        measured: Whether the clock said so: the operation is what the step is. Else it is the operation's part of the
            time of a fused step, as `attributed` says.
        flops: Arithmetic operations: a multiply-add is two, any function of an element one, of every type.
        device_bytes: Bytes of device memory that it reads or writes.
        tile_bytes: Bytes of tiles in on-chip memory. What stays in registers counts nothing.
        alone_us: What its instructions take alone, data in the first-level cache.
    """

    name: str
    file: str
    line: int
    dtype: str
    us: float | None
    measured: bool
    flops: int
    device_bytes: int
    tile_bytes: int
    alone_us: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of device memory and of tiles."""
        return self.device_bytes + self.tile_bytes


@dataclass(frozen=True)
class Step:
    """What the device executes and the clock measures as one; numbers are of one launch.

    Attributes:
        kernel: Name of the kernel.
        kind: `chain` (fused elementwise operations and row reductions), `product`, or `tile` (work on a whole tile).
        file: Source file of its first operation.
        line: Line of its first operation.
        runs: How often it runs in a launch.
        us: Microseconds of all runs together: the median of the launches.
        share: Its part of the time of all steps.
        operations: What it does for the source, by line.
    """

    kernel: str
    kind: str
    file: str
    line: int
    runs: float
    us: float
    share: float
    operations: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """The operation, or how many are fused."""
        if self.kind == "chain" and len(self.operations) > 1:
            return f"chain of {len(self.operations)}"
        return self.main.name

    @property
    def main(self) -> Operation:
        """The operation that the step is; of a chain the one with most time."""
        return max(self.operations, key=lambda one: -1.0 if one.us is None else one.us)

    @property
    def flops(self) -> int:
        """Arithmetic operations."""
        return sum(one.flops for one in self.operations)

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory."""
        return sum(one.device_bytes for one in self.operations)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory and of tiles."""
        return sum(one.nbytes for one in self.operations)

    @property
    def bytes_per_second(self) -> float:
        """Achieved bandwidth; 0 where no time was measured."""
        return self.nbytes / self.us * 1e6 if self.us else 0.0

    @property
    def flops_per_second(self) -> float:
        """Achieved arithmetic; 0 where no time was measured."""
        return self.flops / self.us * 1e6 if self.us else 0.0

    def peak(self, peaks: Peaks) -> float:
        """The arithmetic peak that it could reach."""
        return peaks.arithmetic(self.main.dtype) if self.kind == "product" else peaks.fp32


@dataclass(frozen=True)
class Profile:
    """Where the device time of a program goes.

    Attributes:
        program: Name of the program.
        launches: Measured launches.
        cores: Cores of the simulated chip.
        device_us: Median device wall of launches without profiling; between the steps are loops, scalars and views.
        peaks: What this machine can do on as many threads.
        steps: What was executed, by kernel and line.
    """

    program: str
    launches: int
    cores: int
    device_us: float
    peaks: Peaks
    steps: tuple[Step, ...] = field(default=())

    @property
    def us(self) -> float:
        """Microseconds of all steps of a launch."""
        return sum(step.us for step in self.steps)

    @property
    def rows(self) -> list[Operation]:
        """The operations of all steps."""
        return [one for step in self.steps for one in step.operations]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types; bytes, flops and times are of one launch."""
        steps = []
        for step in self.steps:
            peak = step.peak(self.peaks)
            operations = [
                vars(one) | {"share": None if one.us is None else _part(one.us, self.us)} for one in step.operations
            ]
            steps.append(
                vars(step)
                | {
                    "name": step.name,
                    "flops": step.flops,
                    "device_bytes": step.device_bytes,
                    "bytes": step.nbytes,
                    "gb_per_s": step.bytes_per_second / 1e9,
                    "gflop_per_s": step.flops_per_second / 1e9,
                    "of_memory_peak": _part(step.bytes_per_second, self.peaks.memory),
                    "of_flop_peak": _part(step.flops_per_second, peak),
                    "flop_peak": peak / 1e9,
                    "operations": operations,
                }
            )
        return vars(self) | {"us": self.us, "peaks": self.peaks.to_dict(), "steps": steps}

    def source(self) -> str:
        """The source with the time, the bytes and the flops of each line beside it."""
        from pypto.runtime.profiling.source import annotated

        return annotated(self)

    def roofline(self, path: str | PathLike[str]) -> None:
        """Writes a roofline plot: each step between its intensity and its speed, below what this machine can do.

        Args:
            path: A file whose name ends in `.png` or `.svg`.

        Raises:
            RuntimeError: matplotlib is not installed; it comes with `pypto[plot]`.
            ValueError: The name has another ending.
        """
        from pypto.runtime.profiling.roofline import write

        write(self, path)

    def __str__(self) -> str:
        """The table as text."""
        from pypto.runtime.profiling.show import as_text

        return as_text(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table."""
        from pypto.runtime.profiling.show import as_group

        yield as_group(self, options.max_width)

    def _repr_html_(self) -> str:
        from pypto.runtime.profiling.show import as_html

        return as_html(self)


def _part(value: float, whole: float) -> float:
    return value / whole if whole else 0.0


def attributed(kind: str, us: float, operations: Sequence[Operation], memory: float) -> tuple[Operation, ...]:
    """Shares the time of a step among its operations.

    Of a product and of a whole-tile operation the first one has it all. Of a chain each operation counts what its
    instructions take alone. Where the chain took longer, those that read or write device memory waited for it: they
    count that too, up to the time that memory needs for their bytes. What is then left is the way from row to row and
    from operation to operation, or negative where instructions overlapped: all counts are scaled to the chain's time.

    Args:
        kind: The kind of the step.
        us: Its time in microseconds.
        operations: What it does, without times.
        memory: Bytes that memory gives in a second.
    """
    if len(operations) == 1 or kind != "chain":
        first, *others = operations
        return (replace(first, us=us, measured=True), *others)
    alone = sum(one.alone_us for one in operations)
    device_bytes = sum(one.device_bytes for one in operations)
    waited = min(max(0.0, us - alone), device_bytes / memory * 1e6)
    counts = [one.alone_us + waited * _part(one.device_bytes, device_bytes) for one in operations]
    # A chain whose instructions all cost nothing alone moves data on chip.
    counts = counts if sum(counts) else [float(one.nbytes) for one in operations]
    scale = _part(us, sum(counts))
    return tuple(replace(one, us=count * scale, measured=False) for one, count in zip(operations, counts, strict=True))
