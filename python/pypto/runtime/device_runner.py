"""How the vendor's runtime launches a program. Launches of this runtime go through `ChipWorker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.runtime.runner import execute_compiled

__all__ = ["execute_compiled"]

if not TYPE_CHECKING:
    from pypto.runtime.unsupported import names_of

    __getattr__ = names_of(__name__, "launch with ChipWorker, or with execute_compiled")
