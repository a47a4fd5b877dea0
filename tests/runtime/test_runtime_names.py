"""Names of the public interface: all there, those that are not supported say so."""

import importlib

import pytest

from pypto import _pypto, runtime

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
