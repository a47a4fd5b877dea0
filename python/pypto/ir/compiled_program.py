"""A compiled program: what a launch takes, the directory it lives in, and the plain data for the device."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pypto.ir import artifacts
from pypto.ir.nodes import Program
from pypto.ir.param_info import ParamDirection, ParamInfo
from pypto.ir.pass_manager import RuntimeKind
from pypto.ir.platforms import BackendType, backend_of, simulator_of
from pypto.language.dtypes import DataType

Dispatch = Callable[["CompiledProgram", tuple[Any, ...], Any], Any]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a launch needs to know about the parameters, in order."""

    params: tuple[ParamInfo, ...]
    num_return_types: int


class CompiledProgram:
    """A program that a worker can register and launch.

    It is path-like: `str()` and `os.fspath()` give its directory, and it equals a path to it.
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
    ) -> None:
        self._entries = entries
        self._program = program
        self._output_dir = Path(output_dir).resolve()
        self._backend_type = backend_type
        self._platform = simulator_of(backend_type) if platform is None else platform
        self._core = core
        self._metadata = metadata

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
        """The kind of runtime that it was built for."""
        return RuntimeKind.TENSORMAP_AND_RINGBUFFER.value

    @cached_property
    def name(self) -> str:
        """The name of the entry."""
        return self._output_dir.name if self._entries is not None else str(self.core_program()["name"])

    @cached_property
    def param_names(self) -> list[str]:
        """Names of the parameters, in order."""
        return [info.name for info in self._get_metadata().params]

    @cached_property
    def output_indices(self) -> list[int]:
        """Positions of the pure outputs."""
        return [
            position
            for position, info in enumerate(self._get_metadata().params)
            if info.direction is ParamDirection.Out
        ]

    @property
    def has_return(self) -> bool:
        """Whether the entry returns something, so that it can be called without its outputs."""
        return self._get_metadata().num_return_types > 0

    @property
    def orchestration_names(self) -> list[str]:
        """Names of the entries."""
        return [self.name] if self._entries is None else list(self._entries)

    def _single(self) -> None:
        if self._entries is not None:
            names = ", ".join(map(repr, self._entries))
            raise TypeError(
                f"{self!r} has several entries: {names}; choose one: compiled[{next(iter(self._entries))!r}]"
            )

    def _get_metadata(self) -> Metadata:
        self._single()
        if self._metadata is None:
            self._metadata = _metadata_of(artifacts.read_sidecar(self._output_dir))
        return self._metadata

    def core_program(self) -> dict[str, Any]:
        """The program as the device's core takes it: dicts, lists, numbers and strings. Not to be changed."""
        self._single()
        if self._core is None:
            self._core = artifacts.read_program(self._output_dir)
        return self._core

    def __call__(self, *args: Any, config: Any = None) -> Any:
        """Runs the program.

        With all parameters, outputs are written in place and the result is `None`; with the inputs only, outputs are
        allocated and returned. Where it runs and what it raises: `pypto.runtime.dispatch`.
        """
        # This package knows no runtime: the first call finds it by name, unless a dispatcher was set.
        dispatch = CompiledProgram._dispatch
        if dispatch is None:
            dispatch = importlib.import_module("pypto.runtime.dispatch").dispatch
            CompiledProgram._dispatch = staticmethod(dispatch)
        return dispatch(self, args, config)

    def __getitem__(self, name: str) -> CompiledProgram:
        if self._entries is not None and name in self._entries:
            return self._entries[name]
        if self._entries is None and name == self.name:
            return self
        raise KeyError(f"{name!r} is no entry of this program; it has {', '.join(self.orchestration_names)}")

    @classmethod
    def from_dir(
        cls, output_dir: str | os.PathLike[str], *, platform: str | None = None, backend_type: BackendType | None = None
    ) -> CompiledProgram:
        """Loads a program from its directory.

        Raises:
            FileNotFoundError: A file is missing.
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
        chosen = meta["platform"] if platform is None else platform
        backend = backend_of(chosen) if backend_type is None else backend_type
        return cls(None, directory, backend_type=backend, platform=chosen, core=core, metadata=_metadata_of(meta))

    def load(self) -> CompiledProgram:
        """Makes sure that everything is in memory; returns itself."""
        for program in [self] if self._entries is None else self._entries.values():
            program._get_metadata()
            program.core_program()
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


def _metadata_of(meta: dict[str, Any]) -> Metadata:
    params = tuple(
        ParamInfo(
            param["name"],
            ParamDirection[param["direction"]],
            None if param["shape"] is None else tuple(param["shape"]),
            DataType.from_name(param["dtype"]),
        )
        for param in meta["params"]
    )
    return Metadata(params, meta["num_return_types"])


def _to_torch_dtype(dtype: DataType) -> Any:
    """The torch dtype of a parameter."""
    return dtype.to_torch()


def _to_runtime_shape(shape: Any, dtype: DataType) -> list[int]:
    """The extents that a host tensor has for a parameter of this shape; dynamic ones are -1."""
    return list(shape)
