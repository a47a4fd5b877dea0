"""Device tensors, and the allocations behind them."""

from collections.abc import Sequence
from dataclasses import Field
from typing import Any, ClassVar, NoReturn, final

import torch

@final
class Buffer:
    """One allocation of device memory, or the rest of it from a view on. It stays inspectable after it is freed."""

    @property
    def base(self) -> int:
        """Device address of its first byte. It is never given to another allocation."""

    @property
    def nbytes(self) -> int:
        """Bytes from there to the end of the allocation."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents that it was allocated with."""

    @property
    def dtype(self) -> torch.dtype:
        """The element type that it was allocated with."""

    @property
    def site(self) -> str | None:
        """`file:line` of the user's code that allocated it."""

    @property
    def state(self) -> str:
        """`live`, `freed`, or `worker closed`."""

    @property
    def description(self) -> str:
        """What messages call it: dtype, shape, address, size, and where it was allocated."""

    def __copy__(self) -> Buffer: ...
    def __deepcopy__(self, _memo: Any, /) -> Buffer: ...
    def tensor(self, shape: Sequence[int], dtype: torch.dtype) -> DeviceTensor:
        """A typed view from its first byte. It raises what `DeviceTensor` does, and `ValueError` where it is larger."""

@final
class DeviceTensor:
    """A typed view of memory that stays on a device.

    `ChipWorker.alloc_tensor` makes one; a compiled program takes it wherever it takes a torch tensor. `with tensor:`
    frees it at the end. Parts (`t[2:5]`) and other shapes (`t.view(...)`) are device tensors too: they share the
    memory, cost a launch nothing, and die with the tensor that they view. It is a frozen dataclass:
    `dataclasses.replace(t, shape=...)` views the same memory with another shape. Pointer, shape and dtype decide
    equality; whether it may be used is a question to the buffer behind it. Copies view the same memory. As any object
    of the kind it is true, whatever its elements are: `if t:` asks whether there is a tensor.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __dataclass_params__: ClassVar[Any]
    __match_args__: ClassVar[tuple[str, str, str]]

    def __new__(
        cls, data_ptr: int, shape: Sequence[int], dtype: torch.dtype, *, buffer: object | None = None
    ) -> DeviceTensor:
        """Views memory at `data_ptr`.

        Args:
            data_ptr: Device address.
            shape: Extents, outermost first.
            dtype: Element type.
            buffer: The allocation at this address. Without one the tensor is a bare pointer, which no worker runs with.

        Raises:
            TypeError: An extent is no int, the dtype no `torch.dtype`, the buffer no buffer.
            ValueError: The address or an extent is not positive, the shape is empty, the dtype does not exist on the
                device, or the buffer begins elsewhere.
        """

    @property
    def data_ptr(self) -> int:
        """Device address of the first element."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""

    @property
    def dtype(self) -> torch.dtype:
        """Element type."""

    @property
    def buffer(self) -> Any:
        """The allocation behind it: a `Buffer`, what the constructor was given, or None."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""

    @property
    def is_live(self) -> bool:
        """Whether its memory is allocated: it was not freed, and its worker is open.

        A bare pointer never is, nor is memory of a device of somebody else's, of which nothing is known.
        """

    def to_host(self) -> torch.Tensor:
        """A copy on the host.

        Raises:
            TypeError: The tensor was made from a bare pointer.
            ValueError: It was freed; the text names what was allocated, also for a view.
            RuntimeError: Its worker is gone.
        """

    def copy_(self, host: Any) -> DeviceTensor:
        """Copies a host tensor or array of the same shape and dtype into it.

        Returns:
            Itself.

        Raises:
            TypeError: `host` is no array, or the tensor was made from a bare pointer.
            ValueError: Another shape or dtype (nothing is converted or broadcast), not contiguous, or the tensor was
                freed.
            RuntimeError: Its worker is gone.
        """

    def numpy(self) -> Any:
        """A copy on the host as a numpy array; later writes reach neither side.

        Raises:
            TypeError: The dtype is bfloat16 or an 8-bit float, which numpy has not; and what `to_host` raises.
        """

    def __array_ufunc__(self, ufunc: Any, _method: Any, *_inputs: Any, **_options: Any) -> NoReturn:
        """Refuses elementwise functions of numpy (`np.add(x, t)`, `x + t`): nothing is downloaded silently.

        Raises:
            TypeError: Always.
        """

    def __array_function__(self, func: Any, _types: Any, _args: Any, _kwargs: Any) -> NoReturn:
        """Refuses other functions of numpy, such as `np.concatenate`; `np.asarray(t)` is a copy, as `numpy()` is.

        Raises:
            TypeError: Always.
        """

    def view(self, *shape: int | Sequence[int]) -> DeviceTensor:
        """The same memory with another shape of as many elements: ints or one sequence; one may be -1 for what is left.

        Raises:
            TypeError: An extent is no int, or the tensor was made from a bare pointer.
            ValueError: Another number of elements.
        """

    def __getitem__(self, index: Any, /) -> DeviceTensor:
        """A part that lies in one piece, as a view: ints, slices of step 1, one `...`.

        `t[2:5]` are rows 2 to 4, `t[1]` is a row without its axis, `t[1, 2:5]` is a part of a row.

        Raises:
            TypeError: The index is something else, or the tensor was made from a bare pointer.
            IndexError: There is no such row, or there are more indices than axes.
            ValueError: The part has gaps, is empty, or has no dimension.
        """

    def __contains__(self, value: object, /) -> NoReturn:
        """Refused: it would download all elements. `value in t.to_host()` does that and says so.

        Raises:
            TypeError: Always.
        """

    def __len__(self) -> int:
        """The first extent."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """`numpy()`, for `np.asarray`.

        Raises:
            BufferError: `copy` is False.
        """

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A copy on the host, for `torch.from_dlpack` and other libraries.

        It is always a copy: a view of device memory could outlive it, and what it writes would bypass packed weights.

        Raises:
            BufferError: `copy` is False, or another device is asked for.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """`(1, 0)`: the CPU, where the copy is."""

    def __enter__(self) -> DeviceTensor:
        """Itself.

        Raises:
            TypeError: It was made from a bare pointer.
            ValueError: It is a view, which owns nothing.
        """

    def __exit__(self, *_exc: object) -> None:
        """Frees it; does nothing where that was done, or its worker was closed."""

    def __copy__(self) -> DeviceTensor: ...
    def __deepcopy__(self, _memo: Any, /) -> DeviceTensor: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
