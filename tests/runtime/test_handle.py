"""Launches through a handle: what goes in, what comes out, what is refused."""

import contextlib
import functools
import sys
from pathlib import Path

import core_programs as core
import numpy as np
import pytest
import sample_kernels
import torch
from core_programs import Register

from pypto import _pypto
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig

SHAPE = (16, 16)


def operands() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(SHAPE), torch.randn(SHAPE), torch.full(SHAPE, float("nan"))


def test_in_place_writes_the_output_and_returns_nothing(register: Register) -> None:
    a, b, c = operands()
    assert register(core.add())(a, b, c) is None
    assert torch.equal(c, a + b)


def test_return_style_makes_the_output(register: Register) -> None:
    a, b, _ = operands()
    result = register(core.add())(a, b)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, a + b)


def test_several_outputs_come_back_as_a_tuple(register: Register) -> None:
    params = [core.tensor(name, "Out", (2, 3)) for name in "xy"]
    result = register(core.program("two", params), (0, 1))()
    assert [tuple(tensor.shape) for tensor in result] == [(2, 3), (2, 3)]


def test_a_program_that_returns_its_inout_gives_an_empty_tuple(register: Register) -> None:
    handle = register(core.program("update", [core.tensor("x", "InOut", (2, 3))]), ())
    assert handle(torch.zeros(2, 3)) == ()
    handle = register(core.program("update", [core.tensor("x", "InOut", (2, 3))]), (), has_return=False)
    assert handle(torch.zeros(2, 3)) is None


def test_an_output_of_dynamic_size_is_not_made(register: Register) -> None:
    handle = register(core.add("0", symbols=["M"]))
    a, b, c = (torch.randn(5, 16) for _ in range(3))
    handle(a, b, c)
    assert torch.equal(c, a + b)
    with pytest.raises(ValueError, match=r'output "c" has a dynamic dimension.*pass all tensors explicitly'):
        handle(a, b)


@pytest.mark.parametrize("resident", ["a", "b", "c", "ab", "abc", ""])
def test_resident_and_host_tensors_mix(device: _pypto.Worker, register: Register, resident: str) -> None:
    a, b, c = operands()
    host = {"a": a, "b": b, "c": c}
    args = {n: device.alloc_tensor(SHAPE, torch.float32, t) if n in resident else t for n, t in host.items()}
    register(core.add())(*args.values())
    out = args["c"]
    result = out.to_host() if isinstance(out, DeviceTensor) else out
    assert torch.equal(result, a + b)


def test_numpy_arrays_are_arguments(register: Register) -> None:
    a, b, c = (np.random.default_rng(i).random(SHAPE, np.float32) for i in range(3))
    register(core.add())(a, b, c)
    assert np.array_equal(c, a + b)


def test_more_arguments_than_fit_inline_are_read(device: _pypto.Worker, register: Register) -> None:
    names = [f"t{i}" for i in range(40)]
    handle = register(core.program("many", [core.tensor(name, "In", (4,)) for name in names]), (), has_return=False)
    resident = device.alloc_tensor((4,), torch.float32)
    handle(*[torch.zeros(4), np.zeros(4, np.float32), resident, torch.ones(4)] * 10)
    with pytest.raises(TypeError, match="'t39'"):
        handle(*[torch.zeros(4)] * 39, torch.zeros(5))


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_a_wrong_number_of_arguments_is_told(register: Register, count: int) -> None:
    text = rf"add expects 3 \(in-place\) or 2 \(return\) arguments, got {count}\. Parameters: \[a, b, c\]"
    with pytest.raises(TypeError, match=text):
        register(core.add())(*[torch.zeros(SHAPE)] * count)
    text = rf"add expects 3 \(in-place\) arguments, got {count}\. Parameters"
    with pytest.raises(TypeError, match=text):
        register(core.add(), has_return=False)(*[torch.zeros(SHAPE)] * count)


def test_equal_programs_have_one_cid_and_handles_of_their_own(device: _pypto.Worker, register: Register) -> None:
    first, alias, other = register(core.add()), register(core.add()), register(core.add(name="other"))
    assert first.cid == alias.cid
    assert first.cid != other.cid
    assert device.counters()["registrations"] == 2
    first.unregister()
    first.unregister()
    assert (first.closed, alias.closed) == (True, False)
    a, b, c = operands()
    with pytest.raises(RuntimeError, match=r"has been unregistered \(or its parent Worker was closed\)\. Re-register"):
        first(a, b, c)
    alias(a, b, c)
    assert torch.equal(c, a + b)
    assert device.counters()["registrations"] == 2


