"""Gather, scatter and sort."""

from __future__ import annotations

import numpy as np

from interp.elementwise import COMPARE
from interp.numbers import from_bytes, to_bytes, wide
from interp.state import State
from pypto.ir.nodes import OpStmt, Var
from pypto.language.dtypes import UINT16
from pypto.language.ops.gather import PATTERNS


class Gather(State):
    """Indices outside read 0 and write nothing."""

    def matrix(self, var: Var) -> np.ndarray:
        """A tile as rows and columns."""
        return self.get(var).reshape(var.type.physical)

    def part(self, var: Var) -> np.ndarray:
        """The valid rows and columns of a tile."""
        valid = self.valid(var)
        return valid.reshape(-1, valid.shape[-1])

    def picked(self, stmt: OpStmt, source: np.ndarray, where: np.ndarray) -> np.ndarray:
        """Elements of a flat array."""
        inside = (where >= 0) & (where < source.size)
        found = np.where(inside, source[np.where(inside, where, 0)], np.zeros((), source.dtype))
        return self.tile(stmt, found.reshape([self.get(extent) for extent in stmt.out.type.valid]))

    def op_gather(self, stmt: OpStmt) -> np.ndarray:
        source, where = self.part(stmt.args[0]), self.part(stmt.args[1]).astype(np.int64)
        result = np.zeros(where.shape, source.dtype)
        for row, col in np.ndindex(where.shape):
            if row < len(source) and 0 <= where[row, col] < source.shape[1]:
                result[row, col] = source[row, where[row, col]]
        return self.tile(stmt, result.reshape([self.get(extent) for extent in stmt.out.type.valid]))

    def op_tile_gather(self, stmt: OpStmt) -> np.ndarray:
        return self.picked(stmt, self.get(stmt.args[0]).reshape(-1), self.part(stmt.args[1]).astype(np.int64))

    def op_mgather(self, stmt: OpStmt) -> np.ndarray:
        where = self.part(stmt.args[1]).astype(np.int64)
        rows, cols = (int(np.prod([self.get(e) for e in stmt.out.type.valid[:-1]])), self.get(stmt.out.type.valid[-1]))
        return self.picked(stmt, self.get(stmt.args[0]).reshape(-1), where[:rows, :cols])

    def op_gatherb(self, stmt: OpStmt) -> np.ndarray:
        dtype = stmt.out.type.dtype
        raw = to_bytes(self.get(stmt.args[0]), dtype)
        rows = []
        for offsets in self.part(stmt.args[1]).astype(np.int64):
            blocks = [
                raw[start : start + 32] if 0 <= start <= raw.size - 32 else np.zeros(32, np.uint8) for start in offsets
            ]
            rows.append(from_bytes(np.concatenate(blocks), dtype))
        return self.tile(stmt, np.array(rows).reshape([self.get(extent) for extent in stmt.out.type.valid]))

    def op_gather_mask(self, stmt: OpStmt) -> np.ndarray:
        start, stride = PATTERNS[stmt.attrs["mask_pattern"]]
        return self.tile(stmt, self.valid(stmt.args[0])[..., start::stride])

    def op_gather_compare(self, stmt: OpStmt) -> np.ndarray:
        source, (value, offset) = stmt.args[0], self.get(stmt.args[1:])
        dtype = source.type.dtype
        holds = COMPARE[stmt.attrs["cmp_mode"]](wide(self.part(source), dtype), wide(value, dtype))
        if stmt.attrs["count_dtype"] is not None:
            return self.tile(stmt, holds.sum(1).reshape([self.get(extent) for extent in stmt.out.type.valid]))
        cols = stmt.attrs["out_cols"]
        rows = [[*(np.flatnonzero(row) + offset), *[0] * cols][:cols] for row in holds]
        return self.tile(stmt, np.array(rows).reshape([self.get(extent) for extent in stmt.out.type.valid]))

    def op_scatter(self, stmt: OpStmt) -> np.ndarray:
        target, where, source = self.matrix(stmt.args[0]).copy(), *map(self.part, stmt.args[1:])
        for row, col in np.ndindex(source.shape):
            if 0 <= where[row, col] < target.shape[1]:
                target[row, where[row, col]] = source[row, col]
        return target.reshape(stmt.out.type.shape)

    def op_tile_scatter(self, stmt: OpStmt) -> np.ndarray:
        target = self.get(stmt.args[0]).copy().reshape(-1)
        source, where = map(self.part, stmt.args[1:])
        for place in np.ndindex(source.shape):
            if 0 <= where[place] < target.size:
                target[where[place]] = source[place]
        return target.reshape(stmt.out.type.shape)

    def op_scatter_mask(self, stmt: OpStmt) -> np.ndarray:
        target, source = self.matrix(stmt.args[0]).copy(), self.part(stmt.args[1])
        if not stmt.attrs["blend"]:
            target[...] = 0
        start, stride = PATTERNS[stmt.attrs["mask_pattern"]]
        target[: len(source), start : start + stride * source.shape[1] : stride] = source
        return target.reshape(stmt.out.type.shape)

    def op_scatter_update(self, stmt: OpStmt) -> np.ndarray:
        target, source = self.matrix(stmt.args[0]).copy(), self.part(stmt.args[2])
        where = self.get(stmt.args[1]).reshape(-1)
        for row, at in zip(source, where[: len(source)], strict=True):
            if 0 <= at < len(target):
                target[at, : row.size] = row
        return target.reshape(stmt.out.type.shape)

    def op_mscatter(self, stmt: OpStmt) -> None:
        source, where, target = self.part(stmt.args[0]), self.part(stmt.args[1]), self.get(stmt.args[2])
        flat = np.arange(target.size).reshape(target.shape)
        for place in np.ndindex(source.shape):
            if 0 <= where[place] < target.size:
                target[flat == where[place]] = source[place]

    # Sorting: rows of pairs, `each` columns per element.

    def op_sort32(self, stmt: OpStmt) -> np.ndarray:
        source, where = map(self.part, stmt.args)
        dtype = stmt.out.type.dtype
        rows = []
        for values, indices in zip(source, where, strict=True):
            parts = []
            for start in range(0, values.size, 32):
                value, index = values[start : start + 32], indices[start : start + 32].astype(np.uint32)
                order = np.lexsort((index, -value.astype(np.float64)))
                parts.append(_pairs(value[order], index[order], dtype))
            rows.append(np.concatenate(parts) if parts else values)
        return self.tile(stmt, np.array(rows).reshape([self.get(extent) for extent in stmt.out.type.valid]))

    def op_mrgsort(self, stmt: OpStmt) -> np.ndarray:
        each = 2 if stmt.out.type.dtype.bits == 32 else 4
        lists = [self.part(arg).reshape(-1, each) for arg in stmt.args]
        length = stmt.attrs["block_len"]
        if length is None:
            merged = _merged(np.concatenate(lists))
        else:
            group = 4 * length // each
            rows = lists[0]
            whole = len(rows) // group * group
            parts = [_merged(rows[start : start + group]) for start in range(0, whole, group)]
            merged = np.concatenate([*parts, rows[whole:]])
        return self.tile(stmt, merged.reshape([self.get(extent) for extent in stmt.out.type.valid]))


def _pairs(values: np.ndarray, indices: np.ndarray, dtype: object) -> np.ndarray:
    if values.dtype == np.float32:
        return np.stack([values, indices.view(np.float32)], 1).reshape(-1)
    halves = indices.view(np.uint16).reshape(-1, 2)
    zeros = np.zeros(values.size, np.uint16)
    bits = np.stack([to_bytes(values, UINT16).view(np.uint16), zeros, halves[:, 0], halves[:, 1]], 1)
    return from_bytes(to_bytes(bits, UINT16), dtype)


def _merged(rows: np.ndarray) -> np.ndarray:
    return rows[np.argsort(-rows[:, 0].astype(np.float64), kind="stable")]
