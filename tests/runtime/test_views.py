"""Parts and other shapes of device tensors: what they alias, what they refuse, how they die."""

import dataclasses

import numpy as np
import pytest
import torch
from test_packed_weights import product

from pypto import ir
from pypto.runtime import ChipWorker, DeviceTensor, RunConfig

HOST = torch.arange(120.0).reshape(4, 5, 6)

PARTS = [
    np.s_[2], np.s_[-1], np.s_[1:3], np.s_[:], np.s_[...], np.s_[2, 1:4], np.s_[0, 0], np.s_[1:2, 2:4], np.s_[-2:],
    np.s_[3, ..., ], np.s_[..., :], np.s_[1, 2, 3:5], np.s_[1:2, 1:2, 1:3], np.s_[:, :, :], np.s_[2:100],
]  # fmt: skip


@pytest.fixture
def tensor(worker: ChipWorker) -> DeviceTensor:
    return worker.from_host(HOST)


@pytest.mark.parametrize("index", PARTS, ids=str)
def test_a_part_is_what_torch_says(tensor: DeviceTensor, index: object) -> None:
    expected = HOST[index]
    assert tensor[index].shape == tuple(expected.shape)
    assert torch.equal(tensor[index].to_host(), expected)


GAPS = [np.s_[:, 1], np.s_[:, 1:3], np.s_[1:3, :, 0:2], np.s_[::2], np.s_[::-1], np.s_[..., 0]]


@pytest.mark.parametrize("index", GAPS, ids=str)
def test_a_part_with_gaps_is_refused(tensor: DeviceTensor, index: object) -> None:
    with pytest.raises(ValueError, match=r"in one piece|has step 1"):
        tensor[index]


