"""Inputs, expected outputs and results as files: `data/in`, `data/out` and `data/actual`, one `.pt` for each tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pypto import failures

if TYPE_CHECKING:
    import torch

Kind = Literal["in", "out", "actual"]

GOLDEN = "golden.py"
"""The file beside `data` that says what is compared, and how closely."""


def save(data_dir: Path, kind: Kind, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes tensors by name."""
    import torch

    folder = data_dir / kind
    folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in tensors.items():
        torch.save(tensor.detach().cpu().contiguous(), folder / f"{name}.pt")


def load(data_dir: Path, kind: Kind, names: Iterable[str] | None = None) -> dict[str, torch.Tensor]:
    """Reads tensors by name: those of `names`, or all that are there.

    Raises:
        FileNotFoundError: There is no such directory, or a name is missing in it.
    """
    import torch

    folder = data_dir / kind
    if not folder.is_dir():
        raise failures.GOLDEN_MISSING(
            f"{folder} does not exist: golden data is written by golden_writer.write_golden(...)"
        )
    found = {path.stem: path for path in sorted(folder.glob("*.pt"))}
    wanted = list(found) if names is None else list(names)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise failures.GOLDEN_MISSING(f"{folder} has no {', '.join(f'{name}.pt' for name in missing)}")
    return {name: torch.load(found[name], weights_only=True) for name in wanted}


def tolerances(directory: Path, rtol: float = 1e-5, atol: float = 1e-5) -> tuple[float, float]:
    """`RTOL` and `ATOL` of `golden.py`, which is read, not run; the defaults where it says nothing."""
    values = _constants(directory / GOLDEN)
    return float(values.get("RTOL", rtol)), float(values.get("ATOL", atol))


def scalars(directory: Path) -> dict[str, Any]:
    """The scalar arguments that `golden.py` names."""
    return dict(_constants(directory / GOLDEN).get("SCALARS", {}))


def _constants(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    values = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue  # computed: not one of ours
    return values
