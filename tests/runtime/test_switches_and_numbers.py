"""Settings and sizes that cannot be: refused with what they may be, instead of being read as something else."""

import ctypes
import logging
from collections.abc import Callable
from typing import Any

import core_programs as core
import numpy as np
import pytest
import torch
from core_programs import Register

from pypto import _pypto, ir
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig, benchmark, configure_log
from pypto.runtime.log_config import apply_environment

SWITCH = r"{name}='zzz' is no switch; use one of 1, true, yes, on, or of 0, false, no, off, or unset it"


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
def test_poison_is_switched_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_POISON", value)
    worker = ChipWorker()
    assert bool(worker.alloc_tensor((4,), torch.float32).to_host().isnan().all())
    worker.close()


@pytest.mark.parametrize("value", ["", "0", "false", "No", "off"])
def test_poison_is_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_POISON", value)
    worker = ChipWorker()
    assert not worker.alloc_tensor((4,), torch.float32).to_host().any()
    worker.close()


def test_a_switch_that_is_none_is_not_taken_for_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_POISON", "zzz")
    with pytest.raises(ValueError, match=SWITCH.format(name="PYPTO_POISON")):
        ChipWorker()
    ChipWorker(RunConfig(poison=False)).close()  # what is said in the program is not overruled


def test_switches_of_the_log_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMPLER_DEVICE_STRACE_ENABLE", "zzz")
    with pytest.raises(ValueError, match=SWITCH.format(name="SIMPLER_DEVICE_STRACE_ENABLE")):
        configure_log("warn")
    monkeypatch.delenv("SIMPLER_DEVICE_STRACE_ENABLE")
    monkeypatch.setenv("PYPTO_RUNTIME_LOG", "warn")
    monkeypatch.setenv("PYPTO_RUNTIME_LOG_SYNC", "zzz")
    with pytest.raises(ValueError, match=SWITCH.format(name="PYPTO_RUNTIME_LOG_SYNC")):
        apply_environment()


def test_the_level_of_the_package_s_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("pypto")
    monkeypatch.setattr(logger, "level", logger.level)
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "Error")
    apply_environment()
    assert logger.level == logging.ERROR
    monkeypatch.setenv("PYPTO_LOG_LEVEL", "loud")
    with pytest.raises(
        ValueError, match="PYPTO_LOG_LEVEL='loud' is none of debug, info, warn, error, none; use one of"
    ):
        apply_environment()


CONFIGS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a million cores": ({"cores": 10**6}, ValueError, r"cores must be .*, at most 1024, got 1000000"),
    "no core": ({"cores": 0}, ValueError, r"cores must be a positive number of cores, at most 1024, got 0"),
    "a share above one": ({"packed_weights": 1.5}, ValueError, r"packed_weights must be .* from 0 to 1, got 1\.5"),
    "no share": ({"packed_weights": "half"}, TypeError, r"packed_weights must be .* from 0 to 1, got 'half'"),
    "a negative seed": ({"schedule_seed": -1}, ValueError, r"schedule_seed must be an int from 0 .* got -1"),
    "a true seed": ({"schedule_seed": True}, ValueError, r"schedule_seed must be an int from 0 .* got True"),
    "half a core": ({"cores": 1.5}, ValueError, r"cores must be .* got 1\.5"),
    "true cores": ({"cores": True}, ValueError, r"cores must be .* got True"),
    "2**70 bytes": (
        {"device_memory": 2**70},
        ValueError,
        rf"device_memory must be a positive number of bytes, at most {2**63 - 1}, got {2**70}",
    ),
    "no bytes": ({"device_memory": 0}, ValueError, r"device_memory must be .* got 0"),
    "bytes as text": ({"device_memory": "1G"}, ValueError, r"device_memory must be .* got '1G'"),
    "poison as text": ({"poison": "yes"}, TypeError, r"poison must be True, False or None, got 'yes'"),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_config_that_cannot_be_is_refused(kind: str) -> None:
    fields, error, text = CONFIGS[kind]
    with pytest.raises(error, match=text):
        RunConfig(**fields)


def test_cores_set_later_are_checked_when_the_worker_opens() -> None:
    config = RunConfig()
    config.cores = 10**6
    with pytest.raises(ValueError, match=r"cores must be a positive number of cores, at most 1024, got 1000000"):
        ChipWorker(config)


@pytest.mark.parametrize(
    ("device_id", "error", "text"),
    [
        ("0", TypeError, "device_id must be an int, got '0'"),
        (True, TypeError, "device_id must be an int, got True"),
        (-1, ValueError, f"device_id must be from 0 to {2**31 - 1}, got -1"),
        (2**70, ValueError, f"got {2**70}"),
    ],
)
def test_a_device_number_is_checked_when_the_worker_is_made(device_id: Any, error: type[Exception], text: str) -> None:
    config = RunConfig(device_id=device_id)  # the contract leaves it alone here
    with pytest.raises(error, match=text):
        ChipWorker(config)


