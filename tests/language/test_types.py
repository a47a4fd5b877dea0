"""Dtypes and annotations as Python objects."""

import pickle

import pytest
import torch

import pypto.language as pl
from pypto.language.dtypes import ALL, DataType


def test_dtypes_know_their_size_and_their_torch_counterpart() -> None:
    assert pl.FP16.get_byte() == 2
    assert pl.INT4.get_bit() == 4
    assert pl.BF16.to_torch() is torch.bfloat16
    assert DataType.of(torch.int32) is pl.INT32
    assert DataType.of(torch.complex64) is None
    assert DataType.INT32 is pl.INT32
    assert repr(pl.FP32) == "pl.FP32"
    with pytest.raises(TypeError, match=r"pl\.INDEX has no torch counterpart"):
        pl.INDEX.to_torch()


def test_dtypes_stay_themselves_when_copied() -> None:
    for dtype in ALL:
        assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_annotations_check_what_they_are_given() -> None:
    assert pl.Tensor[[16, 32], pl.FP32].shape == (16, 32)
    for wrong, error, text in (
        (lambda: pl.Tensor[16], TypeError, "takes a list of extents and a dtype"),
        (lambda: pl.Tensor[16, pl.FP32], TypeError, "the extents of pl.Tensor are a list"),
        (lambda: pl.Tensor[[16.0], pl.FP32], TypeError, "an int or a pl.dynamic object, got 16.0"),
        (lambda: pl.Tensor[[True], pl.FP32], TypeError, "an int or a pl.dynamic object, got True"),
        (lambda: pl.Tensor[[0], pl.FP32], ValueError, "is positive, got 0"),
        (lambda: pl.Tensor[[16], "FP32"], TypeError, "a dtype such as pl.FP32, got 'FP32'"),
        (lambda: pl.Tensor[[16], pl.FP32, pl.DN], ValueError, "pl.DN cannot stand"),
        (lambda: pl.Scalar["INT32"], TypeError, "pl.Scalar takes a dtype"),
        (lambda: pl.Out[pl.FP32], TypeError, "pl.Out wraps a tensor"),
        (lambda: pl.dynamic("2x"), ValueError, "pl.dynamic needs a name"),
    ):
        with pytest.raises(error, match=text):
            wrong()


def test_arithmetic_of_dynamic_extents_reads_as_written() -> None:
    m = pl.dynamic("M")
    assert repr(m * 2 + 1) == "((M * 2) + 1)"
    assert repr(m) == 'pl.dynamic("M")'


def test_decorators_refuse_what_is_no_function() -> None:
    with pytest.raises(TypeError, match=r"@pl\.jit decorates a plain function"):
        pl.jit(3)
    with pytest.raises(TypeError, match=r"@pl\.program decorates a class"):
        pl.program(lambda: None)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'kind'"):
        pl.function(kind=1)
