"""Programs as bytes: the DSL text that the printer writes, which parses back to the same program."""

from __future__ import annotations

from pypto.ir.nodes import Function, Program
from pypto.ir.printer import python_print
from pypto.language.text import parse, parse_program


def serialize(node: Program | Function) -> bytes:
    """A program or function as UTF-8 text.

    Args:
        node: The program or function.

    Raises:
        TypeError: It is something else.
    """
    return python_print(node).encode()


def deserialize(data: bytes) -> Program | Function:
    """What `serialize` wrote.

    Args:
        data: UTF-8 text of a program or function.

    Raises:
        ValueError: It is no UTF-8, or no program.
        SyntaxError: It is no Python.
    """
    text = data.decode()
    node: Program | Function = parse_program(text) if "@pl.program" in text else parse(text)
    return node
