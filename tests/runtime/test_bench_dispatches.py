"""`BenchmarkStats` of rounds in which several processes launch: what it says of each, and of all."""

import dataclasses

import pytest

from pypto.runtime import BenchmarkStats, TraceInvocation, TraceSpan

WALL = "chip.run.runner_run.device_wall"


def launch(pid: int, inv: int, begin: int, host: int, device: int, hid: str = "ab", task: str = "") -> TraceInvocation:
    """Times in us. The device works through orchestration, and half as long again through tasks."""
    spans = [
        TraceSpan(pid, pid, inv, hid, 3, f"{WALL}.orch", 0, 1000 * device // 2, "clk=dev"),
        TraceSpan(pid, pid, inv, hid, 2, WALL, 0, 1000 * device, "clk=dev"),
        TraceSpan(pid, pid, inv, hid, 0, "chip.run", 1000 * begin, 1000 * host),
    ]
    return TraceInvocation(pid, inv, hid, spans, task)


ROUNDS = [
    {7: [launch(7, 0, 0, 10, 4, task="f"), launch(7, 1, 20, 10, 6, "cd", "g")], 3: [launch(3, 0, 5, 40, 8, task="f")]},
    {
        7: [launch(7, 2, 100, 10, 2, task="f"), launch(7, 3, 120, 30, 2, "cd", "g")],
        3: [launch(3, 1, 90, 20, 6, task="f")],
    },
]
FLAT = [one for ranks in ROUNDS for launches in ranks.values() for one in launches]
STATS = BenchmarkStats([10.0, 6.0], [40.0, 40.0], rounds=2, warmup=1, invocations=FLAT, rounds_dispatches=ROUNDS)


def test_launches_are_grouped_by_process_and_slot_in_order() -> None:
    groups = STATS.dispatch_groups()
    assert list(groups) == [(3, 0), (7, 0), (7, 1)]
    assert [one.inv for one in groups[7, 1]] == [1, 3]
    assert STATS.dispatch_tasks() == {(3, 0): "f", (7, 0): "f", (7, 1): "g"}


@pytest.mark.parametrize(("metric", "dispatches", "ranks"), [
    ("device", {(3, 0): [8, 6], (7, 0): [4, 2], (7, 1): [6, 2]}, {3: [8, 6], 7: [10, 4]}),
    ("host", {(3, 0): [40, 20], (7, 0): [10, 10], (7, 1): [10, 30]}, {3: [40, 20], 7: [20, 40]}),
    ("effective", {(3, 0): [4, 3], (7, 0): [2, 1], (7, 1): [3, 1]}, {3: [4, 3], 7: [5, 2]}),
])  # fmt: skip
def test_a_metric_is_told_of_each_launch_and_summed_for_each_process(
    metric: str, dispatches: dict[tuple[int, int], list[float]], ranks: dict[int, list[float]]
) -> None:
    assert STATS.per_dispatch(metric) == dispatches
    assert STATS.per_rank(metric) == ranks


def test_the_slowest_process_and_the_union_are_values_of_a_round() -> None:
    assert STATS.per_round("effective") == [5, 3]
    assert STATS.per_round("union") == [45, 60], "from the first begin to the last end on any host"
    assert STATS.per_round("device") == [10, 6]
    blind = dataclasses.replace(STATS, rounds_dispatches=[{7: [TraceInvocation(7, 0, "ab")]}])
    assert blind.per_round("union") == [0.0]


def test_rounds_that_cannot_be_told_apart_say_nothing_of_processes() -> None:
    flat = dataclasses.replace(STATS, fallback_flattened=True)
    assert flat.dispatch_groups() == flat.dispatch_tasks() == flat.per_dispatch() == flat.per_rank() == {}
    assert flat.per_round("union") == []
    assert len(flat.per_round("effective")) == len(FLAT)
    assert "[L3: rounds cannot be told apart, launches of all ranks together]" in str(flat)
    assert flat.format_mean_tree().startswith("mean of 6 launches (warmup 1 excluded)")


def test_slots_that_change_keep_the_sums_of_processes() -> None:
    unstable = dataclasses.replace(STATS, unstable_dispatch_slots=True)
    assert unstable.dispatch_groups() == unstable.dispatch_tasks() == unstable.per_dispatch() == {}
    assert unstable.per_rank() == STATS.per_rank()
    assert unstable.mean_invocation() is None
    assert unstable.format_mean_tree() == "no mean: slots do not launch the same program in each round"


def test_the_mean_is_that_of_one_launch_of_a_round() -> None:
    mean = STATS.mean_invocation(pid=7, slot=1)
    assert mean is not None
    assert (mean.pid, mean.inv, mean.task_name, mean.device_wall_us, mean.host_wall_us) == (7, -1, "g", 4, 20)
    alone = STATS.mean_invocation(pid=3)
    assert alone is not None
    assert alone.device_wall_us == 7
    assert STATS.mean_invocation(pid=9) is None
    for selector in ({}, {"pid": 7}, {"slot": 0}):
        with pytest.raises(
            ValueError, match=r"\d launches of a round match .*choose one with pid= and slot="
        ) as raised:
            STATS.mean_invocation(**selector)
        assert raised.value.code == "several_dispatches"


def test_each_launch_of_a_round_has_a_mean_tree() -> None:
    trees = STATS.format_mean_tree(spread="both").split("\n\n")
    assert [tree.splitlines()[0] for tree in trees] == [
        f"dispatch pid={pid} slot={slot} task={task} - mean of 2 launches (warmup 1 excluded); "
        f"each node: mean ±stdev [min..max]:"
        for pid, slot, task in ((3, 0, "f"), (7, 0, "f"), (7, 1, "g"))
    ]
    assert "[10.0us..30.0us]" in trees[2]
    assert STATS.format_mean_tree(pid=7, slot=1, spread="both") == trees[2]
    assert STATS.format_mean_tree(pid=9) == "no launch matches pid=9 slot=None"


def test_a_tree_says_round_and_slot_and_the_program_where_it_is_known() -> None:
    assert STATS.format_tree(4).splitlines()[0] == "launch[4] (pid=7 inv=3 hid=cd round=1 slot=1 task=g):"
    one = BenchmarkStats([1.0], [1.0], invocations=[launch(1, 5, 0, 2, 1)])
    assert one.format_tree().splitlines()[0] == "launch[0] (pid=1 inv=5 hid=ab):"


def test_the_line_has_the_ranks_and_a_second_one_their_launches() -> None:
    first, second = str(STATS).splitlines()
    assert " [L3: 2 ranks, per-round max across ranks; host-union mean=52.5us]; host_wall_us " in first
    assert second == (
        "  per-dispatch device mean us: (pid=3,slot=0,task=f)=7.0 (pid=7,slot=0,task=f)=3.0 (pid=7,slot=1,task=g)=4.0"
    )
    single = dataclasses.replace(STATS, rounds_dispatches=[{3: [FLAT[2]], 7: [FLAT[0]]}])
    assert "2 ranks" in str(single)
    assert len(str(single).splitlines()) == 1, "one launch of each process is told by the first line"
    many = dataclasses.replace(STATS, rounds_dispatches=[{7: [launch(7, i, i, 1, 1) for i in range(11)]}])
    assert str(many).endswith(" ... +3 more")


def test_rounds_survive_their_json() -> None:
    assert BenchmarkStats.from_json(STATS.to_json()) == STATS
    old = STATS.to_dict()
    del old["rounds_dispatches"]
    assert BenchmarkStats.from_dict(old).rounds_dispatches == []
