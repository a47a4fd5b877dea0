"""How the vendor's tools build kernels again from their assembly. Programs of the simulated chip have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from pypto.runtime.unsupported import names_of

    __getattr__ = names_of(__name__, "programs of the simulated chip have no assembly; recompile with ir.compile")
