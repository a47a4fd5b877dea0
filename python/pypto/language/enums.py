"""Enumerations of the language. Members and values are facts of the public API; most are hints on this device."""

from __future__ import annotations

from enum import Enum, IntEnum


class TensorLayout(Enum):
    """How a tensor lies in device memory: a label, values never depend on it."""

    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    MX_A_ZZ = "MX_A_ZZ"
    MX_B_NN = "MX_B_NN"


class TileLayout(Enum):
    """How a tile lies on chip: a label."""

    none_box = 0
    row_major = 1
    col_major = 2


class PadValue(Enum):
    """What `fillpad` writes outside the valid region."""

    null = 0
    zero = 1
    max = 2
    min = 3


class MemorySpace(Enum):
    """Where a value lives. Moves between spaces are copies of the logical value."""

    DDR = "DDR"
    Vec = "Vec"
    Mat = "Mat"
    Left = "Left"
    Right = "Right"
    Acc = "Acc"
    Bias = "Bias"
    LeftScale = "LeftScale"
    RightScale = "RightScale"
    ScalarLocal = "ScalarLocal"


class PipeType(Enum):
    """Pipelines of the chip, for the low-level events."""

    MTE1 = "MTE1"
    MTE2 = "MTE2"
    MTE3 = "MTE3"
    M = "M"
    V = "V"
    S = "S"
    FIX = "FIX"
    ALL = "ALL"


class CompactMode(Enum):
    """Whether a fractal tile is compact: a label."""

    null = 0
    normal = 1


class ForKind(Enum):
    """What a loop says about its iterations."""

    Sequential = "Sequential"
    Parallel = "Parallel"
    Unroll = "Unroll"
    Pipeline = "Pipeline"


class SplitMode(Enum):
    """How the two vector lanes share the tiles of a `split_aiv` body."""

    NONE = "NONE"
    UP_DOWN = "UP_DOWN"
    LEFT_RIGHT = "LEFT_RIGHT"


class MaskPattern:
    """Columns that a gather or scatter by pattern takes. A name is read from right to left, a 1 takes the column."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class AtomicType(Enum):
    """How a write combines with what is there."""

    None_ = 0
    Add = 1


class FunctionType(Enum):
    """What a function of a program is. See the levels in `pypto.language`."""

    Opaque = "Opaque"
    Orchestration = "Orchestration"
    InCore = "InCore"
    AIC = "AIC"
    AIV = "AIV"
    Group = "Group"
    Spmd = "Spmd"
    Inline = "Inline"
    Graph = "Graph"

    @property
    def is_kernel(self) -> bool:
        """Whether the function computes on tiles."""
        return self in (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV)


class Level(IntEnum):
    """Levels of the machine, from one core to the host and beyond."""

    AIV = 0
    AIC = 1
    CORE_GROUP = 2
    CHIP_DIE = 3
    CHIP = 4
    HOST = 5
    CLUSTER_0 = 6
    CLUSTER_1 = 7
    CLUSTER_2 = 8
    GLOBAL = 9
    L2CACHE = 3
    PROCESSOR = 4
    UMA = 4
    NODE = 5
    POD = 6
    CLOS1 = 7
    CLOS2 = 8


class Role(Enum):
    """What a function does at its level."""

    Orchestrator = "Orchestrator"
    SubWorker = "SubWorker"


class ScopeMode(Enum):
    """Modes of `pl.scope`: scheduling hints."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class MemRefType(Enum):
    """Kinds of memory reference: labels."""

    Owned = 0
    View = 1


class NotifyOp(Enum):
    """How a signal cell changes."""

    AtomicAdd = 0
    Set = 1


class WaitCmp(Enum):
    """When a wait is over."""

    Eq = 0
    Ge = 1


class ReduceOp(Enum):
    """How values of ranks combine."""

    Sum = 0
    Max = 1
    Min = 2
    Prod = 3


Mem = MemorySpace
ND = TensorLayout.ND
DN = TensorLayout.DN
NZ = TensorLayout.NZ
MX_A_ZZ = TensorLayout.MX_A_ZZ
MX_B_NN = TensorLayout.MX_B_NN
