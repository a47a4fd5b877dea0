"""`TensorSpec` and `ScalarSpec`: arguments described instead of made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

from pypto import failures

if TYPE_CHECKING:
    import torch

_CTYPES = ("int64", "int32", "uint64", "uint32", "float", "double")


@dataclass
class TensorSpec:
    """A tensor argument that is made when it is needed.

    Attributes:
        name: Name of the parameter.
        shape: Extents.
        dtype: Element type.
        init_value: Zeros for None, all elements for a number, a tensor, `torch.randn` and its like, or a function
            without arguments that returns what `torch.as_tensor` takes.
        is_output: Whether the kernel writes it.
    """

    name: str
    shape: Sequence[int]
    dtype: torch.dtype
    init_value: int | float | torch.Tensor | Callable[..., Any] | None = None
    is_output: bool = False

    def create_tensor(self) -> torch.Tensor:
        """Makes the tensor.

        Raises:
            TypeError: `init_value` is nothing that a tensor can be made of.
        """
        import torch

        shape, init = tuple(self.shape), self.init_value
        if init is None:
            return torch.zeros(shape, dtype=self.dtype)
        if isinstance(init, torch.Tensor):
            return init.to(self.dtype)
        if isinstance(init, (int, float, Number)):  # np.float32 and np.int64 are only the last
            return torch.full(shape, init, dtype=self.dtype)
        for factory in (torch.randn, torch.rand, torch.zeros, torch.ones):
            if init is factory:
                return factory(shape, dtype=self.dtype)
        if callable(init):
            return torch.as_tensor(init(), dtype=self.dtype)
        raise failures.BAD_INIT_VALUE(
            f"init_value of {self.name!r} must be a number, a tensor or a function, got {init!r}"
        )


@dataclass
class ScalarSpec:
    """A scalar argument.

    Attributes:
        name: Name of the parameter.
        value: The number.
        ctype: `int64`, `int32`, `uint64`, `uint32`, `float` or `double`.

    Raises:
        ValueError: `ctype` is none of these.
    """

    name: str
    value: int | float
    ctype: str = "int64"

    def __post_init__(self) -> None:
        """Checks the type."""
        if self.ctype not in _CTYPES:
            raise failures.BAD_SPECS(f"ctype of {self.name!r} must be one of {', '.join(_CTYPES)}, got {self.ctype!r}")
