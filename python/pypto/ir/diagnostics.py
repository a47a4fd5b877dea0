"""Places in source, diagnostics, and the exceptions that carry them."""

from __future__ import annotations

import linecache
import warnings
from dataclasses import dataclass
from typing import NamedTuple

from pypto.errors import Error

MAX_REPORTED = 20
"""A broken file produces follow-up mistakes; more than this many help nobody."""


MAX_MESSAGE = 1000
"""Characters of a message. It may name what the source says, and generated source may say a lot."""

MAX_SHOWN = 200
"""Characters of a source line in a report."""


MAX_CALLS = 10
"""Calls on the way to a mistake that are shown: the innermost, and the outermost. Deep ones are recursion."""


class Loc(NamedTuple):
    """A place in source: file, line (1-based), column (0-based), and the column where it ends (0: unknown)."""

    file: str
    line: int
    col: int
    end: int = 0


class OnChipMemoryWarning(UserWarning):
    """A kernel keeps more on chip at once than the real chip has room for. The simulated chip runs it all the same."""


NOWHERE = Loc("", 0, 0)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake in a kernel.

    Attributes:
        kind: `type`, `value`, `syntax`, `codegen` or `unsupported`; it decides the exception's class.
        message: What is wrong, in the language's words.
        loc: Where.
        hint: What to write instead.
        chain: The calls that led there.
    """

    kind: str
    message: str
    loc: Loc
    hint: str
    chain: tuple[tuple[str, Loc], ...] = ()

    def render(self) -> str:
        """The text for people: place, source line with a caret, the message, the fix, the callers."""
        message = self.message if len(self.message) <= MAX_MESSAGE else f"{self.message[:MAX_MESSAGE]}..."
        lines = [f"{self.loc.file}:{self.loc.line}:{self.loc.col + 1}: {message}"]
        source = linecache.getline(self.loc.file, self.loc.line).rstrip("\n")
        if source:
            shown, col = _around(source, self.loc.col)
            width = max(1, min(self.loc.end - self.loc.col, len(shown) - col)) if self.loc.end else 1
            lines.append(f"    {shown}")
            lines.append(f"    {' ' * col}{'^' * width}")
        lines.append(f"  help: {self.hint}")
        calls = [f"  in {name}, called at {loc.file}:{loc.line}:{loc.col + 1}" for name, loc in reversed(self.chain)]
        if len(calls) > MAX_CALLS:
            half = MAX_CALLS // 2
            calls[half:-half] = [f"  ... {len(calls) - 2 * half} more calls"]
        lines += calls
        return "\n".join(lines)


_WARNED: dict[str | tuple[str, type[Warning], int], int] = {}
"""Which warnings were given, as `warnings` keeps it for each module: the same text at the same place comes once."""


def warn_of(diagnostic: Diagnostic, category: type[Warning]) -> None:
    """Warns of something at its place in the source, which `warnings` shows by itself."""
    text = f"{diagnostic.message}\n  help: {diagnostic.hint}"
    warnings.warn_explicit(text, category, diagnostic.loc.file, diagnostic.loc.line, registry=_WARNED)


def _around(line: str, col: int) -> tuple[str, int]:
    """A line as far as it is shown, and where its column `col` is in that. Generated lines may have megabytes."""
    if len(line) <= MAX_SHOWN:
        return line, col
    first = max(0, min(col - MAX_SHOWN // 4, len(line) - MAX_SHOWN))
    before, after = "..." if first else "", "..." if first + MAX_SHOWN < len(line) else ""
    return f"{before}{line[first : first + MAX_SHOWN]}{after}", col - first + len(before)


class KernelError(Error):
    """A kernel was refused. `diagnostics` holds every mistake that was found, in source order."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__(_report(diagnostics))

    def __str__(self) -> str:
        return _report(self.diagnostics)


class KernelTypeError(KernelError, TypeError):
    """An operand has the wrong type, shape or dtype."""


class KernelValueError(KernelError, ValueError):
    """A value does not fit: a bound, an extent, a constant."""


class KernelSyntaxError(KernelError, SyntaxError):
    """The kernel uses Python that is not part of the language."""


class KernelNotSupportedError(KernelError, NotImplementedError):
    """The kernel uses a part of the language that this version does not support yet."""


class PartialCodegenError(KernelError, RuntimeError):
    """A part of the program could not be generated: an `Out` parameter that nothing writes, for example."""


_CLASSES: dict[str, type[KernelError]] = {
    "type": KernelTypeError,
    "value": KernelValueError,
    "syntax": KernelSyntaxError,
    "unsupported": KernelNotSupportedError,
    "codegen": PartialCodegenError,
}


def error_for(diagnostics: list[Diagnostic]) -> KernelError:
    """The exception for these mistakes (at least one); its class follows the first in source order.

    A mistake in a function that is spliced many times is one mistake.
    """
    once: dict[object, Diagnostic] = {}
    for diagnostic in diagnostics:
        once.setdefault((diagnostic.message, diagnostic.loc), diagnostic)
    ordered = sorted(
        once.values(),
        key=lambda diagnostic: (diagnostic.loc.file, diagnostic.loc.line, diagnostic.loc.col),
    )
    return _CLASSES[ordered[0].kind](tuple(ordered))


def _report(diagnostics: tuple[Diagnostic, ...]) -> str:
    shown = [diagnostic.render() for diagnostic in diagnostics[:MAX_REPORTED]]
    if len(diagnostics) > MAX_REPORTED:
        shown.append(f"... and {len(diagnostics) - MAX_REPORTED} more")
    if len(diagnostics) > 1:
        shown.insert(0, f"{len(diagnostics)} mistakes in this kernel")
    return "\n".join(shown)
