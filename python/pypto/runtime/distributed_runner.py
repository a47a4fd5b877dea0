"""Programs on several devices: the names exist, and say that this version does not run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.runtime.unsupported import DistributedRunHandle, DistributedWorker, execute_distributed_compiled

__all__ = ["DistributedRunHandle", "DistributedWorker", "execute_distributed_compiled"]

if not TYPE_CHECKING:
    from pypto.runtime.unsupported import names_of

    __getattr__ = names_of(__name__, "programs run on one chip; use ChipWorker", {"_tensor_from_continuous"})
