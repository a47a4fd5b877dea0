"""One worker, many threads."""

import random
import re
import threading
from collections.abc import Callable

import core_programs as core
import pytest
import torch
from core_programs import Register

from pypto import _pypto, ir
from pypto.runtime import ChipWorker, LaunchFuture, RunConfig


def in_threads(count: int, work: Callable[[int], None]) -> list[BaseException]:
    """Runs `work` in `count` threads that begin together; what they raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def guarded(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    return errors


def test_threads_share_a_worker(device: _pypto.Worker, register: Register) -> None:
    handle = register(core.add())

    def work(index: int) -> None:
        a, b, c = torch.full((16, 16), float(index)), torch.ones(16, 16), torch.empty(16, 16)
        for _ in range(300):
            resident = device.alloc_tensor((16, 16), torch.float32, a)
            handle(resident, b, c)
            assert torch.equal(c, a + b)
            device.free_tensor(resident)

    assert in_threads(4, work) == []
    assert device.memory_report().live == 0
    assert device.counters()["launches"] == 1200


def test_long_launches_take_turns(register: Register) -> None:
    """Long enough to run with the interpreter released, so that the others have to wait in line."""
    handle = register(core.endless(), (), has_return=False)

    def work(index: int) -> None:
        a, b, c = torch.full((1, 16), float(index)), torch.ones(1, 16), torch.empty(1, 16)
        for _ in range(5):
            handle(a, b, c, 20_000)
            assert torch.equal(c, a + b)

    assert in_threads(4, work) == []


def test_registering_in_threads_gives_one_registration(device: _pypto.Worker, register: Register) -> None:
    cids: list[int] = []
    assert in_threads(8, lambda _: cids.append(register(core.add()).cid)) == []
    assert cids == [0] * 8
    assert device.counters()["registrations"] == 1


@pytest.mark.parametrize("operation", ["launch", "bound", "queued", "allocate", "copy"])
def test_a_worker_is_closed_while_others_use_it(device: _pypto.Worker, register: Register, operation: str) -> None:
    handle = register(core.endless(), (), has_return=False)
    tensor = device.alloc_tensor((1 << 20,), torch.uint8)
    host = torch.zeros(1 << 20, dtype=torch.uint8)
    started = threading.Semaphore(0)
    futures: list[LaunchFuture] = []

    def work(index: int) -> None:
        if index == 0:
            for _ in range(3):
                started.acquire()
            if operation == "queued":
                device.synchronize()
            device.close()
            return
        a, b, c = torch.ones(1, 16), torch.ones(1, 16), torch.empty(1, 16)
        bound = handle.bind(a, b, c, 5_000)
        use: dict[str, Callable[[], object]] = {
            "launch": lambda: handle(a, b, c, 5_000),
            "bound": bound,
            "queued": lambda: futures.append(handle.submit(a, b, c, 5_000)),
            "allocate": lambda: device.free_tensor(device.alloc_tensor((16,), torch.float32)),
            "copy": lambda: device.copy_to(tensor, host),
        }
        use[operation]()
        started.release()  # after the first use: the closing thread may run before a second one
        while True:
            use[operation]()

    errors = in_threads(4, work)
    assert len(errors) == 3
    for error in errors:
        assert isinstance(error, (RuntimeError, ValueError)), error
        assert any(word in str(error) for word in ("closed", "requires an initialized ChipWorker")), error
    assert not device.is_open
    if operation == "queued":
        failed = [error for error in (future.exception(0) for future in futures) if error is not None]
        assert {getattr(error, "code", None) for error in failed} <= {"worker_closed"}, (
            "submitted while the worker was being closed"
        )
        assert device.counters()["launches"] == len(futures) - len(failed) > 0


def test_threads_open_use_and_close_one_worker_in_any_order(K_add: ir.CompiledProgram) -> None:
    """Each call works whole or says that there is no device; nothing hangs, and no result is wrong."""
    worker = ChipWorker(RunConfig(device_memory=16 << 20))
    ones, twos = torch.ones(128, 128), torch.full((128, 128), 2.0)

    def launch() -> None:
        out = torch.zeros(128, 128)
        worker.run(K_add, ones, ones, out)
        assert torch.equal(out, twos)

    def keep() -> None:
        tensor = worker.alloc_tensor((128, 128), torch.float32, init=ones)
        assert torch.equal(worker.run(K_add, tensor, ones), twos)
        worker.free_tensor(tensor)

    def register() -> None:
        assert torch.equal(worker.register(K_add)(ones, ones), twos)

    def bind() -> None:
        assert torch.equal(worker.register(K_add).bind(ones, ones)(), twos)

    def submit() -> None:
        future = worker.register(K_add).submit(ones, ones)
        assert torch.equal(future.result(60), twos)

    def report() -> None:
        worker.memory_stats()

    steps = [launch, keep, register, bind, submit, report, worker.close, worker.init]

    def work(index: int) -> None:
        chosen = random.Random(index)
        for _ in range(150):
            try:
                chosen.choice(steps)()
            except (RuntimeError, ValueError) as error:
                # There is no device now, the handle died with it, or the tensor did between its allocation and its use.
                if not re.search("requires an initialized|has been unregistered|was closed", str(error)):
                    raise

    assert in_threads(6, work) == []
    worker.init()
    launch()
    assert worker.memory_stats()["live"] == 0
    worker.close()


def test_many_threads_close_at_once(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    for _ in range(20):
        worker.init()
        worker.run(K_add, torch.ones(128, 128), torch.ones(128, 128))
        assert in_threads(8, lambda _: worker.close()) == []
        assert not worker.initialized
