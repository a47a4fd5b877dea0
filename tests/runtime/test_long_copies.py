"""Copies of gigabytes end with Ctrl-C, and what they were for is as if they had not begun, or copied in part."""

import signal
from collections.abc import Callable, Iterator
from functools import partial

import core_programs as core
import pytest
import torch

from pypto.runtime import ChipWorker, RunConfig

BYTES = 512 << 20
"""Several looks for signals, and ten times as long as the signal waits, on any machine."""


@pytest.fixture
def worker() -> Iterator[ChipWorker]:
    with ChipWorker(RunConfig(device_memory=4 * BYTES, cores=1)) as entered:
        yield entered


@pytest.fixture(scope="module")
def ones() -> torch.Tensor:
    return torch.ones(BYTES, dtype=torch.uint8)


@pytest.fixture
def interrupted() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Calls something and raises KeyboardInterrupt in it after a few milliseconds."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def timed(call: Callable[[], object]) -> None:
        # Within what expects it: on a busy machine the signal may come before the call has begun.
        signal.setitimer(signal.ITIMER_REAL, 0.004)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def interrupted(call: Callable[[], object]) -> None:
        with pytest.raises(KeyboardInterrupt):
            timed(call)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield interrupted
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


Interrupted = Callable[[Callable[[], object]], None]


@pytest.mark.parametrize("way", ["copy_to", "copy_"])
def test_an_upload_ends_and_the_tensor_has_a_first_part(
    worker: ChipWorker, ones: torch.Tensor, interrupted: Interrupted, way: str
) -> None:
    tensor = worker.zeros((BYTES,), torch.uint8)
    interrupted(partial(worker.copy_to, tensor, ones) if way == "copy_to" else partial(tensor.copy_, ones))
    end = tensor[BYTES - 4096 :]
    assert not end.to_host().any(), "the end was not reached"
    end.copy_(ones[:4096])
    assert end.to_host().all(), "the worker goes on"
    worker.free_tensor(tensor)


@pytest.mark.parametrize("way", ["copy_to", "copy_"])
def test_an_upload_that_ends_in_memory_of_a_tensor_before_shows_its_first_part_and_nothing_of_that(
    worker: ChipWorker, ones: torch.Tensor, interrupted: Interrupted, way: str
) -> None:
    seven = torch.full_like(ones, 7)
    for _ in range(20):  # on a busy machine the signal may come before the first byte is copied
        worker.free_tensor(worker.from_host(seven))
        tensor = worker.alloc_tensor((BYTES,), torch.uint8)
        interrupted(partial(worker.copy_to, tensor, ones) if way == "copy_to" else partial(tensor.copy_, ones))
        host = tensor.to_host()
        worker.free_tensor(tensor)
        first = int(host.argmin())
        assert host[:first].all()
        assert not host[first:].any()
        if first:
            return
    pytest.fail("no copy left a first part")


def test_a_download_ends_and_the_host_has_a_first_part(
    worker: ChipWorker, ones: torch.Tensor, interrupted: Interrupted
) -> None:
    tensor = worker.from_host(ones)
    host = torch.zeros_like(ones)
    interrupted(partial(worker.copy_from, host, tensor))
    assert not host[-4096:].any()
    interrupted(tensor.to_host)
    worker.copy_from(host, tensor)
    assert host.all()
    worker.free_tensor(tensor)


@pytest.mark.parametrize("form", [lambda host: host, lambda host: host.view(2, -1).t()])
def test_an_allocation_whose_contents_do_not_arrive_does_not_exist(
    worker: ChipWorker, ones: torch.Tensor, interrupted: Interrupted, form: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    host = form(ones)
    interrupted(lambda: worker.alloc_tensor(tuple(host.shape), torch.uint8, init=host))
    assert worker.memory_report().live == 0
    worker.free_tensor(worker.zeros((3 * BYTES,), torch.uint8))


def test_a_launch_ends_while_its_arguments_are_copied(worker: ChipWorker, interrupted: Interrupted) -> None:
    assert worker._impl is not None
    rows = BYTES // 64
    program = core.add(rows)
    handle = worker._impl.register(program, owner=None, compiled=None, output_indices=[2], has_return=True)
    a, b, c = (torch.zeros(rows, 16) for _ in range(3))
    interrupted(lambda: handle(a, b, c))
    assert (worker.counters()["h2d_bytes"], worker.counters()["launches"]) == (0, 0)
    assert not c.any()
