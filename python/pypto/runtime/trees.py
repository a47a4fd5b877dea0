"""Containers of tensors, nested at will: put on a device as one, and freed as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto._pypto import DeviceTensor
from pypto.runtime import host_arrays
from pypto.runtime.progress import Progress

if TYPE_CHECKING:
    import torch


def alloc(
    alloc_tensor: Callable[..., DeviceTensor],
    free_tensor: Callable[[DeviceTensor], None],
    state: Any,
    dtype: torch.dtype | None,
) -> Any:
    """See `ChipWorker.alloc_module`."""
    import torch

    if isinstance(state, torch.nn.Module):
        state = state.state_dict()
    made: dict[tuple[Any, ...], DeviceTensor] = {}

    def put(path: str, leaf: Any) -> Any:
        if not host_arrays.is_array(leaf):
            return leaf
        # Tied weights are two objects with one memory: a state dict makes a new object for each name.
        has_memory = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.numel()
        key = (leaf.data_ptr(), *_extents(leaf)) if has_memory else (path,)
        if key not in made:
            try:
                host, own = leaf, host_arrays.dtype_of(leaf)
                if dtype is not None and own.is_floating_point:
                    host, own = host_arrays.as_torch(leaf).to(dtype), dtype
                made[key] = alloc_tensor(tuple(host.shape) or (1,), own, init=host if host.shape else host.reshape(1))
            except (TypeError, ValueError, MemoryError) as error:
                raise failures.with_place(path or "state", error) from error
        bar.advance(host_arrays.nbytes(leaf))
        return made[key]

    total = sum(host_arrays.nbytes(leaf) for _, leaf in leaves(state) if host_arrays.is_array(leaf))
    try:
        with Progress("to the device", total, "bytes") as bar:
            return map_leaves(put, state)
    except BaseException:  # Ctrl-C too leaves nothing behind
        for tensor in made.values():
            free_tensor(tensor)
        raise


def free(free_tensor: Callable[[DeviceTensor], None], module: Any) -> None:
    """See `ChipWorker.free_module`."""
    first: Exception | None = None
    for _, leaf in leaves(module):
        if isinstance(leaf, DeviceTensor):
            try:
                free_tensor(leaf)
            except (RuntimeError, ValueError) as error:
                first = first or error
    if first is not None:
        raise first


def map_leaves(function: Callable[[str, Any], Any], tree: Any, path: str = "") -> Any:
    """The same containers, with `function(path, leaf)` for each leaf; a path reads `['layers'][0].weight`."""
    if isinstance(tree, Mapping):
        return _mapping(tree, {key: map_leaves(function, leaf, f"{path}[{key!r}]") for key, leaf in tree.items()})
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        named = zip(tree._fields, tree, strict=True)
        return type(tree)(*(map_leaves(function, leaf, f"{path}.{name}") for name, leaf in named))
    if isinstance(tree, (list, tuple)):
        mapped = (map_leaves(function, leaf, f"{path}[{index}]") for index, leaf in enumerate(tree))
        return list(mapped) if isinstance(tree, list) else tuple(mapped)
    return function(path, tree)


def leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf with its path, in order."""
    found: list[tuple[str, Any]] = []
    map_leaves(lambda path, leaf: found.append((path, leaf)), tree)
    return iter(found)


def _mapping(like: Mapping[Any, Any], items: dict[Any, Any]) -> Mapping[Any, Any]:
    """A dictionary; an ordered one where the state dict was one. What else the class has is not carried over."""
    from collections import OrderedDict

    return OrderedDict(items) if isinstance(like, OrderedDict) else items


def _extents(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)
