"""What the author of a wrong kernel reads: place, source line with a caret, what is wrong, what to write instead."""

import inspect
import tracemalloc

import pytest
from checking import empty, f32

import pypto.language as pl
from pypto import ir
from pypto.frontend.source import from_text


def report(kernel, *args) -> str:
    """The text of the refusal."""
    with pytest.raises(ir.KernelError) as caught:
        kernel.lower(*args)
    return str(caught.value)


def line_of(kernel, text: str) -> int:
    """The number of the line of a kernel that contains `text`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_the_report_has_place_line_caret_message_and_help() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(1.0, x)
        return out

    assert report(kernel, f32(4, 8), empty(4, 8)) == (
        f"{__file__}:{line_of(kernel, 'pl.add')}:29: pl.add: 'lhs' must be a tile or a tensor, got an FP32 scalar\n"
        "                out[:] = pl.add(1.0, x)\n"
        "                                ^^^\n"
        "  help: the scalar stands on the right: pl.add(x, 1.0); for s - x write pl.add(pl.neg(x), s)"
    )


def test_columns_count_characters_not_bytes() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            größe = undefined_name; out[:] = x  # noqa: E702  # fmt: skip
        return out

    text = report(kernel, f32(4, 8), empty(4, 8))
    assert ":21: 'undefined_name' has no value here" in text
    assert text.splitlines()[2] == "    " + " " * 20 + "^" * len("undefined_name")


def test_several_mistakes_are_reported_together_in_source_order() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        n = 5
        n += 1
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0], [4, 8])
            u = pl.add(t, 1.0)
            w = pl.exp(pl.cast(x, pl.INT32))
            out[:] = pl.mul(u, w)
            out[0, 0] = 1.0
        return out

    with pytest.raises(ir.KernelError) as caught:
        kernel.lower(f32(4, 8), empty(4, 8))
    messages = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert messages == [
        "`+=` is not part of the kernel language",
        "pl.load: 1 offsets for 'x', which has 2 axes",
        "pl.exp works on floats, got INT32",
        "a single element is not written by assignment",
    ]
    assert str(caught.value).startswith("4 mistakes in this kernel\n")


REJECTED = {
    "x = [i for i in range(3)]": ("a comprehension is not part of the kernel language", "loop over pl.range"),
    "x = (lambda: 1)()": ("lambda is not part of the kernel language", "@pl.jit.inline"),
    "x = 1 if n == 1 else 2": ("a conditional expression is not part of the kernel language", "if statement"),
    "x = 1 < n < 3": ("a chain of comparisons is not part of the kernel language", "a < b and b < c"),
    "x = n ** 2": ("'**' is not part of the kernel language", "a multiplication"),
    "x = a @ a": ("'@' is not part of the kernel language", "write pl.matmul(a, b)"),
    "x = n & 1": ("'&' is not part of the kernel language", "pl.and_"),
    "x = n in a": ("`in` is not part of the kernel language", ""),
    "x = a + a": ("'+' works on scalars, got pl.Tensor[[4, 8], pl.FP32]", "write pl.add(a, b)"),
    "x = -a": ("'-' works on scalars, got pl.Tensor[[4, 8], pl.FP32]", "write pl.neg(x)"),
    "x = a[0, 0, 0]": ("3 indices for pl.Tensor[[4, 8], pl.FP32], which has 2 axes", ""),
    "x = a[-1, 0]": ("negative indices are not part of the kernel language", "count from the start"),
    "x = a[9, 0]": ("index 9 is outside an axis of 4", ""),
    "x = a[::2]": ("a slice with a step is not part of the kernel language", "pl.range(start, stop, step)"),
    "x = a[2:2]": ("this slice is empty", ""),
    "x = a.T": ("pl.Tensor[[4, 8], pl.FP32] has no attribute 'T'", "operations are functions"),
    "x = a.exp()": ("pl.Tensor[[4, 8], pl.FP32] has no attribute 'exp'", "operations are functions: pl.exp(a, ...)"),
    "a[0, 1] = 1.0": ("a single element is not written by assignment", "write pl.write(a, [0, 1], value)"),
    "x = print(n)": ("print(...) is ordinary Python", "pl.static_print"),
    "x = pl.max(a, a)": ("pl.max works on scalars, got pl.Tensor[[4, 8], pl.FP32]", "pl.maximum(a, b)"),
    "x = pl.range(3)": ("pl.range is not a value", "for i in pl.range(...):"),
    "x = pl.matmul_mx(a, a, a, a)": ("this device has no block-scaled FP8 and FP4 matrix products", ""),
    "x = pl.add(a)": ("pl.add(lhs, rhs) needs 'rhs'", ""),
    "x = pl.add(a, a, a)": ("pl.add(lhs, rhs) takes 2 positional arguments, 3 were given", ""),
    "x = pl.add(a, other=a)": ("pl.add(lhs, rhs) has no parameter 'other'", ""),
    "x = np.exp(a)": ("np.exp(...) is ordinary Python", "write pl.exp(...)"),
    "x = np.tanh(a)": ("np.tanh(...) is ordinary Python", "write it with operations, of a value x: pl.sub("),
    "x = np.linspace(a)": ("np.linspace(...) is ordinary Python", "call operations (pl.*), or functions decorated"),
    "x = pl.exxp(a)": ("module 'pypto.language' has no attribute 'exxp'", "it has exp"),
    "x = pl.mean(a)": ("module 'pypto.language' has no attribute 'mean'", "pl.mul(pl.row_sum(x), 1 / x.shape[1])"),
    "x = pl.nothing(a)": ("module 'pypto.language' has no attribute 'nothing'", ""),
    "x = n // 0": ("division by zero", ""),
    "x = not n": ("the operand of `not` must be a truth value, got an INDEX scalar", "n != 0"),
    "x = undefined": ("'undefined' has no value here", ""),
    "for i in range(3): pass": ("a loop over range is ordinary Python", "pl.range(...)"),
    "for i in pl.range(1.5): pass": ("a bound of pl.range must be an integer, got an FP32 scalar", "pl.INDEX"),
    "for i in pl.range(0, 4, 0): pass": ("the step of pl.range is 0", ""),
    "for i in pl.unroll(n): pass": ("the bounds of pl.unroll must be constants", "pl.range"),
    "for i in pl.unroll(1000000): pass": ("pl.unroll would repeat this body 1000000 times", "pl.range"),
    "for i in pl.pipeline(4): pass": ("pl.pipeline takes a stage", "stage=2"),
    "for i in pl.pipeline(4, stage=0): pass": ("the stage of pl.pipeline must be a constant from 1", "stage=2"),
    "for i in pl.range(4, stage=2): pass": ("pl.range has no parameter 'stage'", ""),
    "for i in pl.parallel(4): break": ("`break` in a pl.parallel loop, whose rounds may run at once", "pl.range"),
    "for i in pl.range(3):\n        for j in pl.unroll(2):\n            break": (
        "`break` in a pl.unroll loop, whose rounds are written out one after the other",
        "loop with pl.range",
    ),
    "for j in pl.unroll(2):\n        continue": ("`continue` in a pl.unroll loop", "let constants decide"),
    "if n: pass": ("the condition must be a truth value, got an INDEX scalar", "n != 0"),
    "assert n == 1": ("assert is not part of the kernel language", "pl.static_assert"),
    "del n": ("del is not part of the kernel language", ""),
    "import os": ("import is not part of the kernel language", "top of the file"),
    "with open('x'): pass": ("`with open('x')` is not a scope of the language", "pl.at"),
    "def f(): pass": ("a nested function is not part of the kernel language", "@pl.jit.inline"),
    "pl.static_assert(1 == 2, 'one is not two')": ("static assertion failed: one is not two", ""),
    "x = pl.cast(n, 'FP32')": ("'target_type' must be a dtype, got str 'FP32'", ""),
    "x = 99999999999999999999": ("this integer does not fit into 64 bits", ""),
    "x, y = n, n, n": ("2 names for 3 values", ""),
    "x, y = n": ("cannot unpack an INDEX scalar", ""),
    "n = 1.5": ("'n' is an INDEX scalar and cannot become an FP32 scalar", "a name keeps its type"),
    "a.b = n": ("cannot assign to `a.b`", "assign to a name, or to a box"),
}


@pytest.mark.parametrize("statement", REJECTED, ids=list(REJECTED))
def test_what_is_not_part_of_the_language_is_refused_with_advice(statement: str, tmp_path) -> None:
    message, advice = REJECTED[statement]
    path = tmp_path / "kernel.py"
    path.write_text(
        "import numpy as np\nimport pypto.language as pl\n\n@pl.jit\n"
        "def kernel(a: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INDEX]):\n"
        f"    {statement}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.hint
    assert advice in diagnostic.hint
    line = 6 + statement.count("\n")  # the mistake stands in the last line
    assert diagnostic.loc.line == line
    assert f"{path}:{line}:" in str(caught.value)
    assert "^" in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("x = a + a", TypeError),
        ("x = a[9, 0]", ValueError),
        ("x = lambda: 1", SyntaxError),
        ("x = pl.matmul_mx(a, a, a, a)", NotImplementedError),
    ],
)
def test_errors_are_builtin_kinds_too(statement: str, kind: type[Exception], tmp_path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        f"import pypto.language as pl\n\n@pl.jit\ndef kernel(a: pl.Tensor[[4, 8], pl.FP32]):\n    {statement}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(kind) as caught:
        scope["kernel"].lower()
    assert isinstance(caught.value, ir.KernelError)
    assert caught.value.diagnostics


def test_a_type_that_changes_on_the_way_round_a_loop_is_refused() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        t = pl.load(x, [0, 0], [4, 8])
        for _ in pl.range(3):
            t = pl.load(x, [0, 0], [2, 8])
        out = pl.store(t, [0, 0], out)
        return out

    text = report(kernel, f32(4, 8), empty(4, 8))
    assert "'t' is pl.Tile[[4, 8], pl.FP32] and cannot become pl.Tile[[2, 8], pl.FP32]" in text


def test_arms_that_disagree_about_a_type_are_refused() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(2):
            if i == 0:
                t = pl.load(x, [0, 0], [4, 8])
            else:
                t = pl.load(x, [0, 0], [2, 8])
            out = pl.store(t, [0, 0], out)
        return out

    text = report(kernel, f32(4, 8), empty(4, 8))
    assert "'t' is pl.Tile[[4, 8], pl.FP32] on one path and pl.Tile[[2, 8], pl.FP32] on the other" in text


def test_a_dtype_that_does_not_fit_the_destination_is_refused() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out = pl.store(pl.cast(pl.load(x, [0, 0], [4, 8]), pl.INT32), [0, 0], out)
        return out

    text = report(kernel, f32(4, 8), empty(4, 8))
    assert "pl.store: an INT32 value cannot be stored to the FP32 tensor 'out'" in text
    assert "convert it first: pl.cast(x, pl.FP32)" in text


def test_matmul_explains_shapes() -> None:
    @pl.jit
    def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.matmul(a, b)
        return out

    text = report(kernel, f32(4, 8), f32(16, 8), empty(4, 16))
    assert "pl.matmul: the inner extents differ: [4, 8] @ [16, 8]" in text
    assert "help: if the right operand is stored as [N, K], say b_trans=True" in text


def test_hostile_source_is_refused_in_bounded_time(tmp_path) -> None:
    deep = "(" * 3000 + "1" + ")" * 3000
    nested = "x = " + " + ".join(["1.0"] * 3000)
    for number, statement in enumerate((f"x = {deep}", nested)):
        path = tmp_path / f"kernel{number}.py"
        path.write_text(f"import pypto.language as pl\n\n@pl.jit\ndef kernel():\n    {statement}\n")
        scope: dict[str, object] = {"__name__": "kernel_file"}
        try:
            exec(compile(path.read_text(), str(path), "exec"), scope)
        except (SyntaxError, MemoryError, RecursionError):
            continue  # Python itself refuses it
        with pytest.raises(SyntaxError, match="nests"):
            scope["kernel"].lower()


def test_a_function_of_very_many_lines_is_refused_before_it_is_read() -> None:
    text = "def kernel():\n" + "    pass\n" * 20_001
    with pytest.raises(
        SyntaxError, match="this function has 20002 lines of source; at most 1048576 characters on 20000"
    ):
        from_text(text, "kernel.py", 1)


@pytest.mark.parametrize(
    "body",
    [
        "for i in pl.unroll(4000):\n        for j in pl.unroll(4000):\n            pass",
        "double_0(n)",
        "\n    ".join("    " * depth + f"for i{depth} in pl.range(2):" for depth in range(15))
        + "\n" + "    " * 17 + "a = a if n else a",
    ],
    ids=["nested unroll", "functions that call two each", "deep loops"],
)  # fmt: skip
def test_source_that_grows_without_bound_is_refused(body: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pypto.frontend.library.MAX_STATEMENTS", 5000)
    doubling = [
        f"@pl.jit.inline\ndef double_{number}(n):\n    double_{number + 1}(n)\n    double_{number + 1}(n)\n"
        for number in range(40)
    ]
    text = "import pypto.language as pl\n\n" + "\n".join(doubling) + "\n@pl.jit.inline\ndef double_40(n):\n    pass\n"
    path = tmp_path / "kernel.py"
    path.write_text(f"{text}\n@pl.jit\ndef kernel(a: pl.Tensor[[4], pl.FP32], n: pl.Scalar[pl.INDEX]):\n    {body}\n")
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower(n=pl.RUNTIME)
    assert any(
        "more than 5000 statements" in diagnostic.message or "a conditional expression" in diagnostic.message
        for diagnostic in caught.value.diagnostics
    )


HOSTILE = {
    "digits": "x = " + "9" * 4000,
    "arguments": "x = pl.min(" + "1, " * 50000 + ")",
    "rounds": "for i in pl.unroll(10**3 * 10**9): pass",
    "million rounds": "for i in pl.unroll(1000000): x = i",
    "dependencies": "t = pl.system.task_dummy(deps=[None for i in range(4000) for j in range(4000)])",
    "endless dependencies": "t = pl.system.task_dummy(deps=[None for i in range(1 << 60)])",
    "elements": "t = pl.array.create(1 << 40, pl.INT32)",
    "string": "x = '" + "a" * 1_200_000 + "'",
    "pairs of pairs": "x = (1, 1)\n" + "    x = (x, x)\n" * 60,
    "alternatives": "if n == 0: x = 0\n" + "".join(f"    elif n == {i}: x = {i}\n" for i in range(1, 150)),
    "conditions": "x = " + " and ".join(["n > 0"] * 300),
    "attributes": "x = a" + ".shape" * 300,
    "signs": "x = " + "-" * 400 + "n",
    "power": "x = 10**10**10",
    "parts of a string": "x = f'" + "{n}" * 300 + "'",
    "a function that calls itself twice": "twice(n)",
    "an object of many items": "x = MANY[0]",
}


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile_text_is_refused_in_little_memory_with_a_short_report(title: str, tmp_path) -> None:
    """A syntax tree takes some 300 times its text; nothing may grow with the numbers in it."""
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\nMANY = [1] * 100_000\n\n"
        "@pl.jit.inline\ndef twice(n):\n    twice(n)\n    twice(n)\n\n@pl.jit\n"
        f"def kernel(a: pl.Tensor[[4, 8], pl.FP32], n: pl.Scalar[pl.INDEX]):\n    {HOSTILE[title]}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    tracemalloc.start()
    try:
        with pytest.raises(ir.KernelError) as caught:
            scope["kernel"].lower(n=pl.RUNTIME)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20 + 400 * len(path.read_text()), peak
    assert len(str(caught.value)) < 2000
    assert all(diagnostic.hint for diagnostic in caught.value.diagnostics)


def test_a_very_long_line_is_shown_around_the_mistake(tmp_path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\n@pl.jit\ndef kernel(n: pl.Scalar[pl.INDEX]):\n"
        f"    x = {'n + ' * 100}missing{' + n' * 50}\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower(n=pl.RUNTIME)
    _, line, carets, _ = str(caught.value).splitlines()
    assert line.startswith("    ...")
    assert line.endswith("...")
    assert len(line) <= 210
    at = carets.index("^")
    assert line[at : at + carets.count("^")] == "missing"


def test_a_message_that_names_very_much_is_cut(tmp_path) -> None:
    path = tmp_path / "kernel.py"
    extents = "1, " * 5000
    path.write_text(
        f"import pypto.language as pl\n\n@pl.jit\ndef kernel(x: pl.Tensor[[{extents}], pl.FP32]):\n    pass\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower(f32(4, 8))
    assert len(str(caught.value)) < 2000


def test_a_kernel_without_source_says_so() -> None:
    scope: dict[str, object] = {}
    exec("import pypto.language as pl\n@pl.jit\ndef kernel(): pass", scope)
    with pytest.raises(SyntaxError, match="the source of 'kernel' cannot be read") as caught:
        scope["kernel"].lower()
    assert "define kernels in a file" in str(caught.value)


def test_leaving_a_loop_from_inside_a_scope_is_refused() -> None:
    @pl.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = x
                if i == 2:
                    break
        return out

    text = report(kernel, f32(4, 8), empty(4, 8))
    assert "`break` out of a scope" in text
    assert "decide outside the scope" in text


def test_the_index_of_a_loop_means_nothing_after_it() -> None:
    @pl.jit.incore
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        for i in pl.range(4):
            pl.store(pl.load(x, [i, 0], [1, 8]), [i, 0], out)
        pl.store(pl.load(x, [i, 0], [1, 8]), [0, 0], out)

    assert "'i' has no value here" in report(kernel, f32(4, 8), empty(4, 8))


OUTSIDE = f32(4, 8)


def test_a_tensor_of_the_program_around_has_to_be_a_parameter() -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, OUTSIDE)
        return out

    text = report(kernel)
    assert "pl.add: 'rhs' must be a tile or a tensor, got ndarray of shape [4, 8]\n" in text
    assert "help: make it a parameter of the kernel, and pass it in each call" in text


def test_a_total_that_starts_as_a_number_is_told_how_to_start() -> None:
    @pl.jit
    def kernel(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            total = 0.0
            out[:] = pl.add(total, x)
        return out

    assert "a running total starts as pl.full([...], dtype, 0.0)" in report(kernel)
