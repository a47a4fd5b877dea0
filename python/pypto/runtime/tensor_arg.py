"""How the vendor's runtime describes an argument. This runtime reads arguments where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.runtime.task_interface import TaskArgs

__all__ = ["TaskArgs"]

if not TYPE_CHECKING:
    from pypto.runtime.unsupported import names_of

    __getattr__ = names_of(__name__, "CompiledProgram.build_orch_args prepares arguments by hand")
