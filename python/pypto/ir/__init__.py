"""The intermediate representation: nodes, types, printing, passes, and compilation into a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.compile import compile
from pypto.ir.compiled_program import CompiledProgram
from pypto.ir.diagnostics import (
    Diagnostic,
    KernelError,
    KernelNotSupportedError,
    KernelSyntaxError,
    KernelTypeError,
    KernelValueError,
    Loc,
    OnChipMemoryWarning,
    PartialCodegenError,
)
from pypto.ir.nodes import Function, Program
from pypto.ir.param_info import ParamDirection, ParamInfo
from pypto.ir.pass_context import PassContext
from pypto.ir.pass_manager import (
    DiagnosticCheck,
    DiagnosticCheckSet,
    DiagnosticPhase,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RuntimeKind,
    VerificationLevel,
)
from pypto.ir.platforms import BackendType
from pypto.ir.printer import python_print
from pypto.ir.text import deserialize, serialize
from pypto.ir.types import TensorType, TileType
from pypto.language.annotations import TensorView, TileView

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names that exist and are not supported; see `unsupported`."""
        from pypto.ir.unsupported import find

        return find(name)


__all__ = [
    "BackendType",
    "CompiledProgram",
    "Diagnostic",
    "DiagnosticCheck",
    "DiagnosticCheckSet",
    "DiagnosticPhase",
    "Function",
    "KernelError",
    "KernelNotSupportedError",
    "KernelSyntaxError",
    "KernelTypeError",
    "KernelValueError",
    "Loc",
    "MemoryPlanner",
    "OnChipMemoryWarning",
    "OptimizationStrategy",
    "ParamDirection",
    "ParamInfo",
    "PartialCodegenError",
    "PassContext",
    "PassDumpLevel",
    "Program",
    "RuntimeKind",
    "TensorType",
    "TensorView",
    "TileType",
    "TileView",
    "VerificationLevel",
    "compile",
    "deserialize",
    "python_print",
    "serialize",
]
