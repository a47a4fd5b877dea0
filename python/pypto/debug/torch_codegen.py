"""Programs as torch code: not supported in this version."""

from __future__ import annotations

from typing import Any, NoReturn

from pypto import failures


def torch_codegen(*args: Any, **kwargs: Any) -> NoReturn:
    """Would write a program as torch code.

    Raises:
        NotImplementedError: Always.
    """
    raise failures.NOT_SUPPORTED(
        "pypto.debug.torch_codegen is not supported in this version: `pypto.ir.python_print(program)` shows a program, "
        "and CompiledProgram.validate_ir() compares each of its passes with expected outputs"
    )
