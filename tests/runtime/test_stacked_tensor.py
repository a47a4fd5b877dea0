"""`StackedDeviceTensor`: one tensor in slices on several devices, as a value."""

import dataclasses
from typing import Any

import pytest
import torch

from pypto.runtime import DeviceTensor, StackedDeviceTensor


def shard(number: int, shape: tuple[int, ...] = (4, 8), dtype: torch.dtype = torch.float16) -> DeviceTensor:
    return DeviceTensor(0x1000 * (number + 1), shape, dtype)


@pytest.fixture
def stacked() -> StackedDeviceTensor:
    return StackedDeviceTensor((shard(0), shard(1), shard(2)), (3, 4, 8), (0, 1, 2))


def test_it_is_a_value(stacked: StackedDeviceTensor) -> None:
    assert stacked.shape == stacked.full_shape == (3, 4, 8)
    assert stacked.dtype is torch.float16
    assert stacked == StackedDeviceTensor([shard(0), shard(1), shard(2)], [3, 4, 8], [0, 1, 2])
    assert hash(stacked) == hash(dataclasses.replace(stacked))
    with pytest.raises(dataclasses.FrozenInstanceError):
        stacked.full_shape = (1, 2)  # type: ignore[misc]


WRONG: dict[str, tuple[tuple[Any, Any, Any], type[Exception], str]] = {
    "rank": (((shard(0),), (1,), (0,)), ValueError, r"rank of at least 2, got full_shape=\(1,\)"),
    "no shards": (((), (0, 4, 8), ()), ValueError, "at least one shard"),
    "too few shards": (((shard(0),), (2, 4, 8), (0, 1)), ValueError, "needs 2 shards on 2 workers, got 1 shards and 2"),
    "too few ids": (((shard(0), shard(1)), (2, 4, 8), (0,)), ValueError, "got 2 shards and 1 worker ids"),
    "one worker twice": (((shard(0), shard(1)), (2, 4, 8), (3, 3)), ValueError, r"worker_ids=\(3, 3\)"),
    "shape": (
        ((shard(0), shard(1, (4, 7))), (2, 4, 8), (0, 1)),
        ValueError,
        r"shard 1 must have shape \(4, 8\), got \(4, 7\)",
    ),
    "dtype": (
        ((shard(0), shard(1, dtype=torch.float32)), (2, 4, 8), (0, 1)),
        ValueError,
        "shard 1 must have dtype torch.float16 as shard 0 has, got torch.float32",
    ),
    "no tensor": (((torch.ones(4, 8),), (1, 4, 8), (0,)), TypeError, "shard 0 must be a DeviceTensor, got Tensor"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_parts_that_make_no_tensor_are_refused(kind: str) -> None:
    parts, error, text = WRONG[kind]
    with pytest.raises(error, match=text):
        StackedDeviceTensor(*parts)


def test_indexing_gives_a_whole_shard(stacked: StackedDeviceTensor) -> None:
    whole = [
        1,
        (1,),
        (1, slice(None)),
        (1, slice(0, 4), slice(None)),
        (1, ...),
        (1, ..., slice(0, 8)),
        (1, slice(None), ...),
    ]
    for index in whole:
        assert stacked[index] is stacked.shards[1]


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (True, TypeError, "leading index of a stacked tensor must be an int, got True"),
        (1.0, TypeError, "leading index"),
        (slice(None), TypeError, "leading index"),
        (..., TypeError, "leading index"),
        (-1, IndexError, "shard -1 is out of range: there are 3"),
        (3, IndexError, "shard 3 is out of range"),
        ((), IndexError, "an empty index"),
        ((0, slice(None), slice(None), slice(None)), IndexError, "too many indices: a shard has 2 axes"),
        ((0, ..., ...), IndexError, "only one"),
        ((0, slice(0, 2)), ValueError, "only whole-shard access is supported: axis 1 must be ':' or 0:4"),
        ((0, slice(None), slice(0, 8, 2)), ValueError, "whole-shard.*axis 2"),
        ((0, 2), ValueError, "whole-shard"),
        ((0, ..., slice(1, 8)), ValueError, "whole-shard.*axis 2"),
    ],
)
def test_other_indices_are_refused(stacked: StackedDeviceTensor, index: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        stacked[index]
