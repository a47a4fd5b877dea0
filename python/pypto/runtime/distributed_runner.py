"""Programs on several devices: the names exist, and say that this version does not run them."""

from __future__ import annotations

from pypto.runtime.unsupported import DistributedRunHandle, DistributedWorker, execute_distributed_compiled

__all__ = ["DistributedRunHandle", "DistributedWorker", "execute_distributed_compiled"]
