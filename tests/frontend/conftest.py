"""Every refusal that a test of this directory provokes says what to write instead."""

from collections.abc import Iterator

import pytest

from pypto.ir.diagnostics import KernelError


@pytest.fixture(autouse=True)
def _every_diagnostic_has_a_hint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    raised: list[KernelError] = []
    plain = KernelError.__init__

    def record(error: KernelError, diagnostics: tuple) -> None:
        raised.append(error)
        plain(error, diagnostics)

    monkeypatch.setattr(KernelError, "__init__", record)
    yield
    silent = [d.message for error in raised for d in error.diagnostics if not d.hint.strip() or d.loc.line < 1]
    assert silent == []
