"""Runs a kernel every way there is, on the same arguments, and compares the results.

The IR as the frontend made it and the IR after outlining run in the interpreter, and text that the printer wrote must
parse back to a program that computes the same. The core program must satisfy the Rust verifier, and the simulated chip
must compute what the interpreter does. What the printer writes of the frontend's IR is that IR exactly.
"""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import interp
import numpy as np
from structure import structure

import pypto.language as pl
from pypto import _pypto, ir
from pypto.ir.lower import lower
from pypto.ir.nodes import Program
from pypto.ir.passes import outline, split_phases
from pypto.ir.verifier import verify

SEEDS = 8
"""How many random schedules each kernel of the suite runs under."""


def program_of(kernel: Any, *args: Any, runtime: bool = False) -> Program:
    """The IR of a jit function for these arguments, or a program as it is. `runtime` keeps scalars parameters."""
    if isinstance(kernel, Program):
        return kernel
    return kernel.lower(*(pl.RUNTIME if runtime and isinstance(arg, (int, float)) else arg for arg in args))


def verified(program: Program) -> dict[str, Any]:
    """The core program, accepted by the verifier."""
    core = lower(split_phases(outline(program)))
    _pypto.Program(core)
    return core


def run(kernel: Any, *args: Any, device: bool = True, runtime: bool = False, clean: bool = True) -> list[np.ndarray]:
    """The array arguments after a run; all ways of running agree bit by bit. The given arrays are not changed.

    `device=False` leaves the simulated chip out; `runtime` keeps scalars parameters instead of fixing them. `clean`
    says that no sanitizer finds anything.
    """
    program = program_of(kernel, *args, runtime=runtime)
    if program.name not in COMPOSED:
        check_round_trip(program)
    verify(program)
    verify(outline(program))
    verify(split_phases(outline(program)))
    verified(program)
    results = []
    versions = [program, outline(program), split_phases(outline(program))]
    versions += [pl.parse_program(version.as_python()) for version in versions]
    for version in versions:
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        interp.run(version, *copies)
        results.append([copy for copy in copies if isinstance(copy, np.ndarray)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    if device:
        check_device(program, args, results[0], clean)
    return results[0]


COMPOSED = frozenset(
    (
        "batched",
        "compared",
        "from_memory",
        "named_batches",
        "paged",
        "permuted",
        "rows_replaced",
        "tiles",
        "whole_numbers",
    )
)
"""Kernels with operations that the frontend composes of others. Those print as the parts, of which the text does not
say at which level or in which memory they are: what is read back computes the same, which `run` checks, and is not
equal.
"""


def check_round_trip(program: Program) -> None:
    """What the printer writes of a program reads back as the same program, which prints the same."""
    text = program.as_python()
    again = pl.parse_program(text)
    assert structure(again) == structure(program), text
    assert again.as_python() == text


@functools.cache
def worker() -> Any:
    """The simulated chip, opened once."""
    from pypto.runtime import ChipWorker, RunConfig

    return ChipWorker(config=RunConfig(platform="a2a3sim"))


@functools.cache
def schedules() -> list[Any]:
    """Simulated chips with other numbers of cores and random schedules, opened once."""
    from pypto.runtime import ChipWorker, RunConfig

    return [ChipWorker(config=RunConfig(schedule_seed=seed, cores=1 + seed % 4)) for seed in range(SEEDS)]


@functools.cache
def sanitizer() -> Any:
    """A simulated chip that checks what programs do, opened once."""
    from pypto.runtime import ChipWorker, RunConfig

    return ChipWorker(config=RunConfig(sanitize="race,uninit,bounds"))


def check_device(program: Program, args: tuple[Any, ...], expected: list[np.ndarray], clean: bool = True) -> None:
    """Runs a program on the simulated chip and compares what it wrote; under random schedules it writes the same bits.

    `clean` says that no sanitizer finds anything.
    """

    def on(chip: Any) -> list[np.ndarray]:
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        chip.run(compiled, *copies)
        return [copy for copy in copies if isinstance(copy, np.ndarray)]

    with tempfile.TemporaryDirectory() as directory:
        compiled = ir.compile(program, directory, platform="a2a3sim")
        first = on(worker())
        others = [*schedules(), sanitizer()] if clean else schedules()
        for other in others:
            for have, want in zip(on(other), first, strict=True):
                np.testing.assert_array_equal(have.view(np.uint8), want.view(np.uint8))
    for have, want in zip(first, expected, strict=True):
        written = ~np.isnan(want) if np.issubdtype(want.dtype, np.floating) else want != 77
        # The interpreter computes in FP64 and rounds once, the chip in FP32: a few units of the last place apart.
        tolerance = {"float32": 1e-5, "float16": 1e-3}.get(want.dtype.name, 0.0)
        np.testing.assert_allclose(have[written], want[written], rtol=tolerance, atol=tolerance)


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    """Small floats, the same every time."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An output: what is not written stays NaN (or 77)."""
    return np.full(shape, np.nan if np.issubdtype(dtype, np.floating) else 77, dtype)
