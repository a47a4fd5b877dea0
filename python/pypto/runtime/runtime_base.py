"""`Worker`: what every worker can do, and what a class that brings its own memory operations inherits."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto._pypto import RegistrationHandle
from pypto.runtime.device_tensor import DeviceTensor

if TYPE_CHECKING:
    import torch

    from pypto.ir import CompiledProgram
    from pypto.runtime.run_config import RunConfig

__all__ = ["RegistrationHandle", "Worker", "check_init", "logger"]

logger = logging.getLogger("pypto.runtime.runtime_base")
"""Says what a close had to free."""


class Worker(ABC):
    """One or more devices with their memory and their programs.

    A subclass implements the memory primitives, `run` and `register`, and calls `super().__init__()`. Tensors,
    ownership and the clean-up at close are built on these here; `ChipWorker` has faster ones of its own.
    """

    def __init__(self) -> None:
        self._owned_tensors: dict[tuple[int, int], DeviceTensor] = {}
        self._tensor_arg_worker: Any = None

    @abstractmethod
    def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
        """Allocates `nbytes` bytes on the device `worker_id` and returns their address."""

    @abstractmethod
    def free(self, ptr: int, *, worker_id: int = 0) -> None:
        """Frees what `malloc` returned as `ptr`, with the same `worker_id`."""

    @abstractmethod
    def copy_to(self, dst_dev_ptr: Any, src_host_ptr: Any, nbytes: int | None = None, *, worker_id: int = 0) -> None:
        """Copies from the host to the device.

        Args:
            dst_dev_ptr: Device address, or a device tensor.
            src_host_ptr: Host address, or a tensor.
            nbytes: Bytes; all of them if not given.
            worker_id: Which of the worker's devices.
        """

    @abstractmethod
    def copy_from(self, dst_host_ptr: Any, src_dev_ptr: Any, nbytes: int | None = None, *, worker_id: int = 0) -> None:
        """Copies from the device to the host.

        Args:
            dst_host_ptr: Host address, or a tensor.
            src_dev_ptr: Device address, or a device tensor.
            nbytes: Bytes; all of them if not given.
            worker_id: Which of the worker's devices.
        """

    @abstractmethod
    def run(self, compiled: CompiledProgram, *args: Any, config: RunConfig | None = None) -> Any:
        """Launches `compiled` once with `*args`, one for each parameter; `config` has the settings of this launch."""

    @abstractmethod
    def register(self, compiled: CompiledProgram) -> RegistrationHandle:
        """Makes `compiled` ready and returns its handle."""

    def _require_ready(self, op: str) -> None:  # noqa: B027 - a hook that may stay empty
        """Hook: raises where the worker cannot do `op` now."""

    def _prepare_init(self, tensor: torch.Tensor) -> torch.Tensor:
        """Hook: the tensor whose bytes are uploaded for `init`.

        Raises:
            ValueError: The tensor has no data (a `meta` tensor), or data that is no array (a sparse one).
        """
        try:
            return tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
        except (NotImplementedError, RuntimeError) as error:
            raise failures.UNREADABLE_ARRAY(
                f"init on {tensor.device} with layout {tensor.layout} cannot be copied to the device; "
                f"pass a dense tensor with data"
            ) from error

    def _buffer_for_ptr(self, ptr: int, *, worker_id: int = 0) -> Any:
        """Hook: the object that stands behind a device address, if there is one."""
        return None

    def alloc_tensor(
        self, shape: Sequence[int], dtype: torch.dtype, *, init: torch.Tensor | None = None, worker_id: int = 0
    ) -> DeviceTensor:
        """Allocates device memory that stays until it is freed.

        Args:
            shape: Extents, all positive.
            dtype: Element type.
            init: Contents, of exactly this shape and dtype. Without it the contents are undefined.
            worker_id: Which of the worker's devices.

        Raises:
            TypeError: The shape holds something else than ints, or the dtype is none.
            ValueError: The shape is empty or not positive, or `init` does not fit.
            OutOfMemoryError: The device has no such block left.
        """
        self._require_ready("alloc_tensor")
        dims = _check_shape(shape)
        nbytes = _itemsize(dtype)
        for dim in dims:
            nbytes *= dim
        ptr = self.malloc(nbytes, worker_id=worker_id)
        try:
            if init is not None:
                check_init(init, dims, dtype)
                host = self._prepare_init(init)
                self.copy_to(ptr, host.data_ptr(), nbytes, worker_id=worker_id)
            tensor = DeviceTensor(ptr, dims, dtype, buffer=self._buffer_for_ptr(ptr, worker_id=worker_id))
        except Exception:
            self.free(ptr, worker_id=worker_id)
            raise
        self._owned_tensors[worker_id, ptr] = tensor
        return tensor

    def free_tensor(self, t: DeviceTensor, *, worker_id: int = 0) -> None:
        """Frees a tensor. What was freed already, or was never this worker's, is left alone.

        Args:
            t: The tensor.
            worker_id: Which of the worker's devices.

        Raises:
            TypeError: The argument is no `DeviceTensor`.
            ValueError: The tensor belongs to another device of the worker, or its address to a newer allocation.
        """
        if not isinstance(t, DeviceTensor):
            raise failures.NOT_A_DEVICE_TENSOR(f"free_tensor() expects a DeviceTensor, got {type(t).__name__}")
        key = (worker_id, t.data_ptr)
        owned = self._owned_tensors.get(key)
        if owned is None:
            others = [owner for owner, ptr in self._owned_tensors if ptr == t.data_ptr]
            if others:
                raise failures.WORKER_ID(
                    f"worker_id={worker_id} does not match the owning worker, worker_id={others[0]}"
                )
            return
        if owned is not t:
            raise failures.STALE_TENSOR(
                f"stale DeviceTensor: {t!r} was freed, and its address belongs to a newer allocation"
            )
        self.free(t.data_ptr, worker_id=worker_id)
        del self._owned_tensors[key]

    def _require_owned_resident_tensor(self, t: DeviceTensor, label: str, *, worker_id: int | None = None) -> None:
        """Refuses a tensor that a launch on this worker may not use.

        Args:
            t: The tensor.
            label: What it is used as, for messages.
            worker_id: Which of the worker's devices; 0 where there is one.

        Raises:
            TypeError: It was made from a bare pointer.
            ValueError: It is not, or no longer, an allocation of this worker.
        """
        self._require_ready("run")
        kind = type(self).__name__
        if t.buffer is None:
            raise failures.RAW_TENSOR(
                f"{label}: raw pointer {t!r} cannot be dispatched by {kind}; use the same {kind}.alloc_tensor()"
            )
        if not isinstance(self._owned_tensors, dict):
            raise failures.BASE_NOT_INITIALISED(
                f"{kind} keeps no map of its tensors: its __init__ must call super().__init__()"
            )
        owned = self._owned_tensors.get((worker_id or 0, t.data_ptr))
        if owned is None or owned.buffer is not t.buffer:
            where = "" if worker_id is None else f" on worker_id={worker_id}"
            raise failures.STALE_TENSOR(
                f"{label}: {t!r} is not a live allocation owned by this {kind}{where}; allocate it with its "
                f"alloc_tensor(), and do not dispatch it after free_tensor()"
            )

    def _close_owned_tensors(self) -> None:
        """Frees what is still owned. A failure is logged and does not stop the rest."""
        owned = list(self._owned_tensors.items())
        self._owned_tensors.clear()
        for (worker_id, ptr), tensor in owned:
            try:
                self.free(ptr, worker_id=worker_id)
            except Exception as error:
                logger.warning("leaking %r: it could not be freed at close: %s", tensor, error)


def check_init(init: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Refuses contents that do not fit a tensor.

    Raises:
        ValueError: With both shapes and element types.
    """
    if tuple(init.shape) != shape or init.dtype != dtype:
        raise failures.INIT_MISMATCH(
            f"init must have shape={shape} dtype={dtype}, got shape={tuple(init.shape)} dtype={init.dtype}"
        )


def _itemsize(dtype: torch.dtype) -> int:
    import torch

    if not isinstance(dtype, torch.dtype):
        raise failures.BAD_DTYPE(f"dtype must be a torch.dtype, got {dtype!r}")
    return dtype.itemsize


def _check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    dims = tuple(shape)
    if not dims:
        raise failures.BAD_EXTENT("shape must be non-empty")
    if any(isinstance(dim, bool) or not isinstance(dim, int) for dim in dims):
        raise failures.BAD_SHAPE(f"shape must contain ints, got {dims!r}")
    if any(dim <= 0 for dim in dims):
        raise failures.BAD_EXTENT(f"shape must contain only positive dimensions, got {dims!r}")
    return dims
