"""Host arrays on their way in and out: every producer, every layout, every element type."""

import core_programs as core
import numpy as np
import pytest
import torch
from core_programs import Register

from pypto import _pypto

ANY_BITS = torch.arange(256, dtype=torch.uint8)
TORCH_DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip
NUMPY_DTYPES = ["f4", "f2", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


class Capsule:
    """A producer that knows nothing but `__dlpack__`, in the form since DLPack 1.0."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **keywords: object) -> object:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OldCapsule(Capsule):
    """One that does not know `max_version`."""

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()


def round_trip(device: _pypto.Worker, array: object, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return device.alloc_tensor(shape, dtype, array).to_host()


@pytest.mark.parametrize("dtype", TORCH_DTYPES, ids=str)
def test_every_bit_of_a_torch_tensor_arrives(device: _pypto.Worker, dtype: torch.dtype) -> None:
    tensor = ANY_BITS.view(dtype)
    back = round_trip(device, tensor, tuple(tensor.shape), dtype)
    assert back.dtype == dtype
    assert torch.equal(back.view(torch.uint8), ANY_BITS)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_every_bit_of_a_numpy_array_arrives(device: _pypto.Worker, dtype: str) -> None:
    array = np.array([0, 1, 1, 0], dtype=dtype)
    expected = torch.from_numpy(array)
    assert torch.equal(round_trip(device, array, (4,), expected.dtype), expected)


@pytest.mark.parametrize("producer", [Capsule, OldCapsule])
def test_anything_that_speaks_dlpack_arrives(device: _pypto.Worker, producer: type[Capsule]) -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert torch.equal(round_trip(device, producer(array), (2, 3), torch.int32), torch.from_numpy(array))


def test_parameters_and_tensors_with_gradients_are_tensors(device: _pypto.Worker) -> None:
    parameter = torch.nn.Parameter(torch.arange(4.0))
    assert torch.equal(round_trip(device, parameter, (4,), torch.float32), parameter.detach())


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(12.0).reshape(3, 4)[1:],
        torch.empty(4, 1).t().fill_(3.0),
        torch.arange(4.0).as_strided((1, 4, 1), (77, 1, 5)),
        torch.arange(8.0)[4:].reshape(2, 2),
    ],
    ids=["storage offset", "odd stride of one row", "odd strides of single elements", "offset and shape"],
)
def test_strides_that_say_nothing_do_not_matter(device: _pypto.Worker, view: torch.Tensor) -> None:
    assert torch.equal(round_trip(device, view, tuple(view.shape), torch.float32), view)


@pytest.mark.parametrize(
    "view",
    [
        torch.zeros(4, 6).t(),
        torch.zeros(4, 6)[:, ::2],
        torch.zeros(4, 1).expand(4, 6),
        np.zeros((4, 6), np.float32).T,
        np.zeros((4, 6), np.float32)[:, ::2],
        np.zeros((4, 6), np.float32)[::-1],
        Capsule(np.zeros((4, 6), np.float32).T),
    ],
    ids=[
        "transposed",
        "strided",
        "expanded",
        "numpy transposed",
        "numpy strided",
        "numpy reversed",
        "DLPack transposed",
    ],
)
def test_gaps_between_elements_are_refused(device: _pypto.Worker, view: object) -> None:
    shape = tuple(view.array.shape if isinstance(view, Capsule) else view.shape)
    with pytest.raises(ValueError, match=r"Tensor 'init' is not contiguous.*Call \.contiguous\(\)"):
        round_trip(device, view, shape, torch.float32)


def test_memory_of_another_device_is_refused(device: _pypto.Worker) -> None:
    with pytest.raises(ValueError, match=r"Tensor 'init' is on meta, expected CPU\. Call \.cpu\(\)"):
        round_trip(device, torch.empty(4, device="meta"), (4,), torch.float32)


@pytest.mark.parametrize(
    "array",
    [
        torch.zeros(4, dtype=torch.float8_e4m3fnuz),
        np.zeros(4, np.longdouble),
        np.zeros(4, ">f4"),
        np.zeros(4, "datetime64[s]"),
        np.zeros(4, [("x", "f4")]),
        np.array(["text"]),
    ],
    ids=["torch float8", "long double", "other byte order", "dates", "records", "text"],
)
def test_element_types_without_a_counterpart_are_refused(device: _pypto.Worker, array: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"Tensor 'init' (has unsupported dtype|cannot be read)"):
        round_trip(device, array, (4,), torch.float32)


@pytest.mark.parametrize("value", [[1.0], (1.0,), 1.0, "x", b"bytes", None, object(), range(3)], ids=repr)
def test_other_objects_are_no_tensors(device: _pypto.Worker, value: object) -> None:
    target = device.alloc_tensor((4,), torch.float32)
    with pytest.raises(TypeError, match=r"must be a torch\.Tensor"):
        device.copy_to(target, value, 4)


def test_nine_dimensions_are_too_many(device: _pypto.Worker) -> None:
    target = device.alloc_tensor((4,), torch.float32)
    with pytest.raises(ValueError, match="has 9 dimensions; at most 8"):
        device.copy_to(target, torch.zeros((1,) * 9))


def test_a_producer_that_fails_is_quoted(device: _pypto.Worker) -> None:
    class Broken:
        def __dlpack__(self, **_: object) -> object:
            raise BufferError("the cat sits on it")

    target = device.alloc_tensor((4,), torch.float32)
    with pytest.raises(ValueError, match="Tensor 'src_host_ptr' cannot be read: the cat sits on it") as raised:
        device.copy_to(target, Broken())
    assert isinstance(raised.value.__cause__, BufferError)


def test_a_producer_that_hands_over_no_capsule_is_refused(device: _pypto.Worker) -> None:
    class Wrong:
        def __dlpack__(self, **_: object) -> object:
            return 7

    target = device.alloc_tensor((4,), torch.float32)
    with pytest.raises(ValueError, match="did not return a capsule"):
        device.copy_to(target, Wrong())


def test_read_only_memory_is_not_written(device: _pypto.Worker) -> None:
    source = device.alloc_tensor((4,), torch.float32, torch.ones(4))
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    for target in (array, Capsule(array)):
        with pytest.raises(ValueError, match="'dst_host_ptr' is read-only"):
            device.copy_from(target, source)
    assert not array.any()


def test_many_types_of_producers_are_read(device: _pypto.Worker) -> None:
    """More types than are remembered."""
    for index in range(20):
        kind = type(f"Kind{index}", (Capsule,), {})
        array = np.full(4, float(index), np.float32)
        for _ in range(2):
            assert round_trip(device, kind(array), (4,), torch.float32).tolist() == [float(index)] * 4


def without_memory() -> list[torch.Tensor]:
    """Tensors that say they are on the CPU and have no bytes there."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    freed = torch.zeros(4)
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        return [freed, torch.empty(4)]


def test_a_tensor_without_memory_is_refused_instead_of_read(device: _pypto.Worker) -> None:
    resident = device.alloc_tensor((4,), torch.float32, torch.zeros(4))
    for tensor in without_memory():
        with pytest.raises(ValueError, match=r"no memory of its own .*; pass a tensor with data"):
            device.copy_to(resident, tensor)


def test_a_view_that_torch_stores_negated_is_refused_with_the_remedy(device: _pypto.Worker) -> None:
    negated = torch._neg_view(torch.ones(4))
    with pytest.raises(ValueError, match=r"stored with the opposite sign\. Call \.resolve_neg\(\) on it first"):
        device.alloc_tensor((4,), torch.float32, negated)
    assert torch.equal(round_trip(device, negated.resolve_neg(), (4,), torch.float32), -torch.ones(4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_tensor_whose_storage_was_shrunk_is_not_read_past_its_end(device: _pypto.Worker, dtype: torch.dtype) -> None:
    tensor = torch.zeros(128, 128, dtype=dtype)
    view = tensor[64:]
    tensor.untyped_storage().resize_(48 << 10)
    resident = device.alloc_tensor((128, 128), dtype)
    text = "'src_host_ptr' has {} bytes, but its storage holds only {} of them: the storage was resized"
    with pytest.raises(ValueError, match=text.format(65536, 49152)):
        device.copy_to(resident, tensor)
    with pytest.raises(ValueError, match=text.format(32768, 16384)):
        device.copy_to(resident, view)
    device.copy_to(resident, tensor[:64], 64 * 512)


def test_a_large_argument_is_asked_what_its_description_does_not_tell(register: Register) -> None:
    handle = register(core.add("0", 256, symbols=["M"]))
    good, out = torch.ones(64, 256), torch.zeros(64, 256)
    with pytest.raises(
        ValueError, match=r"\(parameter 'b'\) is a view whose elements are stored with the opposite sign"
    ):
        handle(good, torch._neg_view(good), out)
    shrunk = torch.ones(64, 256)
    shrunk.untyped_storage().resize_(256)
    with pytest.raises(ValueError, match=r"\(parameter 'a'\) has 65536 bytes, but its storage holds only 256 of them"):
        handle(shrunk, good, out)
    assert not out.any()
    handle(torch.ones(80, 256)[16:], good, out)
    assert torch.equal(out, torch.full((64, 256), 2.0))


def test_what_ends_the_program_is_not_taken_for_a_fault_of_the_tensor(device: _pypto.Worker) -> None:
    class Interrupted:
        def __dlpack__(self, **keywords: object) -> object:
            raise KeyboardInterrupt

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(KeyboardInterrupt):
        device.alloc_tensor((4,), torch.float32, Interrupted())
