"""What every command that launches a kernel does first: load, make arguments, compile, open a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from pypto import ir
from pypto.cli import arguments
from pypto.cli.load import Kernel, load
from pypto.cli.usage import UsageError
from pypto.ir import CompiledProgram
from pypto.language.jit import JITFunction
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig, memory_scopes


@dataclass(frozen=True)
class Request:
    """What the command line says of a kernel and its arguments."""

    target: str
    dims: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    resident: str = ""
    seed: int = 0
    cores: int | None = None

    @property
    def residents(self) -> list[str]:
        """The names of `resident`."""
        return [name for name in self.resident.split(",") if name]


@dataclass(frozen=True)
class Session:
    """A compiled kernel on an open worker, with its arguments.

    Attributes:
        kernel: Where it comes from.
        compiled: The compiled program.
        worker: Open until the session ends.
        host: Arguments by name, on the host.
        arguments: Arguments in order; device tensors where they are resident.
    """

    kernel: Kernel
    compiled: CompiledProgram
    worker: ChipWorker
    host: dict[str, Any]
    arguments: list[Any]

    def outputs(self) -> dict[str, torch.Tensor]:
        """What the kernel wrote, on the host."""
        found = {}
        for parameter, argument in zip(self.kernel.parameters, self.arguments, strict=True):
            if parameter.direction == "In":
                continue
            tensor = self.host[parameter.name]
            if argument is not tensor:
                self.worker.copy_from(tensor.data_ptr(), argument.data_ptr, tensor.nbytes)
            found[parameter.name] = tensor
        return found


@contextmanager
def session(request: Request, worker: ChipWorker | None = None) -> Iterator[Session]:
    """Opens what a command needs and closes it again.

    Args:
        request: The kernel and its arguments.
        worker: An open one to share; its own if not given.

    Raises:
        UsageError: The command line does not fit the kernel.
    """
    kernel = load(request.target)
    host = host_arguments(kernel, request)
    compiled = compile_for(kernel, list(host.values()))
    opening = ChipWorker(RunConfig(cores=request.cores)) if worker is None else nullcontext(worker)
    with opening as worker:
        placed = {name: _place(worker, kernel, name, host[name]) for name in request.residents}
        yield Session(kernel, compiled, worker, host, [placed.get(name, value) for name, value in host.items()])
        for tensor in placed.values():
            worker.free_tensor(tensor)


def host_arguments(kernel: Kernel, request: Request) -> dict[str, Any]:
    """What a kernel is called with, by name, on the host.

    Raises:
        UsageError: The command line does not fit the kernel.
    """
    dims, given = arguments.pairs(request.dims, "--dim"), arguments.pairs(request.given, "--arg")
    host = arguments.build(kernel, dims, given, request.seed)
    for name in request.residents:
        if not isinstance(host.get(name), torch.Tensor):
            tensors = [one for one, value in host.items() if isinstance(value, torch.Tensor)]
            raise UsageError(f"--resident {name}: {kernel.name} has no such tensor; it has {', '.join(tensors)}")
    return host


def fitting(requests: Sequence[Request]) -> list[Request]:
    """For each of several kernels what the command line says of its own parameters and dimensions.

    A name that no kernel has stays, so that it is refused as with a single kernel.
    """
    kernels = [load(request.target) for request in requests]
    parameters = [{one.name for one in kernel.parameters} for kernel in kernels]
    dims = [{dim for one in kernel.parameters for dim in one.shape or ()} for kernel in kernels]

    def of(words: Sequence[str], having: list[set[Any]], index: int) -> tuple[str, ...]:
        names = {word: word.partition("=")[0] for word in words}
        return tuple(
            word for word, name in names.items() if name in having[index] or not any(name in one for one in having)
        )

    return [
        replace(
            request,
            dims=of(request.dims, dims, index),
            given=of(request.given, parameters, index),
            resident=",".join(of(request.residents, parameters, index)),
        )
        for index, request in enumerate(requests)
    ]


def _place(worker: ChipWorker, kernel: Kernel, name: str, host: torch.Tensor) -> DeviceTensor:
    """Puts an argument on the device, at the line that declares its parameter: no code of the user allocates it."""
    place = next(parameter.place for parameter in kernel.parameters if parameter.name == name)
    impl = worker._ready("alloc_tensor", 0)
    with memory_scopes.scope(impl, None, f"argument {name}", (place.file, place.line)):
        return worker.from_host(host)


def compile_for(kernel: Kernel, args: list[Any]) -> CompiledProgram:
    """Compiles a kernel for arguments."""
    function = kernel.function
    compiled: CompiledProgram = (
        function.compile(*args) if isinstance(function, JITFunction) else ir.compile(function, dump_passes=False)
    )
    return compiled
