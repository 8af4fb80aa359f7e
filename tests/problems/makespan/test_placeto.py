"""The learned baseline learns, repeats itself, and keeps what placements must keep."""

from __future__ import annotations

import importlib.util
import itertools
import random
from typing import Any

import numpy as np
import pytest

import partita as pt
from partita.engines.kernels.arrays import Ints
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.baselines.placeto.solver import Placeto
from partita.problems.makespan.baselines.placeto.world import World
from partita.problems.makespan.coarse import coarse, packed
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem
from partita.problems.makespan.schedules import list_schedule
from problems.makespan.samples import fork_joins

#: Branches between a fork and a join.
_BRANCHES = 8


def fork_join(memory: float | None = None) -> MakespanProblem:
    """Branches that are fast on one of two devices each; transfers take a little."""
    link = ((0.0, 0.25), (0.25, 0.0))
    last = _BRANCHES + 1
    inner = [MakespanOperator(id=v, times=(1.0, 4.0) if v % 2 else (4.0, 1.0), memory=1.0) for v in range(1, last)]
    ends = [MakespanOperator(id=v, times=(0.5, 0.5), memory=1.0) for v in (0, last)]
    pairs = [(0, v) for v in range(1, last)] + [(v, last) for v in range(1, last)]
    return MakespanProblem(
        name="fork and join",
        devices=(Device(name="a", memory=memory), Device(name="b", memory=memory)),
        operators=(ends[0], *inner, ends[1]),
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=link) for f, (u, v) in enumerate(pairs)),
    )


def world_of(problem: MakespanProblem, most: int = 32) -> tuple[World, Ints]:
    instance = build_instance(problem)
    groups = coarse(instance, most)
    first = packed(groups, instance.arrays.limit)
    assert first is not None
    return World(instance, groups), first


def test_it_reaches_the_best_placement_and_its_policy_learns() -> None:
    """The best of all 1,024 placements is found; what the policy ends with is far better than chance."""
    from partita.problems.makespan.baselines.placeto.training import train

    problem = fork_join()
    world, _ = world_of(problem)
    every = [
        world.meet(np.array(device, dtype=np.int32), Monitor())
        for device in itertools.product(range(2), repeat=len(problem.operators))
    ]
    outcome = Placeto().solve(problem, MakespanOptions(), Monitor())
    assert outcome.plan is not None
    assert evaluate(problem, outcome.plan).objective == min(every)
    # From a bad start, where only learning helps.
    world, first = world_of(problem)
    means = train(world, 1 - first, episodes=240, seed=1, monitor=Monitor())
    chance = float(np.mean(every))
    assert means[0] > 0.8 * chance
    assert np.mean(means[-5:]) < 0.6 * chance


def test_same_seed_same_run() -> None:
    """Placements and all that led there; another seed is another run."""
    from partita.problems.makespan.baselines.placeto.training import train

    runs = []
    for seed in (3, 3, 4):
        world, first = world_of(fork_joins(2, blocks=3))
        runs.append((train(world, first, episodes=24, seed=seed, monitor=Monitor()), world.best.tolist()))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_more_episodes_are_a_longer_run() -> None:
    """The setting says how long it trains, in whole updates."""
    for episodes, updates in ((1, 1), (16, 2), (17, 3)):
        monitor = Monitor()
        Placeto().solve(fork_joins(1, blocks=2), MakespanOptions(episodes=episodes), monitor)
        assert monitor.statistics.counters["updates"] == updates


