"""Programs as text: what is printed parses back, and prints the same again."""

import pytest

import pypto.language as pl
from pypto import ir
from pypto.ir.printer import python_print

M = pl.dynamic("M")


@pl.program
class Mixed:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(
        self,
        x: pl.Tensor[[M, 64], pl.FP16],
        out: pl.Out[pl.Tensor[[M, 64], pl.FP32]],
        n: pl.Scalar[pl.INDEX],
        scale: pl.Scalar[pl.FP32],
    ):
        for i in pl.range(0, M, 16):
            rows = pl.min(16, M - i)
            t = pl.load(x, [i, 0], [16, 64], valid_shape=[rows, 64], target_memory=pl.Mem.Mat)
            acc = pl.cast(pl.move(t, pl.Mem.Vec), pl.FP32, mode="rint")
            if i // 16 % 2 == 0 and not n > 3:  # noqa: SIM108  (kernels have no conditional expressions)
                acc = pl.mul(acc, scale)
            else:
                acc = pl.row_expand_sub(acc, pl.row_max(acc, acc))
            while n < 2:
                n = n + 1
            pl.store(acc, [i, 0], out)
        pl.write(out, [0, 0], pl.cast(-n << 2, pl.FP32))
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: pl.Tensor[[M, 64], pl.FP16],
        out: pl.Out[pl.Tensor[[M, 64], pl.FP32]],
    ):
        for i in pl.parallel(2):
            part = x[i * 16 : i * 16 + 16, :]
            with pl.spmd(4):
                self.kernel(part, out, i, 2.5)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="tail"):
            full = pl.full([1, 64], pl.FP32, 1.5)
            out[0:1, :] = full
        return out


def test_a_program_prints_and_parses_back_to_the_same_text() -> None:
    text = Mixed.as_python()
    again = pl.parse_program(text)
    assert again.as_python() == text
    assert ir.deserialize(ir.serialize(Mixed)).as_python() == text
    assert python_print(Mixed) == text
    assert Mixed.as_python(concise=True) in text


def test_the_text_is_the_language_as_an_author_writes_it() -> None:
    text = Mixed.as_python()
    for line in (
        'M = pl.dynamic("M")',
        "@pl.function(type=pl.FunctionType.InCore)",
        "out: pl.Out[pl.Tensor[[M, 64], pl.FP32]]",
        "for i in pl.range(0, M, 16):",
        "rows = pl.min(16, (M - i))",
        "= pl.load(x, [i, 0], [16, 64], valid_shape=[rows, 64], target_memory=pl.MemorySpace.Mat)",
        "pl.store(acc, [i, 0], out)",
        'with pl.at(level=pl.Level.CORE_GROUP, name_hint="tail"):',
    ):
        assert line in text


def test_a_free_function_is_ir() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def negate(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        out = pl.store(pl.neg(pl.load(x, [0, 0], [4, 8])), [0, 0], out)
        return out

    assert negate.name == "negate"
    assert negate.func_type is pl.FunctionType.InCore
    assert [param.direction for param in negate.params] == ["In", "Out"]
    assert negate.return_types == [negate.params[1].var.type]
    assert pl.parse(negate.as_python()).as_python() == negate.as_python()


def test_text_with_another_number_of_functions_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="holds 0 functions of the language; exactly one is expected"):
        pl.parse("x = 1\n")
    with pytest.raises(SyntaxError, match="<pypto text"):
        pl.parse("def f(:\n")
    path = tmp_path / "mixed.py"
    path.write_text(Mixed.as_python())
    assert pl.loads_program(path).as_python() == Mixed.as_python()
    with pytest.raises(ValueError, match="holds 0 functions"):
        pl.loads(path)


def test_only_nodes_print() -> None:
    assert python_print(Mixed.entry.params[0].var.type) == "pl.Tensor[[M, 64], pl.FP16]"
    with pytest.raises(TypeError, match="cannot print int"):
        python_print(3)


def test_text_is_read_and_never_run(tmp_path) -> None:
    mark = tmp_path / "mark"
    hostile = (
        "import os, pathlib\n"
        f"pathlib.Path({str(mark)!r}).touch()\n"
        f"x = open({str(mark)!r}, 'w')\n"
        "N = 4 * 2\n"
        "class Other:\n    y = 1 / 0\n"
        "def helper():\n    1 / 0\n"
        "@pl.function(type=pl.FunctionType.InCore)\n"
        "def kernel(a: pl.Tensor[[4, N], pl.FP32], b: pl.Out[pl.Tensor[[4, N], pl.FP32]]):\n"
        "    b = pl.store(pl.add(pl.load(a, [0, 0], [4, N]), float('inf')), [0, 0], b)\n"
        "    return b\n"
    )
    function = pl.parse(hostile)
    assert function.name == "kernel"
    assert 'float("inf")' in function.as_python()
    assert pl.parse(function.as_python()).as_python() == function.as_python()
    assert not mark.exists()
    annotated = hostile.replace("b: pl.Out[pl.Tensor[[4, N], pl.FP32]]", f"b: open({str(mark)!r}, 'w')")
    with pytest.raises(TypeError, match="calls something that is not of the language"):
        pl.parse(annotated)
    quoted = hostile.replace("b: pl.Out[pl.Tensor[[4, N], pl.FP32]]", f"b: \"open({str(mark)!r}, 'w')\"")
    with pytest.raises(TypeError, match="calls something that is not of the language"):
        pl.parse(quoted)
    for decorator in (f"@open({str(mark)!r}, 'w')", "@helper", "@N"):
        with pytest.raises(SyntaxError, match="decorator"):
            pl.parse(hostile.replace("@pl.function(type=pl.FunctionType.InCore)", decorator))
    with pytest.raises(SyntaxError, match="calls something that is not of the language"):
        pl.parse(hostile.replace("pl.FunctionType.InCore", f"open({str(mark)!r}, 'w')"))
    assert not mark.exists()


def test_text_that_nests_too_deeply_or_is_too_long_is_refused() -> None:
    with pytest.raises(SyntaxError):
        pl.parse("x = " + "(" * 5000 + ")" * 5000)
    with pytest.raises(SyntaxError, match="characters; at most"):
        pl.parse("#" * (1 << 21))
    with pytest.raises(SyntaxError, match="nests"):
        pl.parse("@pl.function\ndef f(a: pl.Tensor[[4, 8], pl.FP32]):\n    x = " + "-" * 5000 + "1\n")
