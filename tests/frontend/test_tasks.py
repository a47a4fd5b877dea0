"""Submitting kernels, task ids, arrays, predicates, and the scopes that launch."""

import numpy as np
import pytest
from checking import empty, f32, run

import pypto.language as pl
from pypto import ir


@pl.jit.incore
def scale(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.Scalar[pl.FP32]):
    out[:] = pl.mul(x, factor)
    return out


@pl.jit.incore
def rows(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    i = pl.get_block_idx()
    out = pl.store(pl.add(pl.load(x, [i, 0], [1, 8]), 1.0), [i, 0], out)
    return out


@pl.jit.incore
def squared(x: pl.Tensor):
    t = pl.load(x, [0, 0], [4, 8])
    return pl.mul(t, t)


@pl.jit
def pipeline_of_tasks(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    mid = pl.create_tensor([4, 8], pl.FP32)
    tids = pl.array.create(4, pl.TASK_ID)
    with pl.manual_scope():
        first = None
        for i in pl.unroll(4):
            with pl.at(level=pl.Level.CORE_GROUP, deps=[first], name_hint="prepare") as first:
                mid[i : i + 1, :] = pl.mul(x[i : i + 1, :], 2.0)
            tids[i] = first
        ready = pl.system.task_dummy(deps=[tids[i] for i in range(4)])
        mid, scaled = pl.submit(scale, mid, mid, 3.0, deps=[ready, tids[0]])
        out, last = pl.spmd_submit(rows, mid, out, core_num=4, deps=[scaled])
    with pl.spmd(2, deps=[last, *[t for t in tids]] + [tail for tail in (first,)]) as tail:
        i = pl.get_block_idx()
        out[i : i + 1, :] = pl.neg(out[i : i + 1, :])
    with pl.at(level=pl.Level.CORE_GROUP, deps=[tail]):
        out[3:4, :] = pl.add(out[3:4, :], 10.0)
    return out


def test_tasks_run_in_program_order_whatever_their_ids_say() -> None:
    x = f32(4, 8)
    want = x * 6 + 1
    want[:2] *= -1
    want[3] += 10
    np.testing.assert_allclose(run(pipeline_of_tasks, x, empty(4, 8))[-1], want, rtol=1e-6)


@pl.jit
def submitted_value(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    y, tid = pl.submit(squared, x)
    out, _ = pl.submit(scale, y, out, 0.5, deps=[tid])
    return out


def test_a_submitted_kernel_may_return_a_value() -> None:
    x = f32(4, 8)
    np.testing.assert_allclose(run(submitted_value, x, empty(4, 8))[-1], x * x / 2, rtol=1e-6)


@pl.jit
def predicated(flags: pl.Tensor, x: pl.Tensor, out: pl.InOut[pl.Tensor]):
    for i in pl.range(4):
        row = out[i : i + 1, :]
        row, _ = pl.submit(scale, x[i : i + 1, :], row, 2.0, predicate=flags[i] > 0)
    with pl.spmd(4, predicate=flags[1] == 7) as _tid:
        b = pl.get_block_idx()
        out[b : b + 1, :] = pl.neg(x[b : b + 1, :])
    with pl.spmd(4, predicate=flags[0] == 1) as _tid:
        rows(out, out)
    return out


@pytest.mark.parametrize("second", [0, 7])
def test_a_predicate_decides_whether_a_task_runs(second: int) -> None:
    flags, x, out = np.array([1, second, 0, 5], np.int32), f32(4, 8), f32(4, 8, seed=1)
    want = np.where((flags > 0)[:, None], x * 2, out)
    want = (-x if second == 7 else want) + 1
    np.testing.assert_allclose(run(predicated, flags, x, out)[-1], want, rtol=1e-6)


@pl.jit
def behind_a_prevented_task(flags: pl.Tensor, x: pl.InOut[pl.Tensor]):
    x, _ = pl.submit(scale, x, x, 2.0)
    x, perhaps = pl.submit(scale, x, x, 3.0, predicate=flags[0] > 0)
    x, _ = pl.submit(scale, pl.no_dep(x), pl.no_dep(x), 5.0, deps=[perhaps])
    return x


@pytest.mark.parametrize("flag", [0, 1])
def test_who_waits_for_a_prevented_task_waits_for_what_that_would_wait_for(flag: int) -> None:
    """Without it the sanitizer finds a race of the first task and the last."""
    x = f32(4, 8)
    got = run(behind_a_prevented_task, np.array([flag], np.int32), x)[-1]
    np.testing.assert_allclose(got, x * (30 if flag else 10), rtol=1e-6)


@pl.jit
def numbers(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INT32]):
    counts = pl.array.create(4, pl.INT32)
    for i in pl.range(4):
        counts[i] = n * i
    counts = pl.array.update_element(counts, 0, counts[3] + 1)
    with pl.at(level=pl.Level.CORE_GROUP):
        local = pl.array.create(2, pl.FP32)
        local[1] = 0.5
        out[:] = pl.mul(x, local[1])
        pl.write(out, [0, 0], pl.cast(pl.array.get_element(counts, 0), pl.FP32))
        pl.write(out, [0, 1], local[0])
    return out


def test_an_array_of_numbers_is_read_and_written_by_index() -> None:
    x = f32(4, 8)
    want = x / 2
    want[0, :2] = 5 * 3 + 1, 0
    np.testing.assert_array_equal(run(numbers, x, empty(4, 8), 5, runtime=True)[1], want)


@pl.jit
def no_blocks(x: pl.Tensor, out: pl.InOut[pl.Tensor], n: pl.Scalar[pl.INDEX]):
    for b in pl.spmd(n):
        out[b : b + 1, :] = pl.neg(x[b : b + 1, :])
    return out


@pytest.mark.parametrize("n", [0, 3])
def test_26_a_task_may_have_no_blocks(n: int) -> None:
    x, out = f32(4, 8), f32(4, 8, seed=1)
    want = out.copy()
    want[:n] = -x[:n]
    np.testing.assert_array_equal(run(no_blocks, x, out, n, runtime=True)[1], want)


@pl.jit.inline
def launch_rows(x: pl.Tensor, out: pl.Tensor):
    out = rows(x, out)
    return out


@pl.jit
def through_inline(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.func_attr({"mode": 1})
    with pl.cluster(name_hint="both"), pl.spmd(4):
        out = launch_rows(x, out)
    return out


def test_a_kernel_is_dispatched_through_an_inline_function() -> None:
    x = f32(4, 8)
    np.testing.assert_array_equal(run(through_inline, x, empty(4, 8))[1], x + 1)


REFUSED = {
    "pl.submit(x, out)": ("pl.submit takes a kernel first (@pl.jit.incore)", "out, tid = pl.submit(kernel, x, out)"),
    "out, t = pl.spmd_submit(rows, x, out)": ("pl.spmd_submit takes the number of blocks", "core_num=n"),
    "out, t = pl.submit(rows, x, out, deps=[1])": ("a dependency must be a task id, got an INDEX scalar", "pl.submit"),
    "t = pl.system.task_dummy(deps=[i for i in range(3)])": ("a dependency must be a task id", "pl.submit"),
    "t = pl.system.task_dummy(deps=[x for i in range(n)])": ("cannot run over `range(n)`", "constant bounds"),
    "a = pl.array.create(n, pl.TASK_ID)": ("the extent is no constant", "pl.array.create(4, pl.TASK_ID)"),
    "a = pl.array.create(4, pl.TASK_ID); a[4] = None": ("element 4 of an array of 4", "0 to 3"),
    "a = pl.array.create(4, pl.TASK_ID); a[1] = 5": ("an element of this array is a task id", "pl.submit"),
    "a = pl.array.create(4, pl.INT32); a[1] = 0.5": ("an element of this array is INT32", "pl.cast"),
    "a = [i for i in range(3)]": ("a comprehension is not part of the kernel language", "write"),
    "out, t = pl.submit(rows, x, out, predicate=n)": ("the predicate must be a truth value", "n != 0"),
    "with pl.spmd(4, deps=[]): rows(x, out)": ("pl.spmd with deps= names its task", "as tid:"),
    "for i in pl.spmd(4, deps=[]): rows(x, out)": ("a loop over pl.spmd takes no deps=", "as tid:"),
    "for i in pl.spmd(-4): rows(x, out)": ("-4 blocks", "0 blocks are no work"),
    "with pl.spmd(4): out[:] = x": ("does the same in every block", "pl.get_block_idx()"),
    "with pl.at(level=pl.Level.HOST): out[:] = x": ("pl.at at level HOST: programs over several ranks", "CORE_GROUP"),
    "with pl.at(level=3): out[:] = x": ("the level of pl.at must be a pl.Level", "CORE_GROUP"),
    "with pl.at(): out[:] = x": ("pl.at takes a level", "CORE_GROUP"),
    "n = 1; pl.func_attr({})": ("pl.func_attr stands after other statements", "first statement"),
    "pl.func_attr(1)": ("pl.func_attr takes a dict", '{"name": value}'),
    "pl.cond(n == 1)": ("pl.cond is not a value", "first statement of a pl.while_ loop"),
}


@pytest.mark.parametrize("statement", REFUSED, ids=list(REFUSED))
def test_misused_tasks_are_refused_with_advice(statement: str, tmp_path) -> None:
    message, advice = REFUSED[statement]
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pypto.language as pl\n\n@pl.jit\n"
        "def kernel(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]], n: pl.Scalar[pl.INDEX]):\n"
        f"    {statement}\n    return out\n"
    )
    scope: dict[str, object] = {"__name__": "kernel_file", "rows": rows}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(ir.KernelError) as caught:
        scope["kernel"].lower(n=pl.RUNTIME)
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert advice in diagnostic.hint
    assert diagnostic.loc.line == 5


@pl.jit
def geometry(out: pl.Out[pl.Tensor]):
    none = pl.system.task_invalid()
    cores = pl.system.available_aiv_count() + 100 * pl.system.available_cluster_count()
    with pl.at(level=pl.Level.CORE_GROUP, deps=[none, pl.system.task_dummy(deps=[none])]):
        pl.write(out, [0], pl.cast(cores, pl.INT32))
    return out


def test_the_chip_has_24_clusters_of_two_vector_cores() -> None:
    assert run(geometry, empty(1, dtype=np.int32))[0][0] == 2448


@pl.jit.inline
def stage(x: pl.Tensor, out: pl.Tensor, tids: pl.Array[2, pl.TASK_ID], before: pl.Scalar[pl.TASK_ID]):
    with pl.at(level=pl.Level.CORE_GROUP, deps=[before, tids[0]]) as tid:
        out[:] = pl.add(x, 1.0)
    tids[1] = tid
    return out


@pl.jit
def arrays_in_inline_functions(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    tids: pl.Array[2, pl.TASK_ID] = pl.array.create(2, pl.TASK_ID)
    first: pl.Scalar[pl.TASK_ID] = pl.system.task_dummy(deps=[])
    out = stage(x, out, tids, first)
    out = stage(out, out, tids, tids[1])
    return out


def test_inline_functions_take_arrays_and_task_ids() -> None:
    x = f32(4, 8)
    np.testing.assert_allclose(run(arrays_in_inline_functions, x, empty(4, 8))[1], x + 2, rtol=1e-6)


@pl.jit.incore
def counted(
    x: pl.Tensor,
    counts: pl.Array[3, pl.INT32],
    tids: pl.Array[2, pl.TASK_ID],
    before: pl.Scalar[pl.TASK_ID],
    out: pl.Out[pl.Tensor],
    row: pl.Scalar[pl.INDEX],
):
    counts[row] = counts[row] + counts[2]
    out = pl.store(pl.mul(pl.load(x, [row, 0], [1, 8]), pl.cast(counts[row], pl.FP32)), [row, 0], out)
    return out


@pl.jit
def arrays_in_kernels(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.Scalar[pl.INT32]):
    counts = pl.array.create(3, pl.INT32)
    tids = pl.array.create(2, pl.TASK_ID)
    first = pl.system.task_dummy(deps=[])
    counts[2] = n
    for row in pl.range(2):
        out = counted(x, counts, tids, first, out, row)
    out, tids[0] = pl.submit(counted, x, counts, tids, tids[1], out, 1, deps=[first])
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.write(out, [2, 0], pl.cast(counts[0] + 10 * counts[1], pl.FP32))
    return out


def test_kernels_take_arrays_and_task_ids_and_share_the_memory_of_arrays() -> None:
    x, out = f32(4, 8), empty(4, 8)
    want = out.copy()
    want[0], want[1], want[2, 0] = x[0] * 7, x[1] * 14, 7 + 140
    np.testing.assert_array_equal(run(arrays_in_kernels, x, out, 7, runtime=True)[1], want)


@pl.program
class ArraysOfMethods:
    @pl.function(type=pl.FunctionType.InCore)
    def put(self, flags: pl.Array[2, pl.INT32], tids: pl.Array[2, pl.TASK_ID], out: pl.Out[pl.Tensor[[2], pl.INT32]]):
        pl.write(out, [0], flags[1])
        return out

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, out: pl.Out[pl.Tensor[[2], pl.INT32]]):
        flags = pl.array.create(2, pl.INT32)
        flags[1] = 5
        out = self.put(flags, pl.array.create(2, pl.TASK_ID), out)
        return out


def test_methods_take_arrays() -> None:
    assert run(ArraysOfMethods, empty(2, dtype=np.int32))[0].tolist() == [5, 77]


def test_an_array_must_be_the_one_that_the_kernel_declares() -> None:
    @pl.jit.incore
    def task(x: pl.Tensor, tids: pl.Array[2, pl.TASK_ID]):
        return x

    @pl.jit
    def kernel(x: pl.Tensor):
        task(x, pl.array.create(3, pl.TASK_ID))
        task(x, pl.array.create(2, pl.INT32))
        task(x, 4)

    with pytest.raises(ir.KernelError) as caught:
        kernel.lower(f32(4, 8))
    assert [(diagnostic.message, diagnostic.hint) for diagnostic in caught.value.diagnostics] == [
        (
            "task(): 'tids' is pl.Array[2, pl.TASK_ID], got an array of 3 TASK_ID",
            "declare the parameter as pl.Array[3, pl.TASK_ID]",
        ),
        (
            "task(): 'tids' is pl.Array[2, pl.TASK_ID], got an array of 2 INT32",
            "declare the parameter as pl.Array[2, pl.INT32]",
        ),
        ("task(): 'tids' is an array, got an INDEX scalar", "make one: pl.array.create(n, dtype)"),
    ]
    with pytest.raises(TypeError, match=r"'tids' is a pl\.Array: only functions that others call take one"):
        task.lower(f32(4, 8), 3)


@pl.jit
def waits_for_each(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
    made = pl.array.create(3, pl.TASK_ID)
    with pl.at(level=pl.Level.CORE_GROUP, deps=[task for task in made]):
        out[:] = x[:]
    return out


def test_a_comprehension_over_an_array_waits_for_every_element() -> None:
    scope = waits_for_each.lower().entry.body[-1]
    assert [ids.index.value for ids in scope.order.deps] == [0, 1, 2]
    assert len({ids.var for ids in scope.order.deps}) == 1
