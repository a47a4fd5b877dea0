"""Names of the public pass API: strategies, dump and verification levels, diagnostics switches."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names that exist and are not supported, `PassManager` among them."""
        from pypto.ir.unsupported import find

        return find(name, __name__)


class OptimizationStrategy(Enum):
    """How hard to optimise; there is one way."""

    Default = "Default"


class PassDumpLevel(Enum):
    """How much of each pass is dumped."""

    NONE = 0
    CONCISE = 1
    EXPLICIT = 2


class VerificationLevel(Enum):
    """How much is verified between passes."""

    NONE = 0
    BASIC = 1
    ROUNDTRIP = 2


class DiagnosticPhase(Enum):
    """When warnings are computed."""

    NONE = 0
    PRE_PIPELINE = 1
    POST_PASS = 2
    POST_PIPELINE = 3


class DiagnosticCheck(Enum):
    """Warnings that can be switched off."""

    UnusedVariable = 0
    UnusedControlFlowResult = 1
    TileInnermostDimGranularity = 2
    OutParamWriteDropped = 3


class MemoryPlanner(Enum):
    """Who places tiles on the real chip: a label here."""

    PYPTO = "PYPTO"
    DSA_RP = "DSA_RP"
    PTOAS = "PTOAS"


class RuntimeKind(Enum):
    """How the real chip schedules tasks: a label here."""

    TENSORMAP_AND_RINGBUFFER = "tensormap_and_ringbuffer"
    HOST_BUILD_GRAPH = "host_build_graph"


class DiagnosticCheckSet(frozenset[DiagnosticCheck]):
    """A set of warnings."""
