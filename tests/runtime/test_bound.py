"""Bound launches: checked once, launched again and again, and never with what is gone."""

import gc
import pickle
import threading
import weakref

import core_programs as core
import numpy as np
import pytest
import torch
from core_programs import Register

from pypto import _pypto
from pypto.runtime import BoundLaunch, DeviceTensor, RegistrationHandle, RunConfig

SHAPE = (16, 16)


def full(value: float) -> torch.Tensor:
    return torch.full(SHAPE, float(value))


def upload(device: _pypto.Worker, value: float) -> DeviceTensor:
    return device.alloc_tensor(SHAPE, torch.float32, full(value))


@pytest.fixture
def handle(register: Register) -> RegistrationHandle:
    return register(core.add())


def test_a_bound_launch_of_resident_tensors_runs_again_and_again(
    device: _pypto.Worker, handle: RegistrationHandle
) -> None:
    a, b, c = (upload(device, value) for value in (1, 2, 0))
    bound = handle.bind(a, b, c)
    for step in range(5):
        device.copy_to(a, full(step))
        assert bound() is None
        assert torch.equal(c.to_host(), full(step + 2))
    assert device.counters()["launches"] == 5


@pytest.mark.parametrize("resident", ["", "a", "c", "ab"])
def test_host_tensors_are_copied_in_each_call_as_they_are_then(
    device: _pypto.Worker, handle: RegistrationHandle, resident: str
) -> None:
    host = {"a": full(1), "b": full(2), "c": full(0)}
    args = {name: upload(device, tensor[0, 0]) if name in resident else tensor for name, tensor in host.items()}
    bound = handle.bind(*args.values())
    bound()
    host["b"].fill_(5)
    bound()
    out = args["c"]
    assert torch.equal(out.to_host() if isinstance(out, DeviceTensor) else out, full(6 if "b" not in resident else 3))


def test_a_host_tensor_that_got_other_memory_is_read_there(handle: RegistrationHandle) -> None:
    a, b, c = full(1), full(2), full(0)
    bound = handle.bind(a, b, c)
    bound()
    a.set_(full(7))
    bound()
    assert torch.equal(c, full(9))


def test_a_host_tensor_of_another_shape_is_refused_and_then_welcome_again(handle: RegistrationHandle) -> None:
    a, b, c = full(1), full(2), full(0)
    bound = handle.bind(a, b, c)
    a.resize_(15, 16)
    with pytest.raises(TypeError, match=r"Parameter 'a' expects shape \(16, 16\), got \(15, 16\) in a launch of 'add'"):
        bound()
    assert torch.equal(c, full(0))
    a.resize_(16, 16).fill_(3)
    bound()
    assert torch.equal(c, full(5))


def test_host_tensors_that_came_to_overlap_are_refused_in_every_call(handle: RegistrationHandle) -> None:
    a, b, c = full(1), full(2), full(0)
    bound = handle.bind(a, b, c)
    bound()
    c.set_(a)
    for _ in range(2):
        with pytest.raises(ValueError, match="'c' of 'add' is written by the program, but its memory overlaps"):
            bound()


def test_a_dynamic_extent_may_change_from_call_to_call(register: Register) -> None:
    bound = register(core.add("0", symbols=["M"])).bind(
        a := torch.ones(4, 16), b := torch.ones(4, 16), c := torch.zeros(4, 16)
    )
    bound()
    for tensor in (a, b, c):
        tensor.resize_(6, 16).fill_(4)
    bound()
    assert torch.equal(c, torch.full((6, 16), 8.0))


def test_outputs_that_are_left_out_are_made_by_each_call(handle: RegistrationHandle) -> None:
    bound = handle.bind(full(1), full(2))
    first, second = bound(), bound()
    assert torch.equal(first, full(3))
    assert torch.equal(second, full(3))
    assert first.data_ptr() != second.data_ptr()
    assert bound.args[2] is None
    with pytest.raises(ValueError, match=r"'c' is made by each call.*bind with all 3 arguments to choose it"):
        bound.update(c=full(0))


def test_an_empty_batch_is_bound_too(register: Register) -> None:
    handle = register(core.add("0", symbols=["M"]))
    bound = handle.bind(*(torch.empty(0, 16) for _ in range(3)))
    bound()
    bound()


