"""Operation x dtype x instruction set x full or partial validity x size, each against its reference.

The default run draws a few sizes and the best instruction set; `--heavy` runs everything.
"""

from __future__ import annotations

import pytest
from operations.harness import CASES, SIZES, check, shapes

SETS = ("generic", "avx2", "avx512")

PARAMS = [
    pytest.param(case, dtype, id=f"{case.id}-{dtype}-{number}")
    for number, case in enumerate(CASES)
    for dtype in case.dtypes
]


@pytest.mark.parametrize(("case", "dtype"), PARAMS)
def test_an_operation_gives_what_its_reference_gives(case, dtype: str, tmp_path) -> None:
    (shape,) = shapes(1, seed=hash_of(case.call + dtype))
    check(case, dtype, shape, False, tmp_path)
    check(case, dtype, shape, True, tmp_path)


def hash_of(text: str) -> int:
    """The same in every process."""
    return sum(ord(char) * 31**place for place, char in enumerate(text)) % (1 << 32)


@pytest.mark.heavy
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize(("case", "dtype"), PARAMS)
def test_every_size_on_every_instruction_set(case, dtype: str, isa: str, tmp_path, monkeypatch) -> None:
    require(isa)
    monkeypatch.setenv("PYPTO_ISA", isa)
    for shape in shapes(len(SIZES), seed=hash_of(case.call)):
        check(case, dtype, shape, False, tmp_path)
        check(case, dtype, shape, True, tmp_path)


def require(isa: str) -> None:
    """Skips what this processor has not."""
    with open("/proc/cpuinfo") as info:
        flags = info.read()
    if isa != "generic" and {"avx2": "avx2", "avx512": "avx512f"}[isa] not in flags:
        pytest.skip(f"this processor has no {isa}")
