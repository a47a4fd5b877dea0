"""Comparison with expected outputs."""

import pytest
import torch

from pypto.runtime import validate_golden

NAN = float("nan")


def test_equal_outputs_pass() -> None:
    x = torch.randn(8)
    validate_golden({"x": x, "other": torch.zeros(1)}, {"x": x.clone()})


def test_tolerances_decide() -> None:
    validate_golden({"x": torch.tensor([1.01])}, {"x": torch.tensor([1.0])}, rtol=0.02, atol=0.0)
    with pytest.raises(AssertionError):
        validate_golden({"x": torch.tensor([1.01])}, {"x": torch.tensor([1.0])}, rtol=0.005, atol=0.0)
    validate_golden({"x": torch.tensor([0.01])}, {"x": torch.tensor([0.0])}, rtol=0.0, atol=0.02)


def test_a_nan_in_golden_is_not_compared_and_one_in_the_output_fails() -> None:
    validate_golden({"x": torch.tensor([1.0, 7.0])}, {"x": torch.tensor([1.0, NAN])})
    with pytest.raises(AssertionError, match=r"1/2 elements"):
        validate_golden({"x": torch.tensor([1.0, NAN])}, {"x": torch.tensor([1.0, 7.0])})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.uint8])
def test_every_dtype_is_compared(dtype: torch.dtype) -> None:
    zeros, ones = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
    validate_golden({"x": ones}, {"x": ones})
    with pytest.raises(AssertionError, match="3/3"):
        validate_golden({"x": ones}, {"x": zeros})


def test_a_difference_is_located() -> None:
    actual = torch.zeros(4, 5)
    actual[2, 3] = 1.0
    with pytest.raises(AssertionError) as raised:
        validate_golden({"out": actual}, {"out": torch.zeros(4, 5)})
    assert str(raised.value).splitlines() == [
        "output 'out' differs from golden in 1/20 elements (rtol=1e-05, atol=1e-05):",
        "  (2, 3): got 1.0, expected 0.0",
    ]


def test_twenty_differences_are_listed() -> None:
    with pytest.raises(AssertionError) as raised:
        validate_golden({"x": torch.ones(50)}, {"x": torch.zeros(50)})
    lines = str(raised.value).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[-1] == "  ... and 30 more"


def test_shapes_broadcast() -> None:
    validate_golden({"x": torch.ones(4, 5)}, {"x": torch.ones(1)})


def test_an_output_that_does_not_exist_is_named() -> None:
    with pytest.raises(KeyError, match="y"):
        validate_golden({"x": torch.ones(1)}, {"y": torch.ones(1)})
