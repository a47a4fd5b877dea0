"""Runs the program as it was after each pass, and compares what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto import failures
from pypto.runtime.golden import named_outputs, validate_golden

if TYPE_CHECKING:
    from pypto.ir import CompiledProgram


def validate_ir(compiled: CompiledProgram, tensors: Any, expected: Any, *, rtol: float, atol: float) -> None:
    """Runs each dumped pass on copies of `tensors`.

    Args:
        compiled: The program.
        tensors: One argument for each parameter: in order, or by name.
        expected: Expected outputs: by name, or in order of the tensors that the program writes.
        rtol: Relative tolerance.
        atol: Absolute tolerance.

    Raises:
        FileNotFoundError: The program was compiled without `dump_passes`.
        AssertionError: The outputs of a pass differ; the text names the pass.
    """
    from pypto import ir
    from pypto import language as pl
    from pypto.runtime.runner import outputs_of

    arguments = _in_order(compiled, tensors)
    for dump in dumps_of(compiled.output_dir):
        program = pl.parse_program(dump.read_text())
        directory = compiled.output_dir / "validated" / dump.stem
        again = ir.compile(program, directory, platform=compiled.platform, dump_passes=False)
        fresh = [argument.clone() if hasattr(argument, "clone") else argument for argument in arguments]
        again(*fresh)
        actual = outputs_of(again, fresh, None)
        try:
            validate_golden(actual, named_outputs(expected, list(actual)), rtol, atol)
        except AssertionError as error:
            raise failures.GOLDEN_DIFFERS(f"after pass {dump.stem}: {error}") from None


def dumps_of(directory: Path) -> list[Path]:
    """The dumped passes, in order.

    Raises:
        FileNotFoundError: There are none.
    """
    folder = directory / "passes_dump"
    dumps = sorted(folder.glob("*.py"))
    if not dumps:
        raise failures.NO_DUMPS(f"{folder} has no dumped passes: compile with dump_passes=True")
    return dumps


def _in_order(compiled: CompiledProgram, tensors: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    if not isinstance(tensors, Mapping):
        return list(tensors)
    missing = [name for name in compiled.param_names if name not in tensors]
    if missing:
        raise failures.ARGUMENT_COUNT(f"tensors lacks the parameters {', '.join(missing)}; it has {', '.join(tensors)}")
    return [tensors[name] for name in compiled.param_names]
