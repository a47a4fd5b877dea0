"""Comparison of outputs with what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime import host_arrays

if TYPE_CHECKING:
    import torch

_SHOWN = 20
"""Mismatches that a message lists."""


def named_outputs(expected: Any, names: list[str]) -> dict[str, torch.Tensor]:
    """Expected outputs by name: as they are, or those of `names` in order, or a single one.

    Raises:
        KeyError: There is no output of a name.
        TypeError: One is no tensor and no array.
        ValueError: There are none, or in order more or fewer than `names`.
    """
    if isinstance(expected, Mapping):
        values = dict(expected)
        for name in values:
            if name not in names:
                raise failures.GOLDEN_NAME(f"golden has {name!r}, the program writes {', '.join(names)}")
    else:
        in_order = list(expected) if isinstance(expected, (list, tuple)) else [expected]
        if len(in_order) != len(names):
            raise _miscounted(len(in_order), names)
        values = dict(zip(names, in_order, strict=True))
    if not values:
        raise _miscounted(0, names)
    return {name: _tensor(name, value) for name, value in values.items()}


def _miscounted(count: int, names: list[str]) -> Exception:
    return failures.GOLDEN_COUNT(f"golden has {count} outputs, the program writes {len(names)}: {', '.join(names)}")


def _tensor(name: str, value: Any) -> torch.Tensor:
    if not host_arrays.is_array(value):
        raise failures.GOLDEN_TYPE(
            f"golden of output {name!r} must be a torch.Tensor or an array, got {type(value).__name__}"
        )
    return host_arrays.as_torch(value)


def validate_golden(
    outputs: Mapping[str, torch.Tensor],
    golden: Mapping[str, torch.Tensor],
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Compares outputs with expected values, element by element.

    An element whose expected value is NaN is not compared: what a kernel does not write of an output has no defined
    value.

    Args:
        outputs: What came out, by name.
        golden: What should have come out. Names that are missing here are not compared.
        rtol: Relative tolerance.
        atol: Absolute tolerance.

    Raises:
        KeyError: `golden` names an output that does not exist.
        AssertionError: They differ; the text names the output and lists the first differences.
    """
    import torch

    for name, expected in golden.items():
        actual, wanted = outputs[name].detach().cpu(), expected.detach().cpu()
        # Low precision types are compared as they are stored; only the comparison itself is in double precision.
        left, right = actual.to(torch.float64), wanted.to(torch.float64)
        close = torch.isclose(left, right, rtol=rtol, atol=atol) | torch.isnan(right)
        if bool(close.all()):
            continue
        left, right = left.expand(close.shape), right.expand(close.shape)
        places = torch.nonzero(~close)
        share = f"{len(places)}/{close.numel()}"
        lines = [f"output {name!r} differs from golden in {share} elements (rtol={rtol}, atol={atol}):"]
        for place in places[:_SHOWN].tolist():
            index = tuple(place)
            lines.append(f"  {index}: got {left[index].item()!r}, expected {right[index].item()!r}")
        if len(places) > _SHOWN:
            lines.append(f"  ... and {len(places) - _SHOWN} more")
        raise failures.GOLDEN_DIFFERS("\n".join(lines))
