"""The arguments and the settings of a launch, prepared by hand. `CompiledProgram` has methods for both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime.run_config import RunConfig
from pypto.runtime.settings import check_aicpu_threads
from pypto.runtime.task_interface import CallConfig, TaskArgs
from pypto.runtime.worker import ChipWorker

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram


def build_orch_args(compiled: CompiledProgram, args: tuple[Any, ...], worker: Any) -> tuple[TaskArgs, list[Any], bool]:
    """Checks arguments as a launch on `worker` would.

    Returns:
        The arguments as the device takes them; all arguments in order of the parameters, outputs that were left out
        included; and whether outputs were left out.

    Raises:
        TypeError: There is no worker, or an argument has the wrong type, rank, extent or dtype.
        ValueError: An argument cannot be used, or an output with a dynamic extent was left out.
        RuntimeError: The worker is closed.
    """
    if worker is None:
        raise failures.NOT_A_WORKER(
            "build_orch_args() requires worker=: tensors are checked against the worker that runs them"
        )
    if not isinstance(worker, ChipWorker):
        raise failures.NOT_A_WORKER(f"worker must be a ChipWorker, got {type(worker).__name__}")
    coerced = with_outputs(compiled, args)
    scalars = worker._check_arguments(compiled, coerced)
    params = compiled.params
    tensors = [arg for param, arg in zip(params, coerced, strict=True) if param.shape is not None]
    return TaskArgs(tensors, scalars), coerced, len(args) != len(coerced)


def with_outputs(compiled: CompiledProgram, args: tuple[Any, ...]) -> list[Any]:
    """One argument for each parameter: those given, and zeros on the host for outputs that were left out.

    Raises:
        TypeError: The number of arguments fits neither style.
        ValueError: An output with a dynamic extent was left out.
    """
    names, outputs = compiled.param_names, compiled.output_indices
    inputs = len(names) - len(outputs)
    return_style = compiled.has_return and len(args) == inputs
    if not return_style and len(args) != len(names):
        either = f" or {inputs} (return)" if compiled.has_return else ""
        raise failures.ARGUMENT_COUNT(
            f"{compiled.name} expects {len(names)} (in-place){either} arguments, got {len(args)}. "
            f"Parameters: [{', '.join(names)}]"
        )
    given = iter(args)
    made = set(outputs) if return_style else set()
    return [_output(compiled, index) if index in made else next(given) for index in range(len(names))]


def _output(compiled: CompiledProgram, index: int) -> Any:
    """A fresh output, zeros on the host."""
    import torch

    param = compiled.params[index]
    shape = param.shape or ()
    if -1 in shape:
        raise failures.DYNAMIC_OUTPUT(
            f"the output {param.name!r} has a dynamic dimension, so it cannot be allocated for you: pass all tensors "
            f"explicitly"
        )
    return torch.zeros(shape, dtype=param.dtype.to_torch())


def build_call_config(
    compiled: CompiledProgram,
    config: RunConfig | None,
    aicpu_thread_num: int | None,
    dfx_dir: str | os.PathLike[str] | None,
) -> CallConfig:
    """The settings of a launch: a keyword goes before `config`, and that before what the program was built with.

    Raises:
        TypeError: `config` is no `RunConfig`.
        ValueError: `aicpu_thread_num` is not positive.
    """
    if config is None:
        config = RunConfig(platform=compiled.platform)
    elif not isinstance(config, RunConfig):
        raise failures.BAD_CONFIG(f"config must be a RunConfig, got {type(config).__name__}")
    check_aicpu_threads(aicpu_thread_num)
    threads = aicpu_thread_num
    if threads is None:
        threads = config.aicpu_thread_num
    if threads is None:
        threads = compiled.runtime_config["aicpu_thread_num"]
    return CallConfig(
        aicpu_thread_num=threads,
        ring_task_window=config.ring_task_window,
        ring_heap=config.ring_heap,
        ring_dep_pool=config.ring_dep_pool,
        enable_chip_swimlane=config.enable_chip_swimlane,
        enable_dump_args=config.enable_dump_args,
        enable_pmu=config.enable_pmu,
        enable_dep_gen=config.enable_dep_gen,
        enable_scope_stats=config.enable_scope_stats,
        output_prefix=None if dfx_dir is None else os.fspath(dfx_dir),
    )
