"""`DeviceTensor` as a value: what the constructor refuses, equality, views."""

import copy
import dataclasses
import gc
import pickle
import weakref
from collections.abc import Callable

import core_programs as core
import numpy as np
import pytest
import torch

from pypto import _pypto
from pypto.runtime import ChipWorker, DeviceTensor

BASE = 0x1000
STORED = [
    torch.float64, torch.uint64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e8m0fnu, torch.float4_e2m1fn_x2,
]  # fmt: skip
"""Types that no program computes with."""


class ForeignBuffer:
    """What a worker of another library might put behind a tensor."""

    base = BASE

    def tensor(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("pointer", [True, False, 0, -1, 1.0, "4096", None, 2**63, -(2**70)])
def test_a_pointer_is_a_positive_int(pointer: object) -> None:
    with pytest.raises(ValueError, match="data_ptr must be a positive int"):
        DeviceTensor(pointer, (4,), torch.float32)


@pytest.mark.parametrize("shape", [(2.0,), (True,), ("2",), (None,), (4, 2.5), (torch.tensor(2),), 4])
def test_extents_are_ints_and_nothing_is_truncated(shape: object) -> None:
    with pytest.raises(TypeError, match="shape must contain ints"):
        DeviceTensor(BASE, shape, torch.float32)


def test_tensors_have_at_least_one_dimension() -> None:
    with pytest.raises(ValueError, match="shape must be non-empty"):
        DeviceTensor(BASE, (), torch.float32)


@pytest.mark.parametrize("shape", [(0,), (4, 0), (-1, 4), (4, -(2**70))])
def test_extents_are_positive(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape must be all positive"):
        DeviceTensor(BASE, shape, torch.float32)


def test_more_than_eight_dimensions_are_refused() -> None:
    assert DeviceTensor(BASE, (1,) * 8, torch.float32).shape == (1,) * 8
    with pytest.raises(ValueError, match="shape has 9 dimensions; at most 8"):
        DeviceTensor(BASE, (1,) * 9, torch.float32)


@pytest.mark.parametrize("dtype", ["float32", int, 4, None])
def test_a_dtype_is_torch_s(dtype: object) -> None:
    with pytest.raises(TypeError, match=r"dtype must be a torch\.dtype"):
        DeviceTensor(BASE, (4,), dtype)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fnuz, torch.qint8])
def test_a_dtype_that_the_device_does_not_have_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"Unsupported DeviceTensor dtype {dtype}"):
        DeviceTensor(BASE, (4,), dtype)


def test_rules_are_checked_in_the_contract_s_order() -> None:
    with pytest.raises(ValueError, match="data_ptr"):
        DeviceTensor(0, (2.0,), "float32")
    with pytest.raises(TypeError, match="shape must contain ints"):
        DeviceTensor(BASE, (2.0, 0), "float32")
    with pytest.raises(ValueError, match="positive"):
        DeviceTensor(BASE, (0,), "float32")
    with pytest.raises(TypeError, match="dtype"):
        DeviceTensor(BASE, (4,), "float32", buffer=object())


def test_a_buffer_begins_at_the_pointer_and_makes_tensors() -> None:
    assert isinstance(DeviceTensor(BASE, (4,), torch.float32, buffer=ForeignBuffer()).buffer, ForeignBuffer)
    with pytest.raises(TypeError, match="attribute 'base'"):
        DeviceTensor(BASE, (4,), torch.float32, buffer=object())
    with pytest.raises(ValueError, match="does not match data_ptr"):
        DeviceTensor(BASE + 256, (4,), torch.float32, buffer=ForeignBuffer())
    without_tensor = type("WithoutTensor", (), {"base": BASE})()
    with pytest.raises(TypeError, match="method 'tensor'"):
        DeviceTensor(BASE, (4,), torch.float32, buffer=without_tensor)


DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.bool,
    torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_attributes_are_those_that_were_given(dtype: torch.dtype) -> None:
    tensor = DeviceTensor(BASE, [3, 5], dtype)
    assert (tensor.data_ptr, tensor.shape, tensor.dtype, tensor.buffer) == (BASE, (3, 5), dtype, None)
    assert tensor.nbytes == 15 * dtype.itemsize
    assert repr(tensor) == f"DeviceTensor(data_ptr=0x1000, shape=(3, 5), dtype={dtype})"


def test_pointer_shape_and_dtype_decide_equality() -> None:
    tensor = DeviceTensor(BASE, (4, 4), torch.float32)
    same = DeviceTensor(BASE, (4, 4), torch.float32, buffer=ForeignBuffer())
    assert tensor == same
    assert hash(tensor) == hash(same)
    others = [
        DeviceTensor(BASE + 1, (4, 4), torch.float32),
        DeviceTensor(BASE, (16,), torch.float32),
        DeviceTensor(BASE, (4, 4), torch.int32),
        (BASE, (4, 4), torch.float32),
    ]
    for other in others:
        assert tensor != other
    assert len({tensor, same, *others}) == 1 + len(others)


