"""Creation, movement between memory and chip, boxes, views and single elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from interp.numbers import from_bytes, rounded, to_bytes, undefined, wide
from interp.state import State
from pypto.ir.nodes import OpStmt, Var


def _box(offsets: tuple[int, ...], extents: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(start, start + extent) for start, extent in zip(offsets, extents, strict=True))


def _is_inside(offsets: tuple[int, ...], extents: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    # Of an empty box nothing is touched, wherever it is.
    return 0 in extents or all(
        start >= 0 and start + extent <= size for start, extent, size in zip(offsets, extents, shape, strict=True)
    )


def philox(key: list[int], counter: list[int], rounds: int) -> list[int]:
    """One block of Philox4x32."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(rounds):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & 0xFFFFFFFF, (first >> 32) ^ c3 ^ k1, first & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


class Movement(State):
    """Operations that compute nothing."""

    def op_full(self, stmt: OpStmt) -> np.ndarray:
        return rounded(np.full(stmt.out.type.shape, self.get(stmt.args[0])), stmt.out.type.dtype)

    def op_create_tile(self, stmt: OpStmt) -> np.ndarray:
        return undefined(stmt.out.type.shape, stmt.out.type.dtype)

    def op_create_tensor(self, stmt: OpStmt) -> np.ndarray:
        result = undefined(self.get(stmt.args[0]), stmt.out.type.dtype)
        if stmt.attrs["init_value"] is not None:
            result[...] = stmt.attrs["init_value"]
        return result

    def op_arange(self, stmt: OpStmt) -> np.ndarray:
        steps = np.arange(stmt.out.type.shape[-1], dtype=np.int64) * (-1 if stmt.attrs["descending"] else 1)
        return self.tile(stmt, (self.get(stmt.args[0]) + steps).reshape(stmt.out.type.shape))

    def op_random(self, stmt: OpStmt) -> np.ndarray:
        words = [int(word) & 0xFFFFFFFF for word in self.get(stmt.args)]
        start = sum(word << 32 * place for place, word in enumerate(words[2:]))
        wanted = [self.get(extent) for extent in stmt.out.type.valid]
        bits: list[int] = []
        while len(bits) < np.prod(wanted):
            at = (start + len(bits) // 4) & ((1 << 128) - 1)
            bits += philox(words[:2], [at >> 32 * place & 0xFFFFFFFF for place in range(4)], stmt.attrs["rounds"])
        return self.tile(stmt, np.array(bits[: np.prod(wanted)], np.int64).reshape(wanted))

    def op_tri(self, stmt: OpStmt) -> np.ndarray:
        rows, cols = (self.get(extent) for extent in stmt.out.type.valid)
        distance = np.arange(cols)[None, :] - np.arange(rows)[:, None] - self.get(stmt.args[0])
        return self.tile(stmt, distance >= 0 if stmt.attrs["upper"] else distance <= 0)

    def op_load(self, stmt: OpStmt) -> np.ndarray:
        tensor, offsets, extents = (self.get(arg) for arg in stmt.args)
        assert _is_inside(offsets, extents, tensor.shape), "load outside its tensor"
        valid = [self.get(extent) for extent in stmt.out.type.valid]
        if 0 in extents:
            return self.tile(stmt, np.zeros(valid, tensor.dtype))
        box = tensor[_box(offsets, extents)]
        return self.tile(stmt, box.reshape(valid[::-1]).T if stmt.attrs["transposed"] else box.reshape(valid))

    def op_store(self, stmt: OpStmt) -> None:
        tile, offsets, tensor, extents = stmt.args
        target, at, size = self.get(tensor), self.get(offsets), self.get(extents)
        assert _is_inside(at, size, target.shape), "store outside its tensor"
        if 0 in size:
            return
        box, dtype = _box(at, size), tensor.type.dtype
        value = rounded(self.valid(tile), dtype).reshape(target[box].shape)
        if stmt.attrs.get("atomic"):
            value = rounded(wide(value, dtype) + wide(target[box], dtype), dtype)
        target[box] = value

    def op_move(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0]).copy()

    op_set_validshape = op_move

    def op_spill(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0])

    def op_slice(self, stmt: OpStmt) -> np.ndarray:
        source, offsets, extents = (self.get(arg) for arg in stmt.args)
        keep = stmt.attrs["keep"]
        if stmt.out.is_tensor:
            view = source[_box(offsets, extents)]
            return view[tuple(slice(None) if axis in keep else 0 for axis in range(view.ndim))]
        box = np.zeros(extents, source.dtype)
        places = np.meshgrid(*map(np.arange, extents), indexing="ij")
        inside = np.ones(extents, bool)
        picked = []
        for place, start, size in zip(places, offsets, source.shape, strict=True):
            inside &= (place + start >= 0) & (place + start < size)
            picked.append(np.clip(place + start, 0, size - 1))
        box = np.where(inside, source[tuple(picked)], box)
        return self.tile(stmt, box.reshape([self.get(extent) for extent in stmt.out.type.valid]))

    def op_assemble(self, stmt: OpStmt) -> np.ndarray:
        target, source = self.get(stmt.args[0]).copy(), self.valid(stmt.args[1])
        offsets = self.get(stmt.args[2])
        source = source.reshape((1,) * (target.ndim - source.ndim) + source.shape[max(0, source.ndim - target.ndim) :])
        for place in np.ndindex(source.shape):
            at = tuple(start + step for start, step in zip(offsets, place, strict=True))
            if all(0 <= index < size for index, size in zip(at, target.shape, strict=True)):
                target[at] = source[place]
        return target

    def op_reshape(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0]).reshape(self.get(stmt.args[1]))

    def op_reinterpret_view(self, stmt: OpStmt) -> np.ndarray:
        raw = to_bytes(self.get(stmt.args[0]), stmt.args[0].type.dtype)
        return from_bytes(raw, stmt.out.type.dtype).reshape(stmt.out.type.shape)

    def op_transpose(self, stmt: OpStmt) -> np.ndarray:
        return self.get(stmt.args[0]).swapaxes(*stmt.attrs["axes"])

    def op_fillpad(self, stmt: OpStmt) -> np.ndarray:
        type = stmt.out.type
        result = np.full(type.shape, self.get(stmt.attrs["pad_value"]), undefined((1,), type.dtype).dtype)
        valid = self.valid(stmt.args[0])
        result[tuple(slice(0, extent) for extent in valid.shape)] = valid
        return result

    op_fillpad_expand = op_fillpad

    def op_read(self, stmt: OpStmt) -> Any:
        array, at = self.get(stmt.args[0]), self.get(stmt.args[1])
        inside = all(0 <= index < size for index, size in zip(at, array.shape, strict=True))
        return array[at].item() if inside else 0

    def op_write(self, stmt: OpStmt) -> None:
        self.get(stmt.args[0])[self.get(stmt.args[1])] = self.get(stmt.args[2])

    # Matrix products.

    def product(self, a: Var, b: Var, stmt: OpStmt) -> np.ndarray:
        shape = [self.get(extent) for extent in stmt.out.type.valid]
        columns = self.get(a.type.valid[-1])
        inner = min(columns, self.get(b.type.valid[-2])) if len(b.type.valid) > 1 else columns
        exact = np.float64 if a.type.dtype.is_float else np.int64
        left = self.valid(a).astype(exact).reshape(-1, columns)[:, :inner]
        right = self.get(b).reshape(b.type.physical)[:inner, : shape[-1]].astype(exact)
        return (left @ right).reshape(shape)

    def op_matmul(self, stmt: OpStmt) -> np.ndarray:
        return self.tile(stmt, self.product(stmt.args[0], stmt.args[1], stmt))

    def op_matmul_acc(self, stmt: OpStmt) -> np.ndarray:
        product = self.product(stmt.args[1], stmt.args[2], stmt)
        if len(stmt.args) == 4 and self.get(stmt.args[3]):
            return self.tile(stmt, product)
        base = self.get(stmt.args[0]).reshape(stmt.out.type.shape)
        base = base[tuple(slice(0, extent) for extent in product.shape)]
        return self.tile(stmt, wide(base, stmt.out.type.dtype) + product)
