"""What sanitizers report: `SanitizerError` and its findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pypto import failures

KINDS: Final = ("race", "uninit", "bounds")
"""Every sanitizer of `RunConfig(sanitize=...)`."""


@dataclass(frozen=True)
class Box:
    """A box of a tensor or a tile.

    Attributes:
        tensor: Its name in the source.
        dtype: Its element type, such as `FP32`.
        shape: Its extents.
        offsets: First element of the box along each axis. What is no box of the tensor is a range of the flattened one.
        extents: Elements of the box along each axis.
    """

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Access:
    """One access of a task.

    Attributes:
        action: `read`, `write` or `atomic add`.
        kernel: The kernel; the entry, where the orchestration itself reads or writes an element.
        block: Block of the task, from 0.
        blocks: How many blocks the task has.
        file: Source file of the access.
        line: Line of the access.
        launch_file: Source file of the launch.
        launch_line: Line of the launch.
        memory: The box that it touches.
    """

    action: str
    kernel: str
    block: int
    blocks: int
    file: str
    line: int
    launch_file: str
    launch_line: int
    memory: Box


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        kind: Which sanitizer found it, one of `KINDS`.
        message: What is wrong and what to do.
        accesses: The access; of a race both, the earlier in program order first.
        memory: What it is about; of a race the box that both touch.
    """

    kind: str
    message: str
    accesses: tuple[Access, ...]
    memory: Box


class SanitizerError(RuntimeError):
    """A launch under `RunConfig(sanitize=...)` did what a real chip would not forgive.

    The launch ran to its end: resident tensors hold its results, host tensors were not written. Its attribute
    `findings` has the first 20 findings; the text has them too, and the number of the others.
    """

    code = "sanitizer_findings"

    def __init__(self, text: str, findings: list[dict[str, Any]]) -> None:
        super().__init__(text)
        self.findings: tuple[Finding, ...] = tuple(map(_finding, findings))


def _finding(plain: dict[str, Any]) -> Finding:
    accesses = tuple(Access(**{**access, "memory": _box(access["memory"])}) for access in plain["accesses"])
    return Finding(plain["kind"], plain["message"], accesses, _box(plain["memory"]))


def _box(plain: dict[str, Any]) -> Box:
    return Box(plain["tensor"], plain["dtype"], *(tuple(plain[name]) for name in ("shape", "offsets", "extents")))


def parse(name: str, value: object, failure: failures.Failure = failures.SETTING_VALUE) -> tuple[str, ...]:
    """Names of sanitizers, from an iterable or from text with commas.

    Raises:
        TypeError: It is neither.
        ValueError: A name is no sanitizer.
    """
    expected = f"{name} must be {', '.join(map(repr, KINDS))}, several of them separated by commas or in an iterable"
    try:
        items = value.split(",") if isinstance(value, str) else list(value)  # type: ignore[call-overload]
    except TypeError:
        raise failures.SETTING_TYPE(f"{expected}, or None, got {value!r}") from None
    names = [item.strip() if isinstance(item, str) else item for item in items]
    for item in names:
        if item not in KINDS and item != "":
            raise failure(f"{expected}; {item!r} is none")
    return tuple(kind for kind in KINDS if kind in names)
