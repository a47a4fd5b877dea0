"""Writes what a program is checked against: `golden.py`, and the tensors that go in and should come out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime import golden_files
from pypto.runtime.golden import named_outputs
from pypto.runtime.tensor_spec import ScalarSpec, TensorSpec

if TYPE_CHECKING:
    import torch

_TEXT = '''"""What is compared, and how closely. Written by pypto.runtime.golden_writer."""

from pathlib import Path

import torch

RTOL = {rtol!r}
ATOL = {atol!r}
SCALARS = {scalars!r}
__outputs__ = {outputs!r}
DATA = Path(__file__).parent / {data!r}


def generate_inputs(params=None):
    """Every argument by name; outputs as they are before the launch."""
    return {{path.stem: torch.load(path, weights_only=True) for path in sorted((DATA / "in").glob("*.pt"))}}


def compute_golden(tensors, params=None):
    """Puts the expected outputs into `tensors`."""
    for name in __outputs__:
        tensors[name][:] = torch.load(DATA / "out" / f"{{name}}.pt", weights_only=True)
'''


def write_golden(
    tensor_specs: Sequence[TensorSpec],
    golden_fn: Callable[..., Any],
    output_path: str | Path,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    scalar_specs: Sequence[ScalarSpec] | None = None,
    data_dir: str | Path | None = None,
) -> Path:
    """Makes the arguments, computes what should come out, and writes both.

    Args:
        tensor_specs: The tensor arguments; those with `is_output` are compared.
        golden_fn: Gets the tensors by name (and a dict of the scalars, where it takes a second argument). It writes the
            outputs in place, or returns them: by name, in order, or a single tensor.
        output_path: The file to write, usually `golden.py` in the directory of a compiled program.
        rtol: Relative tolerance of the comparison.
        atol: Absolute tolerance.
        scalar_specs: The scalar arguments.
        data_dir: Where the tensors go; `data` beside the file if not given.

    Returns:
        The file.

    Raises:
        ValueError: No tensor is an output, two arguments have one name, or `golden_fn` returns another number of
            outputs.
    """
    path = Path(output_path)
    data = path.parent / "data" if data_dir is None else Path(data_dir)
    outputs = [spec.name for spec in tensor_specs if spec.is_output]
    if not outputs:
        raise failures.BAD_SPECS("no TensorSpec has is_output=True: there is nothing to compare")
    names = [spec.name for spec in tensor_specs] + [spec.name for spec in scalar_specs or ()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise failures.BAD_SPECS(f"two arguments are called {', '.join(twice)}")
    tensors = {spec.name: spec.create_tensor() for spec in tensor_specs}
    scalars = {spec.name: spec.value for spec in scalar_specs or ()}
    path.parent.mkdir(parents=True, exist_ok=True)
    golden_files.save(data, "in", tensors)
    golden_files.save(data, "out", _expected(golden_fn, tensors, scalars, outputs))
    text = _TEXT.format(rtol=rtol, atol=atol, scalars=scalars, outputs=outputs, data=_relative(data, path.parent))
    path.write_text(text)
    return path


def _expected(
    golden_fn: Callable[..., Any], tensors: Mapping[str, torch.Tensor], scalars: dict[str, Any], outputs: list[str]
) -> dict[str, torch.Tensor]:
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes = [p for p in inspect.signature(golden_fn).parameters.values() if p.kind in positional]
    returned = golden_fn(copies, scalars) if len(takes) > 1 else golden_fn(copies)
    return {name: copies[name] for name in outputs} if returned is None else named_outputs(returned, outputs)


def _relative(data: Path, directory: Path) -> str:
    try:
        return str(data.resolve().relative_to(directory.resolve()))
    except ValueError:
        return str(data.resolve())
