"""`ChipWorker`: life cycle, memory primitives, binding checks."""

import gc
import logging
import re
import weakref
from pathlib import Path
from typing import Any

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig

MIB = 1 << 20
SHAPE = (128, 128)


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(SHAPE), torch.randn(SHAPE), torch.full(SHAPE, float("nan"))


# Life cycle


def test_the_constructor_opens_the_device_unless_told_not_to() -> None:
    worker = ChipWorker()
    assert worker.initialized
    assert (worker.level, worker.platform, worker.device_id) == (2, "a2a3sim", 0)
    assert worker.runtime == "tensormap_and_ringbuffer"
    worker.close()
    later = ChipWorker(auto_init=False)
    assert not later.initialized
    later.init()
    later.init()
    assert later.initialized
    later.close()


def test_close_may_come_twice_or_before_init() -> None:
    worker = ChipWorker(auto_init=False)
    worker.close()
    worker.init()
    assert re.fullmatch(r"<ChipWorker a2a3sim device 0, open as worker #\d+>", repr(worker))
    worker.close()
    worker.close()
    assert not worker.initialized
    assert repr(worker) == "<ChipWorker a2a3sim device 0, closed>"


def test_ctrl_c_during_an_upload_leaves_no_allocation_behind(
    worker: ChipWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_prepare_init", interrupted)
    before = worker.memory_report().live
    with pytest.raises(KeyboardInterrupt):
        worker.alloc_tensor((4, 8), torch.float32, init=torch.ones(8, 4).t())
    assert worker.memory_report().live == before


OPERATIONS = {
    "malloc": lambda w: w.malloc(1),
    "free": lambda w: w.free(1),
    "copy_to": lambda w: w.copy_to(1, 1, 1),
    "copy_from": lambda w: w.copy_from(1, 1, 1),
    "alloc_tensor": lambda w: w.alloc_tensor((1,), torch.float32),
    "memory_report": lambda w: w.memory_report(),
    "memory_stats": lambda w: w.memory_stats(),
    "counters": lambda w: w.counters(),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("closed", ["never opened", "closed"])
def test_a_worker_without_a_device_says_which_call_needs_one(name: str, closed: str) -> None:
    worker = ChipWorker(auto_init=False)
    if closed == "closed":
        worker.init()
        worker.close()
    text = (
        rf"ChipWorker\.{name}\(\) requires an initialized ChipWorker\. Use `with chipworker:` or call .*init\(\) first"
    )
    with pytest.raises(RuntimeError, match=text):
        OPERATIONS[name](worker)


def test_run_and_register_need_a_device(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker(auto_init=False)
    with pytest.raises(RuntimeError, match=r"ChipWorker\.run\(\) requires an initialized ChipWorker"):
        worker.run(K_add, *tensors())
    with pytest.raises(RuntimeError, match=r"ChipWorker\.register\(\) requires an initialized ChipWorker"):
        worker.register(K_add)


def test_nothing_old_lives_on_the_next_device(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker()
    old = worker.alloc_tensor(SHAPE, torch.float32, init=torch.ones(SHAPE))
    handle = worker.register(K_add)
    with_cached_launcher = tensors()
    worker.run(K_add, *with_cached_launcher)
    worker.free_tensor(old)
    again = worker.alloc_tensor(SHAPE, torch.float32)
    worker.close()
    worker.init()
    try:
        a, b, c = tensors()
        for dead in (old, again):
            with pytest.raises(ValueError, match="not a live allocation owned by this ChipWorker"):
                worker.run(K_add, dead, b, c)
            worker.free_tensor(dead)
        with pytest.raises(RuntimeError, match="Re-register"):
            handle(a, b, c)
        worker.run(K_add, a, b, c)
        assert torch.equal(c, a + b)
    finally:
        worker.close()


def test_a_worker_that_is_collected_open_is_closed_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    worker = ChipWorker()
    tensor = worker.alloc_tensor((3, 5), torch.float32)
    gone = weakref.ref(worker)
    with caplog.at_level(logging.WARNING):
        del worker
        gc.collect()
    assert gone() is None
    assert tensor.buffer.state == "worker closed"
    (record,) = caplog.records
    assert record.name == "pypto.runtime.runtime_base"
    assert "leaking" in record.getMessage()
    assert f"{__file__}:" in record.getMessage()


def test_a_handle_keeps_its_worker_and_a_worker_no_handle(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker()
    handle = worker.register(K_add)
    worker.run(K_add, *tensors())
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    a, b, c = tensors()
    handle(a, b, c)
    assert torch.equal(c, a + b)
    handle_gone = weakref.ref(handle)
    del handle
    assert handle_gone() is None
    gc.collect()
    assert gone() is None


def test_a_worker_holds_no_compiled_program() -> None:
    import sample_kernels

    compiled = sample_kernels.compile_add()
    worker = ChipWorker()
    worker.run(compiled, *tensors())
    gone = weakref.ref(compiled)
    del compiled
    gc.collect()
    held = gone()
    worker.close()
    # `@pl.jit` caches what it compiles; nothing else may hold it.
    assert held is None or all(not isinstance(holder, ChipWorker) for holder in gc.get_referrers(held))


@pytest.mark.parametrize("level", [0, 1, 3, 4])
def test_only_level_2_is_one_chip(level: int) -> None:
    with pytest.raises(ValueError, match=r"only supports level=2.*DistributedWorker"):
        ChipWorker(level=level)


def test_config_is_a_run_config() -> None:
    with pytest.raises(TypeError, match="config must be a RunConfig, got str"):
        ChipWorker("a2a3sim")


def test_a_runtime_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="runtime must be one of tensormap_and_ringbuffer, host_build_graph"):
        ChipWorker(runtime="cuda")


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
def test_a_real_chip_without_its_driver_is_never_simulated(platform: str) -> None:
    text = rf'platform "{platform}" is a real Ascend chip.*driver library libascendcl\.so.*davinci3.*"{platform}sim"'
    with pytest.raises(RuntimeError, match=text):
        ChipWorker(RunConfig(platform=platform, device_id=3))


def test_a5sim_runs_what_was_compiled_for_it_and_nothing_else(tmp_path: Path) -> None:
    program = sample_kernels.compile_add(16, 16).program
    five = ir.compile(program, tmp_path / "five", platform="a5sim")
    ones, twos = torch.ones(16, 16), torch.full((16, 16), 2.0)
    with ChipWorker(RunConfig(platform="a5sim")) as worker:
        assert worker.platform == "a5sim"
        assert "a5sim" in repr(worker)
        assert torch.equal(worker.run(five, ones, twos), ones + twos)
        assert torch.equal(five(ones, twos), ones + twos)
        assert worker.counters()["launches"] == 2, "the implicit call found it"
        two = ir.compile(program, tmp_path / "two", platform="a2a3sim")
        with pytest.raises(ValueError, match="compiled for platform 'a2a3sim', this worker has platform 'a5sim'"):
            worker.register(two)
    assert five.backend_type is ir.BackendType.Ascend950
    assert torch.equal(five(ones, twos), ones + twos), "without a worker one of that platform is made"
    assert ir.CompiledProgram.from_dir(tmp_path / "five").platform == "a5sim"


@pytest.mark.parametrize("settings", [{"sanitize": "race"}, {"schedule_seed": 3}])
def test_a5sim_checks_and_shuffles_too(settings: dict[str, Any], tmp_path: Path) -> None:
    compiled = ir.compile(sample_kernels.compile_add(16, 16).program, tmp_path, platform="a5sim")
    with ChipWorker(RunConfig(platform="a5sim", **settings)):
        assert torch.equal(compiled(torch.ones(16, 16), torch.ones(16, 16)), torch.full((16, 16), 2.0))


def test_more_memory_than_there_is_address_space_is_refused() -> None:
    with pytest.raises((MemoryError, ValueError), match="address space"):
        ChipWorker(RunConfig(device_memory=1 << 62))


# Memory


def test_worker_id_is_zero(worker: ChipWorker) -> None:
    for call in (
        lambda: worker.alloc_tensor((1,), torch.float32, worker_id=1),
        lambda: worker.free_tensor(DeviceTensor(4096, (1,), torch.float32), worker_id=1),
        lambda: worker.malloc(1, worker_id=1),
        lambda: worker.free(1, worker_id=1),
        lambda: worker.copy_to(1, 1, 1, worker_id=1),
        lambda: worker.copy_from(1, 1, 1, worker_id=1),
    ):
        with pytest.raises(ValueError, match=r"ChipWorker\.\w+\(\) only supports worker_id=0, got 1"):
            call()


def test_init_is_copied_once(worker: ChipWorker) -> None:
    host = torch.full((4, 4), 3.0)
    tensor = worker.alloc_tensor((4, 4), torch.float32, init=host)
    host.fill_(99.0)
    assert torch.equal(tensor.to_host(), torch.full((4, 4), 3.0))


@pytest.mark.parametrize(
    "init",
    [torch.arange(12.0).reshape(4, 3).t(), torch.arange(24.0).reshape(3, 8)[:, ::2], torch.ones(3, 1).expand(3, 4)],
    ids=["transposed", "strided", "expanded"],
)
def test_init_need_not_be_contiguous(worker: ChipWorker, init: torch.Tensor) -> None:
    assert torch.equal(worker.alloc_tensor((3, 4), torch.float32, init=init).to_host(), init)
    assert torch.equal(worker.alloc_tensor((3, 4), torch.float32, init=init.numpy()).to_host(), init)


def test_init_with_a_gradient_is_its_value(worker: ChipWorker) -> None:
    init = torch.ones(2, 3, requires_grad=True)
    assert torch.equal(worker.alloc_tensor((3, 2), torch.float32, init=init.t()).to_host(), torch.ones(3, 2))


def test_free_tensor_leaves_alone_what_is_not_there(worker: ChipWorker) -> None:
    tensor = worker.alloc_tensor((4,), torch.float32)
    worker.free_tensor(tensor)
    worker.free_tensor(tensor)
    worker.free_tensor(DeviceTensor(4096, (4,), torch.float32))


def test_free_tensor_does_not_take_memory_from_its_owner(worker: ChipWorker) -> None:
    tensor = worker.alloc_tensor((4,), torch.float32, init=torch.ones(4))
    with pytest.raises(ValueError, match="stale DeviceTensor: its address belongs to another allocation"):
        worker.free_tensor(DeviceTensor(tensor.data_ptr, (4,), torch.float32))
    assert torch.equal(tensor.to_host(), torch.ones(4))


def test_free_tensor_of_another_worker_is_refused(worker: ChipWorker) -> None:
    other = ChipWorker()
    try:
        tensor = other.alloc_tensor((4,), torch.float32, init=torch.ones(4))
        with pytest.raises(ValueError, match=r"worker #\d+.* belongs to worker #\d+"):
            worker.free_tensor(tensor)
        assert torch.equal(tensor.to_host(), torch.ones(4))
        other.free_tensor(tensor)
        worker.free_tensor(tensor)
    finally:
        other.close()


@pytest.mark.parametrize("value", [None, 7, torch.zeros(4)], ids=["none", "int", "torch"])
def test_free_tensor_takes_device_tensors(worker: ChipWorker, value: object) -> None:
    with pytest.raises(TypeError, match=r"free_tensor\(\) expects a DeviceTensor, got"):
        worker.free_tensor(value)


@pytest.mark.parametrize("nbytes", [0, -1, -(2**70), 1.0, "8", None])
def test_sizes_are_positive_ints(worker: ChipWorker, nbytes: object) -> None:
    with pytest.raises(ValueError, match="nbytes must be a positive int"):
        worker.malloc(nbytes)


def test_true_counts_as_one_byte(worker: ChipWorker) -> None:
    worker.free(worker.malloc(True))


@pytest.mark.parametrize("pointer", [0, -1, True, 1.0, "1", None])
def test_free_takes_addresses(worker: ChipWorker, pointer: object) -> None:
    with pytest.raises(ValueError, match="ptr must be a positive int"):
        worker.free(pointer)


def test_free_takes_bases_only(worker: ChipWorker) -> None:
    base = worker.malloc(1024)
    with pytest.raises(ValueError, match=r"interior pointer.*allocation base"):
        worker.free(base + 256)
    with pytest.raises(ValueError, match=r"allocation base.*interior pointer"):
        worker.free(12345)
    worker.free(base)
    with pytest.raises(ValueError, match=r"allocation base"):
        worker.free(base)


def test_an_address_is_never_handed_out_twice(worker: ChipWorker) -> None:
    seen = set()
    for _ in range(200):
        base = worker.malloc(4096)
        assert base not in seen
        seen.add(base)
        worker.free(base)


def test_copies_take_pointers_and_tensors(worker: ChipWorker) -> None:
    host, back = torch.arange(16.0), torch.zeros(16)
    tensor = worker.alloc_tensor((16,), torch.float32)
    worker.copy_to(tensor.data_ptr, host.data_ptr(), 64)
    worker.copy_from(back.data_ptr(), tensor.data_ptr, 64)
    assert torch.equal(back, host)
    worker.copy_to(tensor, -host)
    worker.copy_from(back, tensor)
    assert torch.equal(back, -host)
    worker.copy_to(tensor, host, 8)
    worker.copy_from(back, tensor.data_ptr)
    assert back[:3].tolist() == [0.0, 1.0, -2.0]


def test_copies_take_ranges_inside_an_allocation(worker: ChipWorker) -> None:
    tensor = worker.alloc_tensor((16,), torch.float32, init=torch.arange(16.0))
    part = torch.zeros(4)
    worker.copy_from(part, tensor.data_ptr + 16)
    assert part.tolist() == [4.0, 5.0, 6.0, 7.0]
    worker.copy_to(tensor.data_ptr + 56, part, 8)
    assert tensor.to_host()[13:].tolist() == [13.0, 4.0, 5.0]


def test_copies_end_inside_the_allocation(worker: ChipWorker) -> None:
    tensor = worker.alloc_tensor((16,), torch.float32)
    host = torch.zeros(64)
    for call in (worker.copy_to, lambda dst, src, n: worker.copy_from(src, dst, n)):
        with pytest.raises(ValueError, match="exceeds the 64-byte backing"):
            call(tensor.data_ptr, host.data_ptr(), 65)
        with pytest.raises(ValueError, match="exceeds the 64-byte backing"):
            call(tensor.data_ptr + 32, host.data_ptr(), 33)
        with pytest.raises(ValueError, match=r"nbytes=257 of .*\(\) is more than the 256 bytes"):
            call(tensor.data_ptr, host, 257)
        with pytest.raises(ValueError, match=r"nbytes=65 of .*\(\) is more than the 64 bytes"):
            call(tensor, host, 65)
        with pytest.raises(ValueError, match="nbytes must be a positive int"):
            call(tensor, host, 0)
        with pytest.raises(ValueError, match="nbytes must be a positive int, got True"):
            call(tensor, host, True)
        with pytest.raises(ValueError, match="allocation base"):
            call(999, host.data_ptr(), 4)


def test_the_sides_of_a_copy_fit(worker: ChipWorker) -> None:
    tensor = worker.alloc_tensor((16,), torch.float32)
    for host, said in (
        (torch.zeros(15), r"FP32 \(15,\) \(60 bytes\)"),
        (torch.zeros(16, dtype=torch.int32), r"INT32 \(16,\) \(64 bytes\)"),
    ):
        sides = rf"differ: FP32 \(16,\) \(64 bytes\) on the device, {said} on the host\. Pass a host tensor"
        with pytest.raises(ValueError, match=rf"the two sides of copy_to\(\) {sides}"):
            worker.copy_to(tensor, host)
        with pytest.raises(ValueError, match=rf"the two sides of copy_from\(\) {sides}"):
            worker.copy_from(host, tensor)
    worker.copy_to(tensor, torch.zeros(4, 4))
    with pytest.raises(TypeError, match=r"nbytes of copy_to\(\) is required where both sides are pointers"):
        worker.copy_to(tensor.data_ptr, torch.zeros(1).data_ptr())
    with pytest.raises(TypeError, match="'src_host_ptr' is the host side of the copy"):
        worker.copy_to(tensor, tensor)
    with pytest.raises(TypeError, match="'dst_dev_ptr' is the device side of the copy"):
        worker.copy_to(torch.zeros(4), torch.zeros(4))


def test_big_copies_arrive_whole(worker: ChipWorker) -> None:
    """Big enough to run with the interpreter released."""
    host = torch.randint(0, 256, (4 * MIB,), dtype=torch.uint8)
    tensor = worker.alloc_tensor((4 * MIB,), torch.uint8, init=host)
    assert torch.equal(tensor.to_host(), host)
    worker.copy_to(tensor, host.flip(0).contiguous())
    assert torch.equal(tensor.to_host(), host.flip(0))


def test_exhaustion_tells_the_state_of_the_memory() -> None:
    worker = ChipWorker(RunConfig(device_memory=MIB))
    try:
        kept = worker.alloc_tensor((512, 256), torch.float32)
        with pytest.raises(MemoryError) as raised:
            worker.alloc_tensor((512, 512), torch.float32)
        text = str(raised.value)
        for word in (
            "requested 1048576",
            "live 524288",
            "free 524288",
            "largest free block 524288",
            "capacity 1048576",
        ):
            assert word in text
        worker.free_tensor(kept)
        worker.free_tensor(worker.alloc_tensor((512, 512), torch.float32))
    finally:
        worker.close()


def test_the_report_names_what_is_live(worker: ChipWorker) -> None:
    small = worker.alloc_tensor((4,), torch.float16)
    large = worker.alloc_tensor((512, 512), torch.float32)
    report = worker.memory_report()
    assert (report.live, report.count) == (small.nbytes + large.nbytes, 2)
    assert report.live + report.free <= report.capacity <= report.reserved
    assert report.peak >= report.live
    assert report.largest_free <= report.free
    assert 0.0 <= report.fragmentation <= 1.0
    assert [buffer.base for buffer in report.live_buffers] == [large.data_ptr, small.data_ptr]
    text = str(report)
    assert re.search(r"FP32 \(512, 512\) at 0x[0-9a-f]+ \(1 MiB\), allocated at .*test_worker\.py:\d+", text)
    assert re.search(r"FP16 \(4,\) at 0x[0-9a-f]+ \(8 B\), allocated at .*test_worker\.py:\d+", text)
    stats = worker.memory_stats()
    assert stats["live"] == report.live
    assert set(stats) == {
        "capacity", "reserved", "committed", "live", "peak", "staging", "scratch", "packed", "free", "largest_free",
        "count", "fragmentation", "live_buffers", "tags",
    }  # fmt: skip
    worker.free_tensor(small)
    worker.free_tensor(large)
    assert worker.memory_stats()["live"] == 0


# Binding


def test_a_program_for_another_platform_is_refused_with_both_named(worker: ChipWorker) -> None:
    import sample_kernels

    compiled = sample_kernels.compile_add()
    other = ir.CompiledProgram(
        compiled.program,
        compiled.output_dir,
        platform="a2a3",
        core=compiled.core_program(),
        metadata=compiled._get_metadata(),
    )
    text = r"compiled for platform 'a2a3', this worker has platform 'a2a3sim'.*RunConfig\(platform='a2a3'\)"
    with pytest.raises(ValueError, match=text):
        worker.run(other, *tensors())
    with pytest.raises(ValueError, match=text):
        worker.register(other)


def test_a_program_for_another_runtime_is_refused_with_both_named(K_add: ir.CompiledProgram) -> None:
    worker = ChipWorker(runtime="host_build_graph")
    try:
        text = r"runtime 'tensormap_and_ringbuffer', this worker has runtime 'host_build_graph'.*runtime='tensormap"
        with pytest.raises(ValueError, match=text):
            worker.register(K_add)
    finally:
        worker.close()


@pytest.mark.parametrize("value", [None, "program", object()])
def test_what_is_not_compiled_is_refused(worker: ChipWorker, value: object) -> None:
    with pytest.raises(TypeError, match="expected a CompiledProgram, got"):
        worker.register(value)
    with pytest.raises(TypeError, match="expected a CompiledProgram, got"):
        worker.run(value)


def test_a_jit_function_is_to_be_compiled_first(worker: ChipWorker) -> None:
    import sample_kernels

    with pytest.raises(TypeError, match=r"call \.compile\(\.\.\.\) on it first"):
        worker.register(sample_kernels.add)


def test_programs_are_loaded_once(worker: ChipWorker, K_add: ir.CompiledProgram, K_mul: ir.CompiledProgram) -> None:
    assert (worker.aicpu_dlopen_count, worker.host_dlopen_count) == (0, 0)
    handles = [worker.register(K_add), worker.register(K_mul), worker.register(K_add)]
    for _ in range(20):
        for handle in handles:
            handle(*tensors())
        worker.run(K_add, *tensors())
    assert (worker.aicpu_dlopen_count, worker.host_dlopen_count) == (2, 0)
    assert [handle.cid for handle in handles] == [0, 1, 0]
    assert handles[0].compiled is K_add
    assert handles[0].worker is worker


def test_run_returns_outputs_where_they_are_left_out(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, c = tensors()
    assert worker.run(K_add, a, b, c, config=RunConfig()) is None
    assert torch.equal(worker.run(K_add, a, b), c)
