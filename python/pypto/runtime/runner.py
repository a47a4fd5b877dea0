"""Compile, run and compare in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.runtime import programs
from pypto.runtime.dispatch import dispatch
from pypto.runtime.golden import validate_golden
from pypto.runtime.run_config import RunConfig, backend_of

if TYPE_CHECKING:
    import torch

    from pypto.ir import BackendType, CompiledProgram, OptimizationStrategy

Golden = Callable[..., Any] | Mapping[str, "torch.Tensor"] | Sequence["torch.Tensor"]
"""Expected outputs: by name; in the order of the outputs; or a function of the arguments that returns one of these or a
single tensor."""


@dataclass
class RunResult:
    """How a `run` went.

    Attributes:
        passed: Outputs equal `golden`, or there was none to compare with.
        test_name: Name of the program.
        error: What differs, where `passed` is False.
        execution_time: Seconds on the wall clock for everything: compiling, running, comparing. `benchmark` tells host
            and device apart.
        profile: Not filled in.
        compiled: The compiled program. Calling the result calls it.
        outputs: What a return-style call returned.
    """

    passed: bool
    test_name: str | None = None
    error: str | None = None
    execution_time: float | None = None
    profile: Any = None
    compiled: CompiledProgram | None = None
    outputs: Any = None

    def __call__(self, *args: Any, config: RunConfig | None = None) -> Any:
        """Calls the compiled program."""
        if self.compiled is None:
            raise TypeError("this RunResult has no compiled program to call")
        return self.compiled(*args, config=config)

    def __str__(self) -> str:
        """`PASS: name (1.23s)` or `FAIL: name - what differs`."""
        name = self.test_name or ""
        if self.passed:
            took = "" if self.execution_time is None else f" ({self.execution_time:.2f}s)"
            return f"PASS: {name}{took}" if name else f"PASS{took}"
        return f"FAIL: {name} - {self.error}" if name else f"FAIL: {self.error}"


def run(program: Any, *tensors: Any, config: RunConfig | None = None, golden: Golden | None = None) -> RunResult:
    """Compiles a program, runs it once, and compares its outputs with expected ones.

    Args:
        program: A `@pl.program` class, a `@pl.jit` function, or a compiled program.
        *tensors: Its arguments. Without any, or with `config.codegen_only`, it is only compiled.
        config: Platform, tolerances and compiler settings.
        golden: Expected outputs. A function gets the arguments as they were before the launch.

    Returns:
        The result. It gives one time for everything; `benchmark` tells host and device apart.

    Raises:
        Whatever compiling and launching raise; a difference from `golden` is in the result instead.
    """
    begin = time.perf_counter()
    config = config or RunConfig()
    compiled = _compile(program, tensors, config)
    result = RunResult(True, test_name=programs.core_program(compiled).name, compiled=compiled)
    if tensors and not config.codegen_only:
        before = [_copy(tensor) for tensor in tensors] if callable(golden) else []
        result.outputs = dispatch(compiled, tensors, config)
        if golden is not None:
            expected = golden(*before) if callable(golden) else golden
            actual = _outputs(compiled, tensors, result.outputs)
            try:
                validate_golden(actual, _named(expected, list(actual)), config.rtol, config.atol)
            except AssertionError as error:
                result.passed, result.error = False, str(error)
    result.execution_time = time.perf_counter() - begin
    return result


def compile_program(
    program: Any,
    work_dir: str | Path,
    *,
    strategy: OptimizationStrategy | None = None,
    backend_type: BackendType | None = None,
    dump_passes: bool = False,
    **settings: Any,
) -> None:
    """Compiles a program into a directory.

    Args:
        program: A `@pl.program` class.
        work_dir: The directory.
        strategy: Passes to run.
        backend_type: The chip to compile for.
        dump_passes: Write the program after each pass.
        **settings: Anything else that `ir.compile` takes.
    """
    from pypto import ir

    if strategy is not None:
        settings["strategy"] = strategy
    if backend_type is not None:
        settings["backend_type"] = backend_type
    ir.compile(program, str(work_dir), dump_passes=dump_passes, **settings)


def execute_compiled(
    work_dir: str | Path,
    args: Sequence[Any],
    *,
    platform: str,
    device_id: int = 0,
    level: int = 2,
    **settings: Any,
) -> None:
    """Runs what was compiled into a directory, in-place, once.

    Args:
        work_dir: The directory.
        args: One argument for each parameter.
        platform: Where to run.
        device_id: Which device.
        level: 2.
        **settings: Settings of device diagnostics; the simulated chip has none.
    """
    from pypto.ir import CompiledProgram

    if level != 2:
        raise ValueError(f"execute_compiled() runs on one chip, level=2, got level={level}")
    compiled = CompiledProgram.from_dir(str(work_dir), platform=platform)
    dispatch(compiled, tuple(args), RunConfig(platform=platform, device_id=device_id))


def _compile(program: Any, tensors: Sequence[Any], config: RunConfig) -> CompiledProgram:
    from pypto import ir

    if isinstance(program, ir.CompiledProgram):
        return program
    if hasattr(program, "compile") and not isinstance(program, type):
        compiled: CompiledProgram = program.compile(*tensors, config=config)
        return compiled
    return ir.compile(
        program,
        config.save_kernels_dir,
        config.strategy,
        config.dump_passes,
        backend_type=backend_of(config.platform),
        platform=config.platform,
        diagnostic_phase=config.diagnostic_phase,
        disabled_diagnostics=config.disabled_diagnostics,
        memory_planner=config.memory_planner,
        profiling=config.compile_profiling,
    )


def _copy(argument: Any) -> Any:
    """An argument as it is now."""
    if hasattr(argument, "clone"):
        return argument.clone()
    if hasattr(argument, "to_host"):
        return argument.to_host()
    return argument.copy() if hasattr(argument, "copy") else argument


def _outputs(compiled: CompiledProgram, tensors: Sequence[Any], returned: Any) -> dict[str, Any]:
    """The tensors that the program wrote, by name of parameter, on the host."""
    import torch

    made = iter(returned if isinstance(returned, tuple) else (returned,))
    given = iter(tensors)
    left_out = len(tensors) < len(compiled.param_names)
    written = programs.core_program(compiled).written
    outputs = {}
    for index, name in enumerate(compiled.param_names):
        value = next(made if left_out and index in compiled.output_indices else given)
        if name in written:
            outputs[name] = value.to_host() if hasattr(value, "to_host") else torch.as_tensor(value)
    return outputs


def _named(expected: Any, names: list[str]) -> dict[str, torch.Tensor]:
    """Expected outputs by name."""
    if isinstance(expected, Mapping):
        return dict(expected)
    values = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    if len(values) != len(names):
        raise ValueError(f"golden has {len(values)} outputs, the program writes {len(names)}: {', '.join(names)}")
    return dict(zip(names, values, strict=True))
