"""`pypto inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from pypto.cli.graph import write_graph
from pypto.cli.load import load
from pypto.cli.session import Request, compile_for, host_arguments
from pypto.cli.usage import PASSES, UsageError, check_ending
from pypto.ir.nodes import Program
from pypto.ir.passes import outline, split_phases
from pypto.ir.passes.on_chip import Occupancy, Tile, on_chip_use
from pypto.language.jit import JITFunction
from pypto.runtime.profiling import Task, task_graph

_KIB = 1024


@dataclass(frozen=True)
class View:
    """What a kernel is made of.

    Attributes:
        kernel: Its name.
        stages: Its IR as text, by pass.
        memory: What its scopes keep on chip at once.
        only_memory: Show that instead of the IR.
    """

    kernel: str
    stages: dict[str, str]
    memory: list[Occupancy]
    only_memory: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kernel": self.kernel, "passes": self.stages, "memory": [_plain(one) for one in self.memory]}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Each stage below a line with its name, or the memory map.

        Outside of a terminal a stage is text that Python reads: nothing is wrapped, and its name is a comment.
        """
        if self.only_memory:
            yield self._map()
            yield (
                "Of each buffer the moment when most is in it, as on a 910B: a result may take the place of an operand "
                "that is not used again. The simulated chip has room for more."
            )
            return
        for name, text in self.stages.items():
            if not console.is_terminal:
                yield Text(f"# {self.kernel}: {name}\n{text}", no_wrap=True, overflow="ignore")
                continue
            yield Rule(f"{self.kernel}: {name}", align="left")
            yield Syntax(text, "python", background_color="default", word_wrap=True)

    def _map(self) -> Table:
        table = Table(title=f"{self.kernel}: on-chip buffers", title_justify="left")
        for name in ("scope", "buffer", "line", "KiB", "of", "tiles then, KiB"):
            table.add_column(name, justify="right" if name in ("line", "KiB", "of") else "left")
        for one in self.memory:
            share = f"{one.capacity // _KIB} {one.used / one.capacity:.0%}"
            tiles = "\n".join(f"{_short(tile)} {tile.nbytes / _KIB:g}" for tile in one.tiles)
            style = "bold red" if one.used > one.capacity else ""
            table.add_row(
                one.kernel, one.space.value, str(one.loc.line), f"{one.used / _KIB:g}", share, tiles, style=style
            )
            table.add_section()
        return table


def inspect_kernel(request: Request, stage: str | None, only_memory: bool) -> View:
    """The IR of a kernel after the frontend and after each pass, and what its scopes keep on chip.

    Raises:
        UsageError: There is no such pass.
    """
    kernel = load(request.target)
    function, args = kernel.function, host_arguments(kernel, request).values()
    program: Program = function.lower(*args) if isinstance(function, JITFunction) else function
    outlined = outline(program)
    texts = (program.as_python(), outlined.as_python(), split_phases(outlined).as_python())
    stages = dict(zip(PASSES, texts, strict=True))
    if stage is not None:
        if stage not in stages:
            raise UsageError(f"there is no pass {stage!r}; there are {', '.join(stages)}")
        stages = {stage: stages[stage]}
    return View(kernel.name, stages, on_chip_use(outlined), only_memory)


@dataclass(frozen=True)
class Drawn:
    """A task graph on disk."""

    kernel: str
    path: Path
    tasks: tuple[Task, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {"kernel": self.kernel, "path": str(self.path), "tasks": [vars(task) for task in self.tasks]}

    def __str__(self) -> str:
        """What was drawn, and what opens it."""
        tasks = "1 task" if len(self.tasks) == 1 else f"{len(self.tasks):,} tasks"
        return f"{tasks} of {self.kernel} in {self.path}; open it with a browser"


def write_task_graph(request: Request, path: Path) -> Drawn:
    """Launches a kernel once and draws its tasks.

    Raises:
        UsageError: The file is no SVG.
    """
    check_ending("--graph", path, (".svg",))
    kernel = load(request.target)
    args = list(host_arguments(kernel, request).values())
    tasks = task_graph(compile_for(kernel, args), *args)
    write_graph(kernel.name, tasks, path)
    return Drawn(kernel.name, path, tasks)


def _short(tile: Tile) -> str:
    """A tile in one line of a narrow column: `scores [64, 64] FP32`."""
    shape, _, dtype = tile.type.removeprefix("pl.Tile[").removesuffix("]").rpartition(", pl.")
    return f"{tile.name} {shape} {dtype}"


def _plain(one: Occupancy) -> dict[str, Any]:
    return {
        "scope": one.kernel,
        "buffer": one.space.value,
        "used": one.used,
        "capacity": one.capacity,
        "file": one.loc.file,
        "line": one.loc.line,
        "tiles": [vars(tile) for tile in one.tiles],
    }
