"""Case 14: how the elements of an argument lie in host memory decides whether it is read, never what is read."""

from collections.abc import Callable

import numpy as np
import pytest
import sample_kernels
import torch

from pypto import ir
from pypto.runtime import ChipWorker

PARAMS = ["a", "b", "c"]


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(float(np.prod(shape))).reshape(shape)


READ = {
    "in order": lambda: numbers(128, 128),
    "made contiguous": lambda: numbers(128, 128).t().contiguous(),
    "with an offset in its storage": lambda: numbers(130, 128)[1:129],
    "a shape of its own over flat memory": lambda: numbers(128 * 128 + 3)[3:].view(128, 128),
    "fortran order made c order": lambda: torch.from_numpy(np.ascontiguousarray(np.asfortranarray(numbers(128, 128)))),
}
REFUSED = {
    "transposed": lambda: numbers(128, 128).t(),
    "every second column": lambda: numbers(128, 256)[:, ::2],
    "every second row": lambda: numbers(256, 128)[::2],
    "a part of the columns": lambda: numbers(128, 130)[:, 1:129],
    "one row for all": lambda: numbers(1, 128).expand(128, 128),
    "one column for all": lambda: numbers(128, 1).expand(128, 128),
}


def arguments(param: str, tensor: torch.Tensor) -> list[torch.Tensor]:
    return [tensor if name == param else numbers(128, 128) for name in PARAMS]


@pytest.mark.parametrize("param", PARAMS)
@pytest.mark.parametrize("kind", READ)
def test_what_is_contiguous_is_read_and_written_where_it_lies(
    kind: str, param: str, worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    a, b, c = arguments(param, READ[kind]())
    expected = a + b
    worker.run(K_add, a, b, c)
    assert torch.equal(c, expected)


def test_an_output_inside_other_memory_leaves_what_lies_around_it(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    around = torch.full((130, 128), -1.0)
    worker.run(K_add, numbers(128, 128), numbers(128, 128), around[1:129])
    assert torch.equal(around[1:129], 2 * numbers(128, 128))
    assert (around[0] == -1).all()
    assert (around[129] == -1).all()


@pytest.mark.parametrize("style", ["run", "handle", "implicit"])
@pytest.mark.parametrize("param", PARAMS)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_gaps_is_refused_with_its_name_and_the_remedy(
    kind: str, param: str, style: str, worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    call: dict[str, Callable[..., object]] = {
        "run": lambda *args: worker.run(K_add, *args), "handle": worker.register(K_add), "implicit": K_add,
    }  # fmt: skip
    before = worker.counters()["launches"]
    position = PARAMS.index(param)
    text = rf"Tensor at position {position} is not contiguous \(parameter '{param}'\).*Call \.contiguous\(\)"
    with pytest.raises(ValueError, match=text):
        call[style](*arguments(param, REFUSED[kind]()))
    assert worker.counters()["launches"] == before


@pytest.mark.parametrize("param", PARAMS)
def test_a_stride_along_an_axis_of_one_says_nothing_about_the_layout(param: str, worker: ChipWorker) -> None:
    compiled = sample_kernels.compile_add(1, 128)
    odd = torch.empty(128, 1).t()
    assert odd.stride() == (1, 1)
    odd.copy_(numbers(1, 128))
    args = [odd if name == param else numbers(1, 128) for name in PARAMS]
    expected = args[0] + args[1]
    worker.run(compiled, *args)
    assert torch.equal(args[2], expected)
