"""Comparison of outputs with what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pypto import failures

if TYPE_CHECKING:
    import torch

_SHOWN = 20
"""Mismatches that a message lists."""


def named_outputs(expected: Any, names: list[str]) -> dict[str, torch.Tensor]:
    """Expected outputs by name: as they are, or those of `names` in order, or a single one.

    Raises:
        ValueError: There are more or fewer than `names`.
    """
    if isinstance(expected, Mapping):
        return dict(expected)
    values = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    if len(values) != len(names):
        raise failures.GOLDEN_COUNT(
            f"golden has {len(values)} outputs, the program writes {len(names)}: {', '.join(names)}"
        )
    return dict(zip(names, values, strict=True))


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
