"""Arguments that a launch refuses: the kind of error, what the text names, and what it tells to do."""

import dataclasses

import core_programs as core
import numpy as np
import pytest
import torch
from core_programs import Register

from pypto import _pypto
from pypto.runtime import DeviceTensor

SHAPE = (16, 16)


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*(shape or SHAPE), dtype=dtype)


def good() -> dict[str, object]:
    return {"a": ones(), "b": ones(), "c": ones()}


WRONG_TENSORS = {
    "too few rows": (
        ones(15, 16),
        TypeError,
        r"shape \(16, 16\), got \(15, 16\) in a launch of 'add'\. Axis 0 must be 16, not 15",
    ),
    "too many columns": (ones(16, 17), TypeError, r"Axis 1 must be 16, not 17"),
    "rank 1": (
        ones(256),
        TypeError,
        r"got \(256,\) in a launch of 'add'\. It must have 2 axes, not 1; \.reshape\(\) it, or \.view\(\) it on",
    ),
    "rank 3": (ones(1, 16, 16), TypeError, r"It must have 2 axes, not 3"),
    "fp16": (
        ones(dtype=torch.float16),
        TypeError,
        r"dtype FP32 \(torch\.float32\), got FP16 \(torch\.float16\)",
    ),
    "int32": (ones(dtype=torch.int32), TypeError, r"got INT32 \(torch\.int32\)"),
    "fp64": (ones(dtype=torch.float64), TypeError, r"got FP64 \(torch\.float64\)"),
}


@pytest.mark.parametrize("place", ["host", "numpy", "resident"])
@pytest.mark.parametrize("param", ["a", "b", "c"])
@pytest.mark.parametrize("kind", WRONG_TENSORS)
def test_one_rule_for_tensors_wherever_they_are(
    device: _pypto.Worker, register: Register, kind: str, param: str, place: str
) -> None:
    tensor, error, text = WRONG_TENSORS[kind]
    args = good()
    args[param] = {
        "host": lambda: tensor,
        "numpy": tensor.numpy,
        "resident": lambda: device.alloc_tensor(tuple(tensor.shape), tensor.dtype, tensor),
    }[place]()
    with pytest.raises(error, match=rf"Parameter '{param}' expects .*{text}"):
        register(core.add())(*args.values())


@pytest.mark.parametrize("param", ["a", "b", "c"])
def test_a_host_tensor_with_gaps_is_refused(register: Register, param: str) -> None:
    position = "abc".index(param)
    for view in (ones().t(), ones(16, 32)[:, ::2], ones(16, 1).expand(16, 16)):
        args = good()
        args[param] = view
        text = rf"Tensor at position {position} is not contiguous \(parameter '{param}'\).*\.contiguous\(\)"
        with pytest.raises(ValueError, match=text):
            register(core.add())(*args.values())


def test_a_tensor_of_another_device_is_refused(register: Register) -> None:
    args = good() | {"b": torch.ones(SHAPE, device="meta")}
    with pytest.raises(ValueError, match=r"Tensor at position 1 is on meta, expected CPU \(parameter 'b'\).*\.cpu\(\)"):
        register(core.add())(*args.values())


@pytest.mark.parametrize("value", [None, 3, 1.5, "x", [1.0], object()], ids=repr)
def test_what_is_no_tensor_is_refused(register: Register, value: object) -> None:
    args = good() | {"a": value}
    text = r"Argument at position 0 must be a torch\.Tensor or a DeviceTensor \(parameter 'a'\)"
    with pytest.raises(TypeError, match=text):
        register(core.add())(*args.values())


def test_a_read_only_array_is_an_input_and_no_output(register: Register) -> None:
    array = np.ones(SHAPE, np.float32)
    array.flags.writeable = False
    handle = register(core.add())
    c = torch.empty(SHAPE)
    handle(array, array, c)
    assert torch.equal(c, torch.full(SHAPE, 2.0))
    with pytest.raises(ValueError, match=r"Parameter 'c' of 'add'.*read-only.*writable"):
        handle(ones(), ones(), array)
    assert (array == 1).all()


def test_one_symbol_has_one_value(register: Register) -> None:
    handle = register(core.add("0", symbols=["M"]))
    with pytest.raises(
        ValueError, match=r"Parameter 'b' of 'add': axis 0 is 3, but M is 2 .*\(said by parameter 'a'\)"
    ):
        handle(ones(2, 16), ones(3, 16), ones(2, 16))


