"""Device memory of one chip: what `ChipWorker` has beside its life cycle and its programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime.runtime_base import Worker, check_init

if TYPE_CHECKING:
    import torch

    from pypto._pypto import DeviceTensor, MemoryReport


class ChipMemory(Worker):
    """The memory of the device that is open, if one is."""

    def __init__(self) -> None:
        super().__init__()
        self._impl: _pypto.Worker | None = None

    def alloc_tensor(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        *,
        init: torch.Tensor | None = None,
        worker_id: int = 0,
    ) -> DeviceTensor:
        """Allocates device memory that stays until it is freed, and fills it with `init`.

        Args:
            shape: Extents, all positive.
            dtype: Element type.
            init: Contents, of exactly this shape and dtype; copied once, so later changes of it do not reach the
                device. A numpy array works too. Without it the contents are undefined.
            worker_id: 0.

        Returns:
            The tensor. Pass it wherever a program takes a tensor: it is never copied by itself, whatever the
            parameter's direction.

        Raises:
            TypeError: The shape holds something else than ints, or the dtype is none.
            ValueError: The shape is empty or not positive, the dtype does not exist on the device, or `init` does not
                fit.
            MemoryError: There is no such block left; the text says how much there is.
            RuntimeError: The worker is closed.
        """
        impl = self._impl
        if impl is None or worker_id != 0:
            impl = self._ready("alloc_tensor", worker_id)
        if init is None or not hasattr(init, "is_contiguous"):
            return impl.alloc_tensor(shape, dtype, _contiguous_array(init))
        if init.is_contiguous() and init.device.type == "cpu" and not init.is_neg():
            return impl.alloc_tensor(shape, dtype, init)
        # The copy that makes it contiguous comes after the memory: where there is none, there is nothing to copy.
        tensor = impl.alloc_tensor(shape, dtype)
        try:
            check_init(init, tensor.shape, dtype)
            impl.copy_to(tensor, self._prepare_init(init))
        except BaseException:  # Ctrl-C too leaves no allocation behind
            impl.free_tensor(tensor)
            raise
        return tensor

    def free_tensor(self, tensor: DeviceTensor, *, worker_id: int = 0) -> None:
        """Frees a tensor. What was freed before, or died with its worker, is left alone.

        Raises:
            TypeError: The argument is no `DeviceTensor`.
            ValueError: The tensor belongs to another worker.
        """
        impl = self._impl
        if impl is None or worker_id != 0:
            self._check_worker_id("free_tensor", worker_id)
            if impl is None:
                return
        impl.free_tensor(tensor)

    def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
        """Allocates bytes without a type and returns their device address. They are freed at close at the latest.

        Raises:
            ValueError: `nbytes` is not a positive int.
            MemoryError: There is no such block left.
        """
        return self._ready("malloc", worker_id).malloc(nbytes)

    def free(self, ptr: int, *, worker_id: int = 0) -> None:
        """Frees what `malloc` returned.

        Raises:
            ValueError: `ptr` is not the base of a live allocation of this worker.
        """
        self._ready("free", worker_id).free(ptr)

    def copy_to(
        self,
        dst_dev_ptr: int | DeviceTensor,
        src_host_ptr: int | torch.Tensor,
        nbytes: int | None = None,
        *,
        worker_id: int = 0,
    ) -> None:
        """Copies from the host to the device.

        Args:
            dst_dev_ptr: A device tensor, or a device address: anywhere inside one live allocation.
            src_host_ptr: A contiguous host tensor, or a host address (which is trusted).
            nbytes: How much; needed where both sides are addresses.
            worker_id: 0.

        Raises:
            TypeError: A side is of the wrong kind, or `nbytes` is missing.
            ValueError: The range is not inside one live allocation of this worker, or the sides do not fit.
        """
        self._ready("copy_to", worker_id).copy_to(dst_dev_ptr, src_host_ptr, nbytes)

    def copy_from(
        self,
        dst_host_ptr: int | torch.Tensor,
        src_dev_ptr: int | DeviceTensor,
        nbytes: int | None = None,
        *,
        worker_id: int = 0,
    ) -> None:
        """Copies from the device to the host; see `copy_to`."""
        self._ready("copy_from", worker_id).copy_from(dst_host_ptr, src_dev_ptr, nbytes)

    def memory_report(self) -> MemoryReport:
        """The memory now, with every live tensor and the line that allocated it. Prints as a table."""
        return self._ready("memory_report", 0).memory_report()

    def memory_stats(self) -> dict[str, Any]:
        """The fields of `memory_report` as a dictionary; sizes are bytes."""
        return self._ready("memory_stats", 0).memory_report().as_dict()

    def counters(self) -> dict[str, int]:
        """What the worker did since it was opened: launches, bytes copied each way, distinct programs registered."""
        return self._ready("counters", 0).counters()

    def _require_ready(self, op: str) -> None:
        self._ready(op, 0)

    def _ready(self, operation: str, worker_id: int) -> _pypto.Worker:
        self._check_worker_id(operation, worker_id)
        impl = self._impl
        if impl is None:
            raise failures.WORKER_CLOSED(
                f"ChipWorker.{operation}() requires an initialized ChipWorker. Use `with chipworker:` or call "
                f"chipworker.init() first."
            )
        return impl

    @staticmethod
    def _check_worker_id(operation: str, worker_id: int) -> None:
        if worker_id != 0:
            raise failures.WORKER_ID(f"ChipWorker.{operation}() only supports worker_id=0, got {worker_id!r}")

    def _require_owned_resident_tensor(self, t: DeviceTensor, label: str, *, worker_id: int | None = None) -> None:
        impl = self._ready("run", worker_id or 0)
        if t.buffer is None:
            kind = type(self).__name__
            raise failures.RAW_TENSOR(
                f"{label}: raw pointer {t!r} cannot be dispatched by {kind}; use the same {kind}.alloc_tensor()"
            )
        impl.check_tensor(t, label)

    def _buffer_for_ptr(self, ptr: int, *, worker_id: int = 0) -> Any:
        return self._ready("buffer", worker_id).buffer(ptr)


def default_device_memory() -> int:
    """Half of the machine's memory, in bytes. It is address space: pages are taken when they are touched."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _contiguous_array(init: Any) -> Any:
    """Contents that are no torch tensor: a numpy array in row-major order, anything else as it is."""
    if hasattr(init, "__array_interface__") and not init.flags.c_contiguous:
        return init.copy(order="C")
    return init
