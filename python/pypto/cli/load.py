"""Kernels out of files: `FILE` or `FILE:kernel`."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto.cli.file_code import running
from pypto.cli.usage import UsageError
from pypto.frontend.plan import plan_of
from pypto.ir.diagnostics import Loc
from pypto.ir.nodes import Param, Program, Var
from pypto.ir.types import TensorType
from pypto.language.annotations import DynVar
from pypto.language.dtypes import DataType
from pypto.language.jit import JITFunction


@dataclass(frozen=True)
class Parameter:
    """A parameter as far as the source tells.

    Attributes:
        name: Its name.
        direction: `In`, `Out` or `InOut`.
        shape: Extents, a name where one is dynamic; None where the call decides, `()` for a scalar.
        dtype: None where the call decides.
        place: Where it is declared.
        may_be_scalar: Whether a number fits.
    """

    name: str
    direction: str
    shape: tuple[int | str, ...] | None
    dtype: DataType | None
    place: Loc
    may_be_scalar: bool = False


@dataclass(frozen=True)
class Kernel:
    """A kernel of a file that can be compiled and launched."""

    name: str
    function: JITFunction | Program
    module: ModuleType
    parameters: tuple[Parameter, ...]


def load(target: str) -> Kernel:
    """The kernel that `FILE` or `FILE:kernel` names. The file is imported: what it does at top level happens.

    Raises:
        UsageError: There is no such file or kernel, or the file has several and none was named.
        FileError: Importing the file failed.
        pypto.ir.KernelError: It declares a kernel that is none.
    """
    file, _, name = target.rpartition(":")
    if not file or not name.isidentifier():
        file, name = target, ""
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"there is no file '{file}'")
    module = _import(path)
    found = {key: value for key, value in vars(module).items() if _is_kernel(value)}
    if not name:
        if not found:
            raise UsageError(f"'{file}' has no @pl.jit function and no @pl.program class")
        if len(found) > 1:
            raise UsageError(f"'{file}' has several kernels: say which, {file}:NAME with one of {', '.join(found)}")
        name = next(iter(found))
    if name not in found:
        raise UsageError(f"'{file}' has no kernel {name!r}; it has {', '.join(found) or 'none'}")
    function = found[name]
    return Kernel(name, function, module, _parameters(function))


def _import(path: Path) -> ModuleType:
    """Imports a file under its own name, so that what `if __name__ == "__main__"` guards does not happen."""
    name = path.stem
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"'{path}' is no Python file")
    sys.path.insert(0, str(path.parent.resolve()))
    module = importlib.util.module_from_spec(specification)
    sys.modules.setdefault(name, module)
    with running(path, "the file was imported"):
        specification.loader.exec_module(module)
    return module


def _is_kernel(value: object) -> bool:
    return isinstance(value, Program) or (isinstance(value, JITFunction) and value.kind == "entry")


def _parameters(function: Any) -> tuple[Parameter, ...]:
    if isinstance(function, JITFunction):
        plan = plan_of(function)
        parameters = []
        for spec in plan.specs:
            axes = plan.axes.get(spec.name, {})
            shape: tuple[int | str, ...] | None = None
            if spec.kind == "scalar":
                shape = ()
            elif spec.shape is not None:
                shape = tuple(
                    axes[axis].name if axis in axes else dim.name if isinstance(dim, DynVar) else dim
                    for axis, dim in enumerate(spec.shape)
                )
            place = plan.source.loc(spec.node)
            parameters.append(Parameter(spec.name, spec.direction, shape, spec.dtype, place, spec.kind != "tensor"))
        return tuple(parameters)
    return tuple(_of_program(param, function.entry.loc) for param in function.entry.params)


def _of_program(param: Param, place: Loc) -> Parameter:
    var = param.var
    if isinstance(var, Var) and isinstance(var.type, TensorType):
        shape = tuple(dim if isinstance(dim, int) else getattr(dim, "name", str(dim)) for dim in var.type.shape)
        return Parameter(param.name, param.direction, shape, var.type.dtype, place)
    dtype = None if isinstance(var, Var) else var.dtype
    return Parameter(param.name, param.direction, (), dtype, place, may_be_scalar=True)