def test_it_cannot_be_changed_or_extended() -> None:
    tensor = DeviceTensor(BASE, (4,), torch.float32)
    for name in ("data_ptr", "shape", "dtype", "buffer", "nbytes", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(tensor, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(tensor, name)


def test_a_bare_pointer_travels_between_processes_and_a_tensor_with_memory_does_not(device: _pypto.Worker) -> None:
    bare = DeviceTensor(BASE, (4, 2), torch.bfloat16)
    assert pickle.loads(pickle.dumps(bare)) == bare
    for resident in (
        device.alloc_tensor((4,), torch.float32),
        DeviceTensor(BASE, (4,), torch.int8, buffer=ForeignBuffer()),
    ):
        with pytest.raises(TypeError, match=r"cannot pickle DeviceTensor\(.*Pickle to_host\(\), a copy"):
            pickle.dumps(resident)


def test_a_copy_views_the_same_memory(device: _pypto.Worker) -> None:
    tensor = device.alloc_tensor((4,), torch.float32)
    for duplicate in (copy.copy(tensor), copy.deepcopy([tensor])[0]):
        assert duplicate.buffer is tensor.buffer
        assert torch.equal(duplicate.copy_(torch.ones(4)).to_host(), tensor.to_host())


@pytest.mark.parametrize("dtype", STORED)
def test_types_without_arithmetic_are_stored_and_copied(device: _pypto.Worker, dtype: torch.dtype) -> None:
    host = torch.arange(64, dtype=torch.uint8).view(dtype)
    tensor = device.alloc_tensor(host.shape, dtype, host)
    assert tensor.nbytes == 64
    assert torch.equal(tensor.to_host().view(torch.uint8), host.view(torch.uint8))
    with pytest.raises(TypeError, match=r"Parameter 'a'.* expects "):
        device.register(core.add(), owner=None, compiled=None, output_indices=[2], has_return=True)(
            device.alloc_tensor((16, 16), dtype), *[torch.ones(16, 16)] * 2
        )


def test_numpy_says_which_types_it_has_not(device: _pypto.Worker) -> None:
    with pytest.raises(TypeError, match="numpy has no float8_e5m2: use to_host"):
        device.alloc_tensor((4,), torch.float8_e5m2).numpy()


def test_conjugated_and_negated_contents_are_resolved_or_refused() -> None:
    ones = torch.full((4,), 1j)
    with ChipWorker() as worker, worker.alloc_tensor((4,), torch.complex64, init=ones.conj()) as tensor:
        assert torch.equal(tensor.to_host(), -ones)
        with pytest.raises(ValueError, match="resolve_conj"):
            tensor.copy_(ones.conj())


def test_it_is_a_dataclass_to_those_who_ask() -> None:
    assert dataclasses.is_dataclass(DeviceTensor)
    assert [field.name for field in dataclasses.fields(DeviceTensor)] == ["data_ptr", "shape", "dtype", "buffer"]
    match DeviceTensor(BASE, (4,), torch.float32):
        case DeviceTensor(pointer, (4,), torch.float32):
            assert pointer == BASE
        case _:
            pytest.fail("positional patterns do not match")


def test_replace_gives_another_shape_of_the_same_memory(device: _pypto.Worker) -> None:
    tensor = device.alloc_tensor((4, 6), torch.float32, torch.arange(24.0).reshape(4, 6))
    flat = dataclasses.replace(tensor, shape=(24,))
    assert flat.buffer is tensor.buffer
    assert torch.equal(flat.to_host(), torch.arange(24.0))
    assert torch.equal(dataclasses.replace(tensor, shape=(2, 3)).to_host(), torch.arange(6.0).reshape(2, 3))


def test_a_view_that_is_larger_than_its_memory_cannot_be_read(device: _pypto.Worker) -> None:
    tensor = device.alloc_tensor((4,), torch.float32)
    larger = dataclasses.replace(tensor, shape=(5,))
    with pytest.raises(ValueError, match="exceeds the 16-byte backing"):
        larger.to_host()
    with pytest.raises(ValueError, match="more than the 16 bytes of its allocation"):
        tensor.buffer.tensor((5,), torch.float32)


def test_the_buffer_says_what_it_is(device: _pypto.Worker) -> None:
    tensor = device.alloc_tensor((4, 6), torch.float16)
    buffer = tensor.buffer
    assert tensor.buffer is buffer
    assert (buffer.base, buffer.nbytes, buffer.shape, buffer.dtype) == (tensor.data_ptr, 48, (4, 6), torch.float16)
    assert buffer.state == "live"
    assert buffer.site is not None
    assert buffer.site.rpartition(":")[0] == __file__
    assert buffer.description.startswith("FP16 (4, 6) at 0x")
    assert buffer.tensor((24,), torch.float16) == dataclasses.replace(tensor, shape=(24,))
    device.free_tensor(tensor)
    assert buffer.state == "freed"
    assert tensor.shape == (4, 6), "it stays inspectable"
    other = device.alloc_tensor((4,), torch.float16)
    device.close()
    assert other.buffer.state == "worker closed"


def test_to_host_needs_live_memory(device: _pypto.Worker) -> None:
    with pytest.raises(TypeError, match="bare pointer"):
        DeviceTensor(BASE, (4,), torch.float32).to_host()
    tensor = device.alloc_tensor((4,), torch.float32)
    device.free_tensor(tensor)
    with pytest.raises(ValueError, match="freed"):
        tensor.to_host()


def test_to_host_says_when_the_worker_is_gone() -> None:
    device = _pypto.Worker("a2a3sim", capacity=1 << 20)
    tensor = device.alloc_tensor((4,), torch.float32)
    del device
    gc.collect()
    with pytest.raises(RuntimeError, match=r"worker of FP32 .* is gone"):
        tensor.to_host()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("cpu", r"to_host\(\) gives a torch tensor"),
        ("item", r"to_host\(\) gives a torch tensor, which has it"),
        ("detach", "a device tensor has no gradient"),
        ("clone", r"worker\.from_host\(t\.to_host\(\)\) is a copy"),
        ("zero_", r"t\.copy_\(host\) writes what a host tensor holds; worker\.zeros\(\.\.\.\)"),
        ("reshape", r"t\.view\(\*shape\) is the same memory with another shape"),
        ("numel", r"t\.nbytes are the bytes of all elements"),
        ("is_cuda", r"repr\(t\) names its worker"),
        ("tobytes", r"t\.numpy\(\) gives a numpy array, which has it"),
        ("free", r"worker\.free_tensor\(t\), or `with t:`, frees it"),
        ("softmax", r"A program computes there; t\.to_host\(\)\.softmax is that of a copy on the host"),
    ],
)
def test_what_torch_has_and_it_has_not_says_what_to_write(name: str, instead: str) -> None:
    tensor = DeviceTensor(BASE, (4,), torch.float32)
    assert not hasattr(tensor, name)
    with pytest.raises(AttributeError, match=f"^'DeviceTensor' object has no attribute '{name}': .*{instead}"):
        getattr(tensor, name)


