"""Runs compiled directories from the command line: `python -m pypto.runtime.execute_artifact --work-dir DIR`.

A directory holds a compiled program, and beside it `golden.py` and `data/in`; what comes out goes to `data/actual` and
is compared with `data/out`. One line `PYPTO_EXEC_RESULT=PASS|FAIL|INFRA` tells how it went, for each directory.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto import failures
from pypto.runtime import golden_files
from pypto.runtime.dispatch import dispatch
from pypto.runtime.golden import validate_golden
from pypto.runtime.run_config import RunConfig
from pypto.runtime.runner import outputs_of

EXIT_CODES = {"PASS": 0, "FAIL": 1, "INFRA": 2}
"""`FAIL`: the program ran and its outputs differ. `INFRA`: it could not be loaded or run."""


@dataclass
class Job:
    """One directory to run."""

    work_dir: Path
    config: RunConfig
    validate: bool = True


def execute(job: Job) -> str:
    """Runs one directory and says how it went.

    Raises:
        FileNotFoundError: The program or its inputs are not there.
        AssertionError: The outputs differ.
    """
    from pypto.ir import CompiledProgram

    compiled = CompiledProgram.from_dir(job.work_dir, platform=job.config.platform)
    data = job.work_dir / "data"
    scalars = golden_files.scalars(job.work_dir)
    named = [param.name for param in compiled.params if param.shape is not None]
    values: dict[str, Any] = {**golden_files.load(data, "in", named), **scalars}
    missing = [name for name in compiled.param_names if name not in values]
    if missing:
        raise failures.GOLDEN_MISSING(f"{job.work_dir / golden_files.GOLDEN} gives no value for {', '.join(missing)}")
    args = [values[name] for name in compiled.param_names]
    dispatch(compiled, tuple(args), job.config)
    actual = outputs_of(compiled, args, None)
    golden_files.save(data, "actual", actual)
    if not job.validate:
        return "PASS"
    expected = golden_files.load(data, "out")
    validate_golden(actual, expected, *golden_files.tolerances(job.work_dir, job.config.rtol, job.config.atol))
    return "PASS"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code: 0 where all passed, 1 where outputs differ, 2 where one could not run."""
    options = _parser().parse_args(arguments)
    worst = 0
    for job in _jobs(options):
        result = "PASS"
        try:
            execute(job)
        except AssertionError as error:
            result = "FAIL"
            print(f"{job.work_dir}: {error}", file=sys.stderr)
        except Exception:
            result = "INFRA"
            print(f"{job.work_dir}:\n{traceback.format_exc()}", file=sys.stderr)
        print(f"PYPTO_EXEC_RESULT={result}", flush=True)
        worst = max(worst, EXIT_CODES[result])
    return worst


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pypto.runtime.execute_artifact", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--work-dir", type=Path, help="a compiled directory")
    where.add_argument("--batch-manifest", type=Path, help="JSON: a list of directories, or of {work_dir, platform}")
    parser.add_argument("--platform", default="a2a3sim")
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--enable-chip-swimlane", type=int, nargs="?", const=4, default=0, metavar="N")
    parser.add_argument("--dump-args", type=int, nargs="?", const=1, default=0, metavar="N")
    parser.add_argument("--enable-pmu", type=int, nargs="?", const=2, default=0, metavar="EVENT")
    parser.add_argument("--enable-dep-gen", action="store_true")
    parser.add_argument("--enable-scope-stats", action="store_true")
    parser.add_argument("--no-validate", action="store_true", help="run only; compare nothing")
    return parser


def _jobs(options: argparse.Namespace) -> list[Job]:
    entries: list[Any] = [str(options.work_dir)]
    if options.batch_manifest is not None:
        entries = json.loads(options.batch_manifest.read_text())
    return [_job(options, {"work_dir": entry} if isinstance(entry, str) else entry) for entry in entries]


def _job(options: argparse.Namespace, entry: dict[str, Any]) -> Job:
    config = RunConfig(
        platform=entry.get("platform", options.platform),
        device_id=entry.get("device_id", options.device_id),
        enable_chip_swimlane=options.enable_chip_swimlane,
        enable_dump_args=options.dump_args,
        enable_pmu=options.enable_pmu,
        enable_dep_gen=options.enable_dep_gen,
        enable_scope_stats=options.enable_scope_stats,
    )
    return Job(Path(entry["work_dir"]), config, not options.no_validate)


if __name__ == "__main__":
    sys.exit(main())
