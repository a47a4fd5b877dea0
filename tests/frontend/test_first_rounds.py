"""Names that get their value in a loop or a branch: used where they may have none, they are refused, never 0."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir

HEAD = """import pypto.language as pl

ROUNDS = 3


@pl.jit.incore
def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INDEX]):
"""
TAIL = """
    pl.write(out, [0, 0], pl.cast(s, pl.FP32))
    return out
"""

KNOWN = {
    "the first round takes the other arm": """
    for i in pl.range(4):
        if i == 0:
            s = n
        else:
            s = s + i""",
    "later rounds are told apart by not and or": """
    for i in pl.range(2, 5):
        if not (i != 2 or i > 2):
            s = n
        else:
            s = s + i""",
    "a loop of a known number of rounds runs": """
    for i in pl.range(ROUNDS):
        s = i * n""",
    "every path that stays assigns": """
    for i in pl.range(4):
        if i > 0:
            if s > 8:
                break
            s = s + n
        else:
            s = 1
            continue""",
    "the other arm leaves": """
    s = n
    for i in pl.range(n):
        if i > 2:
            break
        else:
            t = i
        s = s + t""",
}


def kernel_of(body: str, path):
    path.write_text(HEAD + body.strip("\n") + TAIL)
    scope: dict[str, object] = {"__name__": path.stem}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["kernel"], path.read_text()


def meaning(body: str, n: int) -> int:
    """What Python makes of the same lines."""
    scope: dict[str, object] = {}
    lines = HEAD.rsplit("\n", 2)[0].replace("import pypto.language as pl", "").replace("@pl.jit.incore", "")
    exec(f"{lines}\ndef f(n):\n{body}\n    return s".replace("pl.range", "range"), scope)
    return scope["f"](n)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("title", KNOWN)
def test_a_name_that_always_has_a_value_keeps_it(title: str, n: int, tmp_path) -> None:
    kernel, _ = kernel_of(KNOWN[title], tmp_path / "known.py")
    got = run(kernel, f32(4, 8), empty(4, 8), n, runtime=True)[1]
    np.testing.assert_array_equal(got[0, 0], np.float32(meaning(KNOWN[title], n)))


MISSING = {
    "a loop may have no round": (
        """
    for i in pl.range(n):
        s = i""",
        "'s' has no value here when the block at line 8 is skipped",
        "give 's' a value before line 8, or use it inside that block",
    ),
    "a while loop may have no round": (
        """
    m = n
    while m > 2:
        s = m
        m = m - 1""",
        "'s' has no value here when the block at line 9 is skipped",
        "give 's' a value before line 9, or use it inside that block",
    ),
    "a branch may be skipped": (
        """
    if n > 2:
        s = 3""",
        "'s' has no value here when the block at line 8 is skipped",
        "give 's' a value before line 8, or use it inside that block",
    ),
    "the first round reads it": (
        """
    for i in pl.range(4):
        if n == i:
            s = i
        else:
            s = s + 1""",
        "'s' has no value here in the first round of the loop",
        "give it a value before the loop",
    ),
    "the second round may read it": (
        """
    for i in pl.range(4):
        if i > 0:
            s = s + 1
        if n > 3:
            s = i""",
        "'s' has no value here in the first round of the loop",
        "give it a value before the loop",
    ),
    "the loop may be left before": (
        """
    for i in pl.range(4):
        if n > 2:
            break
        s = i""",
        "'s' has no value here when the block at line 8 is skipped",
        "give 's' a value before line 8, or use it inside that block",
    ),
}


@pytest.mark.parametrize("title", MISSING)
def test_a_scalar_that_may_have_no_value_is_refused(title: str, tmp_path) -> None:
    body, message, hint = MISSING[title]
    kernel, text = kernel_of(body, tmp_path / "missing.py")
    with pytest.raises(ir.KernelValueError) as caught:
        kernel.lower(f32(4, 8), empty(4, 8), pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == message
    assert diagnostic.hint == hint
    line = text.splitlines()[diagnostic.loc.line - 1]
    assert line[diagnostic.loc.col : diagnostic.loc.end] == "s"
