"""Opened devices."""

from collections.abc import Sequence
from typing import Any, final

import torch

from pypto._native.launch import Program, RegistrationHandle
from pypto._native.memory import MemoryReport, MemoryScope
from pypto._native.tensor import Buffer, DeviceTensor

@final
class Worker:
    """One opened device. `pypto.runtime.ChipWorker` is the interface for users and documents these methods."""

    def __new__(
        cls,
        platform: str,
        device_id: int = 0,
        *,
        capacity: int,
        poison: bool = False,
        packed_weights: float = 0.5,
        cores: int | None = None,
        schedule_seed: int | None = None,
        queue_depth: int = 64,
        sanitize: Sequence[str] = ...,
        observe: str | None = None,
        name: str | None = None,
        residency: str = "off",
    ) -> Worker:
        """Opens a device; the settings are those of `RunConfig`.

        Raises:
            ValueError: The platform does not exist or the capacity is 0.
            RuntimeError: The device cannot be opened here.
            OutOfMemoryError: The machine refuses the address space.
        """

    @property
    def id(self) -> int:
        """Number of this opened device in the process; never used twice."""

    @property
    def name(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""

    @property
    def is_mine(self) -> bool:
        """Whether this process opened it, and not the one that this is a fork of."""

    def alloc_tensor(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        init: torch.Tensor | None = None,
        *,
        zeroed: bool = False,
        scope: MemoryScope | None = None,
    ) -> DeviceTensor:
        """Allocates a tensor; `init` must be contiguous and on the CPU. It counts for `scope`."""

    def free_tensor(self, tensor: DeviceTensor) -> bool:
        """Frees a tensor; returns whether there was something to free."""

    def malloc(self, nbytes: int, *, scope: MemoryScope | None = None) -> int: ...
    def free(self, ptr: int) -> None: ...
    def copy_to(self, dst: int | DeviceTensor, src: int | torch.Tensor, nbytes: int | None = None) -> None: ...
    def copy_from(self, dst: int | torch.Tensor, src: int | DeviceTensor, nbytes: int | None = None) -> None: ...
    def check_tensor(self, tensor: DeviceTensor, label: str) -> None:
        """Refuses a tensor that is no live allocation of this worker; `label` says what it is used as."""

    def buffer(self, ptr: int) -> Buffer | None:
        """The live allocation that begins at an address."""

    def register(
        self, program: Program, *, owner: object, compiled: object, output_indices: Sequence[int], has_return: bool
    ) -> RegistrationHandle:
        """Makes a program ready.

        `output_indices` are the parameters that a return-style call leaves out, if there are such calls.
        """

    def close(self, *, stop: bool = False) -> tuple[list[str], RuntimeError | None]:
        """Closes the device.

        Args:
            stop: Stop running launches instead of waiting for them.

        Returns:
            Descriptions of the tensors that were still allocated, and the first overwritten guard of poison mode.
        """

    def synchronize(self) -> None: ...
    def memory_report(self) -> MemoryReport: ...
    def live_tensors(self) -> list[DeviceTensor]:
        """A view of each tensor that is allocated now, in no particular order."""

    def memory_scope(
        self, tag: str, budget: int | None, outer: MemoryScope | None = None, site: tuple[str, int] | None = None
    ) -> MemoryScope: ...
    def timeline(self) -> dict[str, Any]:
        """The past of the memory as plain data; `memory_snapshot` reads it."""

    def residency(self) -> dict[str, Any] | None:
        """What was counted about host arguments, as plain data; None where that is off. `advice` words it."""

    def counters(self) -> dict[str, int]: ...
