"""Which worker a call finds: nesting, leaving, threads, tasks."""

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig


def current(device_id: int = 0) -> ChipWorker | None:
    return ChipWorker.current(level=2, platform="a2a3sim", device_id=device_id, runtime="tensormap_and_ringbuffer")


def in_thread(work: Callable[[], object]) -> object:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


def test_a_worker_is_found_inside_its_with_block_only() -> None:
    worker = ChipWorker()
    assert current() is None
    with worker as entered:
        assert entered is worker
        assert current() is worker
        assert current(device_id=1) is None
    assert current() is None
    assert not worker.initialized


def test_different_bindings_nest_and_the_outer_one_stays_visible() -> None:
    with ChipWorker() as outer, ChipWorker(RunConfig(device_id=1)) as inner:
        assert (current(), current(1)) == (outer, inner)


def test_an_equal_binding_is_refused_and_the_outer_one_goes_on() -> None:
    with ChipWorker() as outer:
        for second in (outer, ChipWorker(auto_init=False)):
            with pytest.raises(ValueError, match=r"already active in an enclosing scope.*Reuse the outer ChipWorker"):
                second.__enter__()
        assert current() is outer
        assert outer.initialized


def test_a_worker_may_be_entered_again_after_it_was_left(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker()
    for _ in range(2):
        with worker:
            a, b, c = (torch.ones(128, 128) for _ in range(3))
            K_add(a, b, c)
            assert torch.equal(c, a + b)


def test_what_asks_for_sdma_is_told_when_there_is_none() -> None:
    binding = {"level": 2, "platform": "a2a3sim", "device_id": 0, "runtime": "tensormap_and_ringbuffer"}
    assert ChipWorker.current(**binding, require_sdma=True) is None
    with ChipWorker(), pytest.raises(RuntimeError, match="without enable_sdma=True"):
        ChipWorker.current(**binding, require_sdma=True)
    with ChipWorker(enable_sdma=True) as worker:
        assert ChipWorker.current(**binding, require_sdma=True) is worker


def test_leaving_in_another_context_is_an_error_and_closes_nothing() -> None:
    worker = ChipWorker()
    contextvars.copy_context().run(worker.__enter__)
    with pytest.raises(ValueError, match="different Context"):
        worker.__exit__(None, None, None)
    assert worker.initialized
    worker.close()


def test_an_error_in_the_body_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError), ChipWorker():
        raise ZeroDivisionError
    assert current() is None


def test_a_thread_finds_the_workers_of_the_process() -> None:
    with ChipWorker() as worker:
        assert in_thread(current) is worker
    assert in_thread(current) is None


def test_a_thread_with_a_worker_of_its_own_sees_that_one() -> None:
    def work() -> tuple[bool, bool]:
        with ChipWorker(RunConfig(device_id=1)) as own:
            return current(1) is own, current() is None

    with ChipWorker():
        assert in_thread(work) == (True, True)


def test_the_main_thread_does_not_see_the_worker_of_a_thread() -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with ChipWorker():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    try:
        assert contextvars.Context().run(current) is None
    finally:
        leave.set()
        thread.join()


def test_a_task_inherits_the_worker_of_its_creator() -> None:
    async def work() -> ChipWorker | None:
        await asyncio.sleep(0)
        return current()

    async def main() -> None:
        with ChipWorker() as worker:
            assert await asyncio.create_task(work()) is worker

    asyncio.run(main())


def test_workers_left_out_of_order_leave_nothing_behind() -> None:
    first, second = ChipWorker(), ChipWorker(RunConfig(device_id=1))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (current(), current(1)) == (None, second)
    second.__exit__(None, None, None)
    assert (current(), current(1)) == (None, None)
    with ChipWorker() as worker:
        assert current() is worker


def test_leaving_in_another_thread_is_refused_and_can_be_done_in_the_right_one() -> None:
    worker = ChipWorker().__enter__()

    def leave() -> bool:
        with pytest.raises(ValueError, match="entered in a different Context"):
            worker.__exit__(None, None, None)
        return worker.initialized

    assert in_thread(leave) is True
    assert current() is worker
    worker.__exit__(None, None, None)
    assert current() is None
    assert not worker.initialized


def test_an_initial_value_that_torch_stores_negated_arrives_with_its_sign() -> None:
    with ChipWorker() as worker:
        tensor = worker.alloc_tensor((4,), torch.float32, init=torch._neg_view(torch.ones(4)))
        assert torch.equal(tensor.to_host(), -torch.ones(4))
        with pytest.raises(ValueError, match="pass a dense tensor with data"):
            worker.alloc_tensor((4,), torch.float32, init=torch.empty(4, device="meta"))
        worker.free_tensor(tensor)


def test_a_negated_argument_is_refused_not_read_with_the_wrong_sign() -> None:
    part = torch.full((1, 1), 1 + 2j).conj().imag
    assert part.is_neg()
    assert part.is_contiguous()
    ones = torch.ones(1, 1)
    with ChipWorker(), pytest.raises(ValueError, match=r"position 0 .*\.resolve_neg\(\)"):
        sample_kernels.compile_add(1, 1)(part, ones, torch.empty(1, 1))


def test_the_number_of_cores_comes_from_the_environment_and_nonsense_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYPTO_CORES", "none")
    with pytest.raises(ValueError, match='PYPTO_CORES="none" is not a number of cores; use 1 to 1024'):
        ChipWorker()
    monkeypatch.setenv("PYPTO_CORES", "3")
    ChipWorker().close()
