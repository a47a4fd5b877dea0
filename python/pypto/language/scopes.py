"""Scopes (`with pl.at(...)`, `pl.spmd(...)`, ...), task submission, and optimisation hints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pypto.language.enums import SplitMode
from pypto.language.errors import outside_kernel
from pypto.language.stubs import construct


@construct("at")
def at(
    level: Any,
    role: Any = None,
    *,
    optimizations: Any = None,
    deps: Any = None,
    no_dep_args: Any = None,
    dumps: Any = None,
    allow_early_resolve: bool = False,
    name_hint: str = "",
    windowize: bool = False,
) -> Any:
    """A region that becomes one task. Inside, tensors are values, and operations on them compute on chip.

    `with pl.at(...) as tid` also gives the id of the task.

    Args:
        level: `pl.Level.CORE_GROUP`.
        role: A hint.
        optimizations: Hints such as `[pl.split(pl.SplitMode.UP_DOWN)]`.
        deps: Ids of the tasks to wait for, in addition to those that share memory with this one.
        no_dep_args: Tensors on whose account no task waits.
        dumps: Tensors to mark, as `pl.dump_tag` does.
        allow_early_resolve: A hint.
        name_hint: The name of the task in traces and profiles.
        windowize: A hint.
    """
    outside_kernel("pl.at")


@construct("spmd")
def spmd(
    core_num: Any,
    *,
    sync_start: bool = False,
    name_hint: str = "",
    optimizations: Any = None,
    deps: Any = None,
    allow_early_resolve: bool = False,
    predicate: Any = None,
) -> Any:
    """One task of `core_num` blocks, which may run at once: `for i in pl.spmd(n)`, or `with pl.spmd(n) as tid`.

    Args:
        core_num: Number of blocks, a constant or a scalar; 0 does nothing.
        sync_start: A hint.
        name_hint: The name of the task in traces and profiles.
        optimizations: Hints.
        deps: As of `pl.at`.
        allow_early_resolve: A hint.
        predicate: A scalar; where it is false, the task does nothing.
    """
    outside_kernel("pl.spmd")


@construct("split_aiv")
def split_aiv(n: Any, *, mode: Any) -> Any:
    """Runs the body for both vector lanes: `for lane in pl.split_aiv(2, mode=pl.SplitMode.UP_DOWN)`.

    Args:
        n: Number of lanes, 2.
        mode: How values are shared: `UP_DOWN` by rows, `LEFT_RIGHT` by columns, `NONE` not at all, so each lane does
            everything.
    """
    outside_kernel("pl.split_aiv")


@construct("cluster")
def cluster(*, name_hint: str = "") -> Any:
    """Groups tasks under `name_hint`: a hint."""
    outside_kernel("pl.cluster")


@construct("scope")
def scope(mode: Any = None, *, name_hint: str = "") -> Any:
    """A scope of tasks.

    Args:
        mode: `pl.ScopeMode.MANUAL` for what `pl.manual_scope` is, else a hint.
        name_hint: Its name.
    """
    outside_kernel("pl.scope")


@construct("manual_scope")
def manual_scope(*, name_hint: str = "") -> Any:
    """A scope in which tasks wait only for what `deps=` names.

    Results are those of program order all the same; `RunConfig(sanitize="race")` finds what should have been declared.

    Args:
        name_hint: Its name.
    """
    outside_kernel("pl.manual_scope")


@construct("submit")
def submit(kernel: Any, *args: Any, deps: Any = None, predicate: Any = None) -> Any:
    """Calls a kernel and also returns its task id: `out, tid = pl.submit(kernel, x, out)`.

    Args:
        kernel: A `@pl.jit.incore` function.
        *args: Its arguments.
        deps: Ids of the tasks to wait for.
        predicate: A scalar; where it is false, the task does nothing.
    """
    outside_kernel("pl.submit")


@construct("spmd_submit")
def spmd_submit(kernel: Any, *args: Any, core_num: Any, deps: Any = None, predicate: Any = None) -> Any:
    """Calls a kernel as one task of `core_num` blocks and also returns its task id.

    Args:
        kernel: A `@pl.jit.incore` function.
        *args: Its arguments.
        core_num: Number of blocks.
        deps: As of `pl.submit`.
        predicate: As of `pl.submit`.
    """
    outside_kernel("pl.spmd_submit")


class Optimization:
    """A hint that a scope may carry."""


@dataclass(frozen=True, slots=True)
class Split(Optimization):
    """Shares a mixed scope between the two vector lanes: a hint."""

    mode: SplitMode
    slot_num: int | None = None


@dataclass(frozen=True, slots=True)
class CrossCoreSlot(Optimization):
    """Number of slots between cube and vector cores: a hint."""

    slot_num: int


def split(mode: SplitMode, *, slot_num: int | None = None) -> Split:
    """The hint that lanes share a scope in the way `mode`, with `slot_num` slots; for `optimizations=[...]`."""
    return Split(mode, slot_num)


def cross_core_slot(*, slot_num: int) -> CrossCoreSlot:
    """The hint that cube and vector cores share `slot_num` slots; for `optimizations=[...]`."""
    return CrossCoreSlot(slot_num)
