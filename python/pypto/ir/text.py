"""Programs as bytes: the DSL text that the printer writes, which parses back to the same program."""

from __future__ import annotations

from pypto.ir.nodes import Function, Program
from pypto.ir.printer import python_print
from pypto.language.text import parse, parse_program


def serialize(node: Program | Function) -> bytes:
    """A program or function as UTF-8 text."""
    return python_print(node).encode()


def deserialize(data: bytes) -> Program | Function:
    """What `serialize` wrote. `ValueError` or `SyntaxError` where it is something else."""
    text = data.decode()
    node: Program | Function = parse_program(text) if "@pl.program" in text else parse(text)
    return node
