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
    """One allocation of device memory. It stays inspectable after it is freed."""

    @property
    def base(self) -> int:
        """Device address of its first byte. It is never given to another allocation."""

    @property
    def nbytes(self) -> int:
        """Its size."""

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
        """A typed view from its first byte.

        Raises:
            TypeError: As for `DeviceTensor`.
            ValueError: As for `DeviceTensor`, and where the view is larger than the buffer.
        """

@final
class DeviceTensor:
    """A typed view of memory that stays on a device, from its first byte.

    `ChipWorker.alloc_tensor` makes one; a compiled program takes it wherever it takes a torch tensor. It is a frozen
    dataclass: `dataclasses.replace(t, shape=...)` views the same memory with another shape. Pointer, shape and dtype
    decide equality; whether it may be used is a question to the buffer behind it.
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

    def to_host(self) -> torch.Tensor:
        """A copy on the host.

        Raises:
            TypeError: The tensor was made from a bare pointer.
            ValueError: It was freed.
            RuntimeError: Its worker is gone.
        """

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
            TypeError: As for a call.
            ValueError: As for a call.
            OverflowError: As for a call.
            RuntimeError: The handle was unregistered or its worker closed.
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
        """Queues the launch; see `RegistrationHandle.submit`.

        Raises:
            ValueError: A host array cannot be read.
            RuntimeError: The handle was unregistered, its worker closed, or the process is a fork.
        """

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
    """What a `LaunchFuture` knows of its launch."""

    def cancel(self) -> bool:
        """Takes the launch out of the queue, if it has not begun; whether it is out."""

    def begun(self) -> bool:
        """Whether it has begun."""

    def check_process(self) -> None:
        """Refuses a process that is a fork of the one that queued it.

        Raises:
            RuntimeError: It is one.
        """

@final
class MemoryReport:
    """The memory of one worker at one moment. Sizes are bytes; it prints as a table."""

    @property
    def capacity(self) -> int:
        """The most that can be allocated at once."""

    @property
    def reserved(self) -> int:
        """Address space taken from the machine."""

    @property
    def committed(self) -> int:
        """Memory taken from the machine: pages that were touched."""

    @property
    def live(self) -> int:
        """Sum of the user's live allocations."""

    @property
    def peak(self) -> int:
        """The largest value that `live` ever had."""

    @property
    def staging(self) -> int:
        """What programs keep for copies of host arguments."""

    @property
    def scratch(self) -> int:
        """What programs keep to work in."""

    @property
    def packed(self) -> int:
        """Bytes of the packed forms of resident weights."""

    @property
    def free(self) -> int:
        """Not allocated."""

    @property
    def largest_free(self) -> int:
        """The largest request that would succeed."""

    @property
    def count(self) -> int:
        """How many live allocations the user has."""

    @property
    def fragmentation(self) -> float:
        """The share of free memory that the largest request cannot have, 0 to 1."""

    @property
    def live_buffers(self) -> list[Buffer]:
        """The user's live allocations, largest first."""

    def as_dict(self) -> dict[str, Any]:
        """All of the above by name."""

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
    ) -> Worker:
        """Opens a device.

        Args:
            platform: One of `RunConfig`'s platforms.
            device_id: Which device of it.
            capacity: Bytes of device memory.
            poison: Fill new memory with NaN patterns and guard its ends.
            packed_weights: Share of the capacity that packed forms of resident weights may take.
            cores: Simulated cores; one for each processor that the process may use if not given.
            schedule_seed: Independent tasks run in a random order that follows from it, for tests.
            queue_depth: Submitted launches that may be under way until `submit` waits.
            sanitize: Names of sanitizers: `race`, `uninit`, `bounds`.
            name: What messages call it.

        Raises:
            ValueError: The platform does not exist or the capacity is 0.
            RuntimeError: The device cannot be opened here.
            MemoryError: The machine refuses the address space.
        """

    @property
    def id(self) -> int:
        """Number of this opened device in the process; never used twice."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def platform(self) -> str:
        """Name of its platform."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""

    @property
    def is_mine(self) -> bool:
        """Whether this process opened it, and not the one that this is a fork of."""

    def alloc_tensor(self, shape: Sequence[int], dtype: torch.dtype, init: torch.Tensor | None = None) -> DeviceTensor:
        """Allocates a tensor; `init` must be contiguous and on the CPU."""

    def free_tensor(self, tensor: DeviceTensor) -> bool:
        """Frees a tensor; returns whether there was something to free."""

    def malloc(self, nbytes: int) -> int:
        """Allocates bytes."""

    def free(self, ptr: int) -> None:
        """Frees bytes."""

    def copy_to(self, dst: int | DeviceTensor, src: int | torch.Tensor, nbytes: int | None = None) -> None:
        """Copies from the host to the device."""

    def copy_from(self, dst: int | torch.Tensor, src: int | DeviceTensor, nbytes: int | None = None) -> None:
        """Copies from the device to the host."""

    def check_tensor(self, tensor: DeviceTensor, label: str) -> None:
        """Refuses a tensor that is no live allocation of this worker; `label` says what it is used as."""

    def buffer(self, ptr: int) -> Buffer | None:
        """The live allocation that begins at an address."""

    def register(
        self, program: Program, *, owner: object, compiled: object, output_indices: Sequence[int], has_return: bool
    ) -> RegistrationHandle:
        """Makes a program ready.

        Args:
            program: The program.
            owner: What the handle keeps alive and shows as `worker`.
            compiled: What the handle shows as `compiled`.
            output_indices: Parameters that a return-style call leaves out.
            has_return: Whether there are return-style calls.
        """

    def close(self, *, stop: bool = False) -> tuple[list[str], RuntimeError | None]:
        """Closes the device.

        Args:
            stop: Stop running launches instead of waiting for them.

        Returns:
            Descriptions of the tensors that were still allocated, and the first overwritten guard of poison mode.
        """

    def synchronize(self) -> None:
        """Waits for every launch before this call, and for the futures of queued ones."""

    def memory_report(self) -> MemoryReport:
        """The memory now."""

    def counters(self) -> dict[str, int]:
        """`launches`, `h2d_bytes`, `d2h_bytes`, `registrations` since it was opened."""

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
    """Prints `[STRACE]` lines on standard error after each launch, or stops doing so.

    Args:
        on: Whether to print.
        device_spans: Whether to print what the device stamped.
    """

def trace_available() -> bool:
    """Whether this build records spans at all."""
