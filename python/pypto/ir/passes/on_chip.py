"""What lives on chip at once, compared with the buffers of the real chip: the simulated one has room for more.

Within a kernel every on-chip value is live from where it is made to its last use; a view shares the memory of what it
views. Tensor operations do not say where their values live: what only products read is in the matrix buffer, what they
give is in the accumulator until something else needs it, everything else is in the vector buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pypto.ir.diagnostics import Diagnostic, Loc, error_for
from pypto.ir.effects import defined, used
from pypto.ir.nodes import ForStmt, Function, IfStmt, OpStmt, Program, Stmt, Var, WhileStmt, walk
from pypto.ir.platforms import BackendType
from pypto.ir.print_types import type_text
from pypto.language.enums import MemorySpace

KIB: Final = 1024
CAPACITY: Final = {
    BackendType.Ascend910B: {
        MemorySpace.Vec: 192 * KIB,
        MemorySpace.Mat: 512 * KIB,
        MemorySpace.Left: 64 * KIB,
        MemorySpace.Right: 64 * KIB,
        MemorySpace.Acc: 128 * KIB,
    },
    BackendType.Ascend950: {
        MemorySpace.Vec: 248 * KIB,
        MemorySpace.Mat: 512 * KIB,
        MemorySpace.Left: 64 * KIB,
        MemorySpace.Right: 64 * KIB,
        MemorySpace.Acc: 256 * KIB,
    },
}
"""Bytes of the buffers of one core, by chip. Those of the 950 were not checked on one; they decide only warnings."""

_SAME_MEMORY: Final = frozenset({"reshape", "set_validshape", "reinterpret_view", "fillpad_inplace"})
_PRODUCTS: Final = frozenset({"matmul", "matmul_acc", "batch_matmul", "batch_matmul_acc", "matmul_bias", "gemv"})
_ROW: Final = 32


def check_on_chip(program: Program, strict: bool, chip: BackendType = BackendType.Ascend910B) -> list[Diagnostic]:
    """What the kernels of an outlined program keep on chip beyond what the real chip has; with `strict` refused."""
    problems = [_too_much(one, chip) for one in on_chip_use(program, chip) if one.used > one.capacity]
    if problems and strict:
        raise error_for(problems)
    return problems


@dataclass(frozen=True)
class Tile:
    """A value on chip: its name, its type as text, and its bytes."""

    name: str
    type: str
    nbytes: int


@dataclass(frozen=True)
class Occupancy:
    """The most that a kernel keeps in one buffer of a core at once.

    Attributes:
        kernel: The kernel.
        space: The buffer.
        used: Bytes of the tiles.
        capacity: Bytes that the buffer has on the chip.
        loc: The statement at which that is so.
        tiles: What lies there then, the largest first.
    """

    kernel: str
    space: MemorySpace
    used: int
    capacity: int
    loc: Loc
    tiles: tuple[Tile, ...]


def on_chip_use(program: Program, chip: BackendType = BackendType.Ascend910B) -> list[Occupancy]:
    """What the kernels of an outlined program keep on chip, kernel by kernel; buffers that stay empty are left out."""
    return [
        one
        for function in program.functions.values()
        if function.kind.is_kernel
        for one in _Kernel(function, CAPACITY[chip]).occupancies()
    ]


@dataclass(slots=True)
class _Peak:
    size: int = 0
    tiles: list[Var] = field(default_factory=list)
    loc: Loc | None = None


class _Kernel:
    def __init__(self, function: Function, capacity: dict[MemorySpace, int]) -> None:
        self.function = function
        self.capacity = capacity
        self.roots: dict[Var, Var] = {}
        self.spaces: dict[Var, MemorySpace] = {}
        self.peaks = {space: _Peak() for space in capacity}
        self._look_at_uses()

    def _look_at_uses(self) -> None:
        outside_products: set[Var] = set()
        operands: set[Var] = set()
        for stmt in walk(self.function.body):
            if not isinstance(stmt, OpStmt):
                continue
            tiles = [arg.resolve() for arg in stmt.args if isinstance(arg, Var) and not arg.is_tensor]
            out = stmt.out.resolve() if isinstance(stmt.out, Var) else None
            if stmt.op in _SAME_MEMORY and out is not None and tiles:
                self.roots.setdefault(out, self.roots.get(tiles[0], tiles[0]))
            if stmt.op in _PRODUCTS:
                operands.update(tiles[-2:])
            elif stmt.op not in ("store", "move"):
                outside_products.update(tiles)
            if out is not None and not out.is_tensor:
                self.spaces.setdefault(out, out.tile.space)
        for var in self.spaces:
            if var.tile.tensor_level and var.tile.space is MemorySpace.Vec and var in operands - outside_products:
                self.spaces[var] = MemorySpace.Mat

    def occupancies(self) -> list[Occupancy]:
        """The peak of each buffer that is used."""
        self._block(self.function.body, frozenset())
        found = []
        for space, peak in self.peaks.items():
            if peak.loc is not None:
                tiles = sorted(peak.tiles, key=lambda var: (-_bytes(var), var.name))
                listed = tuple(Tile(var.name, type_text(var.type), _bytes(var)) for var in tiles)
                found.append(Occupancy(self.function.name, space, peak.size, self.capacity[space], peak.loc, listed))
        return found

    def _block(self, body: list[Stmt], live: frozenset[Var]) -> frozenset[Var]:
        """Goes backwards through a block; returns what is live before it."""
        for stmt in reversed(body):
            if isinstance(stmt, IfStmt):
                live = self._block(stmt.then, live) | self._block(stmt.orelse, live)
            elif isinstance(stmt, (ForStmt, WhileStmt)):
                for _ in range(2):  # what a round leaves is live at the start of the next
                    live = live | self._block(stmt.body, live)
                    if isinstance(stmt, WhileStmt):
                        live = live | self._block(stmt.head, live)
            live = self._step(stmt, live)
        return live

    def _step(self, stmt: Stmt, live: frozenset[Var]) -> frozenset[Var]:
        target = defined(stmt)
        made = frozenset({self._root(target)} if isinstance(target, Var) and not target.is_tensor else ())
        read = frozenset(self._root(name) for name in used(stmt) if isinstance(name, Var) and not name.is_tensor)
        before = (live - made if isinstance(stmt, OpStmt) and stmt.op not in _SAME_MEMORY else live) | read
        # A result may take the place of an operand that is not used again: both moments count, not their sum.
        self._record(live | made, stmt.loc)
        self._record(before, stmt.loc)
        return before

    def _root(self, var: Var) -> Var:
        return self.roots.get(var.resolve(), var.resolve())

    def _record(self, live: frozenset[Var], loc: Loc) -> None:
        sizes = dict.fromkeys(self.capacity, 0)
        for var in live:
            space = self.spaces.get(var, var.tile.space)
            if space in sizes:
                sizes[space] += _bytes(var)
        for space, size in sizes.items():
            if size > self.peaks[space].size:
                tiles = [var for var in live if self.spaces.get(var, var.tile.space) is space]
                self.peaks[space] = _Peak(size, tiles, loc)


def _bytes(var: Var) -> int:
    rows, cols = var.tile.physical
    size = max(1, var.tile.dtype.bits // 8)
    return -(-rows * cols * size // _ROW) * _ROW


def _too_much(one: Occupancy, chip: BackendType) -> Diagnostic:
    listed = ", ".join(f"{tile.name}: {tile.type} {tile.nbytes / KIB:g} KiB" for tile in one.tiles[:12])
    return Diagnostic(
        "value",
        f"{one.kernel!r} keeps {one.used / KIB:g} KiB in {one.space.value} here, and the "
        f"{chip.value.removeprefix('Ascend')} has "
        f"{one.capacity // KIB}: {listed}{', ...' if len(one.tiles) > 12 else ''}",
        one.loc,
        "work on smaller tiles: loop over chunks of rows or columns",
    )