@pytest.mark.parametrize("nbytes", [2**63, 2**64, 2**70])
def test_sizes_beyond_63_bits_are_not_cut_short(worker: ChipWorker, nbytes: int) -> None:
    with pytest.raises(MemoryError, match=rf"^malloc failed: nbytes={nbytes} is more than any device memory has"):
        worker.malloc(nbytes)
    tensor, host = worker.alloc_tensor((4,), torch.float32), torch.zeros(4)
    with pytest.raises(ValueError, match=rf"nbytes={nbytes} of copy_to\(\) is more than any memory has"):
        worker.copy_to(tensor, host, nbytes)
    with pytest.raises(ValueError, match=rf"nbytes={nbytes} of copy_from\(\) is more than any memory has"):
        worker.copy_from(host, tensor, nbytes)
    with pytest.raises(ValueError, match=rf"shape has an extent of {nbytes}: no memory holds 2\*\*63 elements"):
        worker.alloc_tensor((nbytes,), torch.float32)
    worker.free_tensor(tensor)


def test_a_tensor_whose_size_no_integer_holds_is_refused(worker: ChipWorker) -> None:
    text = r"DeviceTensor of shape \(4611686018427387904, 8\) and dtype torch\.float32 needs more bytes than any memory"
    with pytest.raises(ValueError, match=text):
        DeviceTensor(4096, (2**62, 8), torch.float32)
    with pytest.raises(MemoryError, match=r"FP32 tensor of shape \(4611686018427387904, 8\) needs more bytes"):
        worker.alloc_tensor((2**62, 8), torch.float32)
    assert DeviceTensor(4096, (2**60,), torch.float32).nbytes == 2**62


@pytest.mark.parametrize("nbytes", [0, -1, 1.0, "4", None, -(2**70)])
def test_a_size_is_a_positive_int(worker: ChipWorker, nbytes: Any) -> None:
    with pytest.raises(ValueError, match="nbytes must be a positive int, got"):
        worker.malloc(nbytes)


ROUNDS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rounds a float": ({"rounds": 2.5}, TypeError, r"rounds must be an int, got 2\.5"),
    "rounds text": ({"rounds": "3"}, TypeError, r"rounds must be an int, got '3'"),
    "rounds a bool": ({"rounds": True}, TypeError, r"rounds must be an int, got True"),
    "rounds 0": ({"rounds": 0}, ValueError, r"rounds must be positive, got 0"),
    "warmup a float": ({"warmup": 1.0}, TypeError, r"warmup must be an int, got 1\.0"),
    "warmup negative": ({"warmup": -1}, ValueError, r"warmup must be non-negative, got -1"),
    "args no sequence": ({"args": 3}, TypeError, r"args must be a sequence of arguments, got int"),
    "worker a string": ({"worker": "w"}, TypeError, r"worker must be a ChipWorker, got str"),
    "config a dict": ({"config": {}}, TypeError, r"config must be a RunConfig, got dict"),
    "device a string": ({"device_id": "0"}, TypeError, r"device_id must be an int, got '0'"),
}


@pytest.mark.parametrize("kind", ROUNDS)
def test_benchmark_says_what_its_settings_may_be(kind: str, K_add: ir.CompiledProgram) -> None:
    settings, error, text = ROUNDS[kind]
    tensors = [torch.ones(128, 128) for _ in range(3)]
    with pytest.raises(error, match=text):
        benchmark(K_add, **{"args": tensors, **settings})


def test_a_numpy_bool_is_no_number_either(register: Register) -> None:
    params = [core.tensor("a", "In", (1, 16)), core.scalar("n", "FP32"), core.scalar("m", "INT32")]
    handle = register(core.program("scalars", params), outputs=())
    tensor = torch.ones(1, 16)
    for value in (True, np.True_):
        with pytest.raises(
            TypeError, match=r"\(parameter 'n'\) expects an FP32 scalar, got .*bool.*convert it with int"
        ):
            handle(tensor, value, 1)
        with pytest.raises(
            TypeError, match=r"\(parameter 'm'\) expects an INT32 scalar, got .*bool.*convert it with int"
        ):
            handle(tensor, 1.0, value)
    handle(tensor, np.float32(1), ctypes.c_int32(3))


def masked() -> Any:
    return np.ma.array(np.ones((16, 16), np.float32), mask=np.eye(16, dtype=bool))


def sparse() -> torch.Tensor:
    return torch.eye(16).to_sparse()


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(16, 16), 0.1, 0, torch.quint8)


NOT_DENSE: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (masked, r"is masked, and the device knows no masks\. Pass \.filled\(value\), or \.data"),
    "sparse": (sparse, r"its layout is torch\.sparse_coo\. Call \.to_dense\(\) on it first"),
    "quantized": (quantized, r"it is quantized\. Call \.dequantize\(\) on it first"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", NOT_DENSE)
def test_what_is_more_than_its_elements_is_refused_with_the_cure(
    kind: str, device: _pypto.Worker, register: Register
) -> None:
    make, text = NOT_DENSE[kind]
    array, good = make(), torch.ones(16, 16)
    with pytest.raises(TypeError, match=rf"at position 1 \(parameter 'b'\) .*{text}"):
        register(core.add())(good, array, good)
    resident = device.alloc_tensor((16, 16), torch.float32, good)
    with pytest.raises(TypeError, match=rf"'src_host_ptr' .*{text}"):
        device.copy_to(resident, array)
    assert torch.equal(resident.to_host(), good)
    with pytest.raises(TypeError, match=rf"'dst_host_ptr' .*{text}"):
        device.copy_from(array, resident)


@pytest.mark.filterwarnings("ignore")
def test_what_torch_says_in_cpp_is_cut_at_its_stack(device: _pypto.Worker) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(ValueError, match="Tensor 'src_host_ptr' cannot be read: ") as raised:
        device.copy_to(device.alloc_tensor((4,), torch.float32), nested)
    assert "frame #" not in str(raised.value)
