"""Queued launches: order, results, errors of their own, cancelling, back-pressure, and the end of the threads."""

import concurrent.futures
import gc
import signal
import sys
import threading
import time
import weakref

import core_programs as core
import pytest
import torch
from core_programs import Register

from pypto import _pypto
from pypto.runtime import ChipWorker, DeviceTensor, LaunchFuture, RegistrationHandle, RunConfig

SHAPE = (16, 16)
LONG = 2_000_000
"""Turns of the loop that take about a tenth of a second: long enough that what comes next is queued behind."""


def full(value: float) -> torch.Tensor:
    return torch.full(SHAPE, float(value))


def upload(device: _pypto.Worker, value: float) -> DeviceTensor:
    return device.alloc_tensor(SHAPE, torch.float32, full(value))


class Line:
    """A device with a launch that takes long, and one that adds."""

    def __init__(self, register: Register) -> None:
        self.add = register(core.add())
        self.endless = register(core.endless(), (), has_return=False)
        self.small = [torch.ones(1, 16) for _ in range(3)]

    def block(self, turns: int = LONG) -> LaunchFuture:
        """Keeps the device busy; what is submitted next has not begun when `submit` returns."""
        return self.endless.submit(*self.small, turns)


@pytest.fixture
def line(register: Register) -> Line:
    return Line(register)


def queue_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pypto-futures"]


def test_a_submitted_launch_returns_at_once_and_its_future_has_the_result(line: Line) -> None:
    a, b, c = full(1), full(2), full(0)
    busy = line.block()
    future = line.add.submit(a, b, c)
    assert isinstance(future, LaunchFuture)
    assert not future.done()
    assert future.result(60) is None
    assert torch.equal(c, full(3))
    assert (future.done(), future.exception(), future.running(), future.cancelled()) == (True, None, False, False)
    assert busy.done()


def test_outputs_that_are_left_out_are_the_result(line: Line) -> None:
    first, second = line.add.submit(full(1), full(2)), line.add.submit(full(3), full(4))
    assert torch.equal(second.result(60), full(7))
    assert torch.equal(first.result(60), full(3))


def test_a_bound_launch_is_queued_too(device: _pypto.Worker, line: Line) -> None:
    a, b, c = (upload(device, value) for value in (1, 2, 0))
    bound = line.add.bind(a, b, c)
    assert bound.submit().result(60) is None
    assert torch.equal(c.to_host(), full(3))
    host = line.add.bind(a, full(5))
    assert torch.equal(host.submit().result(60), full(6))
    b_host, c_host = full(7), full(0)
    assert line.add.bind(a, b_host, c_host).submit().result(60) is None
    assert torch.equal(c_host, full(8))


def test_an_update_of_a_bound_launch_does_not_reach_what_was_queued_before(device: _pypto.Worker, line: Line) -> None:
    a, b, c, other = (upload(device, value) for value in (1, 2, 0, 10))
    bound = line.add.bind(a, b, c)
    line.block()
    before = bound.submit()
    bound.update(c=other)
    before.result(60)
    assert torch.equal(c.to_host(), full(3))
    bound.submit().result(60)
    assert torch.equal(other.to_host(), full(3))


@pytest.mark.parametrize("call", ["copy_from", "to_host", "copy_to", "launch", "free", "memory_report", "synchronize"])
def test_a_synchronous_call_waits_for_what_was_queued_before_it(device: _pypto.Worker, line: Line, call: str) -> None:
    a, b, c = (upload(device, value) for value in (1, 2, 0))
    host = full(0)
    line.block()
    future = line.add.submit(a, b, c)
    calls = {
        "copy_from": lambda: device.copy_from(host, c),
        "to_host": lambda: host.copy_(c.to_host()),
        "copy_to": lambda: device.copy_to(c, full(9)),
        "launch": lambda: line.add(c, c, host),
        "free": lambda: device.free_tensor(b),
        "memory_report": device.memory_report,
        "synchronize": device.synchronize,
    }
    calls[call]()
    assert device.counters()["launches"] >= 2, "the queued launches did not come first"
    assert future.result(60) is None
    expected = {"copy_from": full(3), "to_host": full(3), "launch": full(6)}
    assert torch.equal(host, expected.get(call, full(0)))
    assert torch.equal(c.to_host(), full(9) if call == "copy_to" else full(3))


def test_after_synchronize_the_futures_are_done(device: _pypto.Worker, line: Line) -> None:
    futures = [line.add.submit(full(1), full(index)) for index in range(50)]
    device.synchronize()
    assert all(future.done() for future in futures)
    assert [future.result()[0, 0].item() for future in futures] == [index + 1 for index in range(50)]


def test_launches_of_several_threads_keep_the_order_of_each(device: _pypto.Worker, line: Line) -> None:
    """Each thread adds 1 to its own tensor, 100 times in a row: a launch out of order would read an old value."""
    one = upload(device, 1)
    sums = [(upload(device, 0), upload(device, 0)) for _ in range(4)]

    def work(index: int) -> None:
        for step in range(100):
            source, target = sums[index][step % 2], sums[index][1 - step % 2]
            line.add.submit(source, one, target)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    device.synchronize()
    assert [tensor.to_host()[0, 0].item() for tensor, _ in sums] == [100.0] * 4


