"""`pypto_worker`, the check for leaks, and the options."""

import subprocess
import sys
from collections.abc import Callable

import pytest


def test_compiled_programs_find_the_worker_of_the_fixture(run: Callable[..., pytest.RunResult]) -> None:
    run(
        """
earlier = []

def test_it(pypto_worker):
    x, out = torch.ones(16, 64), torch.zeros(16, 64)
    double(x, out)
    assert torch.equal(out, x * 2)
    assert pypto_worker.counters()["launches"] == 1
    earlier.append(pypto_worker)

def test_each_test_has_its_own(pypto_worker):
    assert pypto_worker.counters()["launches"] == 0
    assert not earlier[0].initialized
"""
    ).assert_outcomes(passed=2)


def test_the_configuration_is_a_fixture_that_tests_replace(run: Callable[..., pytest.RunResult]) -> None:
    run(
        """
@pytest.mark.parametrize("pypto_config", [RunConfig(device_memory=1 << 20)])
def test_little_memory(pypto_worker):
    assert pypto_worker.memory_report().capacity == 1 << 20

class TestOfAClass:
    @pytest.fixture
    def pypto_config(self):
        return RunConfig(device_memory=1 << 21)

    def test_more(self, pypto_worker):
        assert pypto_worker.memory_report().capacity == 1 << 21
"""
    ).assert_outcomes(passed=2)


def test_what_a_passing_test_leaves_behind_is_named_with_its_line(run: Callable[..., pytest.RunResult]) -> None:
    result = run(
        """
def test_leaves_two(pypto_worker):
    pypto_worker.alloc_tensor((4, 8), torch.float16)  # the line
    pypto_worker.malloc(100)

def test_frees(pypto_worker):
    pypto_worker.free_tensor(pypto_worker.alloc_tensor((4, 8), torch.float16))
"""
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_leaves_two*",
            "the test left 2 tensors (164 bytes) on the device; free them with free_tensor():",
            "  * (100 B), allocated at *.py:14",
            "  FP16 (4, 8) at 0x* (64 B), allocated at *.py:13",
        ]
    )
    assert "that the program was leaking" not in result.stdout.str(), "closing says nothing a second time"


def test_many_tensors_are_counted(run: Callable[..., pytest.RunResult]) -> None:
    result = run("def test_it(pypto_worker):\n    [pypto_worker.malloc(8) for _ in range(25)]\n")
    result.stdout.fnmatch_lines(["the test left 25 tensors (200 bytes)*", "  ... and 5 more"])


def test_what_a_failing_test_leaves_behind_is_no_second_fault(run: Callable[..., pytest.RunResult]) -> None:
    run(
        """
def test_it(pypto_worker, pypto_leak_check):
    pypto_worker.malloc(8)
    assert False
"""
    ).assert_outcomes(failed=1)


def test_a_worker_that_the_test_closed_is_no_fault(run: Callable[..., pytest.RunResult]) -> None:
    run("def test_it(pypto_worker):\n    pypto_worker.close()\n").assert_outcomes(passed=1)


def test_leaks_on_workers_of_a_wider_scope_belong_to_their_test(run: Callable[..., pytest.RunResult]) -> None:
    result = run(
        """
@pytest.fixture(scope="module")
def shared():
    with ChipWorker() as worker:
        weight = worker.alloc_tensor((8, 8), torch.float32)
        yield worker
        worker.free_tensor(weight)

@pytest.fixture
def scratch(pypto_leak_check, shared):
    tensor = shared.alloc_tensor((4,), torch.float32)
    yield tensor
    shared.free_tensor(tensor)

pytestmark = pytest.mark.usefixtures("pypto_leak_check")
kept = []

def test_clean(shared, scratch):
    pass

def test_leaves(shared):
    kept.append(shared.alloc_tensor((2, 2), torch.float32))

def test_clean_again(shared):
    shared.free_tensor(kept.pop())
"""
    )
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leaves*", "the test left 1 tensor (16 bytes)*"])


MODES = """
import os

def test_poison(pypto_worker):
    tensor = pypto_worker.alloc_tensor((4,), torch.float32)
    assert bool(tensor.to_host().isnan().all())
    pypto_worker.free_tensor(tensor)

def test_sanitize(pypto_worker):
    import pypto.runtime
    tensor = pypto_worker.alloc_tensor((16, 64), torch.float32)
    with pytest.raises(pypto.runtime.SanitizerError, match="uninit: a read of memory that nothing wrote"):
        double(tensor, torch.zeros(16, 64))
    pypto_worker.free_tensor(tensor)

def test_seed():
    assert os.environ["PYPTO_SCHEDULE_SEED"] == "7"

def test_workers_of_the_test_itself_follow_too():
    worker = ChipWorker()
    assert bool(worker.alloc_tensor((4,), torch.float32).to_host().isnan().all())
    worker.close()
"""


def test_options_switch_every_worker_to_a_test_mode(run: Callable[..., pytest.RunResult]) -> None:
    options = ("--pypto-poison", "--pypto-sanitize", "uninit,bounds", "--pypto-schedule-seed", "7")
    run(MODES, *options).assert_outcomes(passed=4)
    run(MODES).assert_outcomes(failed=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--pypto-schedule-seed", "many"), "--pypto-schedule-seed='many' is no number from 0"),
        (("--pypto-sanitize", "races"), "'races'"),
    ],
)
def test_a_wrong_option_ends_pytest_before_any_test(
    run: Callable[..., pytest.RunResult], options: tuple[str, ...], message: str
) -> None:
    result = run("def test_it(): pass\n", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_a_suite_that_does_not_use_the_plugin_loads_nothing_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys

def test_it():
    assert "pypto.pytest_plugin" in sys.modules, "the plugin is installed"
    loaded = {name for name in sys.modules if name.startswith("pypto.")}
    assert loaded == {"pypto.pytest_plugin", "pypto._pypto", "pypto.errors"}
    assert not {"torch", "numpy", "rich", "typer"} & set(sys.modules)
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
