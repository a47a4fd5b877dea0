"""`TensorSpec` and `ScalarSpec`."""

import numpy as np
import pytest
import torch

from pypto.runtime import ScalarSpec, TensorSpec


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        (None, torch.zeros(2, 3)),
        (7, torch.full((2, 3), 7.0)),
        (1.5, torch.full((2, 3), 1.5)),
        (np.float32(1.5), torch.full((2, 3), 1.5)),
        (np.int64(7), torch.full((2, 3), 7.0)),
        (torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3)),
        (torch.ones, torch.ones(2, 3)),
        (torch.zeros, torch.zeros(2, 3)),
        (lambda: [[1, 2, 3], [4, 5, 6]], torch.arange(1.0, 7.0).reshape(2, 3)),
    ],
    ids=["none", "int", "float", "numpy float", "numpy int", "tensor", "ones", "zeros", "function"],
)
def test_every_kind_of_initial_value_makes_a_tensor(init: object, expected: torch.Tensor) -> None:
    made = TensorSpec("x", [2, 3], torch.float32, init).create_tensor()
    assert made.dtype == torch.float32
    assert torch.equal(made, expected)


@pytest.mark.parametrize("factory", [torch.randn, torch.rand])
def test_random_values_have_shape_and_dtype(factory: object) -> None:
    made = TensorSpec("x", (4, 5), torch.float64, factory).create_tensor()
    assert (tuple(made.shape), made.dtype) == ((4, 5), torch.float64)
    assert made.unique().numel() > 1


def test_other_initial_values_are_refused() -> None:
    with pytest.raises(TypeError, match="init_value of 'x' must be a number, a tensor or a function"):
        TensorSpec("x", (1,), torch.float32, "ones").create_tensor()


@pytest.mark.parametrize("ctype", ["int64", "int32", "uint64", "uint32", "float", "double"])
def test_scalars_have_one_of_six_types(ctype: str) -> None:
    assert ScalarSpec("n", 3, ctype).ctype == ctype


@pytest.mark.parametrize("ctype", ["int", "int8", "", None])
def test_other_scalar_types_are_refused(ctype: object) -> None:
    with pytest.raises(ValueError, match="ctype of 'n' must be one of int64"):
        ScalarSpec("n", 3, ctype)
