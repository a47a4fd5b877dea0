"""`PYPTO_SCHEDULE_SEED`: a seed for workers whose configuration has none."""

import pytest

from pypto import _pypto
from pypto.runtime import ChipWorker, RunConfig


@pytest.mark.parametrize(
    ("text", "given", "wanted"),
    [("", None, None), ("7", None, 7), (" 0 ", None, 0), ("7", 3, 3), (str(2**64 - 1), None, 2**64 - 1)],
)
def test_the_seed_counts_where_the_configuration_has_none(
    text: str, given: int | None, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def opened(*args: object, schedule_seed: int | None, **settings: object) -> None:
        seeds.append(schedule_seed)
        raise RuntimeError("no device is needed")

    monkeypatch.setattr(_pypto, "Worker", opened)
    monkeypatch.setenv("PYPTO_SCHEDULE_SEED", text)
    with pytest.raises(RuntimeError, match="no device is needed"):
        ChipWorker(RunConfig(schedule_seed=given))
    assert seeds == [wanted]


@pytest.mark.parametrize("text", ["-1", "x", "1.5", str(2**64), "²"])
def test_what_is_no_seed_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_SCHEDULE_SEED", text)
    with pytest.raises(ValueError, match=f"PYPTO_SCHEDULE_SEED='{text}' is no number from 0 to {2**64 - 1}; use one"):
        ChipWorker()
