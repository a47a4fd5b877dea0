"""Scalar expressions: folding and exact comparison of extents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto.ir import exprs
from pypto.ir.exprs import Const, ScalarVar, Symbol, binary, cast, index
from pypto.language.dtypes import BOOL, FP32, INDEX, INT8, INT32, UINT8

N = Symbol("N")
K = ScalarVar("k", INDEX)


def add(a, b):
    return binary("add", a, b, INDEX)


def mul(a, b):
    return binary("mul", a, b, INDEX)


def test_differences_of_linear_expressions_are_exact() -> None:
    assert exprs.difference(add(K, index(128)), K) == 128
    assert exprs.difference(mul(add(K, index(1)), index(16)), mul(K, index(16))) == 16
    assert exprs.difference(add(add(N, K), index(3)), add(K, N)) == 3
    assert not isinstance(exprs.difference(N, K), int)


def test_definitions_of_variables_are_looked_through_unless_they_change() -> None:
    start = ScalarVar("start", INDEX, mul(K, index(8)))
    stop = ScalarVar("stop", INDEX, add(start, index(8)))
    assert exprs.difference(stop, start) == 8
    changing = ScalarVar("c", INDEX, mutable=True)
    assert exprs.same(changing, changing)
    assert not exprs.same(changing, K)


def test_a_long_chain_of_definitions_is_no_recursion() -> None:
    value = K
    for _ in range(5000):
        value = ScalarVar("v", INDEX, add(value, index(1)))
    assert exprs.difference(value, K) == 5000


def test_products_of_unknowns_are_atoms() -> None:
    assert exprs.same(mul(N, K), mul(N, K))
    assert not exprs.same(mul(N, K), mul(N, N))


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([INT8, UINT8, INT32]))
def test_a_cast_narrows_as_c_does(value: int, dtype) -> None:
    import ctypes

    kinds = {"INT8": ctypes.c_int8, "UINT8": ctypes.c_uint8, "INT32": ctypes.c_int32}
    assert cast(index(value), dtype) == Const(kinds[dtype.name](value).value, dtype)


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("floordiv", -7, 2, -4),
        ("mod", -7, 2, 1),
        ("shl", 3, 4, 48),
        ("shr", -16, 2, -4),
        ("min", 3, 5, 3),
        ("max", 3, 5, 5),
    ],
)
def test_constants_are_folded(op: str, a: int, b: int, expected: int) -> None:
    assert binary(op, index(a), index(b), INDEX) == index(expected)


def test_what_cannot_be_folded_stays() -> None:
    assert not isinstance(binary("floordiv", index(1), index(0), INDEX), Const)
    assert not isinstance(binary("shl", index(1), index(64), INDEX), Const)


def test_identities_hold_for_integers_only() -> None:
    x = ScalarVar("x", FP32)
    assert add(K, index(0)) is K
    assert mul(K, index(1)) is K
    assert binary("add", x, Const(0.0, FP32), FP32) is not x  # -0.0 + 0.0 is 0.0


def test_comparisons_give_truth_values() -> None:
    assert binary("lt", index(1), index(2), BOOL) == Const(True, BOOL)
