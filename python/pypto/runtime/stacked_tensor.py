"""`StackedDeviceTensor`: one logical tensor of which each of several devices holds one slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto._pypto import DeviceTensor

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class StackedDeviceTensor:
    """A tensor of shape `(B, *tail)` whose slice `i` along the first axis is `shards[i]`, on device `worker_ids[i]`.

    Indexing gives a whole shard: `x[i]`, `x[i, :, 0:n]`, `x[i, ...]`.

    Attributes:
        shards: B device tensors of shape `tail` and one dtype.
        full_shape: `(B, *tail)`.
        worker_ids: The device of each shard; all different.

    Raises:
        TypeError: A shard is no `DeviceTensor`.
        ValueError: Shapes, dtypes or numbers do not fit together.
    """

    shards: tuple[DeviceTensor, ...]
    full_shape: tuple[int, ...]
    worker_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        """Checks that the parts make one tensor."""
        for name in ("shards", "full_shape", "worker_ids"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if len(self.full_shape) < 2:
            raise failures.STACK_MISMATCH(
                f"a stacked tensor has a rank of at least 2, got full_shape={self.full_shape}"
            )
        count, *tail = self.full_shape
        if count < 1:
            raise failures.STACK_MISMATCH(f"a stacked tensor has at least one shard, got full_shape={self.full_shape}")
        if len(self.shards) != count or len(self.worker_ids) != count:
            raise failures.STACK_MISMATCH(
                f"full_shape={self.full_shape} needs {count} shards on {count} workers, "
                f"got {len(self.shards)} shards and {len(self.worker_ids)} worker ids"
            )
        if len(set(self.worker_ids)) != count:
            raise failures.STACK_MISMATCH(f"each shard needs a worker of its own, got worker_ids={self.worker_ids}")
        for index, shard in enumerate(self.shards):
            if not isinstance(shard, DeviceTensor):
                raise failures.NOT_A_DEVICE_TENSOR(f"shard {index} must be a DeviceTensor, got {type(shard).__name__}")
            if shard.shape != tuple(tail):
                raise failures.STACK_MISMATCH(f"shard {index} must have shape {tuple(tail)}, got {shard.shape}")
            if shard.dtype != self.shards[0].dtype:
                raise failures.STACK_MISMATCH(
                    f"shard {index} must have dtype {self.shards[0].dtype} as shard 0 has, got {shard.dtype}"
                )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of every shard."""
        return self.shards[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """`full_shape`."""
        return self.full_shape

    def __getitem__(self, index: Any) -> DeviceTensor:
        """A whole shard.

        Raises:
            TypeError: The leading index is no int.
            IndexError: There is no such shard, or the index has more parts than the tensor has axes.
            ValueError: The rest of the index takes only a part of the shard.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if not parts:
            raise failures.STACK_INDEX("an empty index names no shard; write x[i]")
        leading, trailing = parts[0], parts[1:]
        if isinstance(leading, bool) or not isinstance(leading, int):
            raise failures.STACK_LEADING(f"the leading index of a stacked tensor must be an int, got {leading!r}")
        if not 0 <= leading < len(self.shards):
            raise failures.STACK_INDEX(f"shard {leading} is out of range: there are {len(self.shards)}")
        self._check_whole(trailing)
        return self.shards[leading]

    def _check_whole(self, trailing: Sequence[int | slice | EllipsisType]) -> None:
        tail = self.full_shape[1:]
        ellipses = [position for position, part in enumerate(trailing) if part is Ellipsis]
        if len(ellipses) > 1:
            raise failures.STACK_INDEX("an index can have only one '...'")
        given = list(trailing)
        if ellipses:
            missing = len(tail) - (len(given) - 1)
            given[ellipses[0] : ellipses[0] + 1] = [slice(None)] * max(missing, 0)
        if len(given) > len(tail):
            raise failures.STACK_INDEX(
                f"too many indices: a shard has {len(tail)} axes, the index names {len(given)} of them"
            )
        for axis, (part, extent) in enumerate(zip(given, tail, strict=False), start=1):
            if not isinstance(part, slice) or part.indices(extent) != (0, extent, 1):
                raise failures.STACK_PARTIAL(
                    f"only whole-shard access is supported: axis {axis} must be ':' or 0:{extent}, got {part!r}"
                )
