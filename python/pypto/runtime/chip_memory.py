"""Device memory of one chip: what `ChipWorker` has beside its life cycle and its programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pypto import _pypto, failures
from pypto.runtime import advice, memory_scopes, memory_snapshot
from pypto.runtime.runtime_base import Worker, check_init
from pypto.runtime.tensor_makers import TensorMakers

if TYPE_CHECKING:
    import torch

    from pypto._pypto import DeviceTensor, MemoryReport, MemoryScope
    from pypto.runtime.advice import Advice


class ChipMemory(TensorMakers, Worker):
    """The memory of the device that is open, if one is."""

    _records_spans = True
    """Whether launches are in the trace."""

    def __init__(self) -> None:
        super().__init__()
        self._impl: _pypto.Worker | None = None

    @property
    def _owned_tensors(self) -> dict[tuple[int, int], DeviceTensor]:
        """What is allocated now, for those who look. The device keeps the books: changing this changes nothing."""
        impl = self._impl
        return {} if impl is None else {(0, tensor.data_ptr): tensor for tensor in impl.live_tensors()}

    @_owned_tensors.setter
    def _owned_tensors(self, _books: dict[tuple[int, int], DeviceTensor]) -> None:
        """The base class begins books of its own, which nobody keeps here."""

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
            worker_id: Always 0: there is one device.

        Returns:
            The tensor. Pass it wherever a program takes a tensor: it is never copied by itself, whatever the
            parameter's direction.

        Raises:
            TypeError: The shape holds something else than ints, or the dtype is none.
            ValueError: The shape is empty or not positive, the dtype does not exist on the device, or `init` does not
                fit.
            OutOfMemoryError: There is no such block left, or no room in a `memory_budget`; the text says how much there
                is.
            RuntimeError: The worker is closed.
        """
        impl = self._impl
        if impl is None or worker_id != 0:
            impl = self._ready("alloc_tensor", worker_id)
        scope = memory_scopes.current(impl)
        if init is None or not hasattr(init, "is_contiguous"):
            return impl.alloc_tensor(shape, dtype, _contiguous_array(init), scope=scope)
        if init.is_contiguous() and init.device.type == "cpu" and not (init.is_neg() or init.is_conj()):
            return impl.alloc_tensor(shape, dtype, init, scope=scope)
        # The copy that makes it contiguous comes after the memory: where there is none, there is nothing to copy.
        tensor = impl.alloc_tensor(shape, dtype, scope=scope)
        try:
            check_init(init, tensor.shape, dtype)
            impl.copy_to(tensor, self._prepare_init(init))
        except BaseException:  # Ctrl-C too leaves no allocation behind
            impl.free_tensor(tensor)
            raise
        return tensor

    def free_tensor(self, t: DeviceTensor, *, worker_id: int = 0) -> None:
        """Frees a tensor. What was freed before, or died with its worker, is left alone.

        Args:
            t: The tensor.
            worker_id: Always 0: there is one device.

        Raises:
            TypeError: The argument is no `DeviceTensor`.
            ValueError: The tensor belongs to another worker, or is a view of one.
        """
        impl = self._impl
        if impl is None or worker_id != 0:
            self._check_worker_id("free_tensor", worker_id)
            if impl is None:
                return
        impl.free_tensor(t)

    def malloc(self, nbytes: int, *, worker_id: int = 0) -> int:
        """Allocates bytes without a type and returns their device address. They are freed at close at the latest.

        Args:
            nbytes: How many, at least 1.
            worker_id: Always 0: there is one device.

        Raises:
            ValueError: `nbytes` is not a positive int.
            OutOfMemoryError: There is no such block left.
            RuntimeError: The worker is closed.
        """
        impl = self._ready("malloc", worker_id)
        return impl.malloc(nbytes, scope=memory_scopes.current(impl))

    def free(self, ptr: int, *, worker_id: int = 0) -> None:
        """Frees what `malloc` returned.

        Args:
            ptr: The address.
            worker_id: Always 0: there is one device.

        Raises:
            ValueError: `ptr` is not the base of a live allocation of this worker.
            RuntimeError: The worker is closed, or, in poison mode, something was written behind the end of the
                allocation, which is free nevertheless.
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
            worker_id: Always 0: there is one device.

        Ctrl-C ends a copy of many megabytes; a first part of it was copied then, and the rest of the memory is as it
        was.

        Raises:
            TypeError: A side is of the wrong kind, or `nbytes` is missing.
            ValueError: The range is not inside one live allocation of this worker, or the sides do not fit.
            RuntimeError: The worker is closed.
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
        """Copies from the device to the host.

        Args:
            dst_host_ptr: A contiguous host tensor, or a host address (which is trusted).
            src_dev_ptr: A device tensor, or a device address: anywhere inside one live allocation.
            nbytes: How much; needed where both sides are addresses.
            worker_id: Always 0: there is one device.

        Raises:
            TypeError: A side is of the wrong kind, or `nbytes` is missing.
            ValueError: The range is not inside one live allocation of this worker, or the sides do not fit.
            RuntimeError: The worker is closed.
        """
        self._ready("copy_from", worker_id).copy_from(dst_host_ptr, src_dev_ptr, nbytes)

    def memory_report(self) -> MemoryReport:
        """The memory now, with every live tensor and the line that allocated it. Prints as a table; sizes are bytes.

        Raises:
            RuntimeError: The worker is closed.
        """
        return self._ready("memory_report", 0).memory_report()

    def memory_stats(self) -> dict[str, Any]:
        """The fields of `memory_report` as a dictionary; sizes are bytes.

        Raises:
            RuntimeError: The worker is closed.
        """
        return self._ready("memory_stats", 0).memory_report().as_dict()

    def memory_budget(self, nbytes: int | None, *, tag: str) -> AbstractContextManager[MemoryScope]:
        """Counts what is allocated inside of the `with` for `tag`, and refuses what exceeds the budget.

        ```python
        with w.memory_budget(64 << 20, tag="kv cache") as kv:
            cache = w.zeros((32, 4096, 128), torch.float16)
        kv.live, kv.peak
        ```

        The tag lasts: what is allocated for it counts until it is freed, also after the `with`, and a later `with` of
        the same tag goes on counting. Scopes nest; what is allocated in an inner one counts for the outer ones too,
        and must fit all their budgets. The scope is that of this context (thread or task). What launches keep does
        not count.

        Args:
            nbytes: The most bytes that the tag may have when something is allocated here; None to count only.
            tag: What the memory is for.

        Returns:
            A context manager; `with ... as` gives the scope: `tag`, `budget`, and of the tag `live` and `peak`, in
            bytes. `memory_report().tags` has all tags.

        Raises:
            ValueError: `nbytes` is not positive, or `tag` is no name.
            RuntimeError: The worker is closed.
            OutOfMemoryError: From an allocation inside: names the tag, the budget, what is live by the tag, and the
                lines that allocated it. Nothing is allocated then.
        """
        return memory_scopes.scope(self._ready("memory_budget", 0), nbytes, tag)

    def memory_snapshot(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The past of the device memory: who took what, when, and when it was freed.

        The latest 16,384 events are kept, from the opening of the worker on. Launches in the steady state take no
        memory, so nothing is recorded in them.

        Args:
            path: Where to write it. A name that ends in `.pickle` is for https://pytorch.org/memory_viz; anything
                else is written as JSON, which Perfetto (https://ui.perfetto.dev) opens as counters and instants, and
                whose `json.load` the functions of `torch.cuda._memory_viz` take.

        Returns:
            What was, or would be, written: `segments` and `device_traces` as in `torch.cuda.memory._snapshot()`, and
            `traceEvents` for Perfetto; sizes in bytes, times in microseconds of the monotonic clock.

        Raises:
            RuntimeError: The worker is closed.
            OSError: The file cannot be written.
        """
        data = memory_snapshot.snapshot(self._ready("memory_snapshot", 0).timeline(), str(self))
        if path is not None:
            memory_snapshot.save(data, path)
        return data

    def counters(self) -> dict[str, int]:
        """What the worker did since it was opened: launches, bytes copied each way, distinct programs registered.

        Raises:
            RuntimeError: The worker is closed.
        """
        return self._ready("counters", 0).counters()

    def advice(self) -> list[Advice]:
        """What could stay on the device and does not, the most expensive first; each prints with its cure.

        Three habits are looked for: host arguments that are uploaded although nothing wrote to them, results that are
        downloaded and passed back in as they came (a cache in disguise), and programs that are registered again and
        again. An argument counts as unchanged where address, size, torch's version counter (if there is one) and a
        sample of up to 512 words are the same.

        Raises:
            RuntimeError: The worker was opened without `RunConfig(residency="advise")` or `"auto"`, or is closed.
        """
        report = self._ready("advice", 0).residency()
        if report is None:
            raise failures.ADVISOR_OFF(
                'advice() needs a worker that counts: ChipWorker(RunConfig(residency="advise")), or "auto"'
            )
        return advice.of_worker(report)

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
