"""Whatever is queued and whatever is not: results are those of calls in the order in which they were written."""

from typing import Any

import core_programs as core
import hypothesis.strategies as st
import pytest
import torch
from core_programs import Register
from hypothesis import HealthCheck, given, settings

from pypto import _pypto
from pypto.runtime import DeviceTensor, LaunchFuture

SHAPE = (16, 16)
COUNT = 4

slot = st.integers(0, COUNT - 1)
operation = st.one_of(
    st.tuples(st.sampled_from(["submit", "launch", "bound", "bound_submit"]), slot, slot, slot),
    st.tuples(st.just("update"), st.sampled_from("abc"), slot),
    st.tuples(st.just("write"), slot, st.integers(-4, 4)),
    st.tuples(st.just("read"), slot),
    st.tuples(st.just("replace"), slot, st.integers(-4, 4)),
    st.tuples(st.just("host"), slot, st.integers(-4, 4)),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("synchronize")),
)


class Model:
    """The device and what its tensors should hold, one number each."""

    def __init__(self, device: _pypto.Worker, register: Register) -> None:
        self.device = device
        self.add = register(core.add())
        self.values = [float(index) for index in range(COUNT)]
        self.tensors = [self.upload(value) for value in self.values]
        self.bound_slots = [0, 1, 2]
        self.bound = self.add.bind(*(self.tensors[index] for index in self.bound_slots))
        self.expected: list[tuple[LaunchFuture, float]] = []

    def upload(self, value: float) -> DeviceTensor:
        return self.device.alloc_tensor(SHAPE, torch.float32, torch.full(SHAPE, value))

    def read(self, index: int) -> None:
        assert self.tensors[index].to_host()[0, 0].item() == self.values[index]

    def step(self, name: str, *args: Any) -> None:
        getattr(self, f"do_{name}")(*args)

    def do_launch(self, a: int, b: int, c: int, call: str = "__call__") -> None:
        if c in (a, b):
            return
        getattr(self.add, call)(self.tensors[a], self.tensors[b], self.tensors[c])
        self.values[c] = self.values[a] + self.values[b]

    def do_submit(self, a: int, b: int, c: int) -> None:
        self.do_launch(a, b, c, "submit")

    def do_bound(self, *_: int, call: str = "__call__") -> None:
        getattr(self.bound, call)()
        a, b, c = self.bound_slots
        self.values[c] = self.values[a] + self.values[b]

    def do_bound_submit(self, *_: int) -> None:
        self.do_bound(call="submit")

    def do_update(self, name: str, index: int) -> None:
        slots = list(self.bound_slots)
        slots["abc".index(name)] = index
        if slots[2] in slots[:2]:
            with pytest.raises(ValueError, match="overlaps"):
                self.bound.update(**{name: self.tensors[index]})
            return
        self.bound.update(**{name: self.tensors[index]})
        self.bound_slots = slots

    def do_write(self, index: int, value: int) -> None:
        self.device.copy_to(self.tensors[index], torch.full(SHAPE, float(value)))
        self.values[index] = float(value)

    def do_read(self, index: int) -> None:
        self.read(index)

    def do_replace(self, index: int, value: int) -> None:
        """Frees a tensor that queued launches may use, and allocates another one in its place."""
        self.device.free_tensor(self.tensors[index])
        self.tensors[index], self.values[index] = self.upload(float(value)), float(value)
        self.bound.update(**{name: self.tensors[at] for name, at in zip("abc", self.bound_slots, strict=True)})

    def do_host(self, index: int, value: int) -> None:
        future = self.add.submit(self.tensors[index], torch.full(SHAPE, float(value)))
        self.expected.append((future, self.values[index] + value))

    def do_cancel(self) -> None:
        future = self.add.submit(self.tensors[0], self.tensors[1], torch.empty(SHAPE))
        if future.cancel():
            assert future.cancelled()

    def do_synchronize(self) -> None:
        self.device.synchronize()
        assert all(future.done() for future, _ in self.expected)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(operation, max_size=40))
def test_queued_and_synchronous_calls_keep_the_order_of_the_program(
    device: _pypto.Worker, register: Register, operations: list[tuple[Any, ...]]
) -> None:
    model = Model(device, register)
    for name, *args in operations:
        model.step(name, *args)
    for index in range(COUNT):
        model.read(index)
    for future, value in model.expected:
        assert future.result(60)[0, 0].item() == value
    for tensor in model.tensors:
        device.free_tensor(tensor)
    assert device.memory_report().live == 0
