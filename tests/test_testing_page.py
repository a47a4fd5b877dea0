"""The page on testing: its code is a test file that passes, with every option, and its outputs look as it shows."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pypto import ir

PAGE = (Path(__file__).parent.parent / "docs" / "testing.md").read_text()
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
LEAK, RATIO = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
TESTS = 5


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, K_add: ir.CompiledProgram) -> Run:
    """What an inner run imports it forgets afterwards, so what programs need (`K_add`) is imported before."""
    return partial(pytester.runpytest_inprocess, "-p", "no:hypothesispytest")


def pattern(text: str) -> str:
    """A text of which only the numbers may differ."""
    return re.sub(r"\d+(x\d+)?", lambda found: r"0x[\da-f]+" if found[1] else r"\d+", re.escape(text.strip()))


@pytest.mark.parametrize("options", [(), ("--pypto-poison",), ("--pypto-schedule-seed", "3")])
def test_the_code_of_the_page_passes(pytester: pytest.Pytester, run: Run, options: tuple[str, ...]) -> None:
    pytester.makepyfile(test_page=CODE)
    update = run("--pypto-benchmark-update", *options)
    update.assert_outcomes(passed=TESTS)
    line = next(line for line in update.outlines if "it_keeps_its_speed:" in line)
    assert re.fullmatch(pattern(RATIO.partition("; baseline")[0]) + "; written", line)


def test_the_sanitizers_find_nothing_in_it(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_page=CODE)
    found = run("--pypto-sanitize=race,uninit,bounds", "-k", "not speed")
    found.assert_outcomes(passed=TESTS - 1, deselected=1)


def test_a_leak_reads_as_the_page_shows(pytester: pytest.Pytester, run: Run) -> None:
    leak = "\ndef test_leak(pypto_worker):\n    pypto_worker.alloc_tensor((64, 64), torch.float32)\n"
    pytester.makepyfile(test_page=CODE + leak)
    result = run("-k", "leak")
    assert re.search(pattern(LEAK).replace("test_page", r"\S+test_page"), result.stdout.str())


def test_the_tables_list_what_there_is(pytester: pytest.Pytester, run: Run) -> None:
    fixtures = run("--fixtures", "-q").stdout.str()
    options = run("--help").stdout.str()
    assert set(re.findall(r"^(pypto_\w+)", fixtures, re.M)) == set(re.findall(r"^\| `(pypto_\w+)`", PAGE, re.M))
    assert set(re.findall(r"^ +(--pypto-[\w-]+)", options, re.M)) == set(
        re.findall(r"^\| `(--pypto-[\w-]+)", PAGE, re.M)
    )
