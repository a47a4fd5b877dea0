"""Queued launches in an event loop."""

import asyncio
import concurrent.futures
import logging

import core_programs as core
import pytest
import torch
from core_programs import Register

from pypto import _pypto
from pypto.runtime import LaunchFuture, RegistrationHandle

SHAPE = (16, 16)
LONG = 2_000_000


def full(value: float) -> torch.Tensor:
    return torch.full(SHAPE, float(value))


class Line:
    def __init__(self, register: Register) -> None:
        self.add: RegistrationHandle = register(core.add())
        self.endless: RegistrationHandle = register(core.endless(), (), has_return=False)
        self.small = [torch.ones(1, 16) for _ in range(3)]

    def block(self) -> LaunchFuture:
        return self.endless.submit(*self.small, LONG)


@pytest.fixture
def line(register: Register) -> Line:
    return Line(register)


def test_awaiting_gives_the_result_and_lets_other_tasks_run(line: Line) -> None:
    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.create_task(tick())
        assert await line.block() is None
        assert torch.equal(await line.add.submit(full(1), full(2)), full(3))
        ticker.cancel()
        return ticks

    assert asyncio.run(main()) > 5


def test_many_are_gathered_and_an_error_stays_with_its_launch(device: _pypto.Worker, line: Line) -> None:
    async def main() -> list[object]:
        futures = [line.add.submit(full(1), full(index)) for index in range(10)]
        futures.insert(5, line.add.submit(torch.ones(3), full(1)))
        return await asyncio.gather(*futures, return_exceptions=True)

    results = asyncio.run(main())
    wrong = results.pop(5)
    assert isinstance(wrong, TypeError)
    assert [result[0, 0].item() for result in results] == [index + 1 for index in range(10)]


def test_a_future_is_awaited_twice_and_after_its_end(line: Line) -> None:
    async def main() -> None:
        future = line.add.submit(full(1), full(2))
        assert await future is await future

    asyncio.run(main())


def test_a_cancelled_task_takes_its_launch_out_of_the_queue(device: _pypto.Worker, line: Line) -> None:
    async def main() -> tuple[LaunchFuture, LaunchFuture]:
        busy, waiting = line.block(), line.add.submit(full(1), full(2))

        async def wait() -> None:
            await waiting

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await busy
        return busy, waiting

    busy, waiting = asyncio.run(main())
    device.synchronize()
    assert (busy.cancelled(), waiting.cancelled()) == (False, True)
    assert device.counters()["launches"] == 1


def test_a_cancelled_task_does_not_stop_a_launch_that_runs(device: _pypto.Worker, line: Line) -> None:
    async def main() -> LaunchFuture:
        busy = line.block()
        while not busy.running():
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(busy, 0.001)
        return busy

    busy = asyncio.run(main())
    assert busy.result(60) is None
    assert device.counters()["launches"] == 1


def test_a_loop_that_is_closed_does_not_disturb_the_launch(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    loop = asyncio.new_event_loop()
    busy = line.block()

    async def wait() -> None:
        await busy

    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    done, _ = concurrent.futures.wait([busy], timeout=60)
    assert done == {busy}
    assert torch.equal(line.add.submit(full(1), full(2)).result(60), full(3))
    assert caplog.records == []
