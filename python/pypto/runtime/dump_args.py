"""`RunConfig(enable_dump_args=...)`: the arguments of a launch, before and after it, as files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto._pypto import DeviceTensor
from pypto.ir import ParamDirection
from pypto.runtime.host_copies import host_copy

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram

INDEX = "index.json"
"""Every parameter, in order: name, direction, shape, dtype, whether it was resident, and its files; scalars' values."""


def launch(compiled: CompiledProgram, args: tuple[Any, ...], level: int, folder: Path, run: Callable[[], Any]) -> Any:
    """Launches with `run`, and writes each argument as `<position>_<name>_{before,after}.pt` and an `INDEX`.

    What a launch reads is there from before it, what it writes from after it. Level 1 writes the tensors that the
    source tags, level 2 all of them; the index has all parameters.
    """
    params, outputs = compiled.params, compiled.output_indices
    returning = compiled.has_return and len(args) == len(params) - len(outputs)
    if not returning and len(args) != len(params):
        return run()  # which says so
    given = iter(args)
    all_args = [None if returning and at in outputs else next(given) for at in range(len(params))]
    dumped = [level > 1 or param.dump_tag for param in params]
    reads = [at for at, param in enumerate(params) if dumped[at] and param.direction is not ParamDirection.Out]
    before = {at: kept for at in reads if (kept := host_copy(all_args[at])) is not None}
    result = run()
    if returning:
        made = result if isinstance(result, tuple) else (result,)
        for at, output in zip(outputs, made, strict=True):
            all_args[at] = output
    folder.mkdir(parents=True)
    index = []
    for at, (param, arg) in enumerate(zip(params, all_args, strict=True)):
        entry: dict[str, Any] = {"name": param.name, "direction": param.direction.name}
        index.append(entry)
        if param.shape is None:
            entry["value"] = getattr(arg, "value", arg)
            continue
        entry["resident"] = isinstance(arg, DeviceTensor)
        after = host_copy(arg) if dumped[at] and param.direction is not ParamDirection.In else None
        for when, tensor in (("before", before.get(at)), ("after", after)):
            if tensor is not None:
                entry[when] = f"{at}_{param.name}_{when}.pt"
                entry["shape"], entry["dtype"] = list(tensor.shape), str(tensor.dtype).removeprefix("torch.")
                _save(tensor, folder / entry[when])
    (folder / INDEX).write_text(json.dumps({"program": compiled.name, "params": index}, indent=1, default=str))
    return result


def _save(tensor: Any, path: Path) -> None:
    import torch

    torch.save(tensor, path)