def test_an_error_belongs_to_its_own_launch(device: _pypto.Worker, line: Line) -> None:
    gone = upload(device, 1)
    device.free_tensor(gone)
    a, b, c = full(1), full(2), full(0)
    first = line.add.submit(a, b, c)
    wrong = line.add.submit(torch.ones(3), b, c)
    freed = line.add.submit(a, gone, full(0))
    last = line.add.submit(a, b, full(0))
    assert (first.result(60), last.result(60)) == (None, None)
    assert isinstance(wrong.exception(60), TypeError)
    with pytest.raises(TypeError, match=r"Parameter 'a' expects shape \(16, 16\), got \(3,\) in a launch of 'add'"):
        wrong.result()
    with pytest.raises(ValueError, match=r"^At position 1: .*it was freed") as error:
        freed.result(60)
    assert error.value.code == "freed_buffer"


def test_what_can_be_seen_at_once_is_raised_at_once(device: _pypto.Worker, line: Line) -> None:
    for args, error, text in [
        ((full(1),), TypeError, r"expects 3 .*got 1"),
        ((full(1), "x", full(0)), TypeError, r"at position 1 must be .* \(parameter 'b'\)"),
        ((full(1), full(1).t()[:, ::2], full(0)), ValueError, "not contiguous"),
    ]:
        with pytest.raises(error, match=text):
            line.add.submit(*args)
    with pytest.raises(TypeError, match="config must be a RunConfig"):
        line.add.submit(full(1), full(2), config=3)
    line.add.unregister()
    with pytest.raises(RuntimeError, match="has been unregistered"):
        line.add.submit(full(1), full(2))
    device.close()
    with pytest.raises(RuntimeError, match=r"unregistered \(or its parent Worker was closed\)"):
        line.block()


def test_arguments_are_kept_alive_until_the_launch_is_over(line: Line) -> None:
    class Tensor(torch.Tensor):
        pass

    a = full(1).as_subclass(Tensor)
    alive = weakref.ref(a)
    gc.collect()  # before the launch that blocks: late in a long run a collection takes longer than that
    line.block()
    future = line.add.submit(a, full(2))
    del a
    assert alive() is not None
    assert torch.equal(future.result(60), full(3))
    line.block(1).result(60)  # the thread drops what it holds before it tells the next future
    assert alive() is None


def test_futures_leave_nothing_behind(device: _pypto.Worker, line: Line) -> None:
    future = line.add.submit(full(1), full(2))
    future.result(60)
    device.synchronize()
    gone = weakref.ref(future)
    del future
    gc.collect()
    assert gone() is None


def test_a_launch_that_has_not_begun_can_be_cancelled(device: _pypto.Worker, line: Line) -> None:
    busy = line.block()
    out = full(0)
    cancelled, kept = line.add.submit(full(1), full(2), out), line.add.submit(full(1), full(2))
    assert cancelled.cancel()
    assert cancelled.cancel()
    assert cancelled.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        cancelled.result(60)
    assert torch.equal(kept.result(60), full(3))
    assert torch.equal(out, full(0))
    assert not kept.cancel()
    assert not busy.cancel()
    assert device.counters()["launches"] == 2


def test_a_launch_that_runs_cannot_be_cancelled(line: Line) -> None:
    busy = line.block(4 * LONG)
    while not busy.running():
        time.sleep(0.001)
    assert not busy.cancel()
    assert busy.result(60) is None


def test_a_result_that_is_waited_for_too_short_times_out_and_comes_later(line: Line) -> None:
    busy = line.block()
    with pytest.raises(concurrent.futures.TimeoutError):
        busy.result(timeout=0.001)
    with pytest.raises(concurrent.futures.TimeoutError):
        busy.exception(timeout=0.001)
    assert busy.result(60) is None


def test_concurrent_futures_waits_for_them(line: Line) -> None:
    line.block()
    futures = [line.add.submit(full(1), full(index)) for index in range(4)]
    futures[2].cancel()
    done, pending = concurrent.futures.wait(futures, timeout=60)
    assert (len(done), len(pending)) == (4, 0)
    assert set(concurrent.futures.as_completed(futures, timeout=60)) == set(futures)


