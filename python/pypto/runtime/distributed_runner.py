"""Programs on several devices: the names exist, and say that this version does not run them."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto.runtime.unsupported import DistributedRunHandle, DistributedWorker, execute_distributed_compiled, refuse

__all__ = ["DistributedRunHandle", "DistributedWorker", "execute_distributed_compiled"]


def _tensor_from_continuous(*args: Any, **kwargs: Any) -> NoReturn:
    """A tensor of a launch on several devices: not supported in this version.

    Raises:
        NotImplementedError: Always.
    """
    refuse("distributed_runner._tensor_from_continuous", "programs run on one chip; use ChipWorker")
