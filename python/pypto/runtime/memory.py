"""`MemoryReport`: what device memory is used for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto._pypto import Buffer

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True)
class MemoryReport:
    """The memory of one worker at one moment. Sizes are bytes.

    Attributes:
        capacity: The most that can be live at once.
        reserved: Address space taken from the machine.
        committed: Memory taken from the machine: pages that were touched.
        live: Allocated now.
        buffers: The part of `live` that the user allocated.
        staging: The part of `live` that holds host arguments of launches.
        scratch: The part of `live` that programs work in.
        peak: The largest value that `live` ever had.
        free: Not allocated.
        largest_free: The largest request that would succeed.
        count: How many live allocations the user has.
        fragmentation: The share of free memory that the largest request cannot have, 0 to 1.
        live_buffers: These allocations, largest first, each with the line that made it.
    """

    capacity: int
    reserved: int
    committed: int
    live: int
    buffers: int
    staging: int
    scratch: int
    peak: int
    free: int
    largest_free: int
    count: int
    fragmentation: float
    live_buffers: list[Buffer]

    def __str__(self) -> str:
        """A table: the sums, then one line for each live allocation."""
        sums = (
            ("capacity", self.capacity),
            ("live", self.live),
            ("  yours", self.buffers),
            ("  staging", self.staging),
            ("  scratch", self.scratch),
            ("peak", self.peak),
            ("free", self.free),
            ("largest free block", self.largest_free),
            ("committed", self.committed),
            ("reserved", self.reserved),
        )
        lines = [f"{name:<20}{readable(size):>12}" for name, size in sums]
        lines.append(f"{'fragmentation':<20}{self.fragmentation:>12.1%}")
        lines.append(f"{'live allocations':<20}{self.count:>12}")
        for buffer in self.live_buffers:
            lines.append(f"{readable(buffer.nbytes):>12}  {buffer.description}")
        return "\n".join(lines)


def readable(size: float) -> str:
    """A size with a unit: `512 B`, `1.5 GiB`."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if size == int(size) else f"{size:.1f} {_UNITS[unit]}"
