"""New device tensors with known contents: `w.empty`, `w.zeros`, `w.full`, `w.from_host`; whole modules at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pypto import failures
from pypto.runtime import host_arrays, memory_scopes, trees

if TYPE_CHECKING:
    import torch

    from pypto._pypto import DeviceTensor, Worker

_FILL_BYTES = 4 << 20
"""Constants go to the device in pieces of this size."""


class _Allocator(Protocol):
    def alloc_tensor(
        self, shape: Sequence[int], dtype: torch.dtype, *, init: torch.Tensor | None = None
    ) -> DeviceTensor: ...

    def free_tensor(self, t: DeviceTensor) -> None: ...

    def _ready(self, operation: str, worker_id: int) -> Worker: ...


class TensorMakers:
    """Methods of a worker that make tensors. All of them allocate: `free_tensor` or `with` ends what they return."""

    def empty(self: _Allocator, shape: Sequence[int], dtype: torch.dtype) -> DeviceTensor:
        """A tensor whose contents are undefined; `alloc_tensor(shape, dtype)` by another name.

        Args:
            shape: Extents, outermost first, all positive.
            dtype: Element type.

        Raises:
            TypeError: The shape holds something else than ints, or the dtype is none.
            ValueError: The shape is empty or not positive, or the dtype does not exist on the device.
            OutOfMemoryError: There is no such block left, or no room in a `memory_budget`.
            RuntimeError: The worker is closed.
        """
        return self.alloc_tensor(shape, dtype)

    def zeros(self: _Allocator, shape: Sequence[int], dtype: torch.dtype) -> DeviceTensor:
        """A tensor of zeros. Nothing is copied, and fresh memory is not even touched.

        Args:
            shape: Extents, outermost first, all positive.
            dtype: Element type.

        Raises:
            TypeError: The shape holds something else than ints, or the dtype is none.
            ValueError: The shape is empty or not positive, or the dtype does not exist on the device.
            OutOfMemoryError: There is no such block left, or no room in a `memory_budget`.
            RuntimeError: The worker is closed.
        """
        impl = self._ready("zeros", 0)
        return impl.alloc_tensor(shape, dtype, zeroed=True, scope=memory_scopes.current(impl))

    def full(self: _Allocator, shape: Sequence[int], fill_value: float | bool, dtype: torch.dtype) -> DeviceTensor:
        """A tensor in which every element is `fill_value`, converted to `dtype` as `torch.full` does.

        Args:
            shape: Extents, outermost first, all positive.
            fill_value: The number.
            dtype: Element type.

        Raises:
            RuntimeError: `fill_value` does not fit `dtype` (torch's own text), or the worker is closed.
            Exception: What `alloc_tensor` raises.
        """
        import torch

        self._ready("full", 0)
        tensor = self.alloc_tensor(shape, dtype)
        try:
            elements = tensor.nbytes // dtype.itemsize
            piece = torch.full((min(elements, _FILL_BYTES // dtype.itemsize),), fill_value, dtype=dtype)
            flat = tensor.view(elements)
            for begin in range(0, elements, len(piece)):
                end = min(elements, begin + len(piece))
                flat[begin:end].copy_(piece[: end - begin])
        except BaseException:
            self.free_tensor(tensor)
            raise
        return tensor

    def from_host(self: _Allocator, array: Any) -> DeviceTensor:
        """A copy of a torch tensor, a numpy array or another array on the host, with its shape and element type.

        It is copied once: later changes of `array` do not reach the device. What is not contiguous or lies on another
        device is made a contiguous CPU copy first.

        Raises:
            TypeError: It is no array, a masked one, or one of elements that torch does not have.
            ValueError: It has no dimension or no element, or an element type that the device does not have.
            OutOfMemoryError: There is no such block left.
            RuntimeError: The worker is closed.
        """
        host = array if host_arrays.is_array(array) else _through_dlpack(array)
        return self.alloc_tensor(tuple(host.shape), host_arrays.dtype_of(host), init=host)

    def alloc_module(self: _Allocator, state: Any, *, dtype: torch.dtype | None = None) -> Any:
        """Puts all tensors of a state dict, a module or another nest of containers on the device.

        Args:
            state: A `state_dict()`, a `torch.nn.Module` (its `state_dict()` is taken), or dictionaries, lists, tuples
                and named tuples of tensors and arrays, nested at will. What is no array stays as it is.
            dtype: Floating-point tensors are converted to it first; others keep theirs.

        Returns:
            The same containers with device tensors. A tensor that occurs twice (tied weights) is there once, and both
            places hold the same object. A tensor without dimensions becomes one of shape (1,). Free all of it with
            `free_module`.

        Where it takes long and standard error is a terminal, a progress bar shows how many bytes are there.

        Raises:
            ValueError: A tensor cannot be on the device. The text begins with its place in `state`.
            OutOfMemoryError: They do not fit. After an error nothing stays allocated.
        """
        return trees.alloc(self.alloc_tensor, self.free_tensor, state, dtype)

    def free_module(self: _Allocator, module: Any) -> None:
        """Frees all device tensors in what `alloc_module` returned. What was freed before is left alone.

        Args:
            module: The containers with the tensors.

        Raises:
            ValueError: A tensor belongs to another worker, or is a view. The others are freed nevertheless.
        """
        trees.free(self.free_tensor, module)


def _through_dlpack(array: Any) -> torch.Tensor:
    """A torch tensor of an array of another library, in the same memory where the CPU can read that."""
    import torch.utils.dlpack

    if hasattr(array, "__dlpack__"):
        return torch.utils.dlpack.from_dlpack(array)
    raise failures.NOT_AN_ARRAY(
        f"from_host() expects a torch.Tensor, a numpy array or another array, got {type(array).__name__}; "
        f"torch.tensor(...) makes one of numbers"
    )
