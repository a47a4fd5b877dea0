"""Compile, run and compare in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime import golden_files, programs
from pypto.runtime.dispatch import dispatch
from pypto.runtime.golden import named_outputs, validate_golden
from pypto.runtime.half_scalars import from_bits
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
        compiled: The compiled program. The result stands for it: calling the result, or asking for an attribute of the
            program, does so there, and workers take the result for the program.
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
            raise failures.NOT_COMPILED("this RunResult has no compiled program to call")
        return self.compiled(*args, config=config)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the compiled program, as where `run` returns the program itself."""
        compiled = self.__dict__.get("compiled")
        if compiled is None or name.startswith("__"):
            raise AttributeError(f"RunResult has no attribute {name!r}")
        return getattr(compiled, name)

    def __getitem__(self, name: str) -> CompiledProgram:
        """One entry of a program that has several."""
        if self.compiled is None:
            raise failures.NOT_COMPILED("this RunResult has no compiled program")
        return self.compiled[name]

    def __fspath__(self) -> str:
        """The directory of the compiled program."""
        if self.compiled is None:
            raise failures.NOT_COMPILED("this RunResult has no compiled program, so it has no path")
        return os.fspath(self.compiled)

    def __str__(self) -> str:
        """`PASS: name (1.23s)` or `FAIL: name - what differs`."""
        name = self.test_name or ""
        if self.passed:
            took = "" if self.execution_time is None else f" ({self.execution_time:.2f}s)"
            return f"PASS: {name}{took}" if name else f"PASS{took}"
        return f"FAIL: {name} - {self.error}" if name else f"FAIL: {self.error}"


@dataclass(frozen=True)
class _DfxOpts:
    """Device diagnostics of `execute_compiled`: the switches of `RunConfig`, with its rules."""

    enable_chip_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False


def run(program: Any, *tensors: Any, config: RunConfig | None = None, golden: Golden | None = None) -> RunResult:
    """Compiles a program, runs it once, and compares its outputs with expected ones.

    Args:
        program: A `@pl.program` class, a `@pl.jit` function, or a compiled program.
        *tensors: Its arguments. Without any, or with `config.codegen_only`, it is only compiled.
        config: Platform, tolerances and compiler settings.
        golden: Expected outputs. A function gets the arguments as they were before the launch. Without it, what
            `config.golden_data_dir` holds, if that is set.

    Returns:
        The result. It gives one time for everything; `benchmark` tells host and device apart.

    A difference from `golden` is in the result, not raised.

    Raises:
        TypeError: An argument does not fit its parameter, `program` is none of the three, or `golden` is or returns
            something else than tensors or arrays.
        ValueError: The platform does not exist or is not the artifact's, a device tensor was freed or belongs to
            another worker, or `golden` has another number of outputs.
        KeyError: `golden` names an output that does not exist.
        FileNotFoundError: `config.golden_data_dir` holds no expected outputs.
        pypto.ir.KernelError: The compiler refuses the kernel.
        RuntimeError: The device failed.
    """
    begin = time.perf_counter()
    config = config or RunConfig()
    compiled = _compile(program, tensors, config)
    result = RunResult(True, test_name=programs.core_program(compiled).name, compiled=compiled)
    if tensors and not config.codegen_only:
        before = [_copy(tensor) for tensor in tensors] if callable(golden) else []
        result.outputs = dispatch(compiled, tensors, config)
        expected = golden(*before) if callable(golden) else golden
        if expected is None and golden is not None:
            raise failures.GOLDEN_TYPE("golden returned None: it must return the expected outputs, in order or by name")
        if expected is None and config.golden_data_dir is not None:
            expected = golden_files.load(Path(config.golden_data_dir), "out")
        if expected is not None:
            actual = outputs_of(compiled, tensors, result.outputs)
            try:
                _compare(actual, named_outputs(expected, list(actual)), config)
            except AssertionError as error:
                result.passed, result.error = False, str(error)
    result.execution_time = time.perf_counter() - begin
    return result


def _compare(actual: dict[str, Any], expected: dict[str, Any], config: RunConfig) -> None:
    """Compares outputs. `validate_golden` spreads expected values over an output, as torch does; here that is a slip.

    Raises:
        AssertionError: Shapes or values differ.
    """
    for name, value in expected.items():
        if actual[name].shape != value.shape:
            got, wanted = tuple(actual[name].shape), tuple(value.shape)
            raise failures.GOLDEN_DIFFERS(f"output {name!r} has shape {got}, golden has {wanted}")
    validate_golden(actual, expected, config.rtol, config.atol)


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
    dfx: _DfxOpts = _DfxOpts(),
    level: int = 2,
    aicpu_thread_num: int | None = None,
    analyze_auto_scopes_for_deps: bool = False,
) -> None:
    """Runs what was compiled into a directory, in-place, once.

    Args:
        work_dir: The directory.
        args: One argument for each parameter; scalars as numbers or ctypes, FP16 and BF16 also as their bits in a
            `c_uint16`.
        platform: Where to run.
        device_id: Which device.
        dfx: Device diagnostics; `docs/run_config.md` says what each writes on the simulated chip.
        level: 2.
        aicpu_thread_num: Scheduler threads of the device; a label on the simulated chip.
        analyze_auto_scopes_for_deps: Nothing is left to analyse in a compiled directory.

    Raises:
        FileNotFoundError: A file of the directory is missing.
        ValueError: A file is malformed, or `level` is not 2.
        Exception: What a launch raises.
    """
    from pypto.ir import CompiledProgram

    if level != 2:
        raise failures.BAD_LEVEL(f"execute_compiled() runs on one chip, level=2, got level={level}")
    compiled = CompiledProgram.from_dir(str(work_dir), platform=platform)
    config = RunConfig(platform=platform, device_id=device_id, aicpu_thread_num=aicpu_thread_num, **asdict(dfx))
    dispatch(compiled, from_bits(compiled, args), config)


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
        strict_memory=config.strict_memory,
    )


def _copy(argument: Any) -> Any:
    """An argument as it is now."""
    if hasattr(argument, "clone"):
        return argument.clone()
    if hasattr(argument, "to_host"):
        return argument.to_host()
    return argument.copy() if hasattr(argument, "copy") else argument


def outputs_of(compiled: CompiledProgram, tensors: Sequence[Any], returned: Any) -> dict[str, Any]:
    """The tensors that a launch wrote, by name of parameter, on the host.

    Args:
        compiled: The program.
        tensors: The arguments of the launch.
        returned: What it returned; None where all arguments were given.
    """
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
