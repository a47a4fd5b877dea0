"""Options that commands share, each in one place."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pypto.cli.completion import complete_argument, complete_dimension, complete_resident, complete_target
from pypto.cli.usage import UsageError

_PANEL = "Arguments of the kernel"

Kernel = Annotated[
    str,
    typer.Argument(metavar="FILE[:KERNEL]", help="A file with kernels, and which one.", autocompletion=complete_target),
]
OtherKernel = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE[:KERNEL]", help="A second kernel to compare the first with.", autocompletion=complete_target
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
_Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="M=16",
        help="Extent of a dynamic dimension.",
        rich_help_panel=_PANEL,
        autocompletion=complete_dimension,
    ),
]
_Given = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="x=16x1024:fp16",
        help="Shape and dtype of a tensor, or the value of a scalar.",
        rich_help_panel=_PANEL,
        autocompletion=complete_argument,
    ),
]


def _resident(text: str) -> Any:
    return typer.Option(
        "--resident", metavar="x,w", help=text, rich_help_panel=_PANEL, autocompletion=complete_resident
    )


_Resident = Annotated[str, _resident("Tensors to keep on the device.")]
OfAll = Annotated[str, _resident("Tensors to keep on the device; this command keeps all there.")]
_Seed = Annotated[
    int, typer.Option("--seed", help="Seed of the random arguments.", rich_help_panel=_PANEL, min=0, max=2**32 - 1)
]
_Cores = Annotated[
    int | None,
    typer.Option(
        "--cores", help="Cores of the simulated chip; the CPUs of this process if not given.", min=1, max=1024
    ),
]
OneCore = Annotated[
    int | None,
    typer.Option(
        "--cores", help="Cores of the simulated chip, 1 if not given: then times add up to work.", min=1, max=1024
    ),
]

_KERNEL: dict[str, tuple[Any, Any]] = {
    "target": (Kernel, inspect.Parameter.empty),
    "dims": (_Dims, None),
    "given": (_Given, None),
    "resident": (_Resident, ""),
    "seed": (_Seed, 0),
    "cores": (_Cores, None),
}
"""The fields of `Request` as options, with their defaults."""


def to_write(text: str, *names: str, metavar: str | None = None) -> Any:
    """An option for a file to be written.

    Args:
        text: What is written there.
        names: What the option is called; as its parameter if not given.
        metavar: What stands for the file in the help.
    """
    return typer.Option(*names, help=text, metavar=metavar, dir_okay=False, callback=_in_a_directory)


def _in_a_directory(path: Path | None) -> Path | None:
    """Checks a file to be written before anything is measured: minutes later the results would be lost.

    Raises:
        UsageError: Its directory does not exist.
    """
    if path is not None and not path.parent.is_dir():
        raise UsageError(f"there is no directory '{path.parent}': make it, or name another file")
    return path


def about_a_kernel(*without: str, **instead: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes the first parameter of a command, a `Request`, from the options that say which kernel and its arguments.

    Args:
        without: Fields of `Request` that the command has no option for.
        instead: Options that take the place of the common ones.
    """
    fields = {name: (instead.get(name, kind), default) for name, (kind, default) in _KERNEL.items()}
    fields = {name: field for name, field in fields.items() if name not in without}

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(command, globalns=_with_request(command), include_extras=True)
        own = list(inspect.signature(command).parameters.values())[1:]

        @functools.wraps(command)
        def run(**words: Any) -> None:
            from pypto.cli.session import Request

            chosen = {name: words.pop(name) for name in fields}
            for name in ("dims", "given"):
                chosen[name] = tuple(chosen[name] or ())
            command(Request(**chosen), **words)

        def parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
            return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

        parameters = [parameter(name, *field) for name, field in fields.items()]
        parameters += [parameter(one.name, hints[one.name], one.default) for one in own]
        # `typer` reads both, and must not look behind them.
        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return wrap


def _with_request(command: Callable[..., None]) -> dict[str, Any]:
    """The names that annotations of a command may use; `Request` is not imported where no command runs."""
    return {**getattr(command, "__globals__", {}), "Request": Any}
