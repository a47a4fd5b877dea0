"""Exceptions of the runtime: class, text, and the stable name in `code`, all of them listed in `docs/errors.md`."""

import importlib
import re
import sys
from pathlib import Path

import provoked
import pytest

from pypto import failures

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
errors_doc = importlib.import_module("errors_doc")

ROWS = errors_doc.rows()


def test_the_page_of_errors_is_what_the_sources_say() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == errors_doc.page(), "run tools/errors_doc.py"


def test_each_error_is_provoked_or_told_where() -> None:
    assert set(provoked.CASES) & set(provoked.ELSEWHERE) == set()
    assert set(provoked.CASES) | set(provoked.ELSEWHERE) == set(ROWS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", provoked.CASES)
def test_an_error_has_its_class_its_code_and_a_text(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[code]
    with (
        provoked.scene(tmp_path, monkeypatch.setenv) as scene,
        pytest.raises((ValueError, TypeError, RuntimeError, MemoryError, OverflowError, LookupError, OSError,
                       AssertionError, BufferError)) as raised,
    ):  # fmt: skip
        provoked.CASES[code](scene)
    assert raised.value.code == code
    assert type(raised.value).__name__ in row.classes
    assert len(str(raised.value)) > 10


@pytest.mark.parametrize("code", ROWS)
def test_the_page_says_cause_and_cure_in_sentences(code: str) -> None:
    why = ROWS[code].why
    assert re.fullmatch(r"[A-Z`].*\.", why), why
    assert "|" not in why


def test_errors_of_the_runtime_are_made_where_they_are_listed() -> None:
    """So that none is without a code. What Python itself expects of an object (AttributeError) has none."""
    plain = re.compile(r"\braise (?:Value|Type|Runtime|Index|Key|Assertion|FileNotFound|NotImplemented)Error\(")
    for path in (ROOT / "python" / "pypto" / "runtime").rglob("*.py"):
        assert not plain.search(path.read_text()), f"{path}: raise failures.SOMETHING(...) instead"
    plain = re.compile(r"Py(?:Value|Type|Runtime|Memory|Overflow)Error::new_err")
    for path in (ROOT / "rust" / "src" / "python").glob("*.rs"):
        if path.name not in ("errors.rs", "vectorcall.rs"):  # the latter words what Python says about keywords
            assert not plain.search(path.read_text()), f"{path}: Edge::Something.error(...) instead"


def test_a_code_names_one_kind_of_error() -> None:
    codes = [failure.code for failure in failures.ALL]
    assert len(codes) == len(set(codes))
