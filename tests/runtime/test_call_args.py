"""Arguments and settings of a launch that are prepared by hand."""

from pathlib import Path

import pytest
import sample_kernels
import torch

import pypto.language as pl
from pypto import ir
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig
from pypto.runtime.task_interface import CallConfig, TaskArgs

M = pl.dynamic("M")
SHAPE = (128, 128)


@pl.jit
def scaled(
    a: pl.Tensor[[M, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[M, 16], pl.FP32]],
    first: pl.Scalar[pl.INT32],
    factor: pl.Scalar[pl.FP32],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.load(a, [first, 0], [1, 16])
        out = pl.store(pl.mul(tile, factor), [first, 0], out)
    return out


@pytest.fixture(scope="module")
def with_scalars() -> ir.CompiledProgram:
    return scaled.compile(first=pl.RUNTIME, factor=pl.RUNTIME)


def ones() -> torch.Tensor:
    return torch.ones(SHAPE)


def test_all_arguments_are_in_place(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    resident = worker.alloc_tensor(SHAPE, torch.float32, init=ones())
    args = (ones(), resident, ones())
    native, coerced, return_style = K_add.build_orch_args(*args, worker=worker)
    assert isinstance(native, TaskArgs)
    assert all(made is given for made, given in zip(coerced, args, strict=True))
    assert native.tensors == coerced
    assert native.scalars == []
    assert not return_style
    assert worker.counters()["launches"] == 0
    worker.free_tensor(resident)


def test_outputs_that_are_left_out_are_made(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    _, coerced, return_style = K_add.build_orch_args(ones(), ones(), worker=worker)
    assert return_style
    assert len(coerced) == 3
    assert torch.equal(coerced[2], torch.zeros(SHAPE))


def test_scalars_are_words(worker: ChipWorker, with_scalars: ir.CompiledProgram) -> None:
    a, out = torch.ones(4, 16), torch.empty(4, 16)
    native, _, _ = with_scalars.build_orch_args(a, out, -1, 0.5, worker=worker)
    assert native.scalars == [2**64 - 1, 0x3F000000]
    assert native.tensors == [a, out]


def test_it_refuses_what_a_launch_refuses(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    freed = worker.alloc_tensor(SHAPE, torch.float32)
    worker.free_tensor(freed)
    cases = {
        "count": (
            (ones(),),
            TypeError,
            r"add expects 3 \(in-place\) or 2 \(return\) arguments, got 1\. Parameters: \[a, ",
        ),
        "shape": ((torch.ones(2, 2), ones(), ones()), TypeError, r"Parameter 'a' expects shape \(128, 128\)"),
        "freed": ((ones(), freed, ones()), ValueError, "At position 1: .*it was freed"),
        "raw": ((ones(), DeviceTensor(4096, SHAPE, torch.float32), ones()), ValueError, "At position 1: raw pointer"),
        "gaps": ((ones().t(), ones(), ones()), ValueError, r"Tensor at position 0 is not contiguous"),
        "no tensor": ((ones(), ones(), "c"), TypeError, r"Argument at position 2 must be a torch\.Tensor"),
    }
    for args, error, text in cases.values():
        with pytest.raises(error, match=text):
            K_add.build_orch_args(*args, worker=worker)


def test_a_dynamic_output_is_not_made(worker: ChipWorker, with_scalars: ir.CompiledProgram) -> None:
    with pytest.raises(ValueError, match="the output 'out' has a dynamic dimension"):
        with_scalars.build_orch_args(torch.ones(4, 16), 0, 1.0, worker=worker)


def test_it_needs_a_worker(K_add: ir.CompiledProgram) -> None:
    with pytest.raises(TypeError, match=r"build_orch_args\(\) requires worker="):
        K_add.build_orch_args(ones(), ones(), ones())
    with pytest.raises(TypeError, match="worker must be a ChipWorker, got int"):
        K_add.build_orch_args(ones(), ones(), ones(), worker=3)


def test_settings_come_from_the_nearest(K_add: ir.CompiledProgram) -> None:
    assert K_add.build_call_config() == CallConfig(aicpu_thread_num=4)
    config = RunConfig(aicpu_thread_num=2, ring_heap=2048, ring_task_window=[4, 0, 8, 0], enable_pmu=4)
    built = K_add.build_call_config(config, dfx_dir=Path("dfx"))
    assert built == CallConfig(2, [4, 0, 8, 0], 2048, None, enable_pmu=4, output_prefix="dfx")
    assert K_add.build_call_config(config, aicpu_thread_num=3).aicpu_thread_num == 3


def test_wrong_settings_are_refused(K_add: ir.CompiledProgram) -> None:
    for threads in (0, -1, True, 1.5, "2"):
        with pytest.raises(ValueError, match="aicpu_thread_num must be a positive int or None, got"):
            K_add.build_call_config(aicpu_thread_num=threads)
    with pytest.raises(TypeError, match="config must be a RunConfig, got dict"):
        K_add.build_call_config({})


def test_each_pass_is_run_and_compared(tmp_path: Path) -> None:
    compiled = sample_kernels.add.compile(
        ones(), ones(), ones(), config=RunConfig(dump_passes=True, save_kernels_dir=str(tmp_path))
    )
    tensors = {"a": ones(), "b": ones(), "c": torch.zeros(SHAPE)}
    compiled.validate_ir(tensors, [torch.full(SHAPE, 2.0)])
    compiled.validate_ir(list(tensors.values()), {"c": torch.full(SHAPE, 2.0)})
    assert not tensors["c"].any(), "it works on copies"
    with pytest.raises(
        AssertionError, match=r"after pass 00_after_Frontend: output 'c' differs .* \(rtol=0\.05, atol=0"
    ):
        compiled.validate_ir(tensors, {"c": torch.full(SHAPE, 3.0)})
    with pytest.raises(TypeError, match="tensors lacks the parameters c; it has a, b"):
        compiled.validate_ir({"a": ones(), "b": ones()}, {})


def test_without_dumps_there_is_nothing_to_validate(tmp_path: Path) -> None:
    compiled = ir.CompiledProgram.from_dir(sample_kernels.compile_add())
    with pytest.raises(FileNotFoundError, match="passes_dump has no dumped passes: compile with dump_passes=True"):
        compiled.validate_ir([ones(), ones(), ones()], {})