@pytest.mark.parametrize(("index", "error", "text"), [
    (4, IndexError, "index 4 is out of range for an axis of 4"),
    (-5, IndexError, "index -5 is out of range"),
    (2**70, IndexError, "out of range"),
    ((0, 0, 0, 0), IndexError, "4 indices and 0 ellipses for a tensor of 3 dimensions"),
    ((..., ...), IndexError, "2 ellipses"),
    (True, TypeError, "indexed by ints, slices and `...`, got bool"),
    ("0", TypeError, "got str"),
    (None, TypeError, "got NoneType"),
    (np.s_[2:2], ValueError, "is empty"),
    ((0, 0, 0), ValueError, "would have no dimension"),
])  # fmt: skip
def test_what_is_no_part_says_why(tensor: DeviceTensor, index: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tensor[index]


@pytest.mark.parametrize("shape", [(120,), (4, 30), (-1,), (2, -1, 10), (1, 4, 5, 6), ((8, 15),), ([-1, 3],)], ids=str)
def test_another_shape_is_what_torch_says(tensor: DeviceTensor, shape: tuple[object, ...]) -> None:
    assert torch.equal(tensor.view(*shape).to_host(), HOST.view(*shape))


@pytest.mark.parametrize(("shape", "error", "text"), [
    ((7, -1), ValueError, r"120 elements and cannot be viewed with shape \(7, 17\)"),
    ((119,), ValueError, "cannot be viewed"),
    ((-1, -1), ValueError, "must be all positive"),
    ((0, -1), ValueError, "must be all positive"),
    ((), ValueError, "must be non-empty"),
    ((60, 2.0), TypeError, "must contain ints"),
    ((torch.float16,), TypeError, "must contain ints"),
])  # fmt: skip
def test_a_shape_of_other_elements_is_refused(
    tensor: DeviceTensor, shape: tuple[object, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        tensor.view(*shape)


def test_views_of_views_and_rows_in_a_loop_alias_one_memory(tensor: DeviceTensor) -> None:
    row = tensor.view(20, 6)[5:15].view(2, 5, 6)[1]
    row.copy_(torch.full((5, 6), -1.0))
    expected = HOST.clone()
    expected[2] = -1
    assert torch.equal(tensor.to_host(), expected)
    assert torch.equal(torch.stack([part.to_host() for part in tensor]), expected)
    assert len(tensor) == 4


def test_a_view_is_an_argument_like_any_other(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    host = torch.randn(4, 128, 128)
    layers, results = worker.from_host(host), worker.zeros((3, 128, 128), torch.float32)
    for step in range(3):
        worker.run(K_add, layers[step], layers[3], results[step])
    assert torch.equal(results.to_host(), host[:3] + host[3])
    assert worker.counters()["h2d_bytes"] == layers.nbytes
    # At an address that is aligned for its elements only.
    odd = worker.from_host(torch.cat([torch.zeros(1), host[0].flatten()]))
    worker.run(K_add, odd[1:].view(128, 128), layers[3], results[0])
    assert torch.equal(results[0].to_host(), host[0] + host[3])


def test_an_output_may_be_a_part_beside_an_input_and_not_overlap_it(
    worker: ChipWorker, K_add: ir.CompiledProgram
) -> None:
    memory = worker.from_host(torch.ones(3 * 128, 128))
    first, second, third = (memory[128 * i : 128 * (i + 1)] for i in range(3))
    worker.run(K_add, first, second, third)
    assert torch.equal(third.to_host(), torch.full((128, 128), 2.0))
    with pytest.raises(ValueError, match=r"Parameter 'c' .*overlaps that of parameter 'b'"):
        worker.run(K_add, first, second, memory[129:257])


def test_a_view_dies_with_the_tensor_and_the_error_names_that(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    tensor = worker.from_host(torch.ones(256, 128))
    part = tensor[128:]
    assert part.is_live
    worker.free_tensor(tensor)
    assert not part.is_live
    parent = r"FP32 \(256, 128\) at .*, allocated at .*test_views\.py:\d+"
    others = [torch.ones(128, 128), torch.empty(128, 128)]
    for use in (lambda: worker.run(K_add, part, *others), part.to_host, lambda: part.copy_(others[0])):
        with pytest.raises(ValueError, match=rf"{parent}.* was freed"):
            use()
    with pytest.raises(ValueError, match="a view of what follows"):
        worker.run(K_add, part, *others)


def test_a_view_dies_with_its_worker(worker: ChipWorker) -> None:
    part = worker.from_host(HOST)[1:]
    worker.close()
    assert not part.is_live
    with pytest.raises((ValueError, RuntimeError), match=r"FP32 \(4, 5, 6\).*closed|worker of FP32.* is gone"):
        part.to_host()


def test_a_view_owns_nothing(worker: ChipWorker, tensor: DeviceTensor) -> None:
    for view in (tensor[1:], tensor.view(120), dataclasses.replace(tensor[1:], shape=(3, 30))):
        for use in (lambda: worker.free_tensor(view), view.__enter__):  # noqa: B023
            with pytest.raises(ValueError, match=r"owns no memory. Free the tensor that it views: FP32 \(4, 5, 6\)"):
                use()
    assert tensor.is_live


def test_a_view_may_be_replaced_within_its_allocation(tensor: DeviceTensor) -> None:
    row = tensor[3]
    assert (row.buffer.base, row.buffer.nbytes) == (row.data_ptr, 120)
    assert torch.equal(dataclasses.replace(row, shape=(30,)).to_host(), HOST[3].flatten())
    with pytest.raises(ValueError, match="exceeds the 480-byte backing"):
        dataclasses.replace(row, shape=(31,)).to_host()


def test_a_bare_pointer_has_no_views() -> None:
    bare = DeviceTensor(0x1000, (4, 4), torch.float32)
    for use in (lambda: bare[1:], lambda: bare.view(16), bare.__enter__, lambda: bare.copy_(torch.ones(4, 4))):
        with pytest.raises(TypeError, match="made from a bare pointer"):
            use()
    assert not bare.is_live


def test_writing_a_part_of_a_stack_of_weights_drops_the_packed_forms_that_it_touches() -> None:
    def numbers(*shape: int) -> torch.Tensor:  # whole numbers: sums are exact in every order
        return torch.randint(-4, 5, shape).float()

    x, weights = numbers(8, 128), numbers(2, 128, 256)
    with ChipWorker(RunConfig()) as worker:
        stack = worker.from_host(weights)

        def check() -> None:
            for layer in (0, 1):
                for _ in range(3):
                    out = torch.empty(8, 256)
                    product(x, stack[layer], out)
                    assert torch.equal(out, x @ weights[layer])

        check()
        both = worker.memory_report().packed
        assert both > 0
        weights[1] = numbers(128, 256)
        stack[1, 64:].copy_(weights[1, 64:])  # a part of a part
        assert 0 < worker.memory_report().packed < both, "its neighbour stays packed"
        stack[1].copy_(weights[1])
        check()
        assert worker.memory_report().packed == both
        weights += 1
        stack.copy_(weights)
        assert worker.memory_report().packed == 0
        check()


def test_bound_and_queued_launches_take_views_at_their_offsets(worker: ChipWorker, K_add: ir.CompiledProgram) -> None:
    host = torch.randn(4, 128, 128)
    layers, results = worker.from_host(host), worker.zeros((3, 128, 128), torch.float32)
    handle = worker.register(K_add)
    bound = handle.bind(layers[0], layers[3], results[0])
    bound()
    bound.update(a=layers[1], c=results[1])
    bound.submit().result(60)
    handle.submit(layers[2], layers[3], results[2]).result(60)
    assert torch.equal(results.to_host(), host[:3] + host[3])
    with pytest.raises(ValueError, match="its memory overlaps that of parameter 'b'"):
        bound.update(c=layers.view(512, 128)[300:428], b=layers.view(512, 128)[301:429])
    beyond = dataclasses.replace(layers[3], shape=(128, 128))
    bound.update(a=beyond)
    bound()
    assert torch.equal(results[1].to_host(), host[3] + host[3])
    worker.free_tensor(layers)
    with pytest.raises(ValueError, match=r"FP32 \(4, 128, 128\) at .* was freed"):
        bound()
