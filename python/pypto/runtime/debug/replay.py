"""Runs a compiled directory: `python -m pypto.runtime.debug.replay --work-dir DIR`.

Arguments come from `data/in` of the directory; without golden files they are made up: random numbers for floats, zeros
for integers, 1 for the extent of a dynamic axis and for a scalar.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.runtime import golden_files
from pypto.runtime.dispatch import dispatch
from pypto.runtime.execute_artifact import Job, execute
from pypto.runtime.log_config import configure_log
from pypto.runtime.run_config import RunConfig

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram, ParamInfo


def made_up(compiled: CompiledProgram) -> list[Any]:
    """One argument for each parameter."""
    return [_argument(param) for param in compiled.params]


def _argument(param: ParamInfo) -> Any:
    import torch

    dtype = param.dtype.to_torch()
    if param.shape is None:
        return torch.ones((), dtype=dtype).item()
    shape = [1 if extent == -1 else extent for extent in param.shape]
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.zeros(shape, dtype=dtype)


def invalidate_binary_cache(work_dir: str | Path) -> None:
    """Makes sure that a directory's kernels are not taken from an earlier build: `cache/` below it goes.

    Programs of the simulated chip are not built into binaries, so there is a cache only where another tool left one.
    """
    shutil.rmtree(Path(work_dir) / "cache", ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code: 1 where `--validate` found a difference."""
    options = _parser().parse_args(arguments)
    if options.log_level is not None:
        configure_log(options.log_level, sync_pypto=options.log_sync_pypto)
    config = RunConfig(
        platform=options.platform,
        device_id=options.device_id,
        enable_chip_swimlane=options.swimlane_level if options.swimlane_level is not None else options.swimlane,
        enable_dump_args=options.dump_args,
        enable_pmu=options.pmu,
        enable_dep_gen=options.dep_gen,
        enable_scope_stats=options.scope_stats,
    )
    if (options.work_dir / golden_files.GOLDEN).is_file():
        try:
            execute(Job(options.work_dir, config, options.validate))
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"ran {options.work_dir} with its golden inputs" + (": outputs match" if options.validate else ""))
        return 0
    from pypto.ir import CompiledProgram

    compiled = CompiledProgram.from_dir(options.work_dir, platform=options.platform)
    if options.validate:
        print(f"{options.work_dir} has no {golden_files.GOLDEN}: there is nothing to compare with", file=sys.stderr)
        return 1
    dispatch(compiled, tuple(made_up(compiled)), config)
    print(f"ran {options.work_dir} with made-up inputs")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pypto.runtime.debug.replay", description=__doc__)
    parser.add_argument("--work-dir", type=Path, required=True, help="a compiled directory")
    parser.add_argument("--platform", default="a2a3sim")
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--pmu", type=int, nargs="?", const=2, default=0, metavar="EVENT")
    parser.add_argument("--swimlane", action="store_const", const=4, default=0)
    parser.add_argument("--swimlane-level", type=int, metavar="N")
    parser.add_argument("--dump-args", type=int, nargs="?", const=1, default=0, metavar="N")
    parser.add_argument("--dep-gen", action="store_true")
    parser.add_argument("--scope-stats", action="store_true")
    for name in ("--no-recompile", "--no-rebuild-from-pto"):
        parser.add_argument(name, action="store_true", help="accepted: nothing is built again in any case")
    parser.add_argument("--log-level", help="of the runtime: debug, info, timing, warn, error, null")
    parser.add_argument("--log-sync-pypto", action="store_true")
    parser.add_argument("--validate", action="store_true", help="compare with data/out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
