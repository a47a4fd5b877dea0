"""Runs a kernel every way there is, on the same arguments, and compares the results.

The IR as the frontend made it and the IR after outlining run in the interpreter; the core program must satisfy the Rust
verifier; text that the printer wrote must parse back to a program that computes the same.
"""

from __future__ import annotations

from typing import Any

import interp
import numpy as np

import pypto.language as pl
from pypto import _pypto
from pypto.ir.lower import lower
from pypto.ir.nodes import Program
from pypto.ir.passes import outline


def program_of(kernel: Any, *args: Any) -> Program:
    """The IR of a jit function for these arguments, or a program as it is."""
    return kernel if isinstance(kernel, Program) else kernel.lower(*args)


def verified(program: Program) -> dict[str, Any]:
    """The core program, accepted by the verifier."""
    core = lower(program)
    _pypto.Program(core)
    return core


def run(kernel: Any, *args: Any) -> list[np.ndarray]:
    """The array arguments after a run; all ways of running agree bit by bit. The given arrays are not changed."""
    program = program_of(kernel, *args)
    verified(program)
    results = []
    for version in (program, outline(program), pl.parse_program(outline(program).as_python())):
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        interp.run(version, *copies)
        results.append([copy for copy in copies if isinstance(copy, np.ndarray)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    return results[0]


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    """Small floats, the same every time."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An output: what is not written stays NaN (or 77)."""
    return np.full(shape, np.nan if np.issubdtype(dtype, np.floating) else 77, dtype)
