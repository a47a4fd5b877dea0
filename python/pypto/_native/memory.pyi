"""What device memory is used for."""

from typing import Any, final

from pypto._native.tensor import Buffer

@final
class MemoryReport:
    """The memory of one worker at one moment. Sizes are bytes; it prints as a table.

    Attributes:
        capacity: The most that can be allocated at once.
        reserved: Address space taken from the machine.
        committed: Memory taken from the machine: pages that were touched.
        live: Sum of the user's live allocations.
        peak: The largest value that `live` ever had.
        staging: What programs keep for copies of host arguments.
        scratch: What programs keep to work in.
        packed: Bytes of the packed forms of resident weights.
        free: Not allocated.
        largest_free: The largest request that would succeed.
        count: How many live allocations the user has.
        fragmentation: The share of free memory that the largest request cannot have, 0 to 1.
        tags: Live bytes and their high-water mark by tag; see `ChipWorker.memory_budget`.
        live_buffers: The user's live allocations, largest first.
    """

    @property
    def capacity(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def committed(self) -> int: ...
    @property
    def live(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def staging(self) -> int: ...
    @property
    def scratch(self) -> int: ...
    @property
    def packed(self) -> int: ...
    @property
    def free(self) -> int: ...
    @property
    def largest_free(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def fragmentation(self) -> float: ...
    @property
    def tags(self) -> dict[str, tuple[int, int]]: ...
    @property
    def live_buffers(self) -> list[Buffer]: ...
    def as_dict(self) -> dict[str, Any]:
        """All of the above by name."""

@final
class MemoryScope:
    """A part of the program whose allocations count for a tag; see `ChipWorker.memory_budget`."""

    @property
    def tag(self) -> str:
        """What they count for."""

    @property
    def budget(self) -> int | None:
        """The most bytes that the tag may have when something is allocated in it."""

    @property
    def live(self) -> int:
        """Bytes that the tag has now."""

    @property
    def peak(self) -> int:
        """The largest value that `live` ever had."""
