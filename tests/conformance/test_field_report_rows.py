"""What users of such runtimes have hit, as cases that would show it here. `test_field_reports.py` lists all of them."""

import gc
import mmap
import os
import statistics
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import sample_kernels
import torch

from pypto import _pypto, ir
from pypto.runtime import ChipWorker, RunConfig, programs, run

TESTS = Path(__file__).parent.parent


def ones(rows: int = 128, cols: int = 128) -> torch.Tensor:
    return torch.ones(rows, cols)


def in_a_process(script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs a script that can import what tests import."""
    text = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n{textwrap.dedent(script)}"
    return subprocess.run([sys.executable, *flags, "-c", text], capture_output=True, text=True, timeout=300)


def test_field_report_a07_a_program_at_the_address_of_a_collected_one_runs_itself(
    worker: ChipWorker, tmp_path: Path
) -> None:
    """Registrations that are found by `id()` find the wrong one when an object takes the place of a collected one."""
    args = [torch.full((16, 16), 2.0), torch.full((16, 16), 3.0)]
    kernels = [(sample_kernels.add, 5.0), (sample_kernels.mul, 6.0)]
    for kernel, _ in kernels:
        ir.compile(kernel.lower(*args, torch.empty(16, 16)), tmp_path / kernel.__name__, dump_passes=False)
    seen: set[int] = set()
    again = 0
    with worker:
        for number in range(200):
            kernel, expected = kernels[number % 2]
            compiled = ir.CompiledProgram.from_dir(tmp_path / kernel.__name__)
            again += id(compiled) in seen
            seen.add(id(compiled))
            out = torch.empty(16, 16)
            worker.run(compiled, *args, out)
            assert (out == expected).all()
            assert (compiled(*args) == expected).all()
            assert (worker.register(compiled)(*args) == expected).all()
            del compiled
            gc.collect(0)
    assert again, "no object took the place of another: the test has not tested anything"


def test_field_report_a16_a_device_larger_than_the_machine_opens_and_takes_only_what_is_touched() -> None:
    """Also a04: a launch prepares nothing that is as large as the device."""
    done = in_a_process("""
        import resource
        import torch, sample_kernels
        from pypto.runtime import ChipWorker, RunConfig
        compiled = sample_kernels.compile_add()
        a, b, c = torch.ones(128, 128), torch.ones(128, 128), torch.empty(128, 128)
        with ChipWorker(RunConfig(device_memory=16 << 20)) as worker:
            worker.run(compiled, a, b, c)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ChipWorker(RunConfig(device_memory=1 << 40)) as worker:
            for _ in range(3):
                worker.run(compiled, a, b, c)
            print(worker.counters()["h2d_bytes"], worker.memory_stats()["capacity"])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """)
    assert done.returncode == 0, done.stderr
    h2d, capacity, grown_kib = map(int, done.stdout.split())
    assert capacity == 1 << 40
    assert h2d == 3 * 2 * 128 * 128 * 4
    assert grown_kib < 16 * 1024, "three tensors are 192 KiB; the rest is the allocator's own and threads"


def test_field_report_a17_a_worker_starts_no_process() -> None:
    """What is not started cannot outlive a killed test."""
    done = in_a_process("""
        import pathlib, torch, sample_kernels
        from pypto.runtime import ChipWorker
        def children():
            return "".join(p.read_text() for p in pathlib.Path("/proc/self/task").glob("*/children")).split()
        with ChipWorker() as worker:
            worker.run(sample_kernels.compile_add(), *(torch.ones(128, 128) for _ in range(3)))
            print(len(children()))
        print(len(children()))
    """)
    assert (done.returncode, done.stdout) == (0, "0\n0\n"), done.stderr


def test_field_report_a18_no_launch_sleeps_between_two_looks_at_the_device(worker: ChipWorker) -> None:
    """A launch that waits by sleeping costs at least one sleep. Both are measured here, and medians compared."""
    handle = worker.register(sample_kernels.compile_add(16, 16))
    tensors = [worker.alloc_tensor((16, 16), torch.float32, init=ones(16, 16)) for _ in range(3)]

    def took(call) -> int:
        begin = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - begin

    launches, sleeps = [], []
    for _ in range(100):
        launches.append(took(lambda: handle(*tensors)))
        sleeps.append(took(lambda: time.sleep(50e-6)))
    assert statistics.median(launches) < statistics.median(sleeps) / 2


def test_field_report_a20_registering_builds_and_no_launch_does(worker: ChipWorker) -> None:
    first, second = sample_kernels.compile_add(24, 16), sample_kernels.compile_mul(16, 24)
    recording = _pypto.Recording()

    def builds() -> int:
        return [span[3] for span in recording.drain()[1]].count("chip.prewarm.build")

    handles = [(worker.register(first), (24, 16)), (worker.register(second), (16, 24))]
    assert builds() == 2
    for _ in range(5):
        for handle, shape in handles:
            handle(ones(*shape), ones(*shape), ones(*shape))
    assert builds() == 0
    worker.register(first)
    assert builds() == 0
    recording.stop()


def test_field_report_a21_a_launch_reads_the_host_as_it_is_at_that_moment(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    """The writers: this thread, another thread, and another process that shares the page."""
    page = mmap.mmap(-1, 128 * 128 * 4)
    a = torch.frombuffer(page, dtype=torch.float32).reshape(128, 128)
    handle = worker.register(K_add)

    def total() -> torch.Tensor:
        out = torch.empty(128, 128)
        handle(a, ones(), out)
        return out

    def fill(value: float) -> None:
        a.fill_(value)

    def in_a_child(value: float) -> None:
        pid = os.fork()
        if pid == 0:
            page[:] = torch.full((128, 128), value).numpy().tobytes()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0

    def in_a_thread(value: float) -> None:
        thread = threading.Thread(target=fill, args=(value,))
        thread.start()
        thread.join()

    for number, write in enumerate([fill, in_a_thread, in_a_child] * 2):
        write(float(number))
        assert (total() == number + 1).all()


def test_field_report_a22_tensors_made_after_the_worker_was_opened_are_read_whatever_made_them(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    worker.run(K_add, ones(), ones(), ones())
    made: list[torch.Tensor] = [ones().share_memory_(), torch.full((128, 128), 1.0).clone()]
    thread = threading.Thread(target=lambda: made.append(ones()))
    thread.start()
    thread.join()
    for a in made:
        out = torch.empty(128, 128).share_memory_()
        worker.run(K_add, a, ones(), out)
        assert (out == 2).all()


def test_field_report_a34_a_program_is_read_once_however_often_it_is_called(
    K_add: ir.CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChipWorker() as worker:
        K_add(ones(), ones(), ones())

        def again(*args: object) -> None:
            raise AssertionError("the program was made again")

        monkeypatch.setattr(programs, "_pypto", SimpleNamespace(Program=again))
        for _ in range(20):
            K_add(ones(), ones(), ones())
            worker.run(K_add, ones(), ones(), ones())
            worker.register(K_add)(ones(), ones(), ones())
        assert K_add.chip_callable is K_add.chip_callable
        assert worker.counters()["registrations"] == 1


def test_field_report_a42_workers_of_both_kinds_of_runtime_and_of_two_devices_share_a_process() -> None:
    args = [torch.full((128, 128), 2.0), torch.full((128, 128), 3.0)]
    usual = {"add": sample_kernels.compile_add(), "mul": sample_kernels.compile_mul()}
    with ir.PassContext(runtime="host_build_graph"):
        other = {"add": sample_kernels.compile_add(), "mul": sample_kernels.compile_mul()}
    expected = {"add": 5.0, "mul": 6.0}
    opened = [
        (ChipWorker(RunConfig(device_id=device), runtime=runtime), compiled)
        for device in (0, 1)
        for runtime, compiled in (("tensormap_and_ringbuffer", usual), ("host_build_graph", other))
    ]
    for _ in range(3):
        for name, value in expected.items():
            for worker, compiled in opened:
                out = torch.empty(128, 128)
                worker.run(compiled[name], *args, out)
                assert (out == value).all()
    for worker, _ in opened:
        assert worker.counters()["launches"] == 6
        worker.close()


def test_field_report_a50_where_directories_are_made_does_not_decide_what_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = [ones(8, 24) for _ in range(3)]
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path / "first"))
    compiled = sample_kernels.add.compile(*args)
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path / "second"))
    assert sample_kernels.add.compile(*args) is compiled
    assert compiled.output_dir.parent == tmp_path / "first"
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("shape", [(1,), (1, 128), (128, 1)])
def test_field_report_a55_an_expected_output_of_another_shape_is_a_difference_and_not_spread(
    shape: tuple[int, ...], K_add: ir.CompiledProgram
) -> None:
    result = run(K_add, ones(), ones(), ones(), golden={"c": torch.full(shape, 2.0)})
    assert not result.passed
    assert result.error == f"output 'c' has shape (128, 128), golden has {shape}"


def test_field_report_a57_an_extension_that_is_not_built_is_told_from_a_bug(tmp_path: Path) -> None:
    package = Path(ir.__file__).parent.parent
    (tmp_path / "pypto").mkdir()
    for path in package.iterdir():
        if not path.name.startswith("_pypto."):
            (tmp_path / "pypto" / path.name).symlink_to(path)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pypto"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        "ImportError: the Rust extension pypto._pypto is not built or does not fit this Python: run `make"
        in done.stderr
    )


def test_field_report_b65_a_report_of_the_memory_costs_less_than_what_it_reports(worker: ChipWorker) -> None:
    begin = time.perf_counter()
    tensors = [worker.alloc_tensor((16, 16), torch.float32, init=ones(16, 16)) for _ in range(20_000)]
    allocated = time.perf_counter()
    report = worker.memory_report()
    reported = time.perf_counter()
    assert report.count == len(tensors)
    assert reported - allocated < allocated - begin


def test_field_report_b85_an_interpreter_inside_the_process_imports_or_is_refused_and_nothing_crashes() -> None:
    subinterpreters = pytest.importorskip("_xxsubinterpreters", reason="this Python calls it otherwise")
    assert subinterpreters
    done = in_a_process("""
        import _xxsubinterpreters as interpreters
        import os
        import pypto._pypto
        inner = interpreters.create(isolated=False)
        interpreters.run_string(inner, "import os\\ntry:\\n    import pypto._pypto\\nexcept ImportError:\\n    pass\\n"
                                       "os.write(1, b'inner ')")
        interpreters.destroy(inner)
        os.write(1, b"outer")
    """)
    assert (done.returncode, done.stdout) == (0, "inner outer"), done.stderr
