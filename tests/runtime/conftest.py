"""Fixtures of the runtime's own tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from core_programs import Register

from pypto import _pypto

MIB = 1 << 20


@pytest.fixture
def device() -> Iterator[_pypto.Worker]:
    """An open device without the layer of `ChipWorker` over it."""
    device = _pypto.Worker("a2a3sim", capacity=64 * MIB)
    yield device
    device.close()


@pytest.fixture
def register(device: _pypto.Worker) -> Register:
    """Registers a program on `device`."""

    def register(
        program: _pypto.Program, outputs: Sequence[int] = (2,), *, has_return: bool = True
    ) -> _pypto.RegistrationHandle:
        return device.register(program, owner=None, compiled=None, output_indices=outputs, has_return=has_return)

    return register