def test_update_replaces_one_argument_by_name_and_an_item_by_position(
    device: _pypto.Worker, handle: RegistrationHandle
) -> None:
    a, b, c, other = (upload(device, value) for value in (1, 2, 0, 10))
    bound = handle.bind(a, b, c)
    bound.update(a=other)
    bound()
    assert torch.equal(c.to_host(), full(12))
    bound[1] = other
    bound()
    assert torch.equal(c.to_host(), full(20))
    bound[-2] = bound["a"] = full(4)
    bound()
    assert torch.equal(c.to_host(), full(8))
    bound.update(a=a, b=b)
    bound()
    assert torch.equal(c.to_host(), full(3))
    assert bound.args == (a, b, c)


def test_a_refused_update_changes_nothing(device: _pypto.Worker, handle: RegistrationHandle) -> None:
    a, b, c, gone = (upload(device, value) for value in (1, 2, 0, 10))
    device.free_tensor(gone)
    bound = handle.bind(a, b, c)
    refused = [
        ({"a": torch.ones(3)}, TypeError, r"'a' expects shape \(16, 16\), got \(3,\) in a launch of 'add'"),
        ({"b": full(8), "a": "x"}, TypeError, "at position 0 .*must be a torch.Tensor"),
        ({"b": gone}, ValueError, "^At position 1: .*it was freed"),
        ({"b": full(8), "c": a}, ValueError, "'c' of 'add' is written by the program, but its memory overlaps"),
        ({"a": c}, ValueError, "'c' of 'add' is written by the program, but its memory overlaps"),
        ({"d": full(8)}, TypeError, r"add has no parameter 'd'\. Parameters: \[a, b, c\]"),
    ]
    for changes, error, text in refused:
        with pytest.raises(error, match=text):
            bound.update(**changes)
        bound()
        assert torch.equal(c.to_host(), full(3))
    assert bound.args == (a, b, c)


def test_one_of_many_arguments_is_replaced(device: _pypto.Worker, register: Register) -> None:
    names = [f"t{i}" for i in range(300)]
    params = [core.tensor(name, "In" if i else "Out", (4,)) for i, name in enumerate(names)]
    handle = register(core.program("many", params), (0,))
    tensors = [device.alloc_tensor((4,), torch.float32) for _ in names]
    bound = handle.bind(*tensors)
    bound.update(t299=device.alloc_tensor((4,), torch.float32))
    bound()
    with pytest.raises(
        ValueError, match="'t0' of 'many' is written by the program, but its memory overlaps that of parameter 't7'"
    ):
        bound.update(t7=tensors[0])
    with pytest.raises(
        ValueError, match="'t0' of 'many' is written by the program, but its memory overlaps that of parameter 't9'"
    ):
        bound.update(t0=tensors[9])
    bound()


def test_numbers_are_taken_when_they_are_bound(register: Register) -> None:
    handle = register(core.endless(), (), has_return=False)
    a, b, c = (torch.ones(1, 16) for _ in range(3))
    bound = handle.bind(a, b, c, 1)
    bound()
    bound.update(n=2)
    bound()
    assert bound["n"] == 2
    with pytest.raises(OverflowError, match="'n'"):
        bound.update(n=2**64)
    with pytest.raises(TypeError, match="'n'"):
        bound.update(n="x")
    assert bound["n"] == 2


def test_bound_and_plain_launches_of_other_extents_take_turns(register: Register) -> None:
    handle = register(core.add("0", symbols=["M"]))
    sets = [[torch.full((rows, 16), float(rows)) for _ in range(2)] + [torch.zeros(rows, 16)] for rows in (3, 5, 8)]
    bound = [handle.bind(*tensors) for tensors in sets[:2]]
    for _ in range(4):
        for launch, (a, _, c) in zip([*bound, lambda: handle(*sets[2])], sets, strict=True):
            c.zero_()
            launch()
            assert torch.equal(c, a * 2)


def test_a_freed_tensor_makes_it_raise_until_it_is_replaced(device: _pypto.Worker, handle: RegistrationHandle) -> None:
    a, b, c = (upload(device, value) for value in (1, 2, 0))
    bound = handle.bind(a, b, c)
    bound()
    device.free_tensor(upload(device, 5))
    bound()
    device.free_tensor(b)
    for launch in (bound, bound, lambda: bound.submit().result(60)):
        with pytest.raises(ValueError, match=r"^At position 1: Parameter 'b' of 'add': .*it was freed on") as error:
            launch()
        assert error.value.code == "freed_buffer"
    bound.update(b=upload(device, 4))
    bound()
    assert torch.equal(c.to_host(), full(5))


