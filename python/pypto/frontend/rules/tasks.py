"""Rules: task ids, small arrays, and what the chip consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pypto.frontend import scalars, tasks
from pypto.frontend.rules.base import Rule, in_kernel
from pypto.frontend.values import NONE, ArrayValue, PyValue, Value, describe
from pypto.frontend.values import task_id as made_task_id
from pypto.ir.exprs import Const, Expr, index
from pypto.ir.nodes import OpStmt, TaskRef, TaskStmt, TaskVar
from pypto.language.dtypes import TASK_ID as TASK_ID_TYPE
from pypto.language.dtypes import DataType

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall

CLUSTERS: Final = 24
"""Clusters of the 910B: each has one cube core and two vector cores."""

MAX_ARRAY: Final = 1 << 16
"""Elements of an array. The chip keeps them in registers and on the stack of a core."""


def task_id(call: BoundCall) -> Value:
    """`task_dummy(deps=)`, `task_invalid()`."""
    ids = TaskRef(TaskVar(call.builder.unique("task")))
    deps = tasks.named(call.values[0]) if call.values else ()
    kind = "dummy" if call.values else "assign"
    call.builder.emit(TaskStmt(kind, ids, deps, call.builder.loc(call.node)))
    return made_task_id(ids)


def clusters(call: BoundCall) -> Value:
    """`available_cluster_count()`."""
    return index(CLUSTERS)


def vector_cores(call: BoundCall) -> Value:
    """`available_aiv_count()`."""
    return index(2 * CLUSTERS)


def syncall(call: BoundCall) -> Value:
    """`syncall()`: no block goes on before all blocks are here. `passes.phases` says how that is done."""
    in_kernel(call)
    call.builder.emit(OpStmt("syncall", None, (), call.builder.loc(call.node)))
    return NONE


def create(call: BoundCall) -> Value:
    """`array.create(extent, dtype)`."""
    extent, dtype = call.values
    if not isinstance(extent, Const) or not extent.dtype.is_integer or not 1 <= extent.value <= MAX_ARRAY:
        call.builder.fail(
            "value", f"{call.form.spelling}: the extent is no constant from 1 to {MAX_ARRAY}", call.node_of(0),
            "write pl.array.create(4, pl.TASK_ID)",
        )  # fmt: skip
    obj = dtype.obj if isinstance(dtype, PyValue) else dtype
    if not isinstance(obj, DataType) or not (obj is TASK_ID_TYPE or obj.of_elements.supported):
        call.builder.fail(
            "type", f"{call.form.spelling}: 'dtype' must be a dtype, got {describe(dtype)}", call.node_of(1),
            "write pl.TASK_ID, or the dtype of a scalar",
        )  # fmt: skip
    return tasks.make_array(call.builder, int(extent.value), obj, call.node)


def _array(call: BoundCall) -> tuple[ArrayValue, Expr]:
    array = call.values[0]
    if not isinstance(array, ArrayValue):
        call.builder.fail(
            "type", f"{call.form.spelling} takes an array, got {describe(array)}", call.node_of(0),
            "make one with pl.array.create(n, dtype)",
        )  # fmt: skip
    return array, scalars.integer(call.builder, call.values[1], call.node_of(1), "an index")


def get_element(call: BoundCall) -> Value:
    """`array.get_element(array, index)`."""
    return tasks.element(call.builder, *_array(call), call.node)


def update_element(call: BoundCall) -> Value:
    """`array.update_element(array, index, value)`: in place; the result is the array."""
    array, position = _array(call)
    tasks.set_element(call.builder, array, position, call.values[2], call.node)
    return array


def lane_index(call: BoundCall) -> Value:
    """`get_subblock_idx()` outside `pl.split_aiv`, where one lane does everything."""
    in_kernel(call)
    return index(0)


def lane_only(call: BoundCall) -> Value:
    """`aiv_shard(x)` and `aic_gather(x)` outside a region; inside one they never get here."""
    call.builder.fail(
        "syntax",
        f"{call.form.spelling} outside pl.split_aiv",
        call.node,
        "put it into for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN):",
    )


RULES: dict[str, Rule] = {
    "lane_index": lane_index,
    "lane_only": lane_only,
    "syncall": syncall,
    "task_id": task_id,
    "clusters": clusters,
    "vector_cores": vector_cores,
    "array_create": create,
    "get_element": get_element,
    "update_element": update_element,
}
