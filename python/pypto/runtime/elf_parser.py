"""How the vendor's runtime reads kernels. Programs of the simulated chip are no ELF files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if not TYPE_CHECKING:
    from pypto.runtime.unsupported import names_of

    __getattr__ = names_of(__name__, "programs of the simulated chip are no ELF files")
