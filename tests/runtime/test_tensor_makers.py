"""Tensors that feel at home: made with known contents, copied both ways, handed to other libraries, whole modules."""

from __future__ import annotations

import io
import json
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pypto.runtime import ChipWorker, DeviceTensor, RunConfig
from pypto.runtime.progress import Progress
from pypto.runtime.trace_file import trace

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_made_tensors_hold_what_their_names_say(poison: bool, dtype: torch.dtype) -> None:
    with ChipWorker(RunConfig(poison=poison)) as worker:
        worker.free_tensor(worker.full((300, 7), 1, dtype))  # memory that was used before
        assert torch.equal(worker.zeros((300, 7), dtype).to_host(), torch.zeros(300, 7, dtype=dtype))
        assert torch.equal(worker.full((300, 7), 1, dtype).to_host(), torch.ones(300, 7, dtype=dtype))
        assert worker.empty((300, 7), dtype).shape == (300, 7)


def test_a_constant_longer_than_one_piece_is_whole(worker: ChipWorker) -> None:
    elements = (4 << 20) + 5
    made = worker.full((elements,), 3, torch.int16)
    assert torch.equal(made.to_host(), torch.full((elements,), 3, dtype=torch.int16))


def test_zeros_cost_no_copy(worker: ChipWorker) -> None:
    worker.zeros((1 << 20,), torch.float32)
    assert worker.counters()["h2d_bytes"] == 0


def test_a_constant_that_does_not_fit_leaves_nothing(worker: ChipWorker) -> None:
    with pytest.raises(RuntimeError, match="cannot be converted"):
        worker.full((4,), 1000, torch.int8)
    assert worker.memory_report().live == 0


@pytest.mark.parametrize("make", [
    lambda host: host,
    lambda host: host.t().contiguous().t(),
    lambda host: host.numpy(),
    lambda host: np.asfortranarray(host.numpy()),
    lambda host: torch.nn.Parameter(host),
])  # fmt: skip
def test_from_host_takes_any_array(worker: ChipWorker, make: Callable[[torch.Tensor], Any]) -> None:
    host = torch.arange(12.0).reshape(3, 4)
    tensor = worker.from_host(make(host))
    assert (tensor.shape, tensor.dtype) == ((3, 4), torch.float32)
    assert torch.equal(tensor.to_host(), host)


def test_from_host_takes_a_read_only_array(worker: ChipWorker) -> None:
    array = np.arange(4.0, dtype=np.float32)
    array.flags.writeable = False
    assert worker.from_host(array).numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("make", [lambda worker, array: worker.from_host(array),
                                  lambda worker, array: worker.alloc_module({"w": array})["w"]])  # fmt: skip
def test_arrays_that_torch_does_not_take_as_they_lie_are_copied(
    worker: ChipWorker, make: Callable[[ChipWorker, Any], DeviceTensor]
) -> None:
    host = np.arange(6, dtype=np.float32)
    record = np.zeros(3, dtype=[("x", np.float32), ("y", np.int16)])
    for array in (host[::-1], np.broadcast_to(host, (2, 6)), record["x"], np.frombuffer(bytes(17), np.float32, 4, 1)):
        assert np.array_equal(make(worker, array).numpy(), array)


@pytest.mark.parametrize(("array", "text"), [
    (np.ma.array(np.ones(4), mask=[0, 1, 0, 0]), r"the array is masked.*Pass \.filled\(value\)"),
    (np.ones(4, ">f4"), r"the array has unsupported dtype >f4; convert it with \.astype"),
    (np.full(4, None), r"the array has unsupported dtype object; convert it with \.astype"),
    (np.zeros(4, "M8[s]"), r"the array has unsupported dtype datetime64\[s\]; convert it with \.astype"),
])  # fmt: skip
def test_arrays_that_are_more_or_other_than_numbers_are_refused(worker: ChipWorker, array: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"^{text}"):
        worker.from_host(array)
    for dtype in (None, torch.float16):
        with pytest.raises(TypeError, match=rf"^\['w'\]: {text}"):
            worker.alloc_module({"w": array}, dtype=dtype)
    assert worker.memory_report().live == 0


