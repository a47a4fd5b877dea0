"""`kernel_config.py`: what a compiled directory says about how it was built, as Python that anybody can import."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

from pypto import failures

FILE: Final = "kernel_config.py"
AICPU_THREADS: Final = 4
"""Scheduler threads of the real chip that programs are built for: a label on the simulated one."""


def write(directory: Path, core: dict[str, Any], runtime: str) -> None:
    """Writes the file."""
    directions = [
        param["kind"]["Tensor"]["direction"] if "Tensor" in param["kind"] else "Scalar" for param in core["params"]
    ]
    values = {
        "RUNTIME_CONFIG": {"runtime": runtime, "aicpu_thread_num": AICPU_THREADS},
        "ORCHESTRATION": {"source": "program.json", "function_name": core["name"], "signature": directions},
        "KERNELS": [
            {"func_id": number, "name": kernel["name"], "source": "program.json"}
            for number, kernel in enumerate(core["kernels"])
        ],
    }
    lines = [f'"""How {core["name"]!r} was built."""', ""]
    lines += [f"{name} = {value!r}" for name, value in values.items()]
    (directory / FILE).write_text("\n".join(lines) + "\n")


def read(directory: Path) -> dict[str, Any]:
    """`RUNTIME_CONFIG` of a compiled directory. The file is read, not run.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It does not say what it should.
    """
    path = directory / FILE
    advice = f"Recompile with ir.compile(program, output_dir={str(directory)!r})"
    if not path.is_file():
        raise failures.ARTIFACT_MISSING(
            f"{path} does not exist: the artifact is incomplete and cannot be executed. It is written when a program "
            f"was compiled to the end; no external assembler (ptoas) is needed for the simulated chip. {advice}"
        )
    try:
        values = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
    except (SyntaxError, ValueError) as error:
        raise failures.ARTIFACT_MALFORMED(f"{path} is not Python of constants ({error}). {advice}") from None
    config = values.get("RUNTIME_CONFIG")
    if (
        not isinstance(config, dict)
        or not isinstance(config.get("runtime"), str)
        or type(config.get("aicpu_thread_num")) is not int
    ):
        raise failures.ARTIFACT_MALFORMED(f"{path} has no proper RUNTIME_CONFIG: {config!r}. {advice}")
    return config
