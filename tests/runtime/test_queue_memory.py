"""Queued launches keep the memory of host tensors, whatever becomes of the tensors before the launch runs."""

import threading
from collections.abc import Callable
from typing import Any

import core_programs as core
import numpy as np
import pytest
import torch
from core_programs import Register
from torch.multiprocessing.reductions import reduce_storage

from pypto.runtime import LaunchFuture, RegistrationHandle

SHAPE = (16, 16)
LONG = 2_000_000
"""Turns of the loop that take about a tenth of a second: long enough that what comes next is queued behind."""

Submit = Callable[..., LaunchFuture]


@pytest.fixture
def add(register: Register) -> RegistrationHandle:
    return register(core.add())


@pytest.fixture(params=["handle", "bound"])
def submit(request: pytest.FixtureRequest, register: Register, add: RegistrationHandle) -> Submit:
    """Submits an addition that does not begin before `submit` returned."""
    endless = register(core.endless(), (), has_return=False)

    def submit(*args: Any) -> LaunchFuture:
        bound = add.bind(*args)
        endless.submit(*(torch.ones(1, 16) for _ in range(3)), LONG)
        return add.submit(*args) if request.param == "handle" else bound.submit()

    return submit


def full(value: float) -> torch.Tensor:
    return torch.full(SHAPE, float(value))


def reuse_what_is_free() -> list[torch.Tensor]:
    """Takes the blocks that tensors of this size left, and writes them."""
    return [full(-7) for _ in range(1000)]


def give_other_data(tensor: torch.Tensor) -> None:
    tensor.data = full(-1)


def give_other_storage(tensor: torch.Tensor) -> None:
    tensor.set_(full(-1))  # type: ignore[call-overload]


def give_no_storage(tensor: torch.Tensor) -> None:
    tensor.set_()  # type: ignore[call-overload]


SWAPS = [give_other_data, give_other_storage, give_no_storage]


@pytest.mark.parametrize("swap", SWAPS)
def test_an_input_that_gets_other_storage_is_read_where_it_was(
    submit: Submit, swap: Callable[[torch.Tensor], None]
) -> None:
    a, b, c = full(1), full(2), full(0)
    future = submit(a, b, c)
    swap(a)
    swap(b)
    junk = reuse_what_is_free()
    assert not future.done()
    future.result(60)
    assert torch.equal(c, full(3))
    assert torch.equal(junk[0], full(-7))


@pytest.mark.parametrize("swap", SWAPS)
def test_an_output_that_gets_other_storage_is_written_where_it_was(
    submit: Submit, swap: Callable[[torch.Tensor], None]
) -> None:
    c = full(0)
    alias = c.view(-1)
    future = submit(full(1), full(2), c)
    swap(c)
    assert not future.done()
    future.result(60)
    assert torch.equal(alias, full(3).view(-1))


def test_an_output_that_nobody_sees_any_more_overwrites_nobody(submit: Submit) -> None:
    c = full(0)
    future = submit(full(1), full(2), c)
    give_other_data(c)
    junk = reuse_what_is_free()
    future.result(60)
    assert torch.equal(c, full(-1))
    assert all(torch.equal(tensor, full(-7)) for tensor in junk)


@pytest.mark.parametrize("resize", [lambda t: t.resize_(1 << 16), lambda t: t.untyped_storage().resize_(0)])
def test_the_storage_of_an_argument_can_no_longer_be_resized(
    submit: Submit, resize: Callable[[torch.Tensor], object]
) -> None:
    tensors = [full(1), full(2), full(0)]
    alias = tensors[2].view(-1)  # a tensor whose resizing failed has its new shape nevertheless
    future = submit(*tensors)
    for tensor in tensors:
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            resize(tensor)
    future.result(60)
    assert torch.equal(alias, full(3).view(-1))


SHARED = r"a queued launch uses the memory of this tensor, .*before submit\(\), or after the result"


