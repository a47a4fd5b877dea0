"""`pypto inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.rule import Rule
from rich.syntax import Syntax

from pypto.cli import arguments
from pypto.cli.load import load
from pypto.cli.session import Request
from pypto.cli.usage import UsageError
from pypto.ir.nodes import Program
from pypto.ir.passes import outline, split_phases
from pypto.language.jit import JITFunction


@dataclass(frozen=True)
class View:
    """A kernel's IR as text, by pass."""

    kernel: str
    stages: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kernel": self.kernel, "passes": self.stages}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Each stage below a line with its name."""
        for name, text in self.stages.items():
            yield Rule(f"{self.kernel}: {name}", align="left")
            yield Syntax(text, "python", background_color="default", word_wrap=True)


def inspect_kernel(request: Request, stage: str | None) -> View:
    """The IR of a kernel after the frontend and after each pass.

    Raises:
        UsageError: There is no such pass.
    """
    kernel = load(request.target)
    function = kernel.function
    if isinstance(function, JITFunction):
        dims, given = arguments.pairs(request.dims, "--dim"), arguments.pairs(request.given, "--arg")
        program: Program = function.lower(*arguments.build(kernel, dims, given, request.seed).values())
    else:
        program = function
    outlined = outline(program)
    stages = {
        "frontend": program.as_python(),
        "outline": outlined.as_python(),
        "phases": split_phases(outlined).as_python(),
    }
    if stage is None:
        return View(kernel.name, stages)
    if stage not in stages:
        raise UsageError(f"there is no pass {stage!r}; there are {', '.join(stages)}")
    return View(kernel.name, {stage: stages[stage]})
