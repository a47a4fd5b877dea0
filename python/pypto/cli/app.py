"""The commands. Each is a few lines here and a module of its own for what it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pypto.cli.usage import EXIT_FAILED, UsageError

app = typer.Typer(
    name="pypto",
    help="Run, measure, trace and inspect tile kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Target = Annotated[str, typer.Argument(metavar="FILE[:KERNEL]", help="A file with kernels, and which one.")]
_ARGUMENTS = "Arguments of the kernel"
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="M=16", help="Extent of a dynamic dimension.", rich_help_panel=_ARGUMENTS),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="x=16x1024:fp16",
        help="Shape and dtype of a tensor, or the value of a scalar.",
        rich_help_panel=_ARGUMENTS,
    ),
]
Resident = Annotated[
    str, typer.Option(metavar="x,w", help="Tensors to keep on the device.", rich_help_panel=_ARGUMENTS)
]
Seed = Annotated[int, typer.Option(help="Seed of the random arguments.", rich_help_panel=_ARGUMENTS)]
Cores = Annotated[int | None, typer.Option(help="Cores of the simulated chip; the CPUs of this process if not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command(epilog="Example: pypto run kernels.py:scale --dim M=64 --arg factor=2")
def run(
    target: Target,
    dim: Dims = None,
    arg: Given = None,
    resident: Resident = "",
    seed: Seed = 0,
    cores: Cores = None,
    as_json: Json = False,
) -> None:
    """Launch a kernel once and say what came out."""
    from pypto.cli.run import run_once
    from pypto.cli.session import Request

    result = run_once(Request(target, tuple(dim or ()), tuple(arg or ()), resident, seed, cores))
    show(result.to_dict() if as_json else result)


@app.command(epilog="Example: pypto bench kernels.py:scale --dim M=64 --arg factor=2 --resident x --report out.html")
def bench(
    target: Target,
    other: Annotated[
        str | None, typer.Argument(metavar="FILE[:KERNEL]", help="A second kernel to compare the first with.")
    ] = None,
    dim: Dims = None,
    arg: Given = None,
    resident: Resident = "",
    seed: Seed = 0,
    cores: Cores = None,
    rounds: Annotated[int, typer.Option(help="Measured launches.")] = 100,
    warmup: Annotated[int, typer.Option(help="Launches before them.")] = 3,
    stable: Annotated[bool, typer.Option("--stable", help="Go on until the medians have come to rest.")] = False,
    baseline: Annotated[
        Path | None, typer.Option(help="Results of an earlier run to compare with.", exists=True, dir_okay=False)
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the results in this file.", dir_okay=False)] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.html", help="Write a page for a browser: split, timeline, tree, memory.", dir_okay=False
        ),
    ] = None,
    fail_above: Annotated[
        float | None, typer.Option(metavar="RATIO", help="End with code 3 where the host wall is slower by more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a kernel: host time and device time apart, and the bytes that crossed."""
    from pypto.cli.bench import Plan, bench_all
    from pypto.cli.session import Request

    if other is not None and baseline is not None:
        raise UsageError("a second kernel and --baseline: say one of both to compare with")
    if fail_above is not None and other is None and baseline is None:
        raise UsageError("--fail-above needs something to compare with: a second kernel, or --baseline FILE")
    first = Request(target, tuple(dim or ()), tuple(arg or ()), resident, seed, cores)
    second = Request(other, first.dims, first.given, resident, seed, cores) if other is not None else None
    outcome = bench_all(first, second, Plan(rounds, warmup, stable), baseline)
    if save is not None:
        save.write_text(outcome.stats.to_json(indent=1))
    if report is not None:
        from pypto.cli.report import write_report

        write_report(report, outcome, [first] if second is None else [first, second])
    show(outcome.to_dict() if as_json else outcome)
    raise typer.Exit(outcome.exit_code(fail_above))


@app.command(epilog="Example: pypto trace kernels.py:scale --dim M=64 --arg factor=2 -o run.json")
def trace(
    target: Target,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file: .json, .pftrace, or .strace for text.", dir_okay=False)
    ],
    dim: Dims = None,
    arg: Given = None,
    resident: Resident = "",
    seed: Seed = 0,
    cores: Cores = None,
    rounds: Annotated[int, typer.Option(help="Launches in the timeline.", min=1)] = 3,
    as_json: Json = False,
) -> None:
    """Write a timeline of some launches, to be opened at ui.perfetto.dev."""
    from pypto.cli.session import Request
    from pypto.cli.timeline import write_timeline

    request = Request(target, tuple(dim or ()), tuple(arg or ()), resident, seed, cores)
    written = write_timeline(request, output, rounds)
    show(written.to_dict() if as_json else written)


@app.command()
def memory(
    target: Target,
    dim: Dims = None,
    arg: Given = None,
    resident: Resident = "",
    seed: Seed = 0,
    cores: Cores = None,
    rounds: Annotated[int, typer.Option(help="Launches before the look.", min=1)] = 1,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            help="Write the past of the memory: .pickle for memory_viz, else JSON for Perfetto.", dir_okay=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Launch a kernel and show the device memory, and what the kernel needs of it."""
    from pypto.cli.memory import measure_memory
    from pypto.cli.session import Request

    request = Request(target, tuple(dim or ()), tuple(arg or ()), resident, seed, cores)
    found = measure_memory(request, rounds, snapshot)
    show(found.to_dict() if as_json else found)


@app.command(epilog="Example: pypto inspect kernels.py:scale --dim M=64 --arg factor=2 --pass outline")
def inspect(
    target: Target,
    dim: Dims = None,
    arg: Given = None,
    stage: Annotated[str | None, typer.Option("--pass", metavar="NAME", help="Only after this pass.")] = None,
    as_json: Json = False,
) -> None:
    """Print the IR of a kernel after each pass."""
    from pypto.cli.inspect import inspect_kernel
    from pypto.cli.session import Request

    view = inspect_kernel(Request(target, tuple(dim or ()), tuple(arg or ())), stage)
    show(view.to_dict() if as_json else view)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look at this machine and this installation: what is slow here, and how to mend it."""
    from pypto.cli.doctor import examine

    report = examine()
    show(report.to_dict() if as_json else report)
    raise typer.Exit(0 if report.healthy else EXIT_FAILED)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all compiled directories.")] = False,
    as_json: Json = False,
) -> None:
    """List the compiled programs on disk, or remove them."""
    from pypto.cli.cache import look

    found = look(clear)
    show(found.to_dict() if as_json else found)


def version(wanted: bool) -> None:
    """Prints the version and ends."""
    if wanted:
        from pypto import __version__

        typer.echo(f"pypto {__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run, measure, trace and inspect tile kernels."""


def show(result: Any) -> None:
    """Prints JSON for plain data, else what `rich` makes of it."""
    if isinstance(result, dict):
        print(json.dumps(result, indent=1))
    elif hasattr(result, "__rich_console__"):
        Console().print(result, highlight=False, crop=False)
    else:
        print(result)


def main() -> None:
    """The entry point. A kernel that is refused or fails ends with code 1 and its own message, not with a traceback."""
    try:
        app(prog_name="pypto")  # also as `python -m pypto.cli`
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError, OverflowError) as error:
        text = str(error) if str(error) else type(error).__name__
        print(f"pypto: {type(error).__name__}: {text}", file=sys.stderr)
        raise SystemExit(EXIT_FAILED) from None