def test_an_unregistered_handle_and_a_closed_worker_are_told_apart(
    device: _pypto.Worker, handle: RegistrationHandle, register: Register
) -> None:
    tensors = [upload(device, value) for value in (1, 2, 0)]
    bound, other = handle.bind(*tensors), register(core.add()).bind(*tensors)
    handle.unregister()
    for call in (bound, bound.submit, lambda: bound.update(a=tensors[0])):
        with pytest.raises(RuntimeError, match='the handle of this bound launch of "add" was unregistered') as error:
            call()
        assert error.value.code == "handle_closed"
    with pytest.raises(RuntimeError, match="has been unregistered"):
        handle.bind(*tensors)
    other()
    device.close()
    for call in (other, other.submit, lambda: other.update(a=tensors[0])):
        with pytest.raises(RuntimeError, match='the worker of this bound launch of "add" was closed') as error:
            call()
        assert error.value.code == "worker_closed"
    assert bound.closed
    assert repr(other) == 'BoundLaunch("add", 3 arguments, 0 on the host, closed)'


def test_binding_checks_as_a_launch_does(device: _pypto.Worker, handle: RegistrationHandle) -> None:
    gone = upload(device, 1)
    device.free_tensor(gone)
    with pytest.raises(TypeError, match=r"expects 3 .*got 1"):
        handle.bind(full(1))
    with pytest.raises(ValueError, match=r"^At position 1: .*it was freed"):
        handle.bind(full(1), gone, full(0))
    with pytest.raises(TypeError, match="'b' expects"):
        handle.bind(full(1), torch.ones(3), full(0))
    assert device.counters()["launches"] == 0


def test_a_bound_launch_takes_no_arguments_but_a_config(handle: RegistrationHandle) -> None:
    bound = handle.bind(full(1), full(2), full(0))
    bound(config=RunConfig())
    with pytest.raises(TypeError, match="config must be a RunConfig, got int"):
        bound(config=3)
    with pytest.raises(TypeError, match=r"has its arguments already and takes none, got 1; update\(name=\.\.\.\)"):
        bound(full(1))
    with pytest.raises(TypeError, match=r"BoundLaunch.__call__\(\) got an unexpected keyword argument 'x'"):
        bound(x=1)
    type(bound).__call__(bound)


def test_it_shows_what_it_holds(device: _pypto.Worker, handle: RegistrationHandle) -> None:
    a, b, c = upload(device, 1), full(2), np.zeros(SHAPE, np.float32)
    bound = handle.bind(a, b, c)
    assert isinstance(bound, BoundLaunch)
    assert repr(bound) == 'BoundLaunch("add", 3 arguments, 2 on the host)'
    assert (len(bound), bound["b"] is b, bound[0] is a, bound[-1] is c) == (3, True, True, True)
    assert bound.handle is handle
    assert not bound.closed
    with pytest.raises(KeyError, match="'x'"):
        bound["x"]
    with pytest.raises(IndexError, match="there are 3 arguments, no argument 3"):
        bound[3]
    with pytest.raises(TypeError, match="by position or name, not by float"):
        bound[1.0]  # type: ignore[index]
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(bound)


def test_arguments_live_as_long_as_the_bound_launch_and_no_longer(handle: RegistrationHandle) -> None:
    class Tensor(torch.Tensor):
        pass

    a = full(1).as_subclass(Tensor)
    alive = weakref.ref(a)
    bound = handle.bind(a, full(2), c := full(0))
    del a
    gc.collect()
    bound()
    assert torch.equal(c, full(3))
    bound.update(a=full(4))
    assert alive() is None
    gone = weakref.ref(bound)
    del bound
    assert gone() is None


def test_threads_share_a_bound_launch_and_update_it(device: _pypto.Worker, handle: RegistrationHandle) -> None:
    """Each call works on one whole set of arguments: whichever update came last."""
    tensors = [upload(device, value) for value in range(1, 5)]
    out = upload(device, 0)
    bound = handle.bind(tensors[0], tensors[0], out)
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            for step in range(300):
                bound.update(a=tensors[(step + index) % 4] if step % 3 else full(1), b=tensors[step % 4])
                bound()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert device.counters()["launches"] == 1200
    assert out.to_host()[0, 0] in range(2, 9)
