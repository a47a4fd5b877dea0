"""`LaunchFuture`: what becomes of a queued launch."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto import _pypto


class LaunchFuture(Future[Any]):
    """A queued launch, as `handle.submit(...)` returns it: a `concurrent.futures.Future` that can be awaited too.

    `concurrent.futures.wait` and `as_completed` take it. Its result is that of the call: None in-place, else the
    output or a tuple of outputs. Callbacks run on a thread of the worker, one after the other; they may launch and
    submit.
    """

    _launch: _pypto.QueuedLaunch | None = None

    def cancel(self) -> bool:
        """Takes the launch out of the queue; False where it has begun, which is then not stopped."""
        return self._launch is not None and self._launch.cancel() and super().cancel()

    def running(self) -> bool:
        """Whether the launch has begun and is not over."""
        return self._launch is not None and self._launch.begun() and not self.done()

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the launch and returns what the call would have.

        Raises:
            TimeoutError: It is not over after `timeout` seconds. It stays queued.
            concurrent.futures.CancelledError: It was cancelled.
            RuntimeError: This process is a fork of the one that queued it, or a signal handler waits inside a call on
                the worker.
            Exception: What the launch raised.
        """
        self._check_wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the launch and returns what it raised, None if nothing.

        Raises:
            TimeoutError: It is not over after `timeout` seconds.
            concurrent.futures.CancelledError: It was cancelled.
            RuntimeError: As for `result`.
        """
        self._check_wait()
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, Any]:
        """Waits in an event loop. Cancelling the task cancels the launch, if that has not begun."""
        import asyncio  # loaded by then; `import pypto` would pay 25 ms for it

        self._check_wait()
        return asyncio.wrap_future(self).__await__()

    def _check_wait(self) -> None:
        if self._launch is not None and not self.done():
            self._launch.check_wait()

    def _finish(self, cancelled: bool, result: Any, error: BaseException | None) -> None:
        """How the worker tells the end. Not for others."""
        if cancelled:
            super().cancel()
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result)


def finished(handle: Any, args: tuple[Any, ...], config: Any) -> LaunchFuture:
    """Launches now, and returns the future of a launch that is over."""
    future = LaunchFuture()
    try:
        future.set_result(handle(*args, config=config))
    except Exception as error:
        future.set_exception(error)
    return future
