"""Copies of arguments on the host, for files about a launch."""

from __future__ import annotations

from typing import Any

from pypto._pypto import DeviceTensor


def host_copy(arg: Any) -> Any:
    """A host copy of a tensor; None of a number, and of what no launch takes, which the launch says."""
    import torch

    try:
        if isinstance(arg, DeviceTensor):
            return arg.to_host()
        return None if isinstance(arg, (bool, int, float)) else torch.as_tensor(arg).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        return None
