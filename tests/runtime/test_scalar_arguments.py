"""Numbers as arguments: which objects count, and what does not fit."""

import ctypes

import core_programs as core
import numpy as np
import pytest
import torch
from core_programs import Register

import pypto.language as pl
from pypto.runtime import ChipWorker, DeviceTensor

INTS = {
    "INT8": (-(2**7), 2**7 - 1),
    "INT16": (-(2**15), 2**15 - 1),
    "INT32": (-(2**31), 2**31 - 1),
    "INT64": (-(2**63), 2**63 - 1),
    "UINT8": (0, 2**8 - 1),
    "UINT16": (0, 2**16 - 1),
    "UINT32": (0, 2**32 - 1),
    "UINT64": (0, 2**64 - 1),
}


def launch(register: Register, dtype: str, value: object, *, baked: dict[str, object] | None = None) -> None:
    handle = register(core.program("scalar", [core.scalar("n", dtype, baked=baked)]), (), has_return=False)
    assert handle(value) is None


@pytest.mark.parametrize("dtype", INTS)
def test_ints_are_accepted_up_to_the_ends_of_their_range(register: Register, dtype: str) -> None:
    low, high = INTS[dtype]
    for value in (low, 0, 1, high):
        launch(register, dtype, value)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("beyond", [1, 2**80])
def test_ints_beyond_their_range_are_refused(register: Register, dtype: str, beyond: int) -> None:
    low, high = INTS[dtype]
    for value in (low - beyond, high + beyond):
        with pytest.raises(OverflowError, match=r"'n'"):
            launch(register, dtype, value)


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16"])
def test_floats_take_any_real_number(register: Register, dtype: str) -> None:
    for value in (1.5, 2, -0.0, np.float32(2.5), np.float64(2.5), np.int32(3), float("nan"), float("inf")):
        launch(register, dtype, value)


@pytest.mark.parametrize(
    ("dtype", "value"), [("FP32", 1e39), ("FP32", -1e300), ("FP16", 70000.0), ("FP32", 2**200), ("BF16", 10**400)]
)
def test_floats_beyond_their_range_are_refused(register: Register, dtype: str, value: float) -> None:
    with pytest.raises(OverflowError, match=r"'n'"):
        launch(register, dtype, value)


@pytest.mark.parametrize("dtype", [*INTS, "FP32"])
@pytest.mark.parametrize("value", [True, False])
def test_a_bool_is_no_number(register: Register, dtype: str, value: bool) -> None:
    with pytest.raises(TypeError, match=rf"position 0 \(parameter 'n'\) expects an? {dtype} scalar, got bool: .*int\("):
        launch(register, dtype, value)


def test_a_truth_value_is_a_bool(register: Register) -> None:
    for value in (True, False, np.True_, ctypes.c_bool(True)):
        launch(register, "BOOL", value)
    for value in (1, 0.0, np.int8(1)):
        with pytest.raises(TypeError, match="expects a BOOL scalar"):
            launch(register, "BOOL", value)


@pytest.mark.parametrize("value", [1.0, 2.5, np.float32(1.0)], ids=repr)
def test_a_float_is_no_int(register: Register, value: object) -> None:
    with pytest.raises(TypeError, match=r"expects an INT32 scalar, got .*float.*convert it with int"):
        launch(register, "INT32", value)


@pytest.mark.parametrize("value", [np.int8(7), np.int64(7), np.uint64(7)], ids=repr)
def test_numpy_ints_are_ints(register: Register, value: object) -> None:
    launch(register, "INT32", value)


@pytest.mark.parametrize("dtype", ["INT32", "FP32", "BOOL"])
@pytest.mark.parametrize(
    "value",
    [torch.tensor(1), torch.tensor([1.0]), np.array(1), np.array([1.0]), DeviceTensor(4096, (1,), torch.float32)],
    ids=["torch", "torch of rank 1", "numpy", "numpy of rank 1", "resident"],
)
def test_a_tensor_is_no_scalar(register: Register, dtype: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"expects an? {dtype} scalar, got .*\.item\(\)"):
        launch(register, dtype, value)