def test_callbacks_may_launch_submit_and_fail(
    device: _pypto.Worker, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []
    done = threading.Event()

    def chain(future: LaunchFuture) -> None:
        seen.append(future.result()[0, 0].item())
        seen.append(line.add(full(1), full(1))[0, 0].item())
        device.synchronize()
        line.add.submit(full(5), full(5)).add_done_callback(
            lambda last: (seen.append(last.result()[0, 0].item()), done.set())
        )
        raise ValueError("of the callback")

    future = line.add.submit(full(1), full(2))
    future.add_done_callback(chain)
    assert done.wait(60)
    assert seen == [3.0, 2.0, 10.0]
    assert "of the callback" in caplog.text


def test_submit_waits_where_the_queue_is_full() -> None:
    with ChipWorker(RunConfig(device_memory=1 << 20, queue_depth=3)) as worker:
        assert worker._impl is not None
        line = Line(lambda *args, **kw: _register(worker, *args, **kw))
        first = [line.block() for _ in range(3)]
        assert not first[0].done()
        fourth = line.block()
        assert first[0].done(), "the queue took more than it has room for"
        assert fourth.result(60) is None


def test_a_callback_submits_where_the_queue_is_full() -> None:
    with ChipWorker(RunConfig(device_memory=1 << 20, queue_depth=1)) as worker:
        line = Line(lambda *args, **kw: _register(worker, *args, **kw))
        more: list[LaunchFuture] = []
        future = line.block()
        future.add_done_callback(lambda _: more.extend(line.add.submit(full(1), full(2)) for _ in range(3)))
        future.result(60)
        worker.synchronize()
        line.block(1).result(60)
        assert [torch.equal(future.result(60), full(3)) for future in more] == [True] * 3


def _register(
    worker: ChipWorker, program: _pypto.Program, outputs: tuple[int, ...] = (2,), *, has_return: bool = True
) -> RegistrationHandle:
    assert worker._impl is not None
    return worker._impl.register(program, owner=worker, compiled=None, output_indices=outputs, has_return=has_return)


def test_close_runs_what_is_queued_and_ends_the_threads() -> None:
    before = set(queue_threads())
    worker = ChipWorker(RunConfig(device_memory=1 << 20))
    line = Line(lambda *args, **kw: _register(worker, *args, **kw))
    line.block()
    futures = [line.add.submit(full(1), full(index)) for index in range(20)]
    assert len(set(queue_threads()) - before) == 1
    worker.close()
    assert [future.result(0)[0, 0].item() for future in futures] == [index + 1 for index in range(20)]
    assert before.issuperset(queue_threads())
    with pytest.raises(RuntimeError, match="requires an initialized ChipWorker"):
        worker.synchronize()


def test_a_callback_closes_the_worker() -> None:
    worker = ChipWorker(RunConfig(device_memory=1 << 20))
    line = Line(lambda *args, **kw: _register(worker, *args, **kw))
    future = line.add.submit(full(1), full(2))
    closed = threading.Event()
    future.add_done_callback(lambda _: (worker.close(), closed.set()))
    assert closed.wait(60)
    assert not worker.initialized


def test_a_worker_that_is_forgotten_ends_its_threads() -> None:
    before = set(queue_threads())
    worker = ChipWorker(RunConfig(device_memory=1 << 20))
    handle = _register(worker, core.add())
    assert torch.equal(handle.submit(full(1), full(2)).result(60), full(3))
    worker.synchronize()
    del worker, handle
    gc.collect()
    for _ in range(1000):
        if before.issuperset(queue_threads()):
            break
        time.sleep(0.01)
    assert before.issuperset(queue_threads())


def test_a_signal_while_the_threads_start_leaves_one_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Exception):
        pass

    def handle(*_: object) -> None:
        raise Interrupted

    whole = threading.Event.wait

    def interrupted(self: threading.Event, timeout: float | None = None) -> bool:
        """As `Thread.start` waits for the thread that it has started."""
        started = whole(self, timeout)
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        return started

    before = set(queue_threads())
    previous = signal.signal(signal.SIGINT, handle)
    try:
        with ChipWorker(RunConfig(device_memory=1 << 20)) as worker:
            add = _register(worker, core.add())
            monkeypatch.setattr(threading.Event, "wait", interrupted)
            with pytest.raises(Interrupted):
                add.submit(full(1), full(2)).result(60)
            assert torch.equal(add.submit(full(1), full(2)).result(60), full(3))
            assert len(set(queue_threads()) - before) == 1
    finally:
        signal.signal(signal.SIGINT, previous)
    assert before.issuperset(queue_threads())


def test_a_worker_that_never_queued_has_no_threads(device: _pypto.Worker, line: Line) -> None:
    before = queue_threads()
    line.add(full(1), full(2))
    device.synchronize()
    assert queue_threads() == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads the threads of the process from /proc")
def test_the_queue_runs_while_python_computes(device: _pypto.Worker, line: Line) -> None:
    """The launcher does not need the interpreter: many launches are over although the main thread never lets go."""
    interval = sys.getswitchinterval()
    a, b, c = (upload(device, value) for value in (1, 2, 0))
    line.add.submit(a, b, c).result(60)
    begin = device.counters()["launches"]
    sys.setswitchinterval(30.0)
    try:
        for _ in range(32):
            line.add.submit(a, b, c)
        end = time.monotonic() + 20
        while device.counters()["launches"] < begin + 32 and time.monotonic() < end:
            pass
        assert device.counters()["launches"] == begin + 32
    finally:
        sys.setswitchinterval(interval)
