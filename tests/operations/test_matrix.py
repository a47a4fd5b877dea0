"""Operation x dtype x instruction set x full or partial validity x size, each against its reference.

The default run draws one size and one instruction set for each; `--heavy` runs everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from operations.harness import CASES, SIZES, check, shapes

SETS = ("generic", "avx2", "avx512")
FLAGS = Path("/proc/cpuinfo").read_text()
AVAILABLE = [isa for isa in SETS if isa == "generic" or {"avx2": "avx2", "avx512": "avx512f"}[isa] in FLAGS]

PARAMS = [
    pytest.param(case, dtype, id=f"{case.id}-{dtype}-{number}")
    for number, case in enumerate(CASES)
    for dtype in case.dtypes
]


@pytest.mark.parametrize(("case", "dtype"), PARAMS)
def test_an_operation_gives_what_its_reference_gives(case, dtype: str, tmp_path, monkeypatch) -> None:
    seed = hash_of(case.call + dtype)
    monkeypatch.setenv("PYPTO_ISA", AVAILABLE[seed % len(AVAILABLE)])
    (shape,) = shapes(1, seed)
    check(case, dtype, shape, False, tmp_path)
    check(case, dtype, shape, True, tmp_path)


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(ord(char) * 31**place for place, char in enumerate(text)) % (1 << 32)


@pytest.mark.heavy
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.id}-{at}") for at, case in enumerate(CASES)])
def test_every_dtype_and_size_on_every_instruction_set(case, isa: str, tmp_path, monkeypatch) -> None:
    if isa not in AVAILABLE:
        pytest.skip(f"this processor has no {isa}")
    monkeypatch.setenv("PYPTO_ISA", isa)
    for dtype in case.dtypes:
        for shape in shapes(len(SIZES), seed=hash_of(case.call)):
            check(case, dtype, shape, False, tmp_path)
            check(case, dtype, shape, True, tmp_path)