@pytest.mark.parametrize("what", [[1.0, 2.0], 3, None, "x"])
def test_from_host_refuses_what_is_no_array(worker: ChipWorker, what: object) -> None:
    with pytest.raises(TypeError, match=r"from_host\(\) expects a torch.Tensor.*got"):
        worker.from_host(what)


def test_copy_fills_the_tensor_and_returns_it(worker: ChipWorker) -> None:
    tensor = worker.empty((2, 3), torch.float32)
    assert tensor.copy_(torch.ones(2, 3)) is tensor
    assert torch.equal(tensor.to_host(), torch.ones(2, 3))
    tensor.copy_(np.full((2, 3), 2, np.float32))
    assert torch.equal(tensor.to_host(), torch.full((2, 3), 2.0))


@pytest.mark.parametrize(("host", "error", "text"), [
    (torch.ones(3, 2), ValueError, r"FP32 \(2, 3\) on the device, FP32 \(3, 2\) on the host"),
    (torch.ones(3), ValueError, "Nothing is converted or broadcast"),
    (torch.ones(2, 3).half(), ValueError, "FP16"),
    (torch.ones(3, 2).t(), ValueError, "not contiguous"),
    (4096, TypeError, "must be a torch.Tensor"),
])  # fmt: skip
def test_copy_converts_nothing(worker: ChipWorker, host: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        worker.zeros((2, 3), torch.float32).copy_(host)


def test_copies_of_other_libraries_are_copies(worker: ChipWorker) -> None:
    tensor = worker.full((2, 3), 7, torch.float32)
    copies = [tensor.numpy(), np.asarray(tensor), np.from_dlpack(tensor), torch.from_dlpack(tensor)]
    worker.free_tensor(tensor)
    worker.full((2, 3), 8, torch.float32)  # in the same memory
    assert all(np.array_equal(copy, np.full((2, 3), 7)) for copy in copies)
    assert np.asarray(worker.full((2,), 1, torch.float32), dtype=np.int32).dtype == np.int32
    assert torch.equal(torch.from_dlpack(worker.full((2,), 1, torch.bfloat16)), torch.ones(2, dtype=torch.bfloat16))


def test_memory_is_not_shared(worker: ChipWorker) -> None:
    tensor = worker.zeros((2,), torch.float32)
    assert tensor.__dlpack_device__() == (1, 0)
    wishes: list[Callable[[], object]] = [
        lambda: tensor.__dlpack__(copy=False),
        lambda: tensor.__dlpack__(dl_device=(2, 0)),
        lambda: tensor.__dlpack__(stream=1),
        lambda: tensor.__array__(copy=False),
    ]
    for wish in wishes:
        with pytest.raises(BufferError, match=r"only copied|as a copy"):
            wish()


def test_numpy_has_no_bfloat16(worker: ChipWorker) -> None:
    with pytest.raises(TypeError, match=r"to_host\(\)\.float\(\)\.numpy\(\)"):
        worker.zeros((2,), torch.bfloat16).numpy()


def test_a_with_frees_the_tensor(worker: ChipWorker) -> None:
    with worker.zeros((4,), torch.float32) as tensor:
        assert tensor.is_live
    assert not tensor.is_live
    with pytest.raises(KeyError), worker.zeros((4,), torch.float32) as tensor:
        raise KeyError
    assert not tensor.is_live
    with worker.zeros((4,), torch.float32) as tensor:
        worker.free_tensor(tensor)
    with worker.zeros((4,), torch.float32) as tensor:
        worker.close()
    assert not tensor.is_live


def test_the_repr_says_which_worker_and_whether_it_was_freed(worker: ChipWorker) -> None:
    tensor = worker.zeros((4, 2), torch.float16)
    assert worker._impl is not None
    number = worker._impl.id
    begin = f"DeviceTensor(data_ptr={tensor.data_ptr:#x}, shape=(4, 2), dtype=torch.float16, worker #{number}"
    assert repr(tensor) == f"{begin})"
    worker.free_tensor(tensor)
    assert repr(tensor) == f"{begin}, freed)"
    other = worker.zeros((4,), torch.float32)
    worker.close()
    assert repr(other).endswith(f"worker #{number} (closed))")


def nested() -> dict[str, Any]:
    weight = torch.arange(6.0).reshape(2, 3)
    return {
        "layers": [{"w": weight, "b": torch.ones(3, dtype=torch.float64)}, (torch.zeros(1, dtype=torch.int32), None)],
        "pair": Pair(weight.numpy(), "name"),
        "steps": torch.tensor(7),
    }


def test_a_nest_of_containers_goes_and_is_freed_as_one(worker: ChipWorker) -> None:
    state = nested()
    there = worker.alloc_module(state)
    assert isinstance(there["pair"], Pair)
    assert isinstance(there["layers"][1], tuple)
    assert (there["pair"].right, there["layers"][1][1]) == ("name", None)
    assert torch.equal(there["layers"][0]["w"].to_host(), state["layers"][0]["w"])
    assert np.array_equal(there["pair"].left.numpy(), state["pair"].left)
    assert there["steps"].shape == (1,)
    assert there["steps"].numpy().tolist() == [7]
    assert worker.memory_report().count == 5
    worker.free_module(there)
    assert worker.memory_report().count == 0
    worker.free_module(there)


def test_a_module_is_its_state_dict_and_tied_weights_go_once(worker: ChipWorker) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False))
    module[1].weight = module[0].weight
    module.register_buffer("table", torch.arange(4))
    there = worker.alloc_module(module, dtype=torch.float16)
    assert isinstance(there, OrderedDict)
    assert list(there) == ["table", "0.weight", "1.weight"]
    assert there["0.weight"] is there["1.weight"]
    assert there["0.weight"].dtype == torch.float16
    assert there["table"].dtype == torch.int64
    assert torch.equal(there["0.weight"].to_host(), module[0].weight.half())
    worker.free_module(there)
    assert worker.memory_report().live == 0


