"""Blocks inside each other: as deep as Python's text goes, on any thread."""

import threading
from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto import ir

LEVELS = 98  # of 99 that Python's text may indent, the function takes one
STACK = 128 * 1024  # the system's own threads have 8 MiB; a converted level took 2 KiB of the caller's


def kernel_of(body: list[str], path: Any) -> Any:
    tensor = "pl.Tensor[[8, 8], pl.FP32]"
    head = f"@pl.jit\ndef kernel(x: {tensor}, out: pl.Out[{tensor}], n: pl.Scalar[pl.INDEX]):\n"
    path.write_text("import pypto.language as pl\n\n" + head + "".join(f"{line}\n" for line in body) + " return out\n")
    names: dict[str, Any] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["kernel"]


def nested(levels: int, loops: int) -> list[str]:
    """One loop or branch in another, one space each, and the scope inside them all."""
    blocks = [f"for i{level} in pl.range(1):" if level < loops else f"if n != {level}:" for level in range(levels - 1)]
    blocks.append("with pl.at(level=pl.Level.CORE_GROUP):")
    lines = [" " * (level + 1) + block for level, block in enumerate(blocks)]
    return [
        " with pl.at(level=pl.Level.CORE_GROUP):",
        "  out[:] = x",
        *lines,
        " " * (levels + 1) + "out[:] = pl.add(x, 1.0)",
    ]


@pytest.mark.parametrize("loops", [0, 16])
def test_blocks_nest_as_deep_as_pythons_text_on_a_thread_with_little_stack(loops: int, tmp_path) -> None:
    kernel = kernel_of(nested(LEVELS, loops), tmp_path / "kernel.py")
    x, got = torch.ones(8, 8), []

    def launches() -> None:
        compiled = kernel.compile(n=pl.RUNTIME)
        for n in (-1, 50):
            out = torch.zeros(8, 8)
            compiled(x, out, n)
            got.append(out)

    before = threading.stack_size(STACK)
    try:
        thread = threading.Thread(target=launches)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert [out.unique().tolist() for out in got] == [[2.0], [1.0]]


def test_what_the_printer_writes_of_deep_blocks_reads_back(tmp_path) -> None:
    program = kernel_of(nested(LEVELS - 2, 0), tmp_path / "kernel.py").lower(n=pl.RUNTIME)  # a class stands around it
    assert pl.parse_program(program.as_python()).as_python() == program.as_python()


def test_alternatives_count_as_blocks(tmp_path) -> None:
    def chain(alternatives: int) -> list[str]:
        arms = [f" {'el' if i else ''}if n == {i}:\n  c = {i}" for i in range(alternatives)]
        return [" c = 0", *arms, " with pl.at(level=pl.Level.CORE_GROUP):", "  out[:] = pl.add(x, pl.cast(c, pl.FP32))"]

    out = torch.zeros(8, 8)
    kernel_of(chain(100), tmp_path / "kernel.py")(torch.ones(8, 8), out, 77)
    assert out.unique().tolist() == [78.0]
    with pytest.raises(ir.KernelError) as caught:
        kernel_of(chain(101), tmp_path / "more.py").lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "blocks nest more than 100 levels deep, and each `elif` is one"
    assert "look values up in a tensor" in diagnostic.hint
