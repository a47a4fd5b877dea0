"""`as_python()` of a program reads back as the very same program: for every example, and for explicit text.

`checking.run` says so for every kernel of the tests, the random programs and the model kernels among them.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
from checking import check_round_trip
from structure import structure

import pypto.language as pl
from pypto.ir.nodes import Program

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.py"))
COMPILER = sys.modules["pypto.ir.compile"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::pypto.ir.OnChipMemoryWarning")
def test_every_program_of_the_examples_reads_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[Program] = []
    verify = COMPILER.verify
    monkeypatch.setattr(COMPILER, "verify", lambda program: programs.append(program) or verify(program))
    monkeypatch.setattr(sys, "argv", [str(path)] + (["--rounds", "1"] if "--rounds" in path.read_text() else []))
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    module.main()
    assert programs
    for program in programs:
        check_round_trip(program)


EXPLICIT = """import pypto.language as pl


@pl.program
class carried:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(self, x: pl.Tensor[[8, 8], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        pl.func_attr({"explicit": True})
        rows = 8
        t: pl.Tile[[8, 8], pl.FP32, pl.TileView(valid_shape=[rows, 8]), pl.MemorySpace.Vec] = pl.load(x, [0, 0], [8, 8])
        while True:
            going = rows > n
            if not (going):
                break
            rows = rows - 1
            t = pl.tile.adds(t, 1.0)
        pl.store(t, [0, 0], out)
        return out
"""


def test_explicit_text_means_what_it_says_and_nothing_is_added() -> None:
    program = pl.parse_program(EXPLICIT)
    (function,) = [function for name, function in program.functions.items() if name == "kernel"]
    kinds = [type(stmt).__name__ for stmt in function.body]
    assert kinds == ["Let", "OpStmt", "WhileStmt", "OpStmt"]
    loop = function.body[2]
    assert [type(stmt).__name__ for stmt in loop.head] == ["Let"]
    assert loop.body[1].out is function.body[1].out
    assert structure(pl.parse_program(program.as_python())) == structure(program)


def test_text_without_meeting_paths_is_an_authors() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        for i in pl.range(2):
            pl.store(pl.load(x, [4 * i, 0], [4, 8]), [4 * i, 0], out)
        return out

    assert "explicit" not in kernel.lower().as_python()
