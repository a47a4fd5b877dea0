"""What a launch costs from Python in each style, with few and many arguments, resident and on the host.

``python benches/python/styles.py [--write]`` measures and prints the table; ``--write`` also keeps the figures in
``styles.json`` beside this file and puts the table into ``benches/README.md``, ``README.md`` and ``docs/launching.md``.
``--render`` does the latter from the figures that are there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
import timeit
from pathlib import Path
from typing import Any

import torch
from measure import Result

from pypto.ir import CompiledProgram
from pypto.runtime import ChipWorker, RunConfig

HERE = Path(__file__).parent
FIGURES = HERE / "styles.json"
PAGES = [HERE.parent / "README.md", HERE.parents[1] / "README.md", HERE.parents[1] / "docs" / "launching.md"]
MARKS = ("<!-- launch styles: written by benches/python/styles.py -->", "<!-- end of launch styles -->")

COUNTS = (0, 3, 30, 300)
SHAPE = (16, 16)
MANY = 1216
STYLES = {
    "implicit": ("compiled(*args)", "compiled({args})"),
    "run": ("w.run(compiled, *args)", "w.run(compiled, {args})"),
    "handle": ("handle(*args)", "handle({args})"),
    "bound": ("bound()", "bound()"),
    "submitted": ("handle.submit(*args)", "handle.submit({args})"),
    "bound_submitted": ("bound.submit()", "bound.submit()"),
}
"""What the table calls a style, and the statement that is timed."""

_SOURCE = """
import pypto.language as pl


@pl.jit.incore
def add({params}):
    out = pl.store(pl.add(pl.load(t0, [0, 0], [16, 16]), pl.load(t1, [0, 0], [16, 16])), [0, 0], out)
    return out


@pl.jit
def launch({params}):
    out = add({names})
    return out
"""
_EMPTY = """
import pypto.language as pl


@pl.jit
def launch():
    with pl.at(level=pl.Level.CORE_GROUP):
        nothing = pl.create_tensor([1, 16], pl.FP32)
"""


def program(count: int) -> CompiledProgram:
    """A program with `count` tensors of 1 KiB, which adds the first two into the last one: all else is the launch."""
    names = [f"t{index}" for index in range(count - 1)]
    params = ", ".join([*(f"{name}: pl.Tensor" for name in names), "out: pl.Out[pl.Tensor]"])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"launch_{count}.py"
        path.write_text(_SOURCE.format(params=params, names=", ".join([*names, "out"])) if count else _EMPTY)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        compiled: CompiledProgram = module.launch.compile(*(torch.ones(SHAPE) for _ in range(count)))
        return compiled


def measure(w: ChipWorker, count: int, *, resident: bool, samples: int) -> dict[str, float]:
    """Nanoseconds of a launch in each style: the median over rounds in which the styles take turns."""
    compiled = program(count)
    hosts = [torch.ones(SHAPE) for _ in range(count)]
    residents = [w.alloc_tensor(SHAPE, torch.float32, init=host) for host in hosts] if resident else []
    tensors: list[Any] = [*residents] or hosts
    handle = w.register(compiled)
    names: dict[str, Any] = {
        "w": w,
        "compiled": compiled,
        "handle": handle,
        "bound": handle.bind(*tensors),
        "all": tensors,
    }
    names |= {f"t{index}": tensor for index, tensor in enumerate(tensors)}
    # Spelled out where a program would spell it out.
    args = ", ".join(f"t{index}" for index in range(count)) if count <= 3 else "*all"
    calls = 300 if count <= 3 else 3000 // count
    timers = {}
    for style, (_, statement) in STYLES.items():
        launch = statement.format(args=args).replace(", )", ")")
        # A queue takes launches as fast as it runs them only while it has room, so its time is that of the last result.
        ends = "w.synchronize()" if "submit" in style else "pass"
        timers[style] = timeit.Timer(f"for _ in range({calls}):\n    {launch}\n{ends}", globals=names)
    rounds = [{style: timer.timeit(1) / calls * 1e9 for style, timer in timers.items()} for _ in range(samples + 1)]
    for tensor in residents:
        w.free_tensor(tensor)
    return {style: statistics.median(each[style] for each in rounds[1:]) for style in STYLES}


def one_of_many(w: ChipWorker, samples: int) -> float:
    """Nanoseconds of replacing one of 1,216 resident arguments and launching."""
    handle = w.register(program(MANY))
    tensors = [w.alloc_tensor(SHAPE, torch.float32) for _ in range(MANY + 1)]
    names = {"bound": handle.bind(*tensors[:-1]), "one": tensors[0], "other": tensors[-1]}
    statement = "bound.update(t500=other); bound(); bound.update(t500=one); bound()"
    timer = timeit.Timer(statement, globals=names)
    times = [timer.timeit(50) / 100 * 1e9 for _ in range(samples + 1)][1:]
    for tensor in tensors:
        w.free_tensor(tensor)
    return statistics.median(times)


def figures(samples: int = 15) -> dict[str, Any]:
    """All figures, in nanoseconds."""
    with tempfile.TemporaryDirectory() as directory, ChipWorker(config=RunConfig(cores=1)) as w:
        before = os.environ.get("PYPTO_PROG_BUILD_DIR")
        os.environ["PYPTO_PROG_BUILD_DIR"] = directory
        try:
            launches = [
                {"count": count, "resident": resident} | measure(w, count, resident=resident, samples=samples)
                for count in COUNTS
                for resident in ((True, False) if count else (True,))
            ]
            return {"launches": launches, "one_of_many": one_of_many(w, samples)}
        finally:
            if before is None:
                del os.environ["PYPTO_PROG_BUILD_DIR"]
            else:
                os.environ["PYPTO_PROG_BUILD_DIR"] = before


def results() -> list[Result]:
    """The two figures that have a target."""
    measured = figures()
    three = next(row for row in measured["launches"] if row["count"] == 3 and row["resident"])
    note = f"handle {three['handle']:,.0f} ns"
    return [
        Result("bound launch, three resident tensors", three["bound"] / 1e3, 0.15, "us", note=note),
        Result(f"bound launch, one of {MANY:,} replaced", measured["one_of_many"] / 1e3, 5.0, "us"),
    ]


def table(measured: dict[str, Any]) -> str:
    """The figures as Markdown, in microseconds."""
    head = ["arguments", *(f"`{shown}`" for shown, _ in STYLES.values())]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in measured["launches"]:
        where = "" if row["count"] == 0 else " resident" if row["resident"] else " on the host"
        cells = [f"{row['count']}{where}", *(f"{row[style] / 1e3:.3g}" for style in STYLES)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        f"One of {MANY:,} resident arguments replaced, and the launch: {measured['one_of_many'] / 1e3:.3g} us.",
    ]
    return "\n".join(lines)


def render(measured: dict[str, Any]) -> None:
    """Puts the table into the pages, between the marks."""
    for page in PAGES:
        before, rest = page.read_text().split(MARKS[0])
        page.write_text(f"{before}{MARKS[0]}\n{table(measured)}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


def main() -> None:
    """Measures, prints, and writes where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the figures and put the table into the pages")
    parser.add_argument("--render", action="store_true", help="put the kept figures into the pages, measure nothing")
    options = parser.parse_args()
    measured = json.loads(FIGURES.read_text()) if options.render else figures()
    print(table(measured))
    if options.write:
        FIGURES.write_text(json.dumps(measured, indent=2) + "\n")
    if options.write or options.render:
        render(measured)


if __name__ == "__main__":
    main()
