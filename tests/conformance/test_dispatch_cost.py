"""What a launch costs does not depend on how much else is alive, and grows at most linearly with its arguments."""

import functools
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from pypto import ir
from pypto.runtime import ChipWorker


def median_ratio(call: Callable[[], object], baseline: Callable[[], object], rounds: int = 40) -> float:
    """How much longer `call` takes than `baseline`: the median over rounds that time one after the other.

    A slow moment of the machine falls on both.
    """
    ratios = []
    for _ in range(rounds + 5):
        costs = []
        for measured in (baseline, call):
            begin = time.perf_counter_ns()
            for _ in range(10):
                measured()
            costs.append(time.perf_counter_ns() - begin)
        ratios.append(costs[1] / costs[0])
    return statistics.median(ratios[5:])


def test_1136_live_tensors_cost_a_launch_no_more_than_3(K_add: ir.CompiledProgram) -> None:
    """Two workers, one with few live tensors and one with many, take turns.

    A look at each live tensor would be a ratio of about 100; 1.5 leaves room for colder caches.
    """
    few, many = ChipWorker(), ChipWorker()
    launches = []
    for worker, others in ((few, 0), (many, 1133)):
        tensors = [worker.alloc_tensor((128, 128), torch.float32, init=torch.ones(128, 128)) for _ in range(3)]
        for _ in range(others):
            worker.alloc_tensor((16, 16), torch.float32)
        launches.append(functools.partial(worker.register(K_add), *tensors))
    assert median_ratio(launches[1], launches[0]) <= 1.5
    few.close()
    many.close()


def test_142_arguments_cost_at_most_142_thirds_of_3(worker: ChipWorker, tmp_path: Path) -> None:
    three, many = (compile_with_arguments(count, tmp_path) for count in (3, 142))
    tensors = [worker.alloc_tensor((16, 16), torch.float32, init=torch.ones(16, 16)) for _ in range(142)]
    handle_3, handle_142 = worker.register(three), worker.register(many)
    ratio = median_ratio(lambda: handle_142(*tensors), lambda: handle_3(*tensors[:3]))
    out = torch.empty(16, 16)
    worker.copy_from(out.data_ptr(), tensors[141].data_ptr, tensors[141].nbytes)
    assert torch.equal(out, torch.full((16, 16), 2.0))
    assert ratio <= 142 / 3


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