@pytest.mark.parametrize(
    "move",
    [
        lambda t: t.share_memory_(),
        lambda t: t.untyped_storage().share_memory_(),
        lambda t: t.untyped_storage()._share_filename_cpu_(),
        lambda t: reduce_storage(t.untyped_storage()),  # as it is sent to another process
    ],
)
def test_the_storage_of_an_argument_is_not_moved_to_shared_memory(
    submit: Submit, move: Callable[[torch.Tensor], object]
) -> None:
    tensors = [full(1), full(2), full(0)]
    addresses = [tensor.data_ptr() for tensor in tensors]
    futures = [submit(*tensors), submit(*tensors)]
    for tensor in tensors:
        with pytest.raises(RuntimeError, match=SHARED) as caught:
            move(tensor)
        assert caught.value.code == "storage_moved"  # type: ignore[attr-defined]
    assert not futures[1].done()
    for future in futures:
        future.result(60)
    assert torch.equal(tensors[2], full(3))
    assert [tensor.data_ptr() for tensor in tensors] == addresses
    for tensor in tensors:
        move(tensor)
        assert tensor.is_shared(), "once nobody uses it"
    assert torch.storage._share_memory_map == {}


def test_a_tensor_that_is_shared_already_may_be_shared_again(submit: Submit) -> None:
    tensors = [value.share_memory_() for value in (full(1), full(2), full(0))]
    future = submit(*tensors)
    assert tensors[0].share_memory_() is tensors[0]
    assert not future.done()
    future.result(60)
    assert torch.equal(tensors[2], full(3))


def test_a_tensor_that_another_thread_is_sharing_is_not_submitted(add: RegistrationHandle) -> None:
    a = full(1)
    moving, key = torch.storage._share_memory_map, a.untyped_storage()._cdata
    moving[key] = threading.RLock()
    try:
        with pytest.raises(RuntimeError, match=r"another thread moves the memory of this tensor .* before submit\(\)"):
            add.submit(a, full(2), full(0))
    finally:
        del moving[key]
    assert moving == {}, "what was read before is free again"


def test_cancelled_and_failed_launches_let_go(add: RegistrationHandle, submit: Submit) -> None:
    a, b, c = full(1), full(2), full(0)
    submit(full(1), full(2), full(0))
    cancelled = add.submit(a, b, c)
    assert cancelled.cancel()
    failed = add.submit(a, b, torch.zeros(3, 3))
    with pytest.raises(TypeError, match="Parameter 'c' expects shape"):
        failed.result(60)
    for tensor in (a, b, c):
        assert tensor.share_memory_().is_shared()


@pytest.mark.parametrize(
    "part", [lambda array: array, lambda array: array[:], lambda array: array.view().reshape(SHAPE)]
)
def test_a_numpy_array_is_not_resized_under_a_launch(submit: Submit, part: Callable[[np.ndarray], np.ndarray]) -> None:
    owners = [np.full(SHAPE, value, np.float32) for value in (1, 2, 0)]
    future = submit(*map(part, owners))
    for owner in owners:
        with pytest.raises(ValueError, match="cannot resize an array that references or is referenced"):
            owner.resize((1000, 1000), refcheck=False)
    assert not future.done()
    future.result(60)
    assert np.array_equal(owners[2], np.full(SHAPE, 3, np.float32))
    del future
    owners[2].resize((4, 4), refcheck=False)
    assert owners[2].shape == (4, 4)


def test_what_numpy_does_not_take_is_kept_too(submit: Submit) -> None:
    """Numpy refuses tensors with a gradient, and parts of a storage keep the whole of it."""
    a, c = full(1).requires_grad_(), full(0)
    b = torch.full((3, *SHAPE), 2.0)[1]
    future = submit(a, b, c)
    a.data, b.data = full(-1), full(-1)
    junk = reuse_what_is_free()
    future.result(60)
    assert torch.equal(c, full(3))
    assert len(junk) == 1000


def test_outputs_that_the_launch_made_can_be_resized(add: RegistrationHandle) -> None:
    out = add.submit(full(1), full(2)).result(60)
    assert out.resize_(1 << 12).shape == (1 << 12,)


def test_a_plain_launch_leaves_storages_as_they_are(add: RegistrationHandle) -> None:
    a, b, c = full(1), full(2), full(0)
    add(a, b, c)
    add.bind(a, b, c)()
    assert all(tensor.untyped_storage().resizable() for tensor in (a, b, c))