def test_an_output_overlaps_no_other_argument(device: _pypto.Worker, register: Register) -> None:
    handle = register(core.add())
    whole = torch.zeros(24, 16)
    resident = device.alloc_tensor(SHAPE, torch.float32, ones())
    cases = [
        (whole[:16], ones(), whole[8:]),
        (ones(), whole[8:], whole[:16]),
        (ones(), whole[:16], whole[:16]),
        (resident, ones(), resident),
    ]
    for args in cases:
        with pytest.raises(
            ValueError, match=r"Parameter 'c' of 'add' is written by the program, but its memory overlaps"
        ):
            handle(*args)
    assert not whole.any()
    out = torch.empty(32, 16)
    handle(out[:16].fill_(1.0), out[:16], out[16:])
    handle(resident, resident, out[16:])
    assert torch.equal(out[16:], torch.full(SHAPE, 2.0)), "neighbours and inputs may be what they like"


def test_a_bare_pointer_is_refused(register: Register) -> None:
    args = good() | {"b": DeviceTensor(4096, SHAPE, torch.float32)}
    text = (
        r"At position 1: raw pointer DeviceTensor\(.*cannot be dispatched by ChipWorker.*same ChipWorker\.alloc_tensor"
    )
    with pytest.raises(ValueError, match=text):
        register(core.add())(*args.values())


def test_a_freed_tensor_is_refused(device: _pypto.Worker, register: Register) -> None:
    tensor = device.alloc_tensor(SHAPE, torch.float32, ones())
    view = dataclasses.replace(tensor, shape=SHAPE)
    device.free_tensor(tensor)
    device.alloc_tensor(SHAPE, torch.float32, ones())
    text = r"Parameter 'b' of 'add'.*test_bad_input\.py:\d+.*not a live allocation owned by this ChipWorker.*freed"
    for dead in (tensor, view):
        with pytest.raises(ValueError, match=f"^At position 1: {text}"):
            register(core.add())(ones(), dead, ones())


def test_a_tensor_of_another_worker_is_refused_with_both_named(register: Register) -> None:
    other = _pypto.Worker("a2a3sim", capacity=1 << 20, name="other")
    tensor = other.alloc_tensor(SHAPE, torch.float32, ones())
    text = (
        r"Parameter 'a' of 'add'.*not a live allocation owned by this ChipWorker \(worker #\d+\).*worker #\d+ \(other\)"
    )
    with pytest.raises(ValueError, match=text):
        register(core.add())(tensor, ones(), ones())
    other.close()
    with pytest.raises(ValueError, match=r"not a live allocation owned by this ChipWorker.*closed"):
        register(core.add())(tensor, ones(), ones())


def test_a_view_larger_than_its_memory_is_refused(device: _pypto.Worker, register: Register) -> None:
    tensor = device.alloc_tensor((15, 16), torch.float32)
    with pytest.raises(ValueError, match=r"Parameter 'a' of 'add'.*exceeds the 960-byte backing"):
        register(core.add())(dataclasses.replace(tensor, shape=SHAPE), ones(), ones())


def test_errors_leave_the_worker_usable(device: _pypto.Worker, register: Register) -> None:
    handle = register(core.add())
    for tensor, error, _ in WRONG_TENSORS.values():
        with pytest.raises(error):
            handle(tensor, ones(), ones())
    c = torch.empty(SHAPE)
    handle(ones(), ones(), c)
    assert torch.equal(c, torch.full(SHAPE, 2.0))
    assert device.counters()["launches"] == 1


@pytest.mark.parametrize("capacity", [0, -1, 1 << 70])
def test_a_capacity_is_a_size(capacity: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        _pypto.Worker("a2a3sim", capacity=capacity)


def test_no_capacity_says_what_to_pass() -> None:
    with pytest.raises(ValueError, match=r"must be a positive number of bytes, got 0: pass RunConfig\(device_memory="):
        _pypto.Worker("a2a3sim", capacity=0)


@pytest.mark.parametrize("platform", ["", "cuda", "A2A3SIM"])
def test_an_unknown_platform_is_refused(platform: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid platform .*expected one of a2a3sim, a2a3, a5sim, a5"):
        _pypto.Worker(platform, capacity=1 << 20)


def test_an_unknown_instruction_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_ISA", "mmx")
    with pytest.raises(ValueError, match=r'PYPTO_ISA="mmx" names no instruction set; use generic, avx2 or avx512'):
        _pypto.Worker("a2a3sim", capacity=1 << 20)