@pytest.mark.parametrize(("bad", "error"), [
    (torch.zeros(0, 3), ValueError), (torch.zeros(2, dtype=torch.float8_e4m3fnuz), ValueError),
    (torch.empty(2, device="meta"), ValueError), (torch.zeros(1).expand(1 << 40), MemoryError),
    (torch.eye(3).to_sparse(), ValueError),
])  # fmt: skip
def test_an_error_says_where_in_the_module_and_leaves_nothing(
    worker: ChipWorker, bad: torch.Tensor, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"^\['layers'\]\[1\]\['w'\]: ") as raised:
        worker.alloc_module({"first": torch.ones(4), "layers": [None, {"w": bad}]})
    assert raised.value.code  # type: ignore[attr-defined]
    assert worker.memory_report().live == 0


def test_ctrl_c_in_the_middle_of_a_module_leaves_nothing(worker: ChipWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object, nbytes: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        worker.alloc_module([torch.ones(4), torch.ones(5)])
    assert worker.memory_report().live == 0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_upload_shows_its_progress_on_a_terminal(
    worker: ChipWorker, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    worker.alloc_module([torch.ones(1 << 18)])
    assert screen.getvalue() == "", "a short one shows nothing"
    monkeypatch.setattr("pypto.runtime.progress._PATIENCE", 0.0)
    worker.alloc_module([torch.ones(1 << 18), torch.ones(1 << 18)])
    assert ("2.0 MiB" in screen.getvalue()) == is_terminal
    assert (screen.getvalue() == "") != is_terminal


def test_a_timeline_shows_what_each_way_to_allocate_takes(worker: ChipWorker, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with trace(path):
        made = [worker.zeros((64, 64), torch.float32), worker.from_host(torch.ones(64))]
        address = worker.malloc(100)
        worker.free(address)
        with made[0], made[1]:
            pass
    events = json.loads(path.read_text())["traceEvents"]
    counted = [event for event in events if event["ph"] == "C" and "live" in event["name"]]
    # Workers of other tests may be open, and are older.
    newest = max((event["name"] for event in counted), key=lambda name: int(name.rpartition(" ")[2]))
    values = [value for event in counted if event["name"] == newest for value in event["args"].values()]
    assert values == [0, 16384, 16640, 16740, 16640, 16384, 0]
