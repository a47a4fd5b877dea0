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
    """A region that becomes one kernel launch. Inside, tensor operations compute on chip."""
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
    """One task of `core_num` blocks: `for i in pl.spmd(n)`, or `with pl.spmd(n)`."""
    outside_kernel("pl.spmd")


@construct("split_aiv")
def split_aiv(n: Any, *, mode: Any) -> Any:
    """Runs the body for both vector lanes."""
    outside_kernel("pl.split_aiv")


@construct("cluster")
def cluster(*, name_hint: str = "") -> Any:
    """Groups tasks: a hint."""
    outside_kernel("pl.cluster")


@construct("scope")
def scope(mode: Any = None, *, name_hint: str = "") -> Any:
    """A scheduling scope: a hint."""
    outside_kernel("pl.scope")


@construct("manual_scope")
def manual_scope(*, name_hint: str = "") -> Any:
    """A scheduling scope with explicit dependencies: a hint, program order satisfies them."""
    outside_kernel("pl.manual_scope")


@construct("submit")
def submit(kernel: Any, *args: Any, deps: Any = None, predicate: Any = None) -> Any:
    """Calls a kernel and also returns its task id."""
    outside_kernel("pl.submit")


@construct("spmd_submit")
def spmd_submit(kernel: Any, *args: Any, core_num: Any, deps: Any = None, predicate: Any = None) -> Any:
    """Calls a kernel as one task of `core_num` blocks and also returns its task id."""
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
    """The hint `Split`, for `optimizations=[...]`."""
    return Split(mode, slot_num)


def cross_core_slot(*, slot_num: int) -> CrossCoreSlot:
    """The hint `CrossCoreSlot`, for `optimizations=[...]`."""
    return CrossCoreSlot(slot_num)
