"""`RunConfig(residency="auto")` keeps host arguments on the device, and never shows data that is out of date."""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto import ir
from pypto.runtime import ChipWorker, RunConfig

SIDE = 128
SHAPE = (SIDE, SIDE)
BYTES = SIDE * SIDE * 4
"""As small as an argument can be that is kept."""


class Host:
    """A host tensor that others share the memory of."""

    def __init__(self, make: Callable[[], torch.Tensor]) -> None:
        self.tensor = make()
        self.aliases: list[object] = []

    def __getitem__(self, name: str) -> Callable[[int, int, float], object]:
        return getattr(self, name)  # type: ignore[no-any-return]

    def nothing(self, i: int, j: int, value: float) -> None:
        pass

    def in_place(self, i: int, j: int, value: float) -> None:
        self.tensor.add_(value)

    def one_element(self, i: int, j: int, value: float) -> None:
        self.tensor[i, j] = value

    def a_view(self, i: int, j: int, value: float) -> None:
        self.tensor.view(-1)[i : i + j + 1].mul_(value)

    def copied_over(self, i: int, j: int, value: float) -> None:
        self.tensor.copy_(torch.full(SHAPE, value))

    def out_argument(self, i: int, j: int, value: float) -> None:
        torch.add(torch.ones(SHAPE), value, out=self.tensor)

    def data_attribute(self, i: int, j: int, value: float) -> None:
        before = None if self.tensor.is_inference() else self.tensor._version
        self.tensor.data[i, j] = value
        seen = before is not None and self.tensor._version != before
        assert not seen, "this is a write that the version counter does not see"

    def data_replaced(self, i: int, j: int, value: float) -> None:
        self.tensor.data = torch.full(SHAPE, value)

    def detached(self, i: int, j: int, value: float) -> None:
        self.tensor.detach()[i, j] = value

    def numpy_alias(self, i: int, j: int, value: float) -> None:
        array = self.tensor.numpy()
        self.aliases.append(array)
        array[i, j] = value

    def old_alias(self, i: int, j: int, value: float) -> None:
        for alias in self.aliases:
            alias[i, j] = value  # type: ignore[index]

    def storage_bytes(self, i: int, j: int, value: float) -> None:
        raw = torch.empty(0, dtype=torch.uint8).set_(self.tensor.untyped_storage())
        raw[(i * SIDE + j) * 4 + 2] = int(value) % 256

    def storage_copied(self, i: int, j: int, value: float) -> None:
        storage = self.tensor.untyped_storage()
        storage.copy_(torch.full((storage.nbytes() // 4,), value).untyped_storage(), non_blocking=False)

    def storage_resized(self, i: int, j: int, value: float) -> None:
        storage = self.tensor.untyped_storage()
        if storage.resizable() and not storage.is_shared():  # torch crashes where a shared one grows
            storage.resize_(storage.nbytes() + 4096 * (i + 1))
            self.tensor.data[i, j] = value

    def another_storage(self, i: int, j: int, value: float) -> None:
        if not self.tensor.is_inference():
            with torch.no_grad():
                self.tensor.set_(torch.full(SHAPE, value))

    def dlpack_alias(self, i: int, j: int, value: float) -> None:
        alias = torch.from_dlpack(self.tensor)
        self.aliases.append(alias)
        alias[i, j] = value

    def by_address(self, i: int, j: int, value: float) -> None:
        ctypes.memset(self.tensor.data_ptr() + (i * SIDE + j) * 4 + 1, int(value) % 256, 1)

    def to_shared_memory(self, i: int, j: int, value: float) -> None:
        if self.tensor.untyped_storage().resizable() and not self.tensor.is_inference():
            self.tensor.share_memory_()
            self.tensor[i, j] = value

    def under_inference_mode(self, i: int, j: int, value: float) -> None:
        with torch.inference_mode():
            self.tensor.sub_(value)

    def optimizer_foreach(self, i: int, j: int, value: float) -> None:
        self._stepped(torch.optim.SGD, value, foreach=True)

    def optimizer_fused(self, i: int, j: int, value: float) -> None:
        self._stepped(torch.optim.Adam, value, fused=True)

    def optimizer_plain(self, i: int, j: int, value: float) -> None:
        self._stepped(torch.optim.SGD, value, foreach=False)

    def _stepped(self, kind: Callable[..., torch.optim.Optimizer], value: float, **form: bool) -> None:
        with torch.inference_mode(False):
            shared = torch.from_numpy(self.tensor.detach().numpy())
            parameter = torch.nn.Parameter(shared)
            parameter.grad = torch.full(SHAPE, value)
            kind([parameter], lr=1.0, **form).step()

    def foreach(self, i: int, j: int, value: float) -> None:
        torch._foreach_add_([self.tensor.detach()], value)

    def state_loaded(self, i: int, j: int, value: float) -> None:
        module = torch.nn.Linear(SIDE, SIDE, bias=False)
        module.weight.data = self.tensor.detach()
        module.load_state_dict({"weight": torch.full(SHAPE, value)})

    def swapped(self, i: int, j: int, value: float) -> None:
        with contextlib.suppress(RuntimeError):  # of torch, where something else shares the tensor
            torch.utils.swap_tensors(self.tensor, torch.full(SHAPE, value))

    def resized(self, i: int, j: int, value: float) -> None:
        if self.tensor.untyped_storage().resizable() and not self.tensor.untyped_storage().is_shared():
            self.tensor.resize_(2 * SIDE, SIDE).resize_(SHAPE)[i, j] = value

    def another_element_type(self, i: int, j: int, value: float) -> None:
        self.tensor.detach().view(torch.int16)[i, 2 * j] += 1

    def transposed(self, i: int, j: int, value: float) -> None:
        self.tensor.detach().t()[j, i] = value

    def by_index(self, i: int, j: int, value: float) -> None:
        self.tensor.scatter_(1, torch.tensor([[j]]), value)

    def with_strides(self, i: int, j: int, value: float) -> None:
        whole = torch.as_strided(self.tensor.detach(), (SIDE * SIDE,), (1,))
        whole[i * SIDE + j] = value

    def numpy_out(self, i: int, j: int, value: float) -> None:
        array = self.tensor.detach().numpy()
        np.add(array, value, out=array)

    def numpy_copied_over(self, i: int, j: int, value: float) -> None:
        np.copyto(self.tensor.detach().numpy(), np.float32(value))

    def numpy_strides(self, i: int, j: int, value: float) -> None:
        np.lib.stride_tricks.as_strided(self.tensor.detach().numpy(), (SIDE * SIDE,), (4,))[i * SIDE + j] = value

    def memory_view(self, i: int, j: int, value: float) -> None:
        memoryview(self.tensor.detach().numpy()).cast("B").cast("f")[i * SIDE + j] = value  # type: ignore[index]

    def moved_over(self, i: int, j: int, value: float) -> None:
        ctypes.memmove(self.tensor.data_ptr(), torch.full(SHAPE, value).data_ptr(), BYTES)

    def in_a_thread(self, i: int, j: int, value: float) -> None:
        thread = threading.Thread(target=self.numpy_alias, args=(i, j, value))
        thread.start()
        thread.join()

    def another_tensor(self, i: int, j: int, value: float) -> None:
        """Often at the address of the old one, with its size, dtype and version."""
        self.aliases.clear()
        del self.tensor
        self.tensor = torch.full(SHAPE, value)


WAYS = [name for name in vars(Host) if not name.startswith("_")]


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.randn(SHAPE)


ORIGINS: dict[str, Callable[[], torch.Tensor]] = {
    "torch": lambda: torch.randn(SHAPE),
    "numpy": lambda: torch.from_numpy(np.random.default_rng(0).random(SHAPE, np.float32)),
    "shared": lambda: torch.randn(SHAPE).share_memory_(),
    "inference": inference_tensor,
    "view": lambda: torch.randn(4, *SHAPE)[2],
    "bytes": lambda: torch.frombuffer(bytearray(BYTES), dtype=torch.float32).view(SHAPE),
}


@pytest.fixture
def auto() -> Iterator[ChipWorker]:
    worker = ChipWorker(RunConfig(residency="auto"))
    yield worker
    worker.close()


STEP = st.tuples(
    st.sampled_from([*WAYS, *["nothing"] * 2 * len(WAYS)]),
    st.integers(0, SIDE - 1),
    st.integers(0, SIDE - 1),
    st.integers(1, 200).map(float),
)


@pytest.mark.parametrize("origin", ORIGINS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=4, max_size=20))
def test_whoever_writes_to_the_host_the_device_sees_it(
    auto: ChipWorker, K_add: ir.CompiledProgram, origin: str, steps: list[tuple[str, int, int, float]]
) -> None:
    host, other, out = Host(ORIGINS[origin]), torch.ones(SHAPE), torch.empty(SHAPE)
    for way, i, j, value in steps:
        with torch.inference_mode(host.tensor.is_inference()), torch.no_grad():
            host[way](i, j, value)
        auto.run(K_add, host.tensor, other, out)
        assert torch.equal(out, host.tensor + other), way


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_write_is_seen_while_a_copy_is_kept(auto: ChipWorker, K_add: ir.CompiledProgram, way: str) -> None:
    host, other, out = Host(ORIGINS["torch"]), torch.ones(SHAPE), torch.empty(SHAPE)
    host.numpy_alias(0, 0, 1.0) if way == "old_alias" else None
    for _ in range(3):
        auto.run(K_add, host.tensor, other, out)
    before = auto.counters()["h2d_bytes"]
    auto.run(K_add, host.tensor, other, out)
    assert auto.counters()["h2d_bytes"] == before, "it is kept by now"
    # Not among the words that the fingerprint looks at: those are even.
    host[way](77, 33, 113.0)
    auto.run(K_add, host.tensor, other, out)
    assert torch.equal(out, host.tensor + other)
    if way != "nothing":
        assert auto.counters()["h2d_bytes"] > before


def test_writes_through_another_mapping_of_the_file_are_seen(auto: ChipWorker, K_add: ir.CompiledProgram) -> None:
    """As another process would: at another address."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "shared")
        mine, theirs = (torch.from_file(path, shared=True, size=SIDE * SIDE).view(SHAPE) for _ in range(2))
        other, out = torch.ones(SHAPE), torch.empty(SHAPE)
        for step in range(12):
            if step % 4 == 3:
                theirs[step, 1] = step
            auto.run(K_add, mine, other, out)
            assert torch.equal(out, mine + other)


def test_a_numpy_array_is_kept_too_and_its_writes_are_seen(auto: ChipWorker, K_add: ir.CompiledProgram) -> None:
    array, other, out = np.ones(SHAPE, np.float32), torch.ones(SHAPE), torch.empty(SHAPE)
    for step in range(10):
        before = auto.counters()["h2d_bytes"]
        auto.run(K_add, array, other, out)
        assert torch.equal(out, torch.from_numpy(array) + other)
        if step == 4:
            assert auto.counters()["h2d_bytes"] == before
        if step > 5:
            array[step, 5] += 1


def test_one_tensor_in_two_parameters_that_always_changes_is_right(auto: ChipWorker, K_add: ir.CompiledProgram) -> None:
    host, out = torch.randn(SHAPE), torch.empty(SHAPE)
    for step in range(100):
        if step % 10 > 2:
            host.data[step, 3] = step  # unseen by the version counter, and by the fingerprint
        auto.run(K_add, host, host, out)
        assert torch.equal(out, host + host)


def test_a_result_that_is_passed_on_is_the_new_one(auto: ChipWorker, K_add: ir.CompiledProgram) -> None:
    a, b, total = torch.ones(SHAPE), torch.zeros(SHAPE), torch.ones(SHAPE)
    for step in range(8):
        auto.run(K_add, a, total, b)
        a, b = b, a
        assert torch.equal(a, torch.full(SHAPE, float(step + 2)))


def test_the_layers_of_a_model_are_kept_side_by_side(auto: ChipWorker, K_add: ir.CompiledProgram) -> None:
    layers, out = [torch.randn(SHAPE) for _ in range(5)], torch.empty(SHAPE)
    x = torch.ones(SHAPE)
    for turn in range(4):
        before = auto.counters()["h2d_bytes"]
        for layer in layers:
            auto.run(K_add, x, layer, out)
            assert torch.equal(out, x + layer)
        if turn >= 2:
            assert auto.counters()["h2d_bytes"] == before


def test_what_changes_again_and_again_is_left_alone_after_a_while(K_add: ir.CompiledProgram) -> None:
    with ChipWorker(RunConfig(residency="auto")) as worker:
        a, b, out = torch.ones(SHAPE), torch.ones(SHAPE), torch.empty(SHAPE)
        for step in range(12):
            if step > 2:
                a.add_(1)
            worker.run(K_add, a, b, out)
        report = worker.memory_report()
        one = worker.memory_snapshot()["segments"][0]["blocks"]
        kept = [block for block in one if (block["requested_size"], block["state"]) == (BYTES, "active_allocated")]
        assert len(kept) == 1, "b is kept, a no longer"
        assert report.staging >= BYTES


def test_kept_copies_go_when_the_user_needs_the_memory(K_add: ir.CompiledProgram) -> None:
    with ChipWorker(RunConfig(residency="auto", device_memory=64 * BYTES)) as worker:
        hosts, out = [torch.randn(SHAPE) for _ in range(30)], torch.empty(SHAPE)
        for _ in range(3):
            for host in hosts:
                worker.run(K_add, host, host, out)
        assert 12 * BYTES < worker.memory_report().staging <= 16 * BYTES + 4 * BYTES, "a quarter, and what is staged"
        room = worker.memory_report().free + worker.memory_report().staging
        with worker.zeros((room,), torch.uint8):
            assert worker.memory_report().staging == 0
        for host in hosts:
            worker.run(K_add, host, host, out)
            assert torch.equal(out, host + host)


def test_a_kept_weight_has_a_packed_form_that_goes_with_it() -> None:
    from test_packed_weights import product

    x, weight = torch.randint(-4, 5, (8, 128)).float(), torch.randint(-4, 5, (128, 256)).float()
    with ChipWorker(RunConfig(residency="auto")) as worker:
        for step in range(16):
            if step in (8, 12):
                weight.data[77, 33] += 1
            out = torch.empty(8, 256)
            product(x, weight, out)
            assert torch.equal(out, x @ weight)
            if step in (7, 11, 15):
                assert worker.memory_report().packed > 0


def test_poison_mode_copies_every_time_and_is_right(K_add: ir.CompiledProgram) -> None:
    with ChipWorker(RunConfig(residency="auto", poison=True)) as worker:
        a, b, out = torch.ones(SHAPE), torch.ones(SHAPE), torch.empty(SHAPE)
        for _ in range(4):
            worker.run(K_add, a, b, out)
            assert torch.equal(out, a + b)
        assert worker.counters()["h2d_bytes"] == 8 * BYTES


def test_bound_and_queued_launches_use_what_is_kept(auto: ChipWorker, K_add: ir.CompiledProgram) -> None:
    x, weight, out = torch.randn(SHAPE), torch.randn(SHAPE), torch.empty(SHAPE)
    handle = auto.register(K_add)
    bound = handle.bind(x, weight, out)
    launches = [bound, lambda: bound.submit().result(60), lambda: handle.submit(x, weight, out).result(60)]
    for step in range(12):
        launches[step % 3]()
        assert torch.equal(out, x + weight)
    assert auto.counters()["h2d_bytes"] == 2 * 2 * BYTES, "the third launch finds both"
    for launch in launches:
        weight.data[5, 7] += 1  # unseen by the version counter
        launch()
        assert torch.equal(out, x + weight)


def test_a_kept_argument_is_no_unwritten_memory_for_the_sanitizer(K_add: ir.CompiledProgram) -> None:
    a, b, out = torch.ones(SHAPE), torch.ones(SHAPE), torch.empty(SHAPE)
    with ChipWorker(RunConfig(residency="auto", sanitize="race,uninit,bounds")) as worker:
        for _ in range(5):
            worker.run(K_add, a, b, out)
        assert worker.counters()["h2d_bytes"] == 2 * 2 * BYTES
    assert torch.equal(out, a + b)
