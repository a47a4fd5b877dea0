"""Python's own arithmetic on constants, in annotations that are strings and in bodies; nothing else is called."""

import math
from pathlib import Path

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl

HEAD = 16
SIZES = [4, 8]
NARROW = {"cols": 8}
RUNTIME = pl.dynamic("RUNTIME")
CALLS: list[int] = []


def ceil_div(a: int, b: int) -> int:
    """As authors write it beside their kernels."""
    CALLS.append(a)
    return -(-a // b)


@pl.jit
def in_annotations(
    x: "pl.Tensor[[2**2, ceil_div(HEAD * 2, SIZES[0])], pl.FP32]",
    y: "pl.Out[pl.Tensor[[1 << 2, max(NARROW['cols'], -(-5 // 1))], pl.FP32]]",
    z: "pl.Out[pl.Tensor[[int(HEAD / 4), len(SIZES) << 2], pl.FP32]]",
):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:, :] = pl.mul(x[:, :], 2.0)
        z[:, :] = pl.add(x[:, :], 1.0)
    return y, z


def test_extents_in_string_annotations_are_calculated_as_python_does() -> None:
    x = f32(4, 8)
    _, y, z = run(in_annotations, x, empty(4, 8), empty(4, 8))
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x + 1)
    with pytest.raises(TypeError, match=r"'x'.*\(4, 8\)"):
        in_annotations.compile()(f32(4, 9), empty(4, 8), empty(4, 8))


@pl.jit
def in_bodies(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, 1.0 / math.sqrt(HEAD))
        for i in pl.range(len(SIZES), max(SIZES)):
            t = pl.add(t, float(HEAD))
        y[0 : int(HEAD * 0.25), :] = pl.maximum(t, float("-inf"))
    return y


def test_constants_in_bodies_go_through_functions_of_python() -> None:
    x = f32(4, 8)
    np.testing.assert_allclose(run(in_bodies, x, empty(4, 8))[1], x / 4 + 6 * 16, rtol=1e-6)


@pytest.mark.parametrize(
    ("spelled", "message"),
    [
        ("math.sqrt(0 - 1)", r"`math.sqrt\(0 - 1\)`: math domain error"),
        ("math.lcm(2**62 - 1, 2**61 - 1)", "'\\*\\*' is not part of the kernel language"),
        ("math.lcm(4611686018427387903, 2305843009213693951)", "is no number of 64 bits"),
        ("float(n)", r"float\(...\) is ordinary Python"),
        ("ceil_div(5, 2)", r"ceil_div\(...\) is ordinary Python"),
        ("math.factorial(5)", r"math.factorial\(...\) is ordinary Python"),
    ],
)
def test_what_is_no_arithmetic_on_constants_is_refused_in_bodies(spelled: str, message: str, tmp_path: Path) -> None:
    source = (
        "import math\n"
        "import pypto.language as pl\n"
        f"from {__name__} import ceil_div\n"
        "@pl.jit\n"
        "def kernel(x: pl.Tensor, n: pl.Scalar[pl.INDEX], y: pl.Out[pl.Tensor]):\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n"
        f"        y[:, :] = pl.add(x, {spelled})\n"
        "    return y\n"
    )
    path = tmp_path / "kernel.py"
    path.write_text(source)
    names: dict[str, pl.JITFunction] = {}
    exec(compile(source, path, "exec"), names)
    known = list(CALLS)
    with pytest.raises((SyntaxError, ValueError, TypeError), match=message):
        names["kernel"].lower(f32(4, 8), pl.RUNTIME, empty(4, 8))
    assert known == CALLS


@pytest.mark.parametrize(
    "extent", ["9**65", "(9**20)**9", "1 << 65", "open('x')", "RUNTIME ** 2", "ceil_div.__call__(1, 2)", "1 // 0"]
)
def test_extents_that_are_no_arithmetic_are_refused(extent: str) -> None:
    def kernel(x: f"pl.Tensor[[{extent}, 8], pl.FP32]", y: pl.Out[pl.Tensor]):
        y[:] = pl.add(x, 1.0)
        return y

    with pytest.raises(TypeError, match="parameter 'x': "):
        pl.jit(kernel).lower(f32(4, 8), empty(4, 8))
