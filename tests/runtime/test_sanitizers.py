"""`RunConfig(sanitize=...)`: each fault is found with its lines and its box, its twin without the fault is not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pypto.language as pl
from pypto.runtime import ChipWorker, RunConfig, SanitizerError

ALL = "race,uninit,bounds"
X = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64)


def findings(kernel: Any, *args: Any, sanitize: Any = ALL, worker: ChipWorker | None = None) -> list[Any]:
    """What a launch on fresh outputs reports."""
    if worker is None:
        with ChipWorker(config=RunConfig(sanitize=sanitize)) as opened:
            return findings(kernel, *args, worker=opened)
    try:
        kernel(*args)
    except SanitizerError as error:
        return list(error.findings)
    return []


def out(*shape: int) -> torch.Tensor:
    return torch.zeros(*(shape or (64, 64)))


def line_of(kernel: Any, text: str) -> int:
    """The line of the one line of a kernel that has `text`."""
    lines, start = inspect.getsourcelines(kernel.fn)
    (found,) = [number for number, line in enumerate(lines, start) if text in line]
    return found


@pl.jit.incore
def copy(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    t = pl.load(x, [0, 0], [64, 64])
    out = pl.store(t, [0, 0], out)
    return out


# Races.


@pl.jit
def ordered_by_id(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    with pl.manual_scope():
        tmp, made = pl.submit(copy, x, tmp)
        out, _ = pl.submit(copy, tmp, out, deps=[made])
    return out


@pl.jit
def not_ordered(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    with pl.manual_scope():
        tmp, _made = pl.submit(copy, x, tmp)  # first
        out, _ = pl.submit(copy, tmp, out)  # second
    return out


def test_a_race_names_both_tasks_their_lines_and_the_box() -> None:
    assert findings(ordered_by_id, X, out()) == []
    (race,) = findings(not_ordered, X, out())
    first, second = race.accesses
    assert (race.kind, first.action, second.action) == ("race", "write", "read")
    assert (first.kernel, second.kernel) == ("copy", "copy")
    assert (first.line, second.line) == (line_of(copy, "pl.store"), line_of(copy, "pl.load"))
    assert (first.launch_line, second.launch_line) == (
        line_of(not_ordered, "# first"),
        line_of(not_ordered, "# second"),
    )
    assert first.file == second.launch_file == __file__
    box = race.memory
    assert (box.tensor, box.dtype, box.shape) == ("tmp", "FP32", (64, 64))
    assert (box.offsets, box.extents) == ((0, 0), (64, 64))


@pl.jit
def automatic(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    tmp = copy(x, tmp)
    out = copy(tmp, out)
    return out


@pl.jit
def without_dep(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    tmp = copy(x, tmp)
    out = copy(pl.no_dep(tmp), out)
    return out


@pl.jit
def manual_dep(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32, manual_dep=True)
    tmp = copy(x, tmp)
    out = copy(tmp, out)
    return out


@pl.jit
def no_dep_args(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    tmp = copy(x, tmp)
    with pl.at(level=pl.Level.CORE_GROUP, no_dep_args=[tmp]):
        out[:, :] = tmp[:, :]
    return out


@pl.jit
def no_dep_with_id(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    tmp, made = pl.submit(copy, x, tmp)
    with pl.at(level=pl.Level.CORE_GROUP, no_dep_args=[tmp], deps=[made]):
        out[:, :] = tmp[:, :]
    return out


def test_arguments_order_tasks_unless_the_program_takes_them_out() -> None:
    assert findings(automatic, X, out()) == []
    assert findings(no_dep_with_id, X, out()) == []
    for kernel in (without_dep, manual_dep, no_dep_args):
        (race,) = findings(kernel, X, out())
        assert (race.kind, race.memory.tensor) == ("race", "tmp")


@pl.jit
def host_waits(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    with pl.manual_scope():
        tmp, _ = pl.submit(copy, x, tmp)
        if pl.read(tmp, [63, 63]) > 0.0:
            out, _ = pl.submit(copy, tmp, out)
    return out


def test_a_read_of_the_orchestration_waits_for_the_task_that_writes() -> None:
    assert findings(host_waits, X, out()) == []


@pl.jit
def ids_in_loops(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([4, 64, 64], pl.FP32, init_value=0)
    ids = pl.array.create(4, pl.TASK_ID)
    with pl.manual_scope():
        for i in pl.range(4):
            last = None
            for _j in pl.range(3):
                with pl.at(level=pl.Level.CORE_GROUP, deps=[last]) as tid:
                    tmp[i] = pl.add(tmp[i], x[:, :])
                last = tid
            ids[i] = last
        done = pl.system.task_dummy(deps=[ids])
        with pl.at(level=pl.Level.CORE_GROUP, deps=[done]):
            out[:, :] = pl.add(pl.add(tmp[0], tmp[1]), pl.add(tmp[2], tmp[3]))
    return out


@pl.jit
def one_id_forgotten(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([4, 64, 64], pl.FP32)
    ids = pl.array.create(4, pl.TASK_ID)
    with pl.manual_scope():
        for i in pl.range(4):
            with pl.at(level=pl.Level.CORE_GROUP) as tid:
                tmp[i] = x[:, :]
            ids[i] = tid
        done = pl.system.task_dummy(deps=[ids[0], ids[1], ids[3]])
        with pl.at(level=pl.Level.CORE_GROUP, deps=[done]):
            out[:, :] = pl.add(pl.add(tmp[0], tmp[1]), pl.add(tmp[2], tmp[3]))
    return out


def test_task_ids_keep_their_values_in_names_arrays_and_loops() -> None:
    assert findings(ids_in_loops, X, out()) == []
    (race,) = findings(one_id_forgotten, X, out())
    assert (race.memory.offsets, race.memory.extents) == ((2, 0, 0), (1, 64, 64))


@pl.jit
def blocks_apart(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(4):
        out = pl.store(pl.load(x, [i * 16, 0], [16, 64]), [i * 16, 0], out)
    return out


@pl.jit
def blocks_meet(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    for i in pl.spmd(4):
        out = pl.store(pl.load(x, [i * 16, 0], [16, 64]), [pl.min(i * 16, 40), 0], out)
    return out


@pl.jit
def blocks_add(x: pl.Tensor[[64, 64], pl.FP32], out: pl.InOut[pl.Tensor[[16, 64], pl.FP32]]):
    for i in pl.spmd(4):
        out = pl.store(pl.load(x, [i * 16, 0], [16, 64]), [0, 0], out, atomic=pl.AtomicType.Add)
    return out


@pl.jit
def neighbours_after_a_barrier(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    for i in pl.spmd(4):
        tmp = pl.store(pl.load(x, [i * 16, 0], [16, 64]), [i * 16, 0], tmp)
        pl.system.syncall()
        out = pl.store(pl.load(tmp, [(3 - i) * 16, 0], [16, 64]), [i * 16, 0], out)
    return out


@pl.jit
def neighbours_without_one(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32, init_value=0)
    for i in pl.spmd(4):
        tmp = pl.store(pl.load(x, [i * 16, 0], [16, 64]), [i * 16, 0], tmp)
        out = pl.store(pl.load(tmp, [(3 - i) * 16, 0], [16, 64]), [i * 16, 0], out)
    return out


def test_only_barriers_order_the_blocks_of_a_task() -> None:
    for kernel, target in ((blocks_apart, out()), (blocks_add, out(16, 64)), (neighbours_after_a_barrier, out())):
        assert findings(kernel, X, target) == []
    (race,) = findings(blocks_meet, X, out())
    assert race.memory.offsets == (40, 0)
    assert race.memory.extents == (8, 64)
    assert [access.block for access in race.accesses] == [2, 3]
    (race,) = findings(neighbours_without_one, X, out())
    assert {access.action for access in race.accesses} == {"read", "write"}


def test_the_order_of_the_program_does_not_hide_a_race_that_its_results_do_not_show() -> None:
    target = out()
    with ChipWorker(config=RunConfig(sanitize="uninit,bounds")):
        not_ordered(X, target)
    assert torch.equal(target, X)


def test_the_error_has_its_code_and_every_finding_in_its_text() -> None:
    with ChipWorker(config=RunConfig(sanitize=ALL)), pytest.raises(SanitizerError, match="found 1 fault\n") as error:
        not_ordered(X, out())
    assert isinstance(error.value, RuntimeError)
    assert error.value.code == "sanitizer_findings"
    (race,) = error.value.findings
    assert f"race: {race.message}\n    at tmp[0:64, 0:64] of FP32 [64, 64]\n" in str(error.value)
    first, second = race.accesses
    assert f"{__file__}:{first.line}: copy writes tmp[0:64, 0:64]" in str(error.value)
    assert f"{__file__}:{second.line}: copy reads tmp[0:64, 0:64]" in str(error.value)


# Memory that nothing wrote.


@pl.jit
def half_written(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp[0:63, :] = x[0:63, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = tmp[:, :]  # reads
    return out


@pl.jit
def written_in_two(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    tmp = pl.create_tensor([64, 64], pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP):
        tmp[0:63, :] = x[0:63, :]
        tmp[63:64, :] = x[63:64, :]
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = tmp[:, :]
    return out


@pl.jit
def reads_its_output(x: pl.Tensor[[64, 64], pl.FP32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.add(x[:, :], out[:, :])
    return out


def test_the_first_element_that_nothing_wrote_is_reported_with_the_line_that_reads_it() -> None:
    assert findings(written_in_two, X, out()) == []
    (hole,) = findings(half_written, X, out())
    assert (hole.kind, hole.memory.tensor, hole.memory.offsets) == ("uninit", "tmp", (63, 0))
    assert hole.accesses[0].line == line_of(half_written, "# reads")
    (hole,) = findings(reads_its_output, X, out())
    assert (hole.memory.tensor, hole.memory.offsets) == ("out", (0, 0))


def test_memory_of_a_worker_remembers_what_launches_and_uploads_wrote() -> None:
    with ChipWorker(config=RunConfig(sanitize="uninit")) as w:
        fresh, target = w.alloc_tensor((64, 64), torch.float32), w.alloc_tensor((64, 64), torch.float32)
        assert [found.kind for found in findings(automatic, fresh, target, worker=w)] == ["uninit"]
        assert findings(automatic, w.alloc_tensor((64, 64), torch.float32, init=X), fresh, worker=w) == []
        assert findings(automatic, fresh, target, worker=w) == []
        w.free_tensor(fresh)
        again = w.alloc_tensor((64, 64), torch.float32)
        assert [found.kind for found in findings(automatic, again, target, worker=w)] == ["uninit"]


def test_zeros_were_written_and_empty_was_not() -> None:
    with ChipWorker(config=RunConfig(sanitize="uninit")) as w:
        target = w.zeros((64, 64), torch.float32)
        w.free_tensor(w.from_host(X))
        zeros = w.zeros((64, 64), torch.float32)
        assert findings(automatic, zeros, target, worker=w) == []
        w.free_tensor(zeros)
        empty = w.empty((64, 64), torch.float32)
        assert [found.kind for found in findings(automatic, empty, target, worker=w)] == ["uninit"]


# Bounds.


@pl.jit
def row_of_table(
    x: pl.Tensor[[64, 64], pl.FP32], table: pl.Tensor[[4], pl.INT32], out: pl.Out[pl.Tensor[[4, 64], pl.FP32]]
):
    for i in pl.range(4):
        with pl.at(level=pl.Level.CORE_GROUP):
            at = pl.read(table, [i])
            out[i : i + 1, :] = pl.slice(x, [1, 64], [at, 0])  # looks up
    return out


def test_a_page_beyond_the_tensor_is_reported_with_its_box_and_the_others_are_done() -> None:
    assert findings(row_of_table, X, torch.tensor([1, 0, 63, 5], dtype=torch.int32), out(4, 64)) == []
    (beyond,) = findings(row_of_table, X, torch.tensor([1, 64, 2, 5], dtype=torch.int32), out(4, 64), sanitize="bounds")
    assert (beyond.kind, beyond.memory.tensor, beyond.memory.shape) == ("bounds", "x", (64, 64))
    assert (beyond.memory.offsets, beyond.memory.extents) == ((64, 0), (1, 64))
    assert beyond.accesses[0].line == line_of(row_of_table, "# looks up")


@pl.jit
def counted(flags: pl.Tensor, n: pl.Scalar[pl.INDEX], x: pl.InOut[pl.Tensor]):
    k = 0
    while k < n and flags[k] == 1:
        k = k + 1
    with pl.at(level=pl.Level.CORE_GROUP):
        x[0:1, :] = pl.add(x[0:1, :], pl.cast(k, pl.FP32))
    return x


def test_an_element_that_and_reads_beyond_the_end_is_found_with_what_to_do() -> None:
    """Both sides of `and` are evaluated, on the real chip too: the result is right here, and luck there."""
    (beyond,) = findings(counted, torch.ones(4, dtype=torch.int32), 4, out(4, 64), sanitize="bounds")
    assert (beyond.memory.tensor, beyond.memory.offsets) == ("flags", (4,))
    assert beyond.message.endswith(
        "put it into an `if` that leaves such indices out (`and` and `or` evaluate both sides)"
    )
    assert not findings(counted, torch.tensor([1, 1, 0, 1], dtype=torch.int32), 4, out(4, 64), sanitize="bounds")


@pl.jit
def gathers(
    x: pl.Tensor[[16, 64], pl.FP32], index: pl.Tensor[[16, 8], pl.INT32], out: pl.Out[pl.Tensor[[16, 8], pl.FP32]]
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:, :] = pl.gather(x[:, :], dim=-1, index=index[:, :])
    return out


def test_an_index_that_counts_nothing_is_reported() -> None:
    index = torch.arange(128, dtype=torch.int32).reshape(16, 8) % 64
    assert findings(gathers, X[:16].contiguous(), index, out(16, 8)) == []
    index[3, 4] = 64
    (bad,) = findings(gathers, X[:16].contiguous(), index, out(16, 8))
    assert bad.kind == "bounds"
    assert "an index of 64" in bad.message
    assert "from 0 to 63" in bad.message


@pl.jit
def reads_elements(x: pl.Tensor[[64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[1], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [0], pl.read(x, [pl.read(n, [0])]))
    return out


def test_an_element_beyond_the_tensor_is_reported_though_it_reads_as_zero() -> None:
    x = torch.ones(64)
    assert findings(reads_elements, x, torch.tensor([63], dtype=torch.int32), out(1)) == []
    (beyond,) = findings(reads_elements, x, torch.tensor([64], dtype=torch.int32), out(1))
    assert (beyond.memory.tensor, beyond.memory.offsets) == ("x", (64,))


@pl.jit
def widened(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64], valid_shape=[8, 64])
        out = pl.store(pl.set_validshape(t, 16, 64), [0, 0], out)  # stores
    return out


@pl.jit
def padded(x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 64], valid_shape=[8, 64])
        out = pl.store(pl.fillpad(t), [0, 0], out)
    return out


def test_what_lies_outside_the_valid_region_of_a_tile_is_not_to_be_stored() -> None:
    x = X[:16].contiguous()
    assert findings(padded, x, out(16, 64)) == []
    (stale,) = findings(widened, x, out(16, 64))
    assert stale.kind == "bounds"
    assert "only 8 x 64 of them are valid" in stale.message
    assert stale.accesses[0].line == line_of(widened, "# stores")


# The switch.


def test_findings_are_bounded_and_counted() -> None:
    lines = "\n".join(
        f"            a{i} = pl.load(x, [i0 + {i}, 0], [64, 64])\n            out = pl.store(a{i}, [0, 0], out)"
        for i in range(1, 31)
    )
    kernel = source(
        f"""