@pytest.mark.parametrize("name", ["nonsense", "_private", "__cuda_array_interface__", "_backward_hooks"])
def test_other_names_are_missing_without_advice(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^'DeviceTensor' object has no attribute '{name}'$"):
        getattr(DeviceTensor(BASE, (4,), torch.float32), name)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, t: np.add(x, t), "add"),
        (lambda x, t: x + t, "add"),
        (lambda x, t: t * x, "multiply"),
        (lambda x, t: x == t, "equal"),
        (lambda x, t: np.concatenate([x, t]), "concatenate"),
        (lambda x, t: np.sum(t), "sum"),
    ],
)
def test_numpy_downloads_nothing_silently(call: Callable[..., object], name: str, device: _pypto.Worker) -> None:
    tensor = device.alloc_tensor((4,), torch.float32, torch.ones(4))
    before = device.counters()["d2h_bytes"]
    with pytest.raises(TypeError, match=rf"^numpy\.{name} got a DeviceTensor.* t\.numpy\(\) is a copy on the host"):
        call(np.ones(4, np.float32), tensor)
    assert device.counters()["d2h_bytes"] == before
    assert np.array_equal(np.asarray(tensor), np.ones(4)), "asking for a copy gives one"


def test_it_can_be_referred_to_weakly() -> None:
    tensor = DeviceTensor(BASE, (4,), torch.float32)
    reference = weakref.ref(tensor)
    assert reference() is tensor
    del tensor
    assert reference() is None


def test_the_functions_of_dataclasses_take_it(device: _pypto.Worker) -> None:
    tensor = device.alloc_tensor((2, 4), torch.float32)
    assert dataclasses.is_dataclass(tensor)
    assert DeviceTensor.__dataclass_params__.frozen
    fields = {"data_ptr": tensor.data_ptr, "shape": (2, 4), "dtype": torch.float32, "buffer": tensor.buffer}
    assert dataclasses.asdict(tensor) == fields
    assert dataclasses.astuple(tensor) == tuple(fields.values())
    assert dataclasses.asdict(tensor)["buffer"] is tensor.buffer
    assert copy.deepcopy([tensor.buffer]) == [copy.copy(tensor.buffer)] == [tensor.buffer]


def test_nothing_is_looked_for_in_a_device_tensor(device: _pypto.Worker) -> None:
    """Python would compare with each row, find no equal one, and answer no."""
    tensor = device.alloc_tensor((2, 4), torch.float32, torch.ones(2, 4))
    for value in (1, 1.0, tensor, tensor[0], None, "x"):
        with pytest.raises(TypeError, match=r"`in` got a DeviceTensor, .* `value in t\.to_host\(\)` searches a copy"):
            _ = value in tensor
    assert tensor in [tensor]
    assert tensor in {tensor}


def test_a_device_tensor_is_true_whatever_its_elements_are(device: _pypto.Worker) -> None:
    """As any value object: `if self.cache:` and `cache or allocate()` ask whether there is one."""
    zero = device.alloc_tensor((1,), torch.float32, torch.zeros(1))
    assert bool(zero) is True
    assert (zero or None) is zero
    device.free_tensor(zero)
    assert bool(zero) is True
    assert bool(DeviceTensor(BASE, (4,), torch.float32)) is True
