"""The Rust extension module: device memory, launches, tracing, and the simulated chip.

`pypto.runtime` is the interface for users; what is documented there is not repeated here.
"""

import os
from collections.abc import Sequence
from dataclasses import Field
from typing import Any, ClassVar, NoReturn, TypeAlias, final

import torch

from pypto.runtime.futures import LaunchFuture

__all__ = [
    "MAX_CORES",
    "BoundLaunch",
    "Buffer",
    "DeviceTensor",
    "MemoryReport",
    "MemoryScope",
    "Program",
    "QueuedLaunch",
    "Recording",
    "RegistrationHandle",
    "TraceFile",
    "Worker",
    "__version__",
    "check_arguments",
    "mirror_trace",
    "trace_available",
]

__version__: str
MAX_CORES: int
"""The most cores that a simulated chip can have."""

_Span: TypeAlias = tuple[int, int, int, str, int, int, int, str | None, int | None, bool]
"""`(tid, inv, depth, name, ts, dur, arg, attribute, core, is_device)`; `ts` and `dur` in ns of the monotonic clock."""

@final
class Program:
    """A verified program, as the runtime keeps it."""

    def __new__(cls, data: dict[str, Any]) -> Program:
        """Reads and verifies plain program data.

        Raises:
            ValueError: The data is malformed, or breaks a rule of the program format.
        """

    @staticmethod
    def decode(data: bytes) -> Program:
        """Reads what `encode` wrote.

        Raises:
            ValueError: The bytes are not an encoded program, are damaged, or were written by another version.
        """

    def encode(self) -> bytes:
        """The program as bytes, for `decode`. Equal programs have equal bytes."""

    @property
    def name(self) -> str:
        """Name of the entry function."""

    @property
    def written(self) -> list[str]:
        """Names of the parameters that the program writes."""

@final
class Buffer:
    """One allocation of device memory, or the rest of it from a view on. It stays inspectable after it is freed."""

    @property
    def base(self) -> int:
        """Device address of its first byte. It is never given to another allocation."""

    @property
    def nbytes(self) -> int:
        """Bytes from there to the end of the allocation."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents that it was allocated with."""

    @property
    def dtype(self) -> torch.dtype:
        """The element type that it was allocated with."""

    @property
    def site(self) -> str | None:
        """`file:line` of the user's code that allocated it."""

    @property
    def state(self) -> str:
        """`live`, `freed`, or `worker closed`."""

    @property
    def description(self) -> str:
        """What messages call it: dtype, shape, address, size, and where it was allocated."""

    def tensor(self, shape: Sequence[int], dtype: torch.dtype) -> DeviceTensor:
        """A typed view from its first byte. It raises what `DeviceTensor` does, and `ValueError` where it is larger."""

