"""Arrays of the host that become device tensors: their element type, and a torch tensor of the same elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto import failures

if TYPE_CHECKING:
    import torch


def is_array(value: Any) -> bool:
    """Whether it is a torch tensor, a numpy array, or another array that numpy can look at."""
    import torch

    return isinstance(value, torch.Tensor) or (hasattr(value, "__array_interface__") and hasattr(value, "shape"))


def dtype_of(array: Any) -> torch.dtype:
    """The element type of a torch tensor or a numpy array.

    Raises:
        TypeError: torch has none for these elements, or the array has a mask beside them.
    """
    import numpy
    import torch

    if isinstance(array, torch.Tensor):
        return array.dtype
    if hasattr(array, "mask") and hasattr(array, "filled"):
        raise failures.MASKED_ARRAY(
            "the array is masked, and the device knows no masks. "
            "Pass .filled(value), or .data for what lies under the mask"
        )
    try:
        # A new array of the type, not the array: it may be read-only or run backwards, which torch does not take.
        return torch.from_numpy(numpy.empty(0, array.dtype)).dtype
    except (TypeError, ValueError):
        raise failures.ARRAY_DTYPE(
            f"the array has unsupported dtype {array.dtype}; convert it with .astype(...) first"
        ) from None


def as_torch(array: Any) -> torch.Tensor:
    """A torch tensor of the same elements, in the same memory where torch can use that.

    Raises:
        TypeError: What `dtype_of` raises.
    """
    import numpy
    import torch

    if isinstance(array, torch.Tensor):
        return array.detach()
    dtype_of(array)
    plain = numpy.asarray(array)
    if not (plain.flags.writeable and plain.flags.c_contiguous):
        plain = plain.copy(order="C")
    return torch.from_numpy(plain)


def nbytes(array: Any) -> int:
    """Bytes of all elements, also where they are not stored one by one."""
    import torch

    return array.numel() * array.dtype.itemsize if isinstance(array, torch.Tensor) else int(array.nbytes)
