"""Large problems begin with schedules of groups."""

from __future__ import annotations

import numpy as np
import pytest

from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.coarse import coarse, coarse_search
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem


def braids(rows: int, length: int, *, memory: float | None) -> MakespanProblem:
    """Chains of operators that talk to the next row at every step; a row takes a share of one device's memory.

    Leaving a device takes as long as ten operators.
    """
    link = tuple(tuple(0.0 if a == b else 10.0 for b in range(rows)) for a in range(rows))
    operators = tuple(
        MakespanOperator(id=r * length + k, times=(1.0,) * rows, memory=1.0) for r in range(rows) for k in range(length)
    )
    pairs = [(r * length + k, r * length + k + 1) for r in range(rows) for k in range(length - 1)]
    pairs += [(r * length + k, (r + 1) * length + k + 1) for r in range(rows - 1) for k in range(0, length - 1, 10)]
    flows = tuple(MakespanFlow(id=n, source=u, target=v, times=link) for n, (u, v) in enumerate(pairs))
    devices = tuple(Device(name=f"d{d}", memory=memory) for d in range(rows))
    return MakespanProblem(name="braids", devices=devices, operators=operators, flows=flows)


def found(problem: MakespanProblem, seed: int = 0) -> Incumbent[MakespanPlan]:
    best: Incumbent[MakespanPlan] = Incumbent()
    coarse_search(build_instance(problem), best, seed=seed)
    return best


@pytest.mark.parametrize("memory", [None, 210.0])
def test_groups_find_the_rows(memory: float | None) -> None:
    problem = braids(4, 200, memory=memory)
    best = found(problem)
    assert best.answer is not None
    worth = evaluate(problem, best.answer)
    assert worth.feasible
    assert worth.objective == best.value
    # A row alone takes 200 and everything on one device 800; rows side by side wait for each other a little.
    assert 200.0 <= best.value <= 300.0


def test_the_same_seed_gives_the_same_schedule() -> None:
    problem = braids(3, 100, memory=120.0)
    assert found(problem, 1).answer == found(problem, 1).answer


def test_it_ends_when_told_to() -> None:
    best: Incumbent[MakespanPlan] = Incumbent()
    best.stop[0] = 1
    coarse_search(build_instance(braids(3, 50, memory=None)), best, seed=0)
    assert best.counters == {}


def test_groups_hold_every_operator_once() -> None:
    instance = build_instance(braids(3, 60, memory=None))
    groups = coarse(instance, 8)
    assert groups.group.shape == (instance.count,)
    assert set(groups.group.tolist()) == set(range(groups.count))
    for g in range(groups.count):
        members = groups.group == g
        assert groups.memory[g] == instance.arrays.memory[members].sum()
        assert np.allclose(groups.time[g], instance.arrays.time[members].sum(axis=0))