@final
class DeviceTensor:
    """A typed view of memory that stays on a device.

    `ChipWorker.alloc_tensor` makes one; a compiled program takes it wherever it takes a torch tensor. `with tensor:`
    frees it at the end. Parts (`t[2:5]`) and other shapes (`t.view(...)`) are device tensors too: they share the
    memory, cost a launch nothing, and die with the tensor that they view. It is a frozen dataclass:
    `dataclasses.replace(t, shape=...)` views the same memory with another shape. Pointer, shape and dtype decide
    equality; whether it may be used is a question to the buffer behind it. Copies view the same memory.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __match_args__: ClassVar[tuple[str, str, str]]

    def __new__(
        cls, data_ptr: int, shape: Sequence[int], dtype: torch.dtype, *, buffer: object | None = None
    ) -> DeviceTensor:
        """Views memory at `data_ptr`.

        Args:
            data_ptr: Device address.
            shape: Extents, outermost first.
            dtype: Element type.
            buffer: The allocation at this address. Without one the tensor is a bare pointer, which no worker runs with.

        Raises:
            TypeError: An extent is no int, the dtype no `torch.dtype`, the buffer no buffer.
            ValueError: The address or an extent is not positive, the shape is empty, the dtype does not exist on the
                device, or the buffer begins elsewhere.
        """

    @property
    def data_ptr(self) -> int:
        """Device address of the first element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""

    @property
    def dtype(self) -> torch.dtype:
        """Element type."""

    @property
    def buffer(self) -> Any:
        """The allocation behind it: a `Buffer`, what the constructor was given, or None."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def is_live(self) -> bool:
        """Whether its memory is allocated: it was not freed, and its worker is open. A bare pointer never is."""

    def to_host(self) -> torch.Tensor:
        """A copy on the host.

        Raises:
            TypeError: The tensor was made from a bare pointer.
            ValueError: It was freed; the text names what was allocated, also for a view.
            RuntimeError: Its worker is gone.
        """

    def copy_(self, host: Any) -> DeviceTensor:
        """Copies a host tensor or array of the same shape and dtype into it.

        Returns:
            Itself.

        Raises:
            TypeError: `host` is no array, or the tensor was made from a bare pointer.
            ValueError: Another shape or dtype (nothing is converted or broadcast), not contiguous, or the tensor was
                freed.
            RuntimeError: Its worker is gone.
        """

    def numpy(self) -> Any:
        """A copy on the host as a numpy array; later writes reach neither side.

        Raises:
            TypeError: The dtype is bfloat16 or an 8-bit float, which numpy has not; and what `to_host` raises.
        """

    def view(self, *shape: int | Sequence[int]) -> DeviceTensor:
        """The same memory with another shape of as many elements: ints or one sequence; one may be -1 for what is left.

        Raises:
            TypeError: An extent is no int, or the tensor was made from a bare pointer.
            ValueError: Another number of elements.
        """

    def __getitem__(self, index: Any, /) -> DeviceTensor:
        """A part that lies in one piece, as a view: ints, slices of step 1, one `...`.

        `t[2:5]` are rows 2 to 4, `t[1]` is a row without its axis, `t[1, 2:5]` is a part of a row.

        Raises:
            TypeError: The index is something else, or the tensor was made from a bare pointer.
            IndexError: There is no such row, or there are more indices than axes.
            ValueError: The part has gaps, is empty, or has no dimension.
        """

    def __len__(self) -> int:
        """The first extent."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """`numpy()`, for `np.asarray`.

        Raises:
            BufferError: `copy` is False.
        """

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A copy on the host, for `torch.from_dlpack` and other libraries.

        It is always a copy: a view of device memory could outlive it, and what it writes would bypass packed weights.

        Raises:
            BufferError: `copy` is False, or another device is asked for.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """`(1, 0)`: the CPU, where the copy is."""

    def __enter__(self) -> DeviceTensor:
        """Itself.

        Raises:
            TypeError: It was made from a bare pointer.
            ValueError: It is a view, which owns nothing.
        """

    def __exit__(self, *_exc: object) -> None:
        """Frees it; does nothing where that was done, or its worker was closed."""

    def __copy__(self) -> DeviceTensor: ...
    def __deepcopy__(self, _memo: Any, /) -> DeviceTensor: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class RegistrationHandle:
    """A registered program. Calling it launches the program; see `ChipWorker.register`."""

    __test__: ClassVar[bool]

    def __call__(self, *args: Any, config: Any = None) -> Any:
        """Launches the program; see `ChipWorker.run` for arguments, result and errors.

        Raises:
            RuntimeError: The handle was unregistered or its worker closed.
        """

    def bind(self, *args: Any) -> BoundLaunch:
        """Checks the arguments once, for launches that follow; see `BoundLaunch`.

        Args:
            *args: As for a call. Where the outputs are left out, each launch makes and returns them.

        Raises:
            As for a call; see `ChipWorker.run`.
        """

    def submit(self, *args: Any, config: Any = None) -> LaunchFuture:
        """Queues a launch and returns at once; see `LaunchFuture`.

        Launches of one worker run in the order in which they were submitted, and every synchronous call on the worker
        (a launch, a copy, `free_tensor`) waits for those before it. Host tensors are read and written when the launch
        runs: leave them alone until the future is done. `RunConfig(queue_depth=)` bounds how many launches are under
        way; beyond it `submit` waits.

        Args:
            *args: As for a call. They are kept alive until the future is done.
            config: As for a call.

        Returns:
            The future. What the launch raises is its exception, and concerns no other launch.

        Raises:
            TypeError: The number of arguments is wrong, or one is no tensor or number of the right kind.
            ValueError: An array cannot be read where it lies: not contiguous, not on the CPU.
            OverflowError: A number does not fit any 64 bits.
            RuntimeError: The handle was unregistered, its worker closed, or the process is a fork.
        """

    @property
    def cid(self) -> int:
        """Number of the program on its worker; equal programs have one."""

    @property
    def compiled(self) -> Any:
        """The program that was registered."""

    @property
    def worker(self) -> Any:
        """The worker that it was registered on."""

    @property
    def closed(self) -> bool:
        """Whether launching is over: it was unregistered, or its worker was closed."""

    def unregister(self) -> None:
        """Makes this handle unusable. Other handles of the program stay usable; its memory is freed at close."""

    def __enter__(self) -> RegistrationHandle: ...
    def __exit__(self, *_exc: object) -> None: ...

@final
class BoundLaunch:
    """A launch with its arguments, checked once: `handle.bind(a, w, out)`. Calling it launches.

    Tensors that are resident cost nothing in a call. Host tensors are looked at, and copied, in each call as in a plain
    launch; numbers are taken when they are bound. Arguments are kept alive; resident memory is not, so free a tensor
    and the next call raises. Threads may share a bound launch; `update` takes its turn among their launches.
    """

    def __call__(self, *args: NoReturn, config: Any = None) -> Any:
        """Launches; the result is that of the handle's call.

        Raises:
            ValueError: A tensor was freed.
            RuntimeError: The handle was unregistered, its worker closed, or the launch failed.
            TypeError: A host tensor has another shape or dtype now, or arguments were passed.
        """

    def update(self, **changes: Any) -> None:
        """Replaces arguments, by the names of their parameters. Where one is refused, nothing is replaced.

        It waits for launches that were queued before.

        Raises:
            TypeError: There is no such parameter, or an argument does not fit its parameter.
            ValueError: An argument cannot be used, or is an output that each call makes.
            OverflowError: A number does not fit its parameter.
            RuntimeError: The handle was unregistered or its worker closed.
        """

    def submit(self) -> LaunchFuture:
        """Queues the launch; see `RegistrationHandle.submit`, also for what it raises."""

    @property
    def handle(self) -> RegistrationHandle:
        """What it was bound from."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, one for each parameter; None for an output that each call makes."""

    @property
    def closed(self) -> bool:
        """Whether launching is over: the handle was unregistered, or its worker was closed."""

    def __len__(self) -> int:
        """Number of parameters."""

    def __getitem__(self, key: int | str, /) -> Any:
        """The argument at a position, or of a name."""

    def __setitem__(self, key: int | str, arg: Any, /) -> None:
        """Replaces one argument as `update` does, by position or name."""

