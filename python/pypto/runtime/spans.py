"""Spans of launches as data: `TraceSpan`, `TraceInvocation`, and the recorder that collects them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from pypto import _pypto

if TYPE_CHECKING:
    from typing_extensions import Self

RUN = "chip.run"
"""The span of a whole launch: host wall."""
DEVICE_WALL = "chip.run.runner_run.device_wall"
"""The span of the device's own work."""
H2D = "chip.run.h2d"
"""The span of all copies to the device; one for each parameter lies below."""
D2H = "chip.run.d2h"
"""The span of all copies from the device."""
_ORCH = f"{DEVICE_WALL}.orch"
_SCHED = f"{DEVICE_WALL}.sched"


@dataclass(frozen=True)
class TraceSpan:
    """One span of a launch.

    Attributes:
        pid: Process.
        tid: Thread.
        inv: Number of the launch in its process.
        hid: Content id of the program, hexadecimal.
        depth: How many spans it lies inside.
        name: Dotted path.
        ts: Begin in ns: of the monotonic clock on the host, since the begin of `device_wall` on the device.
        dur: Length in ns.
        attrs: What else is known, as `key=value` words. `timed_with=8`: the task was timed together with seven others,
            and `dur` is an eighth of their time.
    """

    pid: int
    tid: int
    inv: int
    hid: str
    depth: int
    name: str
    ts: int
    dur: int
    attrs: str = ""

    @property
    def is_device(self) -> bool:
        """Whether the device stamped it."""
        return "clk=dev" in self.attrs.split()

    @property
    def dur_us(self) -> float:
        """Length in microseconds."""
        return self.dur / 1000

    def attribute(self, key: str) -> str | None:
        """The value of `key` in `attrs`."""
        for word in self.attrs.split():
            name, _, value = word.partition("=")
            if name == key:
                return value
        return None


@dataclass
class TraceInvocation:
    """The spans of one launch.

    Attributes:
        pid: Process.
        inv: Number of the launch in its process; -1 for a mean of several.
        hid: Content id of the program, hexadecimal.
        spans: In the order in which they ended.
        task_name: Name of the program; the content id where it is not known.
    """

    pid: int
    inv: int
    hid: str
    spans: list[TraceSpan] = field(default_factory=list)
    task_name: str = ""

    def __post_init__(self) -> None:
        """Falls back to the content id."""
        self.task_name = self.task_name or self.hid

    @property
    def task(self) -> str:
        """The content id of the program."""
        return self.hid

    def root(self) -> TraceSpan | None:
        """The span of the whole launch."""
        return next((span for span in self.spans if span.depth == 0), None)

    def by_name(self) -> dict[str, TraceSpan]:
        """The first span of each name."""
        found: dict[str, TraceSpan] = {}
        for span in self.spans:
            found.setdefault(span.name, span)
        return found

    @property
    def host_wall_us(self) -> float:
        """The whole launch in us; 0.0 where it was not recorded."""
        root = self.root()
        return root.dur_us if root is not None else 0.0

    @property
    def device_wall_us(self) -> float:
        """The device's own work in us; 0.0 where it was not recorded."""
        span = self.by_name().get(DEVICE_WALL)
        return span.dur_us if span is not None else 0.0

    @property
    def effective_us(self) -> float:
        """From the first moment of orchestration or tasks to the last, in us; 0.0 where neither was recorded."""
        named = self.by_name()
        window = [named[name] for name in (_ORCH, _SCHED) if name in named]
        if not window:
            return 0.0
        return (max(span.ts + span.dur for span in window) - min(span.ts for span in window)) / 1000

    @property
    def h2d_bytes(self) -> int:
        """Bytes copied to the device."""
        return self._copied(H2D)

    @property
    def d2h_bytes(self) -> int:
        """Bytes copied from the device."""
        return self._copied(D2H)

    def _copied(self, name: str) -> int:
        span = self.by_name().get(name)
        return int(span.attribute("bytes") or 0) if span is not None else 0

    def format_tree(self, *, us: bool = True, value_fn: Callable[[TraceSpan], Iterable[str]] | None = None) -> str:
        """The spans as a tree.

        Args:
            us: Microseconds with one decimal instead of nanoseconds.
            value_fn: Columns of a span instead of its length.
        """
        from pypto.runtime.span_tree import format_tree

        return format_tree(self.spans, us=us, value_fn=value_fn)


class Recorder:
    """Collects the launches of all threads while it is open."""

    def __init__(self) -> None:
        self._recording = _pypto.Recording()
        self._pending: dict[int, list[_pypto._Span]] = {}
        self.dropped = 0

    def take(self) -> list[TraceInvocation]:
        """The launches that ended since the last call, in their order."""
        pid, spans, dropped = self._recording.drain()
        self.dropped += dropped
        ended = []
        for span in spans:
            inv, depth = span[1], span[2]
            if inv == 0:  # of no launch: copies, allocations, and what only looks at another launch
                continue
            self._pending.setdefault(inv, []).append(span)
            if depth == 0:
                ended.append(inv)
        return [_invocation(pid, inv, self._pending.pop(inv)) for inv in sorted(set(ended))]

    def __enter__(self) -> Self:
        """Records from the construction on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops recording."""
        self._recording.stop()


def _invocation(pid: int, inv: int, raw: list[_pypto._Span]) -> TraceInvocation:
    hid = next((f"{arg:x}" for _, _, depth, _, _, _, arg, *_ in raw if depth == 0), "0")
    device = [(name, ts) for _, _, _, name, ts, *_, is_device in raw if is_device]
    walls = [ts for name, ts in device if name == DEVICE_WALL]
    origin = walls[0] if walls else min((ts for _, ts in device), default=0)
    spans = []
    for tid, _, depth, name, ts, dur, arg, attribute, core, timed_with, is_device in raw:
        words = [f"{attribute}={arg}"] if attribute else []
        if core is not None:
            words.append(f"core={core}")
        if timed_with > 1:
            words.append(f"timed_with={timed_with}")
        if is_device:
            words.append("clk=dev")
        spans.append(TraceSpan(pid, tid, inv, hid, depth, name, ts - origin if is_device else ts, dur, " ".join(words)))
    spans.sort(key=lambda span: (span.is_device, span.ts + span.dur, -span.depth))
    return TraceInvocation(pid, inv, hid, spans)
