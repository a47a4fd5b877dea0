"""A worker that is entered, left, closed and opened again while launches of every kind are under way."""

import gc
import weakref

import core_programs as core
import pytest
import torch

from pypto import _pypto, ir
from pypto.runtime import ChipWorker, LaunchFuture, RunConfig

LONG = 2_000_000
"""Turns of the loop that take about a tenth of a second: long enough that what comes next is queued behind."""

ONES, TWOS = torch.ones(128, 128), torch.full((128, 128), 2.0)


def block(worker: ChipWorker) -> LaunchFuture:
    """Keeps the device busy; what is submitted next has not begun when `submit` returns."""
    assert worker._impl is not None
    device: _pypto.Worker = worker._impl
    endless = device.register(core.endless(), owner=None, compiled=None, output_indices=(), has_return=False)
    return endless.submit(*(torch.ones(1, 16) for _ in range(3)), LONG)


def small_worker() -> ChipWorker:
    return ChipWorker(RunConfig(device_memory=4 << 20))


def test_an_error_in_the_body_lets_run_what_was_queued_and_closes(K_add: ir.CompiledProgram) -> None:
    worker = small_worker()
    futures: list[LaunchFuture] = []

    def body() -> None:
        with worker:
            handle = worker.register(K_add)
            bound = handle.bind(ONES, ONES)
            block(worker)
            futures.extend([handle.submit(ONES, ONES), bound.submit()])
            assert not futures[0].done()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert not worker.initialized
    assert all(torch.equal(future.result(0), TWOS) for future in futures)


def test_a_worker_is_entered_again_after_an_error_and_nothing_of_its_first_life_runs(K_add: ir.CompiledProgram) -> None:
    worker = small_worker()
    worker.__enter__()
    old = worker.alloc_tensor((128, 128), torch.float32, init=ONES)
    handle = worker.register(K_add)
    bound = handle.bind(ONES, ONES)
    error = ZeroDivisionError()
    worker.__exit__(type(error), error, None)
    with worker:
        out = torch.full((128, 128), 7.0)
        for call in (lambda: handle(ONES, ONES, out), lambda: handle.submit(ONES, ONES, out), bound, bound.submit):
            with pytest.raises(RuntimeError, match=r"was closed|requires an initialized"):
                call()
        assert torch.equal(out, torch.full((128, 128), 7.0))
        again = worker.register(K_add)
        with pytest.raises(ValueError, match="not a live allocation"):
            again(old, ONES, out)
        assert torch.equal(again(ONES, ONES), TWOS)
        assert torch.equal(again.submit(ONES, ONES).result(60), TWOS)
        assert worker.memory_stats()["live"] == 0
        assert worker.counters()["launches"] == 2


def test_an_open_worker_that_is_opened_goes_on_with_what_was_queued(K_add: ir.CompiledProgram) -> None:
    with small_worker() as worker:
        resident = worker.alloc_tensor((128, 128), torch.float32, init=ONES)
        busy = block(worker)
        future = worker.register(K_add).submit(resident, ONES)
        worker.init()
        assert torch.equal(future.result(60), TWOS)
        assert busy.done()
        assert torch.equal(resident.to_host(), ONES)
        worker.free_tensor(resident)


def test_a_worker_that_is_closed_in_its_block_is_left_in_peace(K_add: ir.CompiledProgram) -> None:
    with small_worker() as worker:
        block(worker)
        future = worker.register(K_add).submit(ONES, ONES)
        worker.close()
        assert torch.equal(future.result(0), TWOS)
        with pytest.raises(RuntimeError, match="requires an initialized ChipWorker"):
            worker.register(K_add)
    assert not worker.initialized


def test_a_refused_queued_launch_in_the_body_does_not_disturb_leaving(K_add: ir.CompiledProgram) -> None:
    with small_worker() as worker:
        handle = worker.register(K_add)
        gone = worker.alloc_tensor((128, 128), torch.float32)
        worker.free_tensor(gone)
        block(worker)
        bad, good = handle.submit(gone, ONES), handle.submit(ONES, ONES)
    assert "it was freed" in str(bad.exception(0))
    assert torch.equal(good.result(0), TWOS)


def test_a_life_with_every_kind_of_launch_leaves_no_object_behind(K_add: ir.CompiledProgram) -> None:
    worker = small_worker()
    with worker:
        handle = worker.register(K_add)
        bound = handle.bind(ONES, ONES)
        future = bound.submit()
        assert torch.equal(future.result(60), bound())
    gone = [weakref.ref(thing) for thing in (worker, handle, future)]
    del worker, handle, bound, future
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
