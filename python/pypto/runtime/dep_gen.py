"""`RunConfig(enable_dep_gen=True)`: the tasks of a launch and what each waits for, as a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.runtime.host_copies import host_copy

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram


def launch(compiled: CompiledProgram, args: tuple[Any, ...], path: Path, run: Callable[[], Any]) -> Any:
    """Launches with `run`, and writes its tasks in the order of the program.

    Each has its number, kernel (None where the orchestration itself reads or writes elements, or only waits), source
    line, number of blocks, and the numbers of the tasks that it waits for, without those that these wait for
    themselves. A second launch of the same arguments, on a device of its own that follows dependencies, finds them:
    which tasks there are may depend on what tensors hold.
    """
    from pypto.runtime.profiling import task_graph

    copies = [host_copy(arg) for arg in args]
    result = run()
    tasks = task_graph(compiled, *(arg if copy is None else copy for arg, copy in zip(args, copies, strict=True)))
    entries = [
        {
            "task": number,
            "kernel": task.kernel,
            "source": f"{task.file}:{task.line}",
            "blocks": task.blocks,
            "waits": list(task.waits),
        }
        for number, task in enumerate(tasks)
    ]
    path.write_text(json.dumps({"program": compiled.name, "tasks": entries}, indent=1))
    return result
