"""`compile()`: from a program to a directory and a `CompiledProgram`."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

from pypto import environment, failures
from pypto.ir import artifacts, kernel_config, pass_context
from pypto.ir.compiled_program import CompiledProgram
from pypto.ir.diagnostics import Diagnostic, OnChipMemoryWarning, error_for, warn_of
from pypto.ir.dump_tags import tagged_params
from pypto.ir.lower import lower
from pypto.ir.nodes import Program
from pypto.ir.param_info import Metadata, ParamDirection, ParamInfo
from pypto.ir.pass_manager import OptimizationStrategy, RuntimeKind, VerificationLevel
from pypto.ir.passes import check_on_chip, check_outputs, outline, split_phases, wrap_kernel_entry
from pypto.ir.platforms import BackendType, backend_of, simulator_of
from pypto.ir.profile import Profile
from pypto.ir.run_script import write_run_script
from pypto.ir.verifier import verify
from pypto.language.dtypes import DataType

_COUNTER = itertools.count()


def compile(
    program: Any,
    output_dir: str | os.PathLike[str] | None = None,
    strategy: OptimizationStrategy = OptimizationStrategy.Default,
    dump_passes: bool = True,
    backend_type: BackendType = BackendType.Ascend910B,
    skip_ptoas: bool = False,
    verification_level: Any = None,
    diagnostic_phase: Any = None,
    disabled_diagnostics: Any = None,
    memory_planner: Any = None,
    enable_pypto_l0c_double_buffer: bool | None = None,
    profiling: bool = False,
    platform: str | None = None,
    distributed_config: Any = None,
    analyze_auto_scopes_for_deps: bool = False,
    emit_source_loc: bool | None = None,
    dump_ptoas_passes: bool = False,
    runtime: Any = None,
    strict_memory: bool = False,
) -> CompiledProgram:
    """Compiles a `@pl.program`, or a `@pl.jit` function whose annotations are complete, for a platform.

    A program with several entries gives a compiled program of which `compiled["name"]` is one entry. A kernel that
    keeps more on chip than the real chip has room for is warned of (`pypto.ir.OnChipMemoryWarning`);
    `report/perf_hints.log` lists such kernels. What steers code generation for the real chip is accepted and has
    nothing to steer on the simulated one.

    Args:
        program: The program class, or the function.
        output_dir: Where the artifact goes; a fresh directory below `PYPTO_PROG_BUILD_DIR` or `./build_output` if not
            given.
        strategy: Steers code generation.
        dump_passes: Write the IR after each pass to `passes_dump/`.
        backend_type: The chip, where `platform` is not given: its simulation is meant.
        skip_ptoas: Steers code generation.
        verification_level: `VerificationLevel.NONE` skips the check of the IR.
        diagnostic_phase: Steers code generation.
        disabled_diagnostics: Steers code generation.
        memory_planner: Steers code generation.
        enable_pypto_l0c_double_buffer: Steers code generation.
        profiling: Write to `report/pipeline_profile.txt` and `.json` how long each step took.
        platform: The platform, such as `a2a3sim`; it picks the backend.
        distributed_config: How a program for several devices is laid out.
        analyze_auto_scopes_for_deps: Steers code generation.
        emit_source_loc: Steers code generation.
        dump_ptoas_passes: Steers code generation.
        runtime: The kind of runtime to build for: a `RuntimeKind` or its value.
        strict_memory: Refuse a kernel that keeps more on chip than the real chip has room for.

    Raises:
        TypeError: `program` is neither of the two.
        ValueError: There is no such platform or kind of runtime, or an environment variable that switches something has
            no such value.
        RuntimeError: A `PassContext` is active and an argument says what it says too.
        pypto.ir.KernelError: The compiler refuses the kernel; the text shows the line.
        OSError: The artifact cannot be written.
    """
    settings = pass_context.resolve(
        verification_level=verification_level,
        diagnostic_phase=diagnostic_phase,
        disabled_diagnostics=disabled_diagnostics,
        memory_planner=memory_planner,
        runtime=runtime,
    )
    verification_level = settings["verification_level"]
    profiling = profiling or environment.flag("PYPTO_COMPILE_PROFILING", False)
    kind = _runtime_kind(settings["runtime"])
    profile = Profile()
    if isinstance(program, Program):
        ir = program
    elif callable(getattr(program, "lower", None)):
        with profile.step("read source"):
            ir = program.lower()
    else:
        raise failures.NOT_A_PROGRAM(f"ir.compile takes a @pl.program class or a @pl.jit function, got {program!r}")
    if platform is None:
        platform = simulator_of(backend_type)
    backend = backend_of(platform)
    for function in ir.functions.values():
        if "unsupported" in function.attrs:
            raise error_for([function.attrs["unsupported"]])
    if verification_level is None:
        verification_level = environment.choice("PYPTO_VERIFY_LEVEL", VerificationLevel.__members__)
    if verification_level not in (VerificationLevel.NONE, VerificationLevel.NONE.name):
        with profile.step("verify"):
            verify(ir)
    with profile.step("outline"):
        outlined = outline(ir)
    with profile.step("on-chip memory"):
        hints = check_on_chip(outlined, strict_memory, backend)
    directory = _directory(output_dir, ir.name)
    _report(directory, hints)
    programs = ir.entries()
    if len(programs) < 2:
        artifacts.remove_other_kinds(directory, artifacts.SIDECAR)
        with profile.step("lower and write"):
            compiled = _compile_entry(ir, outlined, directory, platform, backend, dump_passes, kind)
        if profiling:
            profile.write(directory / "report")
        return compiled
    entries: dict[str, CompiledProgram] = {}
    for program, flat in zip(programs, outlined.entries(), strict=True):
        wrap_kernel_entry(program)
        wrap_kernel_entry(flat)
        place = directory / program.name
        place.mkdir(exist_ok=True)
        with profile.step(f"lower and write {program.name}"):
            entries[program.name] = _compile_entry(program, flat, place, platform, backend, dump_passes, kind)
    artifacts.remove_other_kinds(directory, artifacts.ENTRIES)
    artifacts.write_json(directory / artifacts.ENTRIES, list(entries))
    if profiling:
        profile.write(directory / "report")
    return CompiledProgram(ir, directory, backend_type=backend, platform=platform, entries=entries, runtime=kind)


def _report(directory: Path, hints: list[Diagnostic]) -> None:
    report = directory / "report"
    report.mkdir(exist_ok=True)
    (report / "perf_hints.log").write_text("".join(f"{hint.render()}\n" for hint in hints))
    for hint in hints:
        warn_of(hint, OnChipMemoryWarning)


def _runtime_kind(runtime: object) -> str:
    """The kind of runtime by its value; the usual one for `None`."""
    if runtime is None:
        return RuntimeKind.TENSORMAP_AND_RINGBUFFER.value
    try:
        return RuntimeKind(runtime).value
    except ValueError:
        known = ", ".join(repr(kind.value) for kind in RuntimeKind)
        raise failures.SETTING_VALUE(f"runtime must be a RuntimeKind or one of {known}, got {runtime!r}") from None


def _compile_entry(
    ir: Program, outlined: Program, directory: Path, platform: str, backend: BackendType, dump: bool, runtime: str
) -> CompiledProgram:
    check_outputs(ir.entry)
    phased = split_phases(outlined)
    core = lower(phased)
    metadata = _metadata(core, len(ir.entry.returns), tagged_params(ir))
    compiled = CompiledProgram(
        ir, directory, backend_type=backend, platform=platform, core=core, metadata=metadata, runtime=runtime
    )
    _write(compiled, core, metadata)
    if dump:
        dumps = directory / "passes_dump"
        dumps.mkdir(exist_ok=True)
        versions = {"00_after_Frontend": ir, "01_after_Outline": outlined, "02_after_Phases": phased}
        for name, version in versions.items():
            (dumps / f"{name}.py").write_text(version.as_python())
    return compiled


def _directory(output_dir: str | os.PathLike[str] | None, name: str) -> Path:
    if output_dir is not None:
        directory = Path(output_dir)
        directory.mkdir(parents=True, exist_ok=True)
        return directory
    base = Path(os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    base.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d_%H%M%S")
    # Two programs compiled in one second must not share a directory; the counter also serves threads.
    for number in itertools.count():
        suffix = f"_{os.getpid()}_{next(_COUNTER)}" if number else ""
        try:
            directory = base / f"{name}_{stamp}{suffix}"
            directory.mkdir()
            return directory
        except FileExistsError:
            continue
    raise AssertionError("unreachable: the counter never ends")


def _metadata(core: dict[str, Any], returns: int, tagged: frozenset[str]) -> Metadata:
    params: list[ParamInfo] = []
    for param in core["params"]:
        tensor = param["kind"].get("Tensor")
        if tensor is None:
            params.append(
                ParamInfo(param["name"], ParamDirection.In, None, DataType.from_name(param["kind"]["Scalar"]["dtype"]))
            )
        else:
            shape = tuple(dim.get("Const", -1) for dim in tensor["dims"])
            params.append(
                ParamInfo(
                    param["name"],
                    ParamDirection[tensor["direction"]],
                    shape,
                    DataType.from_name(tensor["dtype"]),
                    param["name"] in tagged,
                )
            )
    return Metadata(tuple(params), returns)


def _write(compiled: CompiledProgram, core: dict[str, Any], metadata: Metadata) -> None:
    directory = compiled.output_dir
    artifacts.write_json(directory / artifacts.PROGRAM, core)
    kernel_config.write(directory, core, compiled.runtime_name)
    if environment.flag("PYPTO_EMIT_DEBUG_RUNNER", True):
        write_run_script(directory)
    artifacts.write_json(
        directory / artifacts.SIDECAR,
        {
            "schema": artifacts.SCHEMA,
            "params": [
                {
                    "name": info.name,
                    "direction": info.direction.value,
                    "shape": None if info.shape is None else list(info.shape),
                    "dtype": info.dtype.name,
                    **({"dump_tag": True} if info.dump_tag else {}),
                }
                for info in metadata.params
            ],
            "num_return_types": metadata.num_return_types,
            "platform": compiled.platform,
            "backend_type": compiled.backend_type.value,
        },
    )
