"""Arguments for kernels: from their annotations, from the command line, or from a function of the file."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from pypto.cli.file_code import running
from pypto.cli.load import Kernel, Parameter
from pypto.cli.usage import UsageError
from pypto.ir.compiled_program import _to_torch_dtype
from pypto.language.dtypes import DataType

_SHAPED = re.compile(r"(\d+(?:x\d+)*)(?::(\w+))?")
_NUMBERS = (torch.int8, torch.int16)
"""Integers that kernels compute with. Wider ones are places, lengths and tables as a rule, for which a negative number
is out of bounds in every kernel; the unsigned ones have none."""
_INT = re.compile(r"[+-]?\d+")


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping.

    Raises:
        UsageError: A word has another form.
    """
    found = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise UsageError(f"{option} takes NAME=VALUE, got {word!r}")
        found[name] = value
    return found


def build(kernel: Kernel, dims: Mapping[str, str], given: Mapping[str, str], seed: int) -> dict[str, Any]:
    """One argument for each parameter: tensors of random numbers, outputs of zeros, scalars as given.

    A function `<kernel>_args` of the file goes before the annotations; it takes nothing and returns the arguments in
    order, or a mapping. What the command line gives goes before both.

    Raises:
        UsageError: A dimension, a shape or a scalar is missing, or what was given fits nothing.
    """
    extents = {name: _extent(name, text) for name, text in dims.items()}
    names = [parameter.name for parameter in kernel.parameters]
    for name in given:
        if name not in names:
            raise UsageError(f"{kernel.name} has no parameter {name!r}; it has {', '.join(names)}")
    made = _from_file(kernel)
    _no_unused(kernel, extents, {*made, *given})
    arguments = {}
    for parameter in kernel.parameters:
        if parameter.name in given:
            arguments[parameter.name] = _parsed(parameter, given[parameter.name], seed)
        elif parameter.name in made:
            arguments[parameter.name] = made[parameter.name]
        else:
            arguments[parameter.name] = _from_annotation(kernel, parameter, extents, seed)
    return arguments


def _no_unused(kernel: Kernel, extents: Mapping[str, int], made: set[str]) -> None:
    """Refuses `--dim` that nothing is made with: the user would measure another size than the one asked for."""
    having = {
        dim: {one.name for one in kernel.parameters if dim in (one.shape or ())}
        for dim in (dim for one in kernel.parameters for dim in one.shape or () if isinstance(dim, str))
    }
    for name in extents:
        if name not in having:
            known = f"; it has {', '.join(having)}" if having else ""
            raise UsageError(f"{kernel.name} has no dynamic dimension {name}{known}")
        if having[name] <= made:
            raise UsageError(
                f"--dim {name} changes nothing: {', '.join(sorted(having[name]))} come from --arg or from "
                f"{kernel.name}_args()"
            )


def _from_file(kernel: Kernel) -> dict[str, Any]:
    function = getattr(kernel.module, f"{kernel.name}_args", None)
    if function is None:
        return {}
    with running(Path(str(kernel.module.__file__)), f"{kernel.name}_args() made the arguments"):
        made = function()
    names = [parameter.name for parameter in kernel.parameters]
    if isinstance(made, Mapping):
        for name in made:
            if name not in names:
                raise UsageError(f"{kernel.name}_args() returned {name!r}; {kernel.name} has {', '.join(names)}")
        return dict(made)
    if not isinstance(made, (list, tuple)):
        raise UsageError(
            f"{kernel.name}_args() returned {type(made).__name__}: return the arguments in a tuple or a list, or a "
            f"mapping, for {', '.join(names)}"
        )
    if len(made) != len(names):
        raise UsageError(f"{kernel.name}_args() returned {len(made)} arguments for {', '.join(names)}")
    return dict(zip(names, made, strict=True))


def _from_annotation(kernel: Kernel, parameter: Parameter, extents: Mapping[str, int], seed: int) -> Any:
    name = parameter.name
    if parameter.shape == ():
        raise UsageError(f"{kernel.name} takes a scalar {name!r}: say --arg {name}=VALUE")
    if parameter.shape is None or parameter.dtype is None:
        raise UsageError(
            f"the annotation of {name!r} leaves its shape open: say --arg {name}=16x1024:fp32, or write a function "
            f"{kernel.name}_args() that returns all arguments"
        )
    shape = []
    for dim in parameter.shape:
        if isinstance(dim, str):
            if dim not in extents:
                raise UsageError(f"dimension {dim} of {name!r} is dynamic: say --dim {dim}=16")
            dim = extents[dim]
        shape.append(dim)
    return _tensor(parameter, shape, parameter.dtype, seed)


def _parsed(parameter: Parameter, text: str, seed: int) -> Any:
    name = parameter.name
    if parameter.shape == () or (parameter.may_be_scalar and "x" not in text and ":" not in text):
        return _number(name, text)
    match = _SHAPED.fullmatch(text)
    if match is None:
        raise UsageError(f"--arg {name} takes a shape and a dtype, as in {name}=16x1024:fp16; got {text!r}")
    shape = [int(extent) for extent in match[1].split("x")]
    dtype = _dtype(name, match[2]) if match[2] else parameter.dtype
    if dtype is None:
        raise UsageError(f"the annotation of {name!r} leaves its dtype open: say --arg {name}={text}:fp32")
    if 0 in shape:
        raise UsageError(f"--arg {name}={text}: an extent is 0")
    return _tensor(parameter, shape, dtype, seed)


def _number(name: str, text: str) -> int | float | bool:
    if text in ("True", "False"):
        return text == "True"
    if _INT.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--arg {name} takes a number, got {text!r}") from None


def _dtype(name: str, text: str) -> DataType:
    try:
        return DataType.from_name(text.upper())
    except (KeyError, ValueError):
        raise UsageError(f"--arg {name}: there is no dtype {text!r}; try fp32, fp16, bf16, int8, int32") from None


def _extent(name: str, text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise UsageError(f"--dim {name} takes a positive number, got {text!r}")
    return int(text)


def _tensor(parameter: Parameter, shape: list[int], dtype: DataType, seed: int) -> torch.Tensor:
    """Normal numbers, or integers from 0 to 7 (`_NUMBERS` from -8); outputs are zero.

    The seed of each parameter depends on its name alone.
    """
    try:
        return _filled(parameter, shape, _to_torch_dtype(dtype), seed)
    except RuntimeError:
        size = "x".join(map(str, shape))
        raise UsageError(f"there is no memory for {parameter.name!r}, {size}: say a smaller --dim or --arg") from None


def _filled(parameter: Parameter, shape: list[int], kind: torch.dtype, seed: int) -> torch.Tensor:
    if parameter.direction == "Out":
        return torch.zeros(shape, dtype=kind)
    random = torch.Generator().manual_seed(seed + zlib.crc32(parameter.name.encode()))
    if kind.is_floating_point:
        return torch.randn(shape, generator=random).to(kind)
    if kind == torch.bool:
        return torch.randint(0, 2, shape, generator=random, dtype=torch.int32).to(kind)
    low = -8 if kind in _NUMBERS else 0
    return torch.randint(low, 8, shape, generator=random, dtype=torch.int32).to(kind)
