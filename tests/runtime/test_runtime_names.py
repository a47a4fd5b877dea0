"""Names of the public interface: all there, those that are not supported say so."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pypto import _pypto, runtime
from pypto.runtime.debug.replay import invalidate_binary_cache

NAMES = [
    "run", "benchmark", "compile_program", "execute_compiled", "execute_distributed_compiled", "configure_log",
    "log_level", "ensure_pto_isa_root", "pto_isa_include_dir", "BenchmarkStats", "TraceInvocation", "TraceSpan",
    "ChipWorker", "DeviceTensor", "StackedDeviceTensor", "DistributedWorker", "DistributedRunHandle",
    "RegistrationHandle", "RunConfig", "RunResult", "ScalarSpec", "TensorSpec", "Worker",
]  # fmt: skip
UNSUPPORTED = [
    "execute_distributed_compiled", "ensure_pto_isa_root", "pto_isa_include_dir",
    "DistributedWorker", "DistributedRunHandle",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_contract_exists(name: str) -> None:
    assert name in runtime.__all__
    assert callable(getattr(runtime, name))


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_says_so(name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"pypto\.runtime\.{name} is not supported in this version"):
        getattr(runtime, name)()


def test_the_extension_shows_what_its_stub_lists() -> None:
    assert runtime.DeviceTensor is _pypto.DeviceTensor
    assert runtime.RegistrationHandle is _pypto.RegistrationHandle
    assert sorted(_pypto.__all__) == sorted(name for name in vars(_pypto) if name in _pypto.__all__)


IMPORTED_BY_PROGRAMS = {
    "pypto": "Error InternalError VerificationError",
    "pypto.backend": "BackendType reset_for_testing set_backend_type",
    "pypto.backend.pto_backend": "PartialCodegenError",
    "pypto.debug": "torch_codegen",
    "pypto.debug.torch_codegen": "torch_codegen",
    "pypto.ir": "ParamDirection PassContext RuntimeKind",
    "pypto.ir.compiled_program": "CompiledProgram ParamInfo _to_runtime_shape _to_torch_dtype",
    "pypto.ir.distributed_compiled_program": "DistributedCompiledProgram DistributedConfig",
    "pypto.ir.pass_manager": "OptimizationStrategy PassManager",
    "pypto.runtime.bench": "BenchmarkStats TraceInvocation TraceSpan benchmark",
    "pypto.runtime.debug.pto_rebuild": "rebuild_kernel_cpp_from_pto",
    "pypto.runtime.debug.replay": "invalidate_binary_cache",
    "pypto.runtime.device_tensor": "DeviceTensor StackedDeviceTensor",
    "pypto.runtime.distributed_runner": "_tensor_from_continuous",
    "pypto.runtime.log_config": "configure_log current_level",
    "pypto.runtime.runner": "RunConfig RunResult _DfxOpts execute_compiled run",
    "pypto.runtime.runtime_base": "RegistrationHandle Worker",
    "pypto.runtime.worker": "ChipWorker RegistrationHandle",
}


@pytest.mark.parametrize("module", IMPORTED_BY_PROGRAMS)
def test_names_that_programs_import_from_inside_are_there(module: str) -> None:
    """In a process of its own: an import may not depend on what was imported before."""
    names = IMPORTED_BY_PROGRAMS[module].replace(" ", ", ")
    subprocess.run([sys.executable, "-c", f"from {module} import {names}"], check=True)


@pytest.mark.parametrize(
    ("module", "name"),
    [("pypto.debug", "torch_codegen"), ("pypto.runtime.distributed_runner", "_tensor_from_continuous")],
)
def test_an_imported_name_without_support_says_so_when_it_is_called(module: str, name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"{module}\.{name} is not supported in this version"):
        getattr(importlib.import_module(module), name)()


def test_forgetting_built_kernels_removes_what_another_tool_cached_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kernel.so").touch()
    (tmp_path / "program.json").touch()
    for _ in range(2):
        invalidate_binary_cache(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["program.json"]


@pytest.mark.parametrize(
    ("tool", "instead"), [("memory_map", "--memory"), ("ir_trace", "passes_dump/"), ("clean_sim_trace", "pypto trace")]
)
def test_command_lines_of_pypto_say_which_command_does_it_here(tool: str, instead: str) -> None:
    command = [sys.executable, "-m", f"pypto.tools.{tool}", "build_output", "-o", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pypto.tools.{tool} is not supported in this version: " in done.stderr
    assert instead in done.stderr


MODULES = [
    "worker", "runtime_base", "runner", "bench", "device_tensor", "device_runner", "tensor_arg", "tensor_spec",
    "distributed_runner", "log_config", "golden_writer", "execute_artifact", "elf_parser", "task_interface",
    "debug.replay", "debug.run_script_writer", "debug.pto_rebuild",
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_modules_of_the_contract_can_be_imported(module: str) -> None:
    assert importlib.import_module(f"pypto.runtime.{module}").__doc__


@pytest.mark.parametrize("module", ["device_runner", "tensor_arg", "elf_parser", "debug.pto_rebuild"])
def test_names_that_only_the_vendors_runtime_has_can_be_imported_and_say_so(module: str) -> None:
    name = importlib.import_module(f"pypto.runtime.{module}").some_name
    with pytest.raises(
        NotImplementedError, match=rf"pypto\.runtime\.{module}\.some_name is not supported in this version"
    ):
        name()
    with pytest.raises(AttributeError, match="has no attribute '_private'"):
        importlib.import_module(f"pypto.runtime.{module}")._private  # noqa: B018


PARAMETERS = {
    "malloc": "self nbytes * worker_id",
    "free": "self ptr * worker_id",
    "copy_to": "self dst_dev_ptr src_host_ptr nbytes * worker_id",
    "copy_from": "self dst_host_ptr src_dev_ptr nbytes * worker_id",
    "alloc_tensor": "self shape dtype * init worker_id",
    "free_tensor": "self t * worker_id",
    "run": "self compiled * args config",
    "register": "self compiled",
    "__init__": "self config * level runtime enable_sdma auto_init",
}


def _parameters(function: Callable[..., object]) -> str:
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL) and "*" not in parts:
            parts.append("*")
        parts.append(parameter.name)
    return " ".join(parts)


@pytest.mark.parametrize("name", PARAMETERS)
def test_methods_of_a_worker_take_their_arguments_by_the_names_of_the_contract(name: str) -> None:
    assert _parameters(getattr(runtime.ChipWorker, name)) == PARAMETERS[name]
    if name != "__init__":
        assert _parameters(getattr(runtime.Worker, name)) == PARAMETERS[name]


def test_a_worker_class_shows_what_its_constructor_takes() -> None:
    class Own(runtime.ChipWorker):
        def __init__(self, path: str) -> None:
            super().__init__(auto_init=False)
            self.path = path

    assert "self " + _parameters(runtime.ChipWorker) == PARAMETERS["__init__"]
    assert _parameters(Own) == "path"
    assert Own("somewhere").path == "somewhere"