def tight(blocks: int = 3) -> MakespanProblem:
    """Room for little more than an even share, classes, and operators that do not run everywhere."""
    rng = random.Random(5)
    problem = fork_joins(4, blocks=blocks)
    operators = []
    for op in problem.operators:
        times: list[float | None] = list(op.times)
        times[rng.randrange(4)] = None
        operators.append(
            MakespanOperator(id=op.id, times=tuple(times), memory=1.0, colocation=op.id // 3 if op.id < 6 else None)
        )
    room = len(operators) / 4 + 2
    devices = tuple(Device(name=d.name, memory=room) for d in problem.devices)
    return problem.replace(operators=tuple(operators), devices=devices)


def test_only_placements_that_fit_are_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators run where they can at any time; what is too full on the way is worth less and never kept."""
    problem = tight()
    met: list[tuple[Ints, float, float]] = []
    plain = World.meet

    def watched(world: World, device: Ints, monitor: Monitor) -> float:
        value = plain(world, device, monitor)
        met.append((device[world.groups.group], value, world.value))
        return value

    monkeypatch.setattr(World, "meet", watched)
    outcome = Placeto().solve(problem, MakespanOptions(episodes=40), Monitor())
    assert outcome.plan is not None
    found = evaluate(problem, outcome.plan)
    assert found.feasible
    instance = build_instance(problem)
    order = instance.by_rank.tolist()
    room = problem.devices[0].memory
    assert room is not None
    fitting, full = [], 0
    for device, value, best in met:
        assert all(op.times[d] is not None for op, d in zip(problem.operators, device, strict=True))
        plan = list_schedule(instance, device.tolist(), order)
        if np.bincount(device, minlength=4).max() <= room:
            fitting.append(value)
            assert value == pytest.approx(evaluate(problem, plan).objective, rel=1e-12)
        else:
            full += 1
            assert value > evaluate(problem, plan).objective
        assert best == min(fitting)
    assert full > 20
    assert len(fitting) > 20
    assert found.objective == pytest.approx(min(fitting), rel=1e-12)


def test_devices_without_room_are_masked() -> None:
    """Room beside what had its turn; if there is none, everything that can run it."""
    problem = MakespanProblem(
        name="row",
        devices=(Device(name="a", memory=2.0), Device(name="b", memory=1.0), Device(name="c", memory=9.0)),
        operators=tuple(MakespanOperator(id=v, times=(1.0, 1.0, None), memory=1.0) for v in range(4)),
    )
    world = World(build_instance(problem), coarse(build_instance(problem), 32))
    both = np.array([[0, 0, 1, 1], [0, 1, 0, 0]], dtype=np.int32)
    assert world.allowed(both, 1).tolist() == [[True, True, False]] * 2
    assert world.allowed(both, 2).tolist() == [[False, True, False], [True, False, False]]
    assert world.allowed(both, 3).tolist() == [[True, True, False]] * 2


def test_no_room_is_said() -> None:
    """No room for all: no plan, and a sentence."""
    outcome = Placeto().solve(fork_join(memory=4.0), MakespanOptions(), Monitor())
    assert outcome.plan is None
    assert "fits nowhere" in outcome.reason


def test_full_devices_are_packed() -> None:
    """Exactly as much room as there is need; by time alone the last operator would find none."""
    sizes = (4.0, 3.0, 3.0, 2.0, 2.0)
    problem = MakespanProblem(
        name="full",
        devices=(Device(name="a", memory=8.0), Device(name="b", memory=6.0)),
        operators=tuple(MakespanOperator(id=v, times=(1.0, 2.0), memory=size) for v, size in enumerate(sizes)),
    )
    outcome = Placeto().solve(problem, MakespanOptions(episodes=8), Monitor())
    assert outcome.plan is not None
    assert evaluate(problem, outcome.plan).feasible


def test_groups_are_finer_where_coarse_ones_do_not_fit() -> None:
    """One operator for each of more devices than there are groups at first."""
    count = 35
    problem = MakespanProblem(
        name="one each",
        devices=tuple(Device(name=f"d{d}", memory=1.0) for d in range(count)),
        operators=tuple(MakespanOperator(id=v, times=(1.0,) * count, memory=1.0) for v in range(count)),
    )
    monitor = Monitor()
    outcome = Placeto().solve(problem, MakespanOptions(episodes=8), monitor)
    assert outcome.plan is not None
    assert evaluate(problem, outcome.plan).feasible
    assert monitor.statistics.counters["groups"] == count


def test_many_operators_become_few_groups() -> None:
    """Classes stay whole, groups run where all their operators do, and none is much larger than the others."""
    problem = fork_joins(6, blocks=20)
    operators = tuple(
        MakespanOperator(
            id=op.id,
            times=(*op.times[:2], *((None, None) if op.id % 5 == 0 else op.times[2:])),
            memory=1.0,
            colocation=op.id // 2 if op.id % 5 > 2 else None,
        )
        for op in problem.operators
    )
    instance = build_instance(problem.replace(operators=operators))
    groups = coarse(instance, 12)
    assert groups.count <= 12
    assert sorted(set(groups.group.tolist())) == list(range(groups.count))
    for members in instance.problem.classes():
        assert len({int(groups.group[v]) for v in members}) == 1
    for g in range(groups.count):
        places = {tuple(np.isfinite(instance.arrays.time[v])) for v in np.flatnonzero(groups.group == g)}
        assert len(places) == 1
    assert groups.memory.sum() == len(operators)
    assert groups.memory.max() <= 6 * len(operators) / 12
    alone = coarse(instance, len(operators))
    assert alone.count == len(instance.problem.classes())


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row without a plan, with the remedy."""
    find = importlib.util.find_spec

    def absent(name: str, *rest: Any) -> Any:
        return None if name == "torch" else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", absent)
    row = next(row for row in pt.compare(fork_join()) if row.name == "Placeto")
    assert row.evaluation is None
    assert "pip install 'partita[torch]'" in row.note


def test_what_it_reports_is_what_it_is_worth() -> None:
    """The last event is the answer's objective, as the evaluator sees it."""
    problem = fork_joins(3)
    monitor = Monitor()
    outcome = Placeto().solve(problem, MakespanOptions(episodes=40), monitor)
    assert outcome.plan is not None
    assert monitor.objective == pytest.approx(evaluate(problem, outcome.plan).objective, rel=1e-12)
