"""`task_graph()`: the tasks of a launch, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto import _pypto
from pypto.runtime import call_args, programs
from pypto.runtime.profiling.observed import device, placed, refuse_resident

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram


@dataclass(frozen=True)
class Task:
    """A task of a launch.

    Attributes:
        kernel: Its kernel; None where the orchestration itself reads or writes elements, or only waits.
        file: Source file of the launch.
        line: Line of the launch.
        blocks: How many blocks it has.
        waits: The numbers of the tasks that it waits for, in the order of the program from 0, without those that these
            wait for themselves.
    """

    kernel: str | None
    file: str
    line: int
    blocks: int
    waits: tuple[int, ...]


def task_graph(compiled: CompiledProgram, *args: Any) -> tuple[Task, ...]:
    """The tasks of a launch in the order of the program, with what each waits for by what the program declares.

    A task waits for those in its `deps=` and, outside manual scopes, for each earlier one that was given memory in
    common with it where one of the two writes that. The simulated chip runs tasks at once that this keeps in order,
    where they touch different parts of it. The program is launched once, on a device of its own.

    Args:
        compiled: The program.
        *args: One for each parameter, on the host, or one for each that is no pure output. Nothing is written to them.

    Raises:
        TypeError: `compiled` is no compiled program, or an argument does not fit.
        ValueError: An argument is resident on another worker.
    """
    compiled = programs.check_compiled(compiled)
    refuse_resident("task_graph", args)
    with device(compiled.platform, 1, "tasks") as chip:
        handle = programs.register(chip, compiled, None, None)
        handle(*placed(chip, call_args.with_outputs(compiled, args)))
        found = _pypto.take_tasks(handle)
    assert found is not None, "the device was opened for tasks"
    return tuple(Task(**{**one, "waits": tuple(sorted(one["waits"]))}) for one in found)
