"""Rules: scalars out of the machine, and identities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.frontend.rules.base import Rule, constant
from pypto.frontend.values import NONE, PyValue, Value, Window, describe
from pypto.ir.exprs import ScalarOp, of_dim
from pypto.ir.nodes import Var, untracked
from pypto.language.dtypes import INDEX

if TYPE_CHECKING:
    from pypto.frontend.calls import BoundCall


def block_scalar(call: BoundCall) -> Value:
    """`get_block_idx()`, `get_block_num()`."""
    return ScalarOp(call.form.op.core[0], (), INDEX)


def dim(call: BoundCall) -> Value:
    """`dim(x, axis)`."""
    owner = call.values[0]
    if not isinstance(owner, (Var, Window)):
        call.builder.fail(
            "type",
            f"{call.form.spelling} takes a tensor, got {describe(owner)}",
            call.node_of(0),
            "pass a tensor or a tile: pl.dim(x, 0)",
        )
    shape = owner.type.shape if isinstance(owner, Var) else owner.shape
    axis = constant(call, call.form.params[1].name)
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        call.builder.fail(
            "value",
            f"{call.form.spelling}: axis {axis!r} of {describe(owner)}",
            call.node_of(1),
            f"axes are 0 to {len(shape) - 1}",
        )
    return of_dim(shape[axis])


def dump_tag(call: BoundCall) -> Value:
    """`dump_tag(tensor)`: the tensor, which is remembered."""
    value: Value = call.values[0]
    if isinstance(value, Var):
        call.builder.dump_tags.append(value)
    return value


def no_dep(call: BoundCall) -> Value:
    """`no_dep(tensor)`: the tensor, as an argument that no task waits for."""
    value: Value = call.values[0]
    if not isinstance(value, Var) or not value.is_tensor or call.builder.level == "kernel":
        return value
    return untracked(value)


class _Handle:
    """What hints pass around: a place on chip; of prefetches a context, an event, a session."""


_HANDLE = PyValue(_Handle())


def handle(call: BoundCall) -> Value:
    """Something to pass on, of a hint."""
    return _HANDLE


def nothing(call: BoundCall) -> Value:
    """Cache control and low-level events: statements of a kernel run in program order."""
    return NONE


RULES: dict[str, Rule] = {
    "block_scalar": block_scalar,
    "dim": dim,
    "dump_tag": dump_tag,
    "no_dep": no_dep,
    "handle": handle,
    "nothing": nothing,
}