CTYPES = {
    "INT8": ctypes.c_int8,
    "INT16": ctypes.c_int16,
    "INT32": ctypes.c_int32,
    "INT64": ctypes.c_int64,
    "UINT8": ctypes.c_uint8,
    "UINT16": ctypes.c_uint16,
    "UINT32": ctypes.c_uint32,
    "FP32": ctypes.c_float,
}


@pytest.mark.parametrize("dtype", CTYPES)
def test_ctypes_values_are_of_exactly_the_declared_type(register: Register, dtype: str) -> None:
    for name, kind in CTYPES.items():
        if name == dtype:
            launch(register, dtype, kind(7))
        else:
            with pytest.raises(TypeError, match="use the ctypes class of the declared type"):
                launch(register, dtype, kind(7))


@pl.jit
def plus(x: pl.Tensor, out: pl.Out[pl.Tensor], h: pl.Scalar[pl.FP16], b: pl.Scalar[pl.BF16]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(pl.add(x, pl.cast(h, pl.FP32)), pl.cast(b, pl.FP32))
    return out


def test_a_half_is_a_number_or_its_16_bits(worker: ChipWorker) -> None:
    x, out = torch.zeros(4, 16), torch.empty(4, 16)
    compiled = plus.compile(x, out, pl.RUNTIME, pl.RUNTIME)
    for half, brain, total in [
        (ctypes.c_float(1.5), ctypes.c_float(2.0), 3.5),
        (ctypes.c_uint16(0x3E00), ctypes.c_uint16(0x4000), 3.5),
        (ctypes.c_uint16(0xBE00), 0.0, -1.5),
        (ctypes.c_uint16(0x0001), 0.0, 2.0**-24),
        (0.0, ctypes.c_uint16(0x0001), 2.0**-133),
        (ctypes.c_uint16(0x7C00), 0.0, float("inf")),
    ]:
        worker.run(compiled, x, out, half, brain)
        assert (out == total).all(), (half, brain)
    with pytest.raises(TypeError, match=r"expects an FP16 scalar.*use the ctypes class of the declared type"):
        worker.run(compiled, x, out, ctypes.c_int16(1), 0.0)


@pytest.mark.parametrize("value", ["1", b"1", None, [1], {}, 1j, object()], ids=repr)
def test_other_objects_are_no_scalars(register: Register, value: object) -> None:
    for dtype in ("INT32", "FP32", "BOOL"):
        with pytest.raises(TypeError, match=rf"expects an? {dtype} scalar"):
            launch(register, dtype, value)


def test_a_number_that_fails_to_say_itself_fails_the_launch(register: Register) -> None:
    class Broken:
        def __index__(self) -> int:
            raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError, match="no"):
        launch(register, "INT32", Broken())


BAKED = [("INT32", {"Int": 7}), ("UINT64", {"Large": 2**63}), ("FP32", {"Float": 0.1}), ("FP16", {"Float": 0.1})]


@pytest.mark.parametrize(("dtype", "baked"), [*BAKED, ("BOOL", {"Bool": True})], ids=str)
def test_a_value_that_was_fixed_by_compiling_may_be_passed_again(
    register: Register, dtype: str, baked: dict[str, object]
) -> None:
    for value in baked.values():
        launch(register, dtype, value, baked=baked)


@pytest.mark.parametrize(("dtype", "baked"), BAKED, ids=str)
def test_another_value_than_that_of_compiling_is_refused_instead_of_ignored(
    register: Register, dtype: str, baked: dict[str, object]
) -> None:
    handle = register(core.program("scalar", [core.scalar("n", dtype, baked=baked)]), (), has_return=False)
    (value,) = baked.values()
    for other in (8, 0, 2**40):
        with pytest.raises(ValueError, match=rf"'n' of 'scalar' was compiled for {value}.*pl\.RUNTIME"):
            handle(other)
    with pytest.raises(TypeError, match="expects a"):
        handle("text")
    assert handle(value) is None
    bound = handle.bind(value)
    with pytest.raises(ValueError, match="was compiled for"):
        bound.update(n=8)


def test_a_scalar_for_a_tensor_is_refused(register: Register) -> None:
    with pytest.raises(
        TypeError, match=r"position 1 must be a torch\.Tensor or a DeviceTensor \(parameter 'b'\).*got int"
    ):
        register(core.add())(torch.zeros(16, 16), 3, torch.zeros(16, 16))
