"""The kernel language: what kernel authors import as `pl`.

Kernels are read from their source and never executed by Python. Code stands at one of these levels:

- `@pl.jit`: orchestration, the usual entry. Scalars, control flow, views of device memory, kernel calls, scopes.
- `@pl.jit.incore`, or a `pl.at` scope: a kernel. Computes on tiles, or on tensors that are loaded first.
- `@pl.jit.inline`: spliced into its caller.
- `@pl.program` with `@pl.function(type=...)`: the explicit form of the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.language import array, prefetch, system, tensor, tile, unified
from pypto.language import scopes as optimizations
from pypto.language import text as parser
from pypto.language.annotations import (
    AUTO,
    RUNTIME,
    Array,
    DynVar,
    InOut,
    IntLike,
    MemRef,
    Out,
    Ptr,
    PtrType,
    Scalar,
    TaskId,
    Tensor,
    TensorView,
    Tile,
    TileView,
    Tuple,
    dynamic,
)
from pypto.language.control import (
    cond,
    const,
    func_attr,
    max,
    min,
    parallel,
    pipeline,
    range,
    static_assert,
    static_print,
    unroll,
    while_,
    yield_,
)
from pypto.language.dtypes import (
    BF16,
    BOOL,
    FP4,
    FP8E4M3FN,
    FP8E5M2,
    FP8E8M0,
    FP16,
    FP32,
    HF4,
    HF8,
    INDEX,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    TASK_ID,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DataType,
)
from pypto.language.enums import (
    DN,
    MX_A_ZZ,
    MX_B_NN,
    ND,
    NZ,
    AtomicType,
    CompactMode,
    ForKind,
    FunctionType,
    Level,
    Mem,
    MemorySpace,
    MemRefType,
    PadValue,
    PipeType,
    Role,
    ScopeMode,
    SplitMode,
    TensorLayout,
    TileLayout,
)
from pypto.language.jit import JITFunction, jit
from pypto.language.program import InlineFunction, function, inline, program
from pypto.language.scopes import (
    at,
    cluster,
    cross_core_slot,
    manual_scope,
    scope,
    split,
    split_aiv,
    spmd,
    spmd_submit,
    submit,
)
from pypto.language.text import loads, loads_program, parse, parse_program
from pypto.language.unsupported import AsyncEvent, AsyncSession, PrefetchAsyncContext, adir

if TYPE_CHECKING:
    from pypto.language.unified import *  # noqa: F403  (the names that `__getattr__` finds)
else:

    def __getattr__(name: str) -> Any:
        return getattr(unified, name)


__all__ = [
    "AUTO",
    "BF16",
    "BOOL",
    "DN",
    "FP4",
    "FP8E4M3FN",
    "FP8E5M2",
    "FP8E8M0",
    "FP16",
    "FP32",
    "HF4",
    "HF8",
    "INDEX",
    "INT4",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "MX_A_ZZ",
    "MX_B_NN",
    "ND",
    "NZ",
    "RUNTIME",
    "TASK_ID",
    "UINT4",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "Array",
    "AsyncEvent",
    "AsyncSession",
    "AtomicType",
    "CompactMode",
    "DataType",
    "DynVar",
    "ForKind",
    "FunctionType",
    "InOut",
    "InlineFunction",
    "IntLike",
    "JITFunction",
    "Level",
    "Mem",
    "MemRef",
    "MemRefType",
    "MemorySpace",
    "Out",
    "PadValue",
    "PipeType",
    "PrefetchAsyncContext",
    "Ptr",
    "PtrType",
    "Role",
    "Scalar",
    "ScopeMode",
    "SplitMode",
    "TaskId",
    "Tensor",
    "TensorLayout",
    "TensorView",
    "Tile",
    "TileLayout",
    "TileView",
    "Tuple",
    "adir",
    "array",
    "at",
    "cluster",
    "cond",
    "const",
    "cross_core_slot",
    "dynamic",
    "func_attr",
    "function",
    "inline",
    "jit",
    "loads",
    "loads_program",
    "manual_scope",
    "max",
    "min",
    "optimizations",
    "parallel",
    "parse",
    "parse_program",
    "parser",
    "pipeline",
    "prefetch",
    "program",
    "range",
    "scope",
    "split",
    "split_aiv",
    "spmd",
    "spmd_submit",
    "static_assert",
    "static_print",
    "submit",
    "system",
    "tensor",
    "tile",
    "unroll",
    "while_",
    "yield_",
]
__all__ += unified.__all__


def __dir__() -> list[str]:
    return list(__all__)
