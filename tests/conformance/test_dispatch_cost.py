"""What a launch costs does not depend on how much else is alive, and grows at most linearly with its arguments."""

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from pypto import ir
from pypto.runtime import ChipWorker


def median_ns(call: Callable[[], object], rounds: int = 200) -> float:
    """Median time of `call`, after a few that warm it up."""
    for _ in range(20):
        call()
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        call()
        samples.append(time.perf_counter_ns() - begin)
    return statistics.median(samples)


def test_1136_live_tensors_cost_a_launch_no_more_than_3(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    handle = worker.register(K_add)
    a, b, c = (worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128)) for _ in range(3))
    few = median_ns(lambda: handle(a, b, c))
    others = [worker.alloc_tensor((16, 16), torch.float32) for _ in range(1133)]
    many = median_ns(lambda: handle(a, b, c))
    for tensor in others:
        worker.free_tensor(tensor)
    few = max(few, median_ns(lambda: handle(a, b, c)))  # measured on both sides, so that a slow moment is not blamed
    assert many / few <= 1.5


def test_142_arguments_cost_at_most_142_thirds_of_3(worker: ChipWorker, tmp_path: Path) -> None:
    three, many = (compile_with_arguments(count, tmp_path) for count in (3, 142))
    tensors = [worker.alloc_tensor((16, 16), torch.float32, init=torch.ones(16, 16)) for _ in range(142)]
    handle_3, handle_142 = worker.register(three), worker.register(many)
    cost_3 = median_ns(lambda: handle_3(*tensors[:3]))
    cost_142 = median_ns(lambda: handle_142(*tensors))
    out = torch.empty(16, 16)
    worker.copy_from(out.data_ptr(), tensors[141].data_ptr, tensors[141].nbytes)
    assert torch.equal(out, torch.full((16, 16), 2.0))
    assert cost_142 / cost_3 <= 142 / 3


def compile_with_arguments(count: int, directory: Path) -> ir.CompiledProgram:
    """A program of `count` tensor parameters that adds the first two into the last."""
    names = [f"t{i}" for i in range(count - 1)]
    parameters = ", ".join(f"{name}: pl.Tensor[[16, 16], pl.FP32]" for name in names)
    source = f"""
import pypto.language as pl


@pl.jit.incore
def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    out = pl.store(pl.add(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16])), [0, 0], out)
    return out


@pl.jit
def entry({parameters}, out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    out = kernel(t0, t1, out)
    return out
"""
    path = directory / f"with_{count}_arguments.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.entry.compile()
