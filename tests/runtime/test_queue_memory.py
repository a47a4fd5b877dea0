"""Queued launches keep the memory of host tensors, whatever becomes of the tensors before the launch runs."""

from collections.abc import Callable

import core_programs as core
import pytest
import torch
from core_programs import Register

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

    def submit(*args: torch.Tensor) -> LaunchFuture:
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