@pl.jit
def many(x: pl.Tensor[[64, 64], pl.FP32], n: pl.Tensor[[1], pl.INT32], out: pl.Out[pl.Tensor[[64, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        i0 = pl.read(n, [0])
        if i0 >= 0:
{lines}
    return out
""",
        "many",
    )
    with (
        ChipWorker(config=RunConfig(sanitize="bounds")),
        pytest.raises(SanitizerError, match=r"\nand 10 more") as error,
    ):
        kernel(X, torch.zeros(1, dtype=torch.int32), out())
    assert len(error.value.findings) == 20


def source(text: str, name: str) -> Callable[..., Any]:
    """A kernel from text."""
    import linecache

    file = f"<sanitized {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"pl": pl}
    exec(compile(text, file, "exec"), scope)
    return scope[name]  # type: ignore[no-any-return]


def test_a_launch_with_findings_leaves_the_worker_and_its_memory_as_they_were() -> None:
    with ChipWorker(config=RunConfig(sanitize=ALL)) as w:
        x, target = w.alloc_tensor((64, 64), torch.float32, init=X), w.alloc_tensor((64, 64), torch.float32)
        assert len(findings(not_ordered, x, target, worker=w)) == 1
        assert findings(ordered_by_id, x, target, worker=w) == []
        before = str(w.memory_report())
        for _ in range(3):
            assert len(findings(not_ordered, x, target, worker=w)) == 1
            assert findings(ordered_by_id, x, target, worker=w) == []
        assert str(w.memory_report()) == before
        result = out()
        w.copy_from(result.data_ptr(), target.data_ptr, target.nbytes)
        assert torch.equal(result, X)


@pytest.mark.parametrize(
    ("value", "parsed"),
    [("race", ("race",)), ("uninit, race", ("race", "uninit")), (["bounds"], ("bounds",)), ((), ()), (None, None)],
)
def test_sanitizers_are_named_by_text_or_by_an_iterable(value: Any, parsed: Any) -> None:
    assert RunConfig(sanitize=value).sanitize == parsed


def test_a_wrong_name_is_refused_with_those_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"sanitize must be 'race', 'uninit', 'bounds', several .*; 'races' is none"):
        RunConfig(sanitize="races")
    with pytest.raises(TypeError, match=r"sanitize must be .*, or None, got 3"):
        RunConfig(sanitize=3)  # type: ignore[arg-type]
    monkeypatch.setenv("PYPTO_SANITIZE", "undefined")
    with pytest.raises(ValueError, match=r"PYPTO_SANITIZE must be .*; 'undefined' is none"):
        ChipWorker(config=RunConfig())


def test_the_environment_switches_where_the_config_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_SANITIZE", "race")
    with ChipWorker(config=RunConfig()) as w:
        assert [found.kind for found in findings(not_ordered, X, out(), worker=w)] == ["race"]
    with ChipWorker(config=RunConfig(sanitize=())) as w:
        assert findings(not_ordered, X, out(), worker=w) == []
