"""How each error of the runtime comes about, by its code. Every code of `docs/errors.md` is here once."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import core_programs as core
import numpy as np
import sample_kernels
import torch

import pypto
import pypto.language as pl
from pypto import _pypto, ir
from pypto.runtime import (
    BenchmarkStats,
    ChipWorker,
    DeviceTensor,
    DistributedWorker,
    RunConfig,
    StackedDeviceTensor,
    TensorSpec,
    TraceInvocation,
    Worker,
    benchmark,
    profile,
    validate_golden,
)
from pypto.runtime.golden import named_outputs
from pypto.runtime.golden_files import load
from pypto.runtime.golden_writer import write_golden

MIB = 1 << 20
SHAPE = (16, 16)


def ones() -> torch.Tensor:
    return torch.ones(SHAPE)


class Scene:
    """A device with a program, and what the cases need beside it."""

    def __init__(self, directory: Path, environment: Callable[[str, str], None]) -> None:
        self.directory = directory
        self.setenv = environment
        self.worker = ChipWorker(RunConfig(device_memory=16 * MIB))
        assert self.worker._impl is not None
        self.device = self.worker._impl
        self.handle = self.register(core.add())
        self.compiled = sample_kernels.compile_add(*SHAPE)

    def register(self, program: _pypto.Program, device: _pypto.Worker | None = None) -> _pypto.RegistrationHandle:
        return (device or self.device).register(program, owner=None, compiled=None, output_indices=[2], has_return=True)

    def tensor(self) -> DeviceTensor:
        return self.device.alloc_tensor(SHAPE, torch.float32)

    def freed(self) -> DeviceTensor:
        tensor = self.tensor()
        self.device.free_tensor(tensor)
        return tensor

    def launch(self, argument: Any) -> None:
        self.handle(argument, ones(), ones())

    def artifact(self, name: str) -> Path:
        ir.compile(self.compiled.program, self.directory / name)
        return self.directory / name


def over_budget(scene: Scene) -> None:
    with scene.worker.memory_budget(1, tag="small"):
        scene.worker.zeros(SHAPE, torch.float32)


def forgotten(scene: Scene) -> None:
    old = scene.freed()
    for _ in range(2000):
        scene.freed()
    scene.device.free(old.data_ptr)


def of_another(scene: Scene, use: Callable[[DeviceTensor], object]) -> None:
    other = ChipWorker(RunConfig(device_memory=MIB))
    try:
        use(other.alloc_tensor(SHAPE, torch.float32))
    finally:
        other.close()


def stale(scene: Scene) -> None:
    other = ChipWorker(RunConfig(device_memory=MIB))
    tensor = other.alloc_tensor(SHAPE, torch.float32)
    other.close()
    scene.launch(tensor)


def worker_gone(scene: Scene) -> None:
    other = _pypto.Worker("a2a3sim", capacity=MIB)
    tensor = other.alloc_tensor((4,), torch.float32)
    del other
    gc.collect()
    tensor.to_host()


def closed(scene: Scene) -> None:
    scene.worker.close()
    scene.worker.malloc(4)


def handle_closed(scene: Scene) -> None:
    scene.handle.unregister()
    scene.launch(ones())


def resized(scene: Scene) -> None:
    tensor = ones()
    tensor.untyped_storage().resize_(16)
    scene.device.copy_to(scene.tensor(), tensor)


def freed_storage(scene: Scene) -> None:
    tensor = ones()
    tensor.untyped_storage().resize_(0)
    scene.launch(tensor)


def read_only(scene: Scene) -> None:
    array = np.ones(SHAPE, np.float32)
    array.flags.writeable = False
    scene.device.copy_from(array, scene.tensor())


class Unreadable:
    def __dlpack__(self, **_: object) -> object:
        raise BufferError("the cat sits on it")


def given_twice(s: Scene) -> None:
    with ir.PassContext():
        ir.compile(s.compiled.program, runtime=ir.RuntimeKind.HOST_BUILD_GRAPH)


def setenv(scene: Scene, name: str, value: str) -> None:
    scene.setenv(name, value)
    ChipWorker(RunConfig(device_memory=MIB))


def nested(scene: Scene) -> None:
    with scene.worker, ChipWorker():
        pass


def left_elsewhere(scene: Scene) -> None:
    raised: list[BaseException] = []

    def leave() -> None:
        try:
            scene.worker.__exit__(None, None, None)
        except BaseException as error:
            raised.append(error)

    with scene.worker:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    raise raised[0]


def without_sdma(scene: Scene) -> None:
    with scene.worker:
        ChipWorker.current(
            level=2, platform="a2a3sim", device_id=0, runtime="tensormap_and_ringbuffer", require_sdma=True
        )


class Forgetful(Worker):
    """Does not call the constructor of its base in a way that counts."""

    malloc = free = copy_to = copy_from = run = register = None  # type: ignore[assignment]


def base_not_initialised(scene: Scene) -> None:
    worker = Forgetful()
    worker._owned_tensors = None  # type: ignore[assignment]
    worker._require_owned_resident_tensor(scene.tensor(), "argument 0")


def fault(scene: Scene) -> None:
    """A row that the output does not have."""
    params = [core.tensor(n, d, ("0", 16)) for n, d in (("a", "In"), ("b", "In"))]
    params.append(core.tensor("c", "Out", ("1", 16)))
    dim = core.statement(Dim={"dst": 1, "tensor": 0, "axis": 0})
    program = core.program(
        "rows", params, body=[dim, core.launch_each({"Var": 1}, 0)], kernels=[core.add_kernel(16)],
        symbols=["M", "N"], scalars=["Int", "Int"],
    )  # fmt: skip
    scene.register(program)(torch.ones(4, 16), torch.ones(4, 16), torch.empty(2, 16))


@pl.jit
def through_scratch(a: pl.Tensor[[pl.dynamic("M"), 16], pl.FP32], out: pl.Out[pl.Tensor[[1, 16], pl.FP32]]):
    between = pl.create_tensor([a.shape[0] * 1000000, 16], pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        between = pl.store(pl.load(a, [0, 0], [1, 16]), [0, 0], between)
    with pl.at(level=pl.Level.CORE_GROUP):
        out = pl.store(pl.load(between, [0, 0], [1, 16]), [0, 0], out)
    return out


@pl.program
class TwoEntries:
    @pl.function(type=pl.FunctionType.InCore)
    def double(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
        t = pl.load(x, [0, 0], [4, 16])
        out = pl.store(pl.add(t, t), [0, 0], out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def prefill(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
        out = self.double(x, out)
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def decode(self, x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
        out = self.double(x, out)
        return out


def created_too_large(scene: Scene) -> None:
    scene.worker.run(through_scratch.compile(), torch.ones(4, 16), torch.empty(1, 16))


def broken_program(change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(json.dumps(sample_kernels.compile_add(*SHAPE).core_program()))
    change(data)
    _pypto.Program(data)


def several_entries(scene: Scene) -> ir.CompiledProgram:
    return ir.compile(TwoEntries, scene.directory / "two")


def stacked(scene: Scene) -> StackedDeviceTensor:
    return StackedDeviceTensor((DeviceTensor(4096, (4, 8), torch.float32),), (1, 4, 8), (0,))


def share_in_queue(scene: Scene) -> None:
    """Holds the storage as a launch that is queued does: such a launch would be over too soon here."""
    tensor = ones()
    moving, key = torch.storage._share_memory_map, tensor.untyped_storage()._cdata
    moving[key] = threading.RLock()
    try:
        scene.handle.submit(tensor, ones(), ones())
    finally:
        del moving[key]


def other_platform(scene: Scene) -> None:
    scene.worker.register(ir.compile(scene.compiled.program, scene.directory / "real", platform="a2a3"))


def other_runtime(scene: Scene) -> None:
    scene.worker.register(ir.compile(scene.compiled.program, scene.directory / "other", runtime="host_build_graph"))


def remove(path: Path) -> Path:
    path.unlink()
    return path.parent


def corrupt(path: Path) -> Path:
    path.write_text("{")
    return path.parent


def two_ranks() -> BenchmarkStats:
    return BenchmarkStats(rounds_dispatches=[{rank: [TraceInvocation(rank, 0, "0")] for rank in (0, 1)}])


def recording_stopped(scene: Scene) -> None:
    recording = _pypto.Recording()
    recording.stop()
    recording.drain()


CASES: dict[str, Callable[[Scene], object]] = {
    # Device memory
    "out_of_memory": lambda s: s.device.malloc(1 << 40),
    "over_memory_budget": over_budget,
    "allocation_too_large": lambda s: s.device.alloc_tensor((2**62, 8), torch.float32),
    "invalid_capacity": lambda s: _pypto.Worker("a2a3sim", capacity=0),
    "reserve_failed": lambda s: ChipWorker(RunConfig(device_memory=2**62)),
    "unknown_address": lambda s: s.device.free(7),
    "freed_address": lambda s: s.device.copy_to(s.freed().data_ptr, ones()),
    "forgotten_address": forgotten,
    "foreign_address": lambda s: of_another(s, lambda tensor: s.device.free(tensor.data_ptr)),
    "interior_pointer": lambda s: s.device.free(s.tensor().data_ptr + 4),
    "out_of_range": lambda s: s.device.copy_to(s.device.malloc(4), torch.zeros(2)),
    "bad_address": lambda s: s.device.free(True),
    "bad_host_address": lambda s: s.device.copy_to(s.tensor(), 3),
    "bad_size": lambda s: s.device.malloc(0),
    "copy_too_long": lambda s: s.device.copy_to(s.tensor(), ones(), 1025),
    "sides_differ": lambda s: s.device.copy_to(s.tensor(), torch.ones(3)),
    "size_missing": lambda s: s.device.copy_to(s.tensor().data_ptr, ones().data_ptr()),
    "wrong_side": lambda s: s.device.copy_to(ones(), ones()),
    "init_mismatch": lambda s: s.device.alloc_tensor((3,), torch.float32, ones()),
    # Ownership and life cycle
    "worker_closed": closed,
    "worker_gone": worker_gone,
    "worker_id": lambda s: s.worker.malloc(4, worker_id=1),
    "worker_already_active": nested,
    "wrong_context": left_elsewhere,
    "no_sdma": without_sdma,
    "bad_level": lambda s: ChipWorker(level=3),
    "base_not_initialised": base_not_initialised,
    "freed_buffer": lambda s: s.launch(s.freed()),
    "stale_buffer": stale,
    "foreign_buffer": lambda s: of_another(s, s.launch),
    "raw_tensor": lambda s: s.launch(DeviceTensor(4096, SHAPE, torch.float32)),
    "stale_tensor": lambda s: s.worker.free_tensor(DeviceTensor(s.tensor().data_ptr, SHAPE, torch.float32)),
    "not_a_device_tensor": lambda s: s.worker.free_tensor(ones()),  # type: ignore[arg-type]
    "view_too_large": lambda s: s.tensor().buffer.tensor((17, 16), torch.float32),
    "view_owns_nothing": lambda s: s.worker.free_tensor(s.tensor()[1:]),
    "view_elements": lambda s: s.tensor().view(255),
    "part_has_gaps": lambda s: s.tensor()[:, 1],
    "bad_index": lambda s: s.tensor()["a"],
    "index_out_of_range": lambda s: s.tensor()[16],
    "not_shared": lambda s: s.tensor().__dlpack__(copy=False),
    "tensor_too_large": lambda s: DeviceTensor(4096, (2**62, 8), torch.float32),
    "bad_buffer": lambda s: DeviceTensor(4096, SHAPE, torch.float32, buffer=3),
    "buffer_mismatch": lambda s: DeviceTensor(4096, SHAPE, torch.float32, buffer=s.tensor().buffer),
    # Arguments of a launch
    "argument_count": lambda s: s.handle(),
    "argument_type": lambda s: s.launch(torch.ones(1)),
    "argument_value": lambda s: s.handle(*[ones()] * 3),
    "not_an_array": lambda s: s.launch("a"),
    "masked_array": lambda s: s.launch(np.ma.array(np.ones(SHAPE, np.float32))),
    "not_contiguous": lambda s: s.launch(ones().t()),
    "negated_view": lambda s: s.device.copy_to(s.tensor(), torch._neg_view(ones())),
    "storage_resized": resized,
    "no_memory": freed_storage,
    "not_on_cpu": lambda s: s.launch(torch.ones(SHAPE, device="meta")),
    "unsupported_array_dtype": lambda s: s.launch(torch.ones(SHAPE, dtype=torch.float8_e4m3fnuz)),
    "not_dense": lambda s: s.launch(torch.eye(16).to_sparse()),
    "unreadable_array": lambda s: s.launch(Unreadable()),
    "read_only": read_only,
    "too_many_axes": lambda s: s.launch(torch.ones((1,) * 9)),
    "storage_moved": lambda s: share_in_queue(s),
    "numpy_function": lambda s: np.add(np.ones(SHAPE, np.float32), s.tensor()),
    "not_searched": lambda s: 1 in s.tensor(),
    "tensor_pickled": lambda s: pickle.dumps(s.tensor()),
    "bad_extent": lambda s: s.device.alloc_tensor((0,), torch.float32),
    "bad_shape": lambda s: s.device.alloc_tensor((2.0,), torch.float32),
    "bad_dtype": lambda s: s.device.alloc_tensor((2,), "float32"),
    "unsupported_dtype": lambda s: s.device.alloc_tensor((2,), torch.float8_e4m3fnuz),
    "wrong_scalar": lambda s: s.register(core.endless())(*[torch.ones(1, 16)] * 3, "n"),
    "scalar_range": lambda s: s.register(core.endless())(*[torch.ones(1, 16)] * 3, 2**64),
    "dynamic_output": lambda s: s.register(core.add("0", symbols=["M"]))(ones(), ones()),
    "handle_closed": handle_closed,
    "unknown_parameter": lambda s: s.handle.bind(*[ones() for _ in range(3)]).update(x=1),
    "wrong_key": lambda s: s.handle.bind(ones(), ones())[1.0],  # type: ignore[index]
    "output_made": lambda s: s.handle.bind(ones(), ones()).update(c=ones()),
    "bad_config": lambda s: s.handle(ones(), ones(), ones(), config=3),
    "bad_outputs": lambda s: s.device.register(
        core.add(), owner=None, compiled=None, output_indices=[3], has_return=True
    ),
    "device_fault": fault,
    "workspace_exhausted": created_too_large,
    # Programs and compiled directories
    "malformed_program": lambda s: _pypto.Program({}),
    "undecodable_program": lambda s: _pypto.Program.decode(b""),
    "invalid_program": lambda s: broken_program(lambda data: data["params"].pop()),
    "not_compiled": lambda s: s.worker.register(3),  # type: ignore[arg-type]
    "not_a_program": lambda s: ir.compile(3),
    "several_entries": lambda s: several_entries(s)(),
    "no_such_entry": lambda s: s.compiled["other"],
    "artifact_missing": lambda s: ir.CompiledProgram.from_dir(remove(s.artifact("a") / "program.json")),
    "artifact_malformed": lambda s: ir.CompiledProgram.from_dir(corrupt(s.artifact("a") / "compiled_meta.json")),
    "platform_mismatch": other_platform,
    "runtime_mismatch": other_runtime,
    # Settings
    "unknown_platform": lambda s: RunConfig(platform="cuda"),
    "platform_unavailable": lambda s: ChipWorker(RunConfig(platform="a2a3")),
    "bad_cores": lambda s: setenv(s, "PYPTO_CORES", "0"),
    "bad_isa": lambda s: setenv(s, "PYPTO_ISA", "mmx"),
    "bad_switch": lambda s: setenv(s, "PYPTO_POISON", "perhaps"),
    "setting_type": lambda s: RunConfig(dump_passes="x"),  # type: ignore[arg-type]
    "setting_value": lambda s: RunConfig(cores=0),
    "pass_context": given_twice,
    "settings_conflict": lambda s: benchmark(s.compiled, [], config=RunConfig(), device_id=0),
    # Measuring and comparing
    "advisor_off": lambda s: s.worker.advice(),
    "not_a_worker": lambda s: benchmark(s.compiled, [], worker=3),  # type: ignore[arg-type]
    "trace_format": lambda s: pypto.trace("run.svg"),
    "plot_format": lambda s: profile(s.compiled, ones(), ones(), launches=1).roofline("roof.pdf"),
    "not_a_benchmark": lambda s: BenchmarkStats().compare(3),  # type: ignore[arg-type]
    "bad_benchmark_record": lambda s: BenchmarkStats.from_json("{}"),
    "unknown_metric": lambda s: BenchmarkStats().per_round("speed"),
    "several_dispatches": lambda s: two_ranks().mean_invocation(),
    "no_such_launch": lambda s: benchmark(s.compiled, [ones()] * 2, rounds=1, worker=s.worker).format_tree(7),
    "recording_stopped": recording_stopped,
    "golden_differs": lambda s: validate_golden({"c": ones()}, {"c": torch.zeros(SHAPE)}),
    "golden_count": lambda s: named_outputs([ones(), ones()], ["c"]),
    "golden_name": lambda s: named_outputs({"x": ones()}, ["c"]),
    "golden_type": lambda s: named_outputs([3], ["c"]),
    "golden_missing": lambda s: load(s.directory / "nothing", "in"),
    "no_dumps": lambda s: sample_kernels.compile_add(*SHAPE).validate_ir([], []),
    "bad_specs": lambda s: write_golden([], lambda tensors: None, s.directory / "golden.py"),
    "bad_init_value": lambda s: TensorSpec("a", SHAPE, torch.float32, "x").create_tensor(),  # type: ignore[arg-type]
    # Names for several devices, and what this version does not have
    "stack_mismatch": lambda s: dataclasses.replace(stacked(s), worker_ids=(0, 1)),
    "stack_index": lambda s: stacked(s)[1],
    "stack_leading_index": lambda s: stacked(s)[True],
    "stack_partial": lambda s: stacked(s)[0, 2],
    "not_supported": lambda s: DistributedWorker(),
}

ELSEWHERE = {
    "zero_size": "worker/tests/memory.rs: Python refuses the size before the arena sees it (bad_size, bad_extent)",
    "addresses_exhausted": "arena/address.rs: 2^63 bytes of addresses cannot be used up in a test of Python",
    "foreign_registration": "worker/tests/life.rs: a handle always goes to its own worker",
    "cleanup_pending": "test_foreign_device.py: devices of this package are either open or not",
    "not_a_buffer": "test_foreign_device.py",
    "copy_failed": "worker/tests/failing.rs: copies of the simulated chip do not fail",
    "unsupported_by_device": "device/sim/lower: the frontend refuses what the chip lacks",
    "sanitizer_findings": "test_sanitizers.py: needs a worker with sanitizers",
    "guard_violated": "test_guards.py",
    "interrupted": "test_processes.py: needs a signal",
    "called_within": "test_signals.py: needs a signal handler",
    "worker_forked": "test_processes.py: needs a fork",
    "launch_stopped": "test_processes.py: needs the end of an interpreter",
    "no_thread": "test_program.py: needs a system that starts no thread",
    "missing_extra": "test_profile.py: needs an installation without matplotlib",
    "no_spans": "a build with the feature trace-off",
    "lost_spans": "test_bench.py",
}
"""Codes that cannot be provoked by a call, and what does it instead."""


@contextlib.contextmanager
def scene(directory: Path, setenv: Callable[[str, str], None]) -> Iterator[Scene]:
    """A scene that is cleared away afterwards."""
    made = Scene(directory, setenv)
    yield made
    made.worker.close()
