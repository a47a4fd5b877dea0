"""The commands. Each is a few lines here and a module of its own for what it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pypto.cli import completion
from pypto.cli.options import Json, OfAll, OneCore, OtherKernel, about_a_kernel, to_write
from pypto.cli.usage import EXIT_FAILED, UsageError, check_ending

if TYPE_CHECKING:
    from pypto.cli.session import Request

app = typer.Typer(
    name="pypto",
    help="Run, measure, profile, trace and inspect tile kernels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(epilog="Example: pypto run kernels.py:scale --dim M=64 --arg factor=2")
@about_a_kernel()
def run(request: Request, *, as_json: Json = False) -> None:
    """Launch a kernel once and say what came out."""
    from pypto.cli.run import run_once

    show(run_once(request), as_json)


@app.command(epilog="Example: pypto bench kernels.py:scale --dim M=64 --arg factor=2 --resident x --report out.html")
@about_a_kernel()
def bench(
    request: Request,
    *,
    other: OtherKernel = None,
    rounds: Annotated[int, typer.Option(help="Measured launches.", min=1)] = 100,
    warmup: Annotated[int, typer.Option(help="Launches before them.", min=0)] = 3,
    stable: Annotated[bool, typer.Option("--stable", help="Go on until the medians have come to rest.")] = False,
    baseline: Annotated[
        Path | None, typer.Option(help="Results of an earlier run to compare with.", exists=True, dir_okay=False)
    ] = None,
    save: Annotated[Path | None, to_write("Keep the results in this file.")] = None,
    report: Annotated[
        Path | None,
        to_write("Write a page for a browser: split, timeline, tree, roofline, memory.", metavar="OUT.html"),
    ] = None,
    fail_above: Annotated[
        float | None, typer.Option(metavar="RATIO", help="End with code 3 where the host wall is slower by more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure a kernel: host time and device time apart, and the bytes that crossed."""
    from dataclasses import replace

    from pypto.cli.bench import Plan, bench_all
    from pypto.cli.session import fitting

    if other is not None and baseline is not None:
        raise UsageError("a second kernel and --baseline: say one of both to compare with")
    if fail_above is not None and other is None and baseline is None:
        raise UsageError("--fail-above needs something to compare with: a second kernel, or --baseline FILE")
    if fail_above is not None and not 0 < fail_above < float("inf"):
        raise UsageError(f"--fail-above takes a ratio above 0, as in 1.1; got {fail_above:g}")
    requests = [request] if other is None else fitting([request, replace(request, target=other)])
    outcome = bench_all(requests, Plan(rounds, warmup, stable), baseline)
    if save is not None:
        save.write_text(outcome.stats.to_json(indent=1))
    if report is not None:
        from pypto.cli.report import write_report

        write_report(report, outcome, requests)
    show(outcome, as_json)
    raise typer.Exit(outcome.exit_code(fail_above))


@app.command(epilog="Example: pypto profile kernels.py:scale --dim M=64 --arg factor=2 --roofline roof.svg")
@about_a_kernel(resident=OfAll, cores=OneCore)
def profile(
    request: Request,
    *,
    launches: Annotated[int, typer.Option(help="Measured launches.", min=1)] = 20,
    source: Annotated[bool, typer.Option("--source", help="Show the source with the costs of each line.")] = False,
    roofline: Annotated[
        Path | None, to_write("Write a plot; needs the extra `plot`.", metavar="OUT.png|OUT.svg")
    ] = None,
    fresh_peaks: Annotated[bool, typer.Option("--fresh-peaks", help="Measure again what this machine can do.")] = False,
    as_json: Json = False,
) -> None:
    """Show where the device time goes: time, bytes and flops of each operation, beside what this machine can do."""
    from pypto.cli.profile import View, profile_kernel
    from pypto.runtime.profiling.roofline import ENDINGS

    if roofline is not None:
        check_ending("--roofline", roofline, ENDINGS)
    found = profile_kernel(request, launches, fresh_peaks)
    if roofline is not None:
        found.roofline(roofline)
    if source and not as_json:
        # Not by `rich`: lines of source are as long as they are.
        print(found.source())
        return
    show(View(found, roofline), as_json)


@app.command(epilog="Example: pypto trace kernels.py:scale --dim M=64 --arg factor=2 -o run.json")
@about_a_kernel()
def trace(
    request: Request,
    *,
    output: Annotated[Path, to_write("The file: .json, .pftrace, or .strace for text.", "--output", "-o")],
    rounds: Annotated[int, typer.Option(help="Launches in the timeline.", min=1)] = 3,
    as_json: Json = False,
) -> None:
    """Write a timeline of some launches, to be opened at ui.perfetto.dev."""
    from pypto.cli.timeline import write_timeline

    show(write_timeline(request, output, rounds), as_json)


@app.command()
@about_a_kernel()
def memory(
    request: Request,
    *,
    rounds: Annotated[int, typer.Option(help="Launches before the look.", min=1)] = 1,
    snapshot: Annotated[
        Path | None, to_write("Write the past of the memory: .pickle for memory_viz, else JSON for Perfetto.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Launch a kernel and show the device memory, and what the kernel needs of it."""
    from pypto.cli.memory import measure_memory

    show(measure_memory(request, rounds, snapshot), as_json)


@app.command(epilog="Example: pypto inspect kernels.py:scale --dim M=64 --arg factor=2 --pass outline")
@about_a_kernel("cores", resident=OfAll)
def inspect(
    request: Request,
    *,
    stage: Annotated[
        str | None,
        typer.Option("--pass", metavar="NAME", help="Only after this pass.", autocompletion=completion.complete_pass),
    ] = None,
    memory_map: Annotated[
        bool, typer.Option("--memory", help="What lies in the on-chip buffers at once, instead of the IR.")
    ] = False,
    graph: Annotated[
        Path | None, to_write("Launch once and draw the tasks, instead of printing the IR.", metavar="OUT.svg")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the IR of a kernel after each pass, its on-chip memory, or draw its tasks."""
    from pypto.cli.inspect import inspect_kernel, write_task_graph

    if graph is not None:
        if memory_map or stage is not None:
            raise UsageError("--graph draws the tasks and shows nothing else: leave out --pass and --memory")
        show(write_task_graph(request, graph), as_json)
        return
    show(inspect_kernel(request, stage, memory_map), as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look at this machine and this installation: what is slow here, and how to mend it."""
    from pypto.cli.doctor import examine

    report = examine()
    show(report, as_json)
    raise typer.Exit(0 if report.healthy else EXIT_FAILED)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all compiled directories.")] = False,
    as_json: Json = False,
) -> None:
    """List the compiled programs on disk, or remove them."""
    from pypto.cli.cache import look

    show(look(clear), as_json)


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
    """Run, measure, profile, trace and inspect tile kernels."""


def show(result: Any, as_json: bool) -> None:
    """Prints a result as JSON, or what `rich` makes of it."""
    if as_json:
        print(json.dumps(result.to_dict(), indent=1))
    elif hasattr(result, "__rich_console__"):
        Console().print(result, highlight=False, crop=False)
    else:
        print(result)


def main() -> None:
    """The entry point. A kernel that is refused or fails ends with code 1 and its own message, not with a traceback."""
    completion.rejoin()
    try:
        app(prog_name="pypto")  # also as `python -m pypto.cli`
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except (MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError, OverflowError) as error:
        text = str(error) if str(error) else type(error).__name__
        print(f"pypto: {type(error).__name__}: {text}", file=sys.stderr)
        raise SystemExit(EXIT_FAILED) from None
