"""What a parameter's direction copies: In to the device, Out from it, InOut both ways, a resident tensor never."""

import os
import subprocess
import sys
import textwrap

import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32]
SHAPES = [(128, 128), (1, 16), (64, 8)]


def copied(worker: ChipWorker, compiled: ir.CompiledProgram, *args: object) -> tuple[int, int]:
    """Bytes that one launch copies to the device and from it."""
    before = worker.counters()
    worker.run(compiled, *args)
    after = worker.counters()
    return after["h2d_bytes"] - before["h2d_bytes"], after["d2h_bytes"] - before["d2h_bytes"]


def test_an_input_on_a_read_only_page_is_only_read() -> None:
    script = """
        import mmap, warnings
        import torch
        import sample_kernels
        from pypto.runtime import ChipWorker, RunConfig

        nbytes = 128 * 128 * 4
        with open("/dev/zero", "rb") as zeros:
            page = mmap.mmap(zeros.fileno(), nbytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch tells that writing to it would crash: the point of this test
            a = torch.frombuffer(page, dtype=torch.float32).reshape(128, 128)
        b = torch.randn(128, 128)
        c = torch.full((128, 128), float("nan"))
        with ChipWorker(config=RunConfig()) as w:
            before = w.counters()
            w.run(sample_kernels.compile_add(), a, b, c)
            after = w.counters()
        assert torch.equal(c, a + b)
        print(after["h2d_bytes"] - before["h2d_bytes"], after["d2h_bytes"] - before["d2h_bytes"])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["131072", "65536"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_in_goes_to_the_device_and_out_comes_back(
    worker: ChipWorker, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    a, b, c = (torch.ones(shape, dtype=dtype) for _ in range(3))
    compiled = sample_kernels.compile_add(*shape, dtype)
    assert copied(worker, compiled, a, b, c) == (a.nbytes + b.nbytes, c.nbytes)
    assert torch.equal(c, torch.full(shape, 2, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_inout_goes_both_ways(worker: ChipWorker, dtype: torch.dtype) -> None:
    a, c = (torch.ones(128, 128, dtype=dtype) for _ in range(2))
    compiled = sample_kernels.compile_add_into(dtype=dtype)
    assert copied(worker, compiled, a, c) == (a.nbytes + c.nbytes, c.nbytes)
    assert torch.equal(c, torch.full((128, 128), 2, dtype=dtype))


@pytest.mark.parametrize("resident", ["a", "b", "c", "abc"])
def test_a_resident_tensor_is_not_copied_whatever_its_direction(
    worker: ChipWorker, K_add: ir.CompiledProgram, resident: str
) -> None:
    host = {name: torch.full((128, 128), float(value)) for name, value in zip("abc", (2, 3, 0), strict=True)}
    args = {
        name: worker.alloc_tensor((128, 128), torch.float32, init=tensor) if name in resident else tensor
        for name, tensor in host.items()
    }
    nbytes = 128 * 128 * 4
    wanted = (nbytes * sum(name not in resident for name in "ab"), nbytes * ("c" not in resident))
    assert copied(worker, K_add, *args.values()) == wanted
    result = host["c"]
    if "c" in resident:
        assert torch.equal(result, torch.zeros(128, 128)), "a resident output came back by itself"
        worker.copy_from(result.data_ptr(), args["c"].data_ptr, nbytes)
    assert torch.equal(result, torch.full((128, 128), 5.0))


def test_a_resident_inout_keeps_its_value_between_launches(worker: ChipWorker) -> None:
    compiled = sample_kernels.compile_add_into()
    step = torch.ones(128, 128)
    total = worker.alloc_tensor((128, 128), torch.float32, init=torch.zeros(128, 128))
    for _ in range(5):
        assert copied(worker, compiled, step, total) == (step.nbytes, 0)
    out = torch.empty(128, 128)
    worker.copy_from(out.data_ptr(), total.data_ptr, total.nbytes)
    assert torch.equal(out, torch.full((128, 128), 5.0))