def test_a_handle_is_a_context(register: Register) -> None:
    with register(core.add()) as handle:
        assert not handle.closed
    assert handle.closed


def test_a_closed_worker_closes_its_handles(device: _pypto.Worker, register: Register) -> None:
    handle = register(core.add())
    device.close()
    assert handle.closed
    assert repr(handle) == 'RegistrationHandle("add", cid=0, closed)'
    with pytest.raises(RuntimeError, match="Re-register"):
        handle(*operands())


def test_config_is_a_run_config(register: Register) -> None:
    a, b, c = operands()
    handle = register(core.add())
    handle(a, b, c, config=RunConfig())
    handle(a, b, c, config=None)
    with pytest.raises(TypeError, match="config must be a RunConfig, got dict"):
        handle(a, b, c, config={})
    with pytest.raises(TypeError, match="unexpected keyword argument 'device'"):
        handle(a, b, c, device=0)


def test_a_refused_launch_copies_nothing(device: _pypto.Worker, register: Register) -> None:
    a, b, _ = operands()
    handle = register(core.add())
    before = device.counters()
    with pytest.raises(TypeError):
        handle(a, b, torch.zeros(16, 15))
    assert device.counters() == before


def test_output_indices_are_parameters(device: _pypto.Worker) -> None:
    with pytest.raises(ValueError, match="output index 3 is out of range for 3 parameters"):
        device.register(core.add(), owner=None, compiled=None, output_indices=[3], has_return=True)
    with pytest.raises(ValueError, match="output index 2 is given twice"):
        device.register(core.add(), owner=None, compiled=None, output_indices=[2, 2], has_return=True)


def test_pytest_does_not_collect_handles(register: Register) -> None:
    assert register(core.add()).__test__ is False


def test_a_handle_shows_what_it_was_made_for(device: _pypto.Worker) -> None:
    owner, compiled = object(), object()
    handle = device.register(core.add(), owner=owner, compiled=compiled, output_indices=[], has_return=False)
    assert (handle.worker, handle.compiled) == (owner, compiled)


def test_every_way_to_call_is_the_same(register: Register) -> None:
    a, b, c = operands()
    handle = register(core.add())
    calls = [
        lambda: handle(a, b, c),
        lambda: handle(*(a, b, c)),
        lambda: handle(*[a, b], c, **{"config": RunConfig()}),
        lambda: handle.__call__(a, b, c),
        lambda: type(handle).__call__(handle, a, b, c, config=None),
        lambda: functools.partial(handle, a, b)(c),
        lambda: list(map(handle, [a], [b], [c])),
    ]
    for call in calls:
        c.fill_(float("nan"))
        call()
        assert torch.equal(c, a + b)


@pytest.mark.parametrize("keyword", ["a", "args", "Config", ""])
def test_parameters_are_passed_by_position(register: Register, keyword: str) -> None:
    a, b, c = operands()
    with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{keyword}'"):
        register(core.add())(a, b, **{keyword: c})


def test_a_launch_leaves_the_reference_counts_of_its_arguments_alone(device: _pypto.Worker, register: Register) -> None:
    a, b, c = operands()
    resident = device.alloc_tensor(SHAPE, torch.float32, a)
    handle, config = register(core.add()), RunConfig()
    objects = [resident, b, c, config, None]
    for _ in range(2):
        before = [sys.getrefcount(item) for item in objects]
        for _ in range(100):
            handle(resident, b, c, config=config)
            handle(resident, b)
            with contextlib.suppress(TypeError):
                handle(resident, b, 3)
            with contextlib.suppress(TypeError):
                handle(resident, b, c, wrong=config)
        after = [sys.getrefcount(item) for item in objects]
        assert all(abs(x - y) < 10 for x, y in zip(before, after, strict=True)), (before, after)


def test_a_worker_takes_more_programs_than_the_64_of_a_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYPTO_PROG_BUILD_DIR", str(tmp_path))
    with ChipWorker() as worker:
        handles = [worker.register(sample_kernels.compile_add(rows, 16)) for rows in range(1, 71)]
        assert worker.aicpu_dlopen_count == 70
        for rows in (1, 64, 65, 70):
            host = torch.full((rows, 16), 1.5)
            assert torch.equal(handles[rows - 1](host, host), host + host)
