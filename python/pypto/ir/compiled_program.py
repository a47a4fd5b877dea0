"""A compiled program: what a launch takes, the directory it lives in, and the plain data for the device."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pypto import failures
from pypto.ir import artifacts, kernel_config
from pypto.ir.nodes import Program
from pypto.ir.param_info import Metadata, ParamDirection, ParamInfo, metadata_of
from pypto.ir.pass_manager import RuntimeKind
from pypto.ir.platforms import BackendType, backend_of, simulator_of
from pypto.language.dtypes import DataType

Dispatch = Callable[["CompiledProgram", tuple[Any, ...], Any], Any]


class CompiledProgram:
    """A program that a worker can register and launch.

    It is path-like: `str()` and `os.fspath()` give its directory, and it equals a path to it. A program with several
    entries is a container of programs: `compiled["name"]` or `compiled.name` is one of them.

    `ir.compile`, `kernel.compile` and `from_dir` make it.

    Args:
        program: Its IR, where it was compiled here.
        output_dir: Its directory.
        backend_type: The chip that it was compiled for.
        platform: The platform; the simulation of that chip if not given.
        core: The program as the device's core takes it; read from the directory if not given.
        metadata: What is known of its parameters; read from the directory if not given.
        entries: The programs by their names, where it has several.
        runtime: The kind of runtime that it was built for.
        enable_sdma: Whether it needs a worker with SDMA.
    """

    _dispatch: ClassVar[Dispatch | None] = None

    def __init__(
        self,
        program: Program | None,
        output_dir: str | os.PathLike[str],
        *,
        backend_type: BackendType = BackendType.Ascend910B,
        platform: str | None = None,
        core: dict[str, Any] | None = None,
        metadata: Metadata | None = None,
        entries: dict[str, CompiledProgram] | None = None,
        runtime: str | None = RuntimeKind.TENSORMAP_AND_RINGBUFFER.value,
        enable_sdma: bool = False,
    ) -> None:
        self._entries = entries
        self._program = program
        self._output_dir = Path(output_dir).resolve()
        self._backend_type = backend_type
        self._platform = simulator_of(backend_type) if platform is None else platform
        self._core = core
        self._metadata = metadata
        self._runtime = runtime
        self._enable_sdma = enable_sdma

    @property
    def output_dir(self) -> Path:
        """The directory with everything that the compilation wrote."""
        return self._output_dir

    @property
    def program(self) -> Program | None:
        """The IR; `None` when the program was loaded from its directory."""
        return self._program

    @property
    def backend_type(self) -> BackendType:
        """The chip family."""
        return self._backend_type

    @property
    def platform(self) -> str:
        """The platform that it was compiled for."""
        return self._platform

    @property
    def runtime_name(self) -> str:
        """The kind of runtime that it was built for.

        Raises:
            FileNotFoundError: It was loaded from a directory without `kernel_config.py`, which can be looked at only.
        """
        return str(self.runtime_config["runtime"]) if self._runtime is None else self._runtime

    @property
    def enable_sdma(self) -> bool:
        """Whether it was built for the DMA engine between chips. Only a loaded directory can say so."""
        return self._enable_sdma

    @cached_property
    def runtime_config(self) -> dict[str, Any]:
        """How it was built: `runtime`, and `aicpu_thread_num`, a label on the simulated chip. Read from its directory.

        Raises:
            FileNotFoundError: The directory has no `kernel_config.py`.
            ValueError: That file is malformed.
        """
        self._single()
        return kernel_config.read(self._output_dir)

    @property
    def chip_callable(self) -> Any:
        """The verified program as a worker registers it, made the first time."""
        return _runtime("programs").core_program(self)

    @cached_property
    def name(self) -> str:
        """The name of the entry."""
        return self._output_dir.name if self._entries is not None else str(self.core_program()["name"])

    @property
    def params(self) -> tuple[ParamInfo, ...]:
        """The parameters, in order.

        Raises:
            TypeError: The program has several entries; `compiled["name"]` is one of them.
            FileNotFoundError: Its directory is gone.
            ValueError: Its directory was damaged, or written by another version.
        """
        return self._get_metadata().params

    @cached_property
    def param_names(self) -> list[str]:
        """Names of the parameters, in order; errors as of `params`."""
        return [info.name for info in self._get_metadata().params]

    @cached_property
    def output_indices(self) -> list[int]:
        """Positions of the pure outputs; errors as of `params`."""
        return [
            position
            for position, info in enumerate(self._get_metadata().params)
            if info.direction is ParamDirection.Out
        ]

    @property
    def has_return(self) -> bool:
        """Whether the entry returns something, so that it can be called without its outputs.

        Raises:
            TypeError: The program has several entries; `compiled["name"]` is one of them.
            FileNotFoundError: Its directory is gone.
            ValueError: Its directory was damaged, or written by another version.
        """
        return self._get_metadata().num_return_types > 0

    @property
    def orchestration_names(self) -> list[str]:
        """Names of the entries."""
        return [self.name] if self._entries is None else list(self._entries)

    def _single(self) -> None:
        if self._entries is not None:
            names = ", ".join(map(repr, self._entries))
            raise failures.SEVERAL_ENTRIES(
                f"{self!r} has several entries: {names}; choose one: compiled[{next(iter(self._entries))!r}]"
            )

    def _get_metadata(self) -> Metadata:
        self._single()
        if self._metadata is None:
            self._metadata = metadata_of(artifacts.read_sidecar(self._output_dir))
        return self._metadata

    def core_program(self) -> dict[str, Any]:
        """The program as the device's core takes it: dicts, lists, numbers and strings. Not to be changed.

        Raises:
            TypeError: The program has several entries; `compiled["name"]` is one of them.
            FileNotFoundError: Its directory is gone.
            ValueError: Its directory was damaged, or written by another version.
        """
        self._single()
        if self._core is None:
            self._core = artifacts.read_program(self._output_dir)
        return self._core

    def __call__(self, *args: Any, config: Any = None) -> Any:
        """Runs the program.

        With all parameters, outputs are written in place and the result is `None`; with the inputs only, outputs are
        allocated and returned. Where it runs and what it raises: `pypto.runtime.dispatch`.
        """
        dispatch = CompiledProgram._dispatch
        if dispatch is None:
            dispatch = _runtime("dispatch").dispatch
            CompiledProgram._dispatch = staticmethod(dispatch)
        return dispatch(self, args, config)

    def build_orch_args(self, *args: Any, worker: Any = None) -> tuple[Any, list[Any], bool]:
        """Checks arguments as a launch on `worker` would.

        Args:
            *args: The arguments, with or without the outputs.
            worker: The worker; the active one if not given.

        Returns:
            The arguments as the device takes them; all arguments in order of the parameters, with outputs that were
            left out; and whether outputs were left out.

        Raises:
            TypeError: There is no worker.
            Exception: What a launch raises for its arguments.
        """
        built: tuple[Any, list[Any], bool] = _runtime("call_args").build_orch_args(self, args, worker)
        return built

    def build_call_config(
        self,
        config: Any = None,
        *,
        aicpu_thread_num: int | None = None,
        dfx_dir: str | os.PathLike[str] | None = None,
    ) -> Any:
        """The settings of a launch: a keyword goes before `config`, and that before `runtime_config`.

        Args:
            config: A `RunConfig`.
            aicpu_thread_num: How many threads of the real chip's host processor schedule tasks.
            dfx_dir: Where swimlanes and dumps go.
        """
        return _runtime("call_args").build_call_config(self, config, aicpu_thread_num, dfx_dir)

    def validate_ir(self, tensors: Any, expected: Any, *, rtol: float = 5e-2, atol: float = 5e-2) -> None:
        """Runs the program as it was after each pass, and compares the outputs.

        Args:
            tensors: One argument for each parameter: in order, or by name.
            expected: Expected outputs: by name, or in order of the tensors that the program writes.
            rtol: Relative tolerance.
            atol: Absolute tolerance.

        Raises:
            FileNotFoundError: The program was compiled without `dump_passes`.
            AssertionError: The outputs of a pass differ; the text names the pass.
        """
        _runtime("ir_validation").validate_ir(self, tensors, expected, rtol=rtol, atol=atol)

    def __getattr__(self, name: str) -> CompiledProgram:
        # Only for names that are no attribute of a program.
        entries = self.__dict__.get("_entries")
        if entries is not None and name in entries:
            entry: CompiledProgram = entries[name]
            return entry
        known = f"; its entries are {', '.join(entries)}" if entries else ""
        raise AttributeError(f"CompiledProgram has no attribute {name!r}{known}")

    def __getitem__(self, name: str) -> CompiledProgram:
        if self._entries is not None and name in self._entries:
            return self._entries[name]
        if self._entries is None and name == self.name:
            return self
        raise failures.NO_SUCH_ENTRY(
            f"{name!r} is no entry of this program; it has {', '.join(self.orchestration_names)}"
        )

    @classmethod
    def from_dir(
        cls, output_dir: str | os.PathLike[str], *, platform: str | None = None, backend_type: BackendType | None = None
    ) -> CompiledProgram:
        """Loads a program from its directory.

        Without `kernel_config.py` the program can be looked at, and not executed.

        Args:
            output_dir: The directory.
            platform: The platform to run it on; the one that it was compiled for if not given.
            backend_type: The chip, where `platform` is not given: its simulation is meant.

        Raises:
            FileNotFoundError: Another file is missing.
            ValueError: A file is malformed. Both texts name it.
        """
        directory = Path(output_dir)
        names = artifacts.read_entries(directory)
        if names:
            entries = {
                name: cls.from_dir(directory / name, platform=platform, backend_type=backend_type) for name in names
            }
            first = entries[names[0]]
            return cls(None, directory, backend_type=first.backend_type, platform=first.platform, entries=entries)
        meta = artifacts.read_sidecar(directory)
        core = artifacts.read_program(directory)
        built = kernel_config.read(directory) if (directory / kernel_config.FILE).is_file() else {}
        chosen = meta["platform"] if platform is None else platform
        backend = backend_of(chosen) if backend_type is None else backend_type
        metadata = metadata_of(meta)
        return cls(
            None,
            directory,
            backend_type=backend,
            platform=chosen,
            core=core,
            metadata=metadata,
            runtime=built.get("runtime"),
            enable_sdma=built.get("enable_sdma", False) is True,
        )

    def load(self) -> CompiledProgram:
        """Makes sure that everything is in memory; returns itself."""
        for program in [self] if self._entries is None else self._entries.values():
            program._get_metadata()
            _ = program.chip_callable, program.runtime_config
        return self

    def __fspath__(self) -> str:
        return str(self._output_dir)

    def __str__(self) -> str:
        return str(self._output_dir)

    def __repr__(self) -> str:
        return f"<CompiledProgram {self.name} for {self._platform} in {self._output_dir}>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (str, os.PathLike)):
            return str(self._output_dir) == os.fspath(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(str(self._output_dir))


def _runtime(module: str) -> Any:
    """A module of the runtime. This package knows none: it is found by name when it is first needed."""
    return importlib.import_module(f"pypto.runtime.{module}")


def _to_torch_dtype(dtype: DataType) -> Any:
    """The torch dtype of a parameter."""
    return dtype.to_torch()


def _to_runtime_shape(shape: Any, dtype: DataType) -> list[int]:
    """The extents that a host tensor has for a parameter of this shape; dynamic ones are -1."""
    return list(shape)
