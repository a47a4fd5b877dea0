"""Programs and their launches."""

from typing import Any, ClassVar, NoReturn, final

from pypto.runtime.futures import LaunchFuture

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
class RegistrationHandle:
    """A registered program. Calling it launches the program; see `ChipWorker.register`."""

    __test__: ClassVar[bool]

    def __new__(cls, worker: Any, cid: Any, compiled: Any) -> RegistrationHandle:
        """A handle for a worker of your own: calling it is `worker.run(compiled, ...)`.

        Args:
            worker: A worker, of whatever class.
            cid: What the worker calls the program.
            compiled: The program.

        Raises:
            TypeError: `worker` is no `Worker`.
        """

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
            TypeError: There are too many or too few, or one is of the wrong kind, dtype or shape.
            ValueError: A device tensor was freed, or belongs to another worker.
            RuntimeError: The handle was unregistered, or its worker closed.
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
        """Makes this handle unusable. Other handles of the program stay usable; its memory is freed at close.

        A second call does nothing, and none after the worker was closed; so nothing is raised.
        """

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

    def submit(self, *, config: Any = None) -> LaunchFuture:
        """Queues the launch; see `RegistrationHandle.submit`, also for what it raises.

        Args:
            config: Settings of this launch, as for a call.
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
        """The argument at a position, or of a name.

        Raises:
            IndexError: There is no such position.
            KeyError: There is no such name.
        """

    def __setitem__(self, key: int | str, arg: Any, /) -> None:
        """Replaces one argument as `update` does, by position or name."""

@final
class QueuedLaunch:
    """What a `LaunchFuture`, which documents it, knows of its launch."""

    def cancel(self) -> bool: ...
    def begun(self) -> bool: ...
    def check_wait(self) -> None:
        """Raises `RuntimeError` where waiting would never end: in a fork, and inside a call on the worker."""

def check_arguments(handle: RegistrationHandle, args: tuple[Any, ...]) -> list[int]:
    """Checks one argument for each parameter as a launch would; the scalars as the device takes them, 64 bits each."""