@final
class QueuedLaunch:
    """What a `LaunchFuture`, which documents it, knows of its launch."""

    def cancel(self) -> bool: ...
    def begun(self) -> bool: ...
    def check_process(self) -> None:
        """Raises `RuntimeError` in a process that is a fork of the one that queued it."""

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
        name: str | None = None,
        residency: str = "off",
    ) -> Worker:
        """Opens a device; the settings are those of `RunConfig`.

        Raises:
            ValueError: The platform does not exist or the capacity is 0.
            RuntimeError: The device cannot be opened here.
            MemoryError: The machine refuses the address space.
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
    def memory_scope(self, tag: str, budget: int | None, outer: MemoryScope | None = None) -> MemoryScope: ...
    def timeline(self) -> dict[str, Any]:
        """The past of the memory as plain data; `memory_snapshot` reads it."""

    def residency(self) -> dict[str, Any] | None:
        """What was counted about host arguments, as plain data; None where that is off. `advice` words it."""

    def counters(self) -> dict[str, int]: ...

@final
class Recording:
    """Records spans of all threads while it is open."""

    def __new__(cls) -> Recording:
        """Starts recording."""

    def drain(self) -> tuple[int, list[_Span], int]:
        """Takes what ended since the last call: process, spans, and how many were lost because a buffer was full.

        Raises:
            RuntimeError: It was stopped.
        """

    def stop(self) -> None:
        """Stops recording."""

    def __enter__(self) -> Recording: ...
    def __exit__(self, *_exc: object) -> None: ...

@final
class TraceFile:
    """A recording that is written to a file while it goes on.

    Args:
        path: The file; it is replaced.
        format: `chrome`, `perfetto` or `strace`.

    Raises:
        OSError: The file cannot be written.
        ValueError: There is no such format.
    """

    def __new__(cls, path: str | os.PathLike[str], format: str) -> TraceFile: ...
    def close(self) -> int:
        """Ends the recording; returns how many spans were lost. A second call does nothing.

        Raises:
            OSError: The file could not be written.
        """

def check_arguments(handle: RegistrationHandle, args: tuple[Any, ...]) -> list[int]:
    """Checks one argument for each parameter as a launch would; the scalars as the device takes them, 64 bits each."""

def mirror_trace(on: bool, *, device_spans: bool = True) -> None:
    """Prints `[STRACE]` lines after each launch, those of the device only with `device_spans`; or stops doing so."""

def trace_available() -> bool:
    """Whether this build records spans at all."""
