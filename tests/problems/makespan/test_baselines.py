"""Baselines do what their papers say, where these say it with numbers, and what their summaries say elsewhere."""

from __future__ import annotations

import pytest

import partita as pt
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.baselines import DEFAULT_BASELINES
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from problems.makespan.samples import fork_joins, row

#: Topcuoglu, Hariri and Wu (2002), Fig. 2: times of ten tasks on three processors, and edges with their costs.
_TIMES = (
    (14, 16, 9),
    (13, 19, 18),
    (11, 13, 19),
    (13, 8, 17),
    (12, 13, 10),
    (13, 16, 9),
    (7, 15, 11),
    (5, 11, 14),
    (18, 12, 20),
    (21, 7, 16),
)
_EDGES = {
    (1, 2): 18,
    (1, 3): 12,
    (1, 4): 9,
    (1, 5): 11,
    (1, 6): 14,
    (2, 8): 19,
    (2, 9): 16,
    (3, 7): 23,
    (4, 8): 27,
    (4, 9): 23,
    (5, 9): 13,
    (6, 8): 15,
    (7, 10): 17,
    (8, 10): 11,
    (9, 10): 13,
}
PAPER = MakespanProblem(
    name="ten tasks",
    devices=tuple(Device(name=f"P{d}") for d in (1, 2, 3)),
    operators=tuple(MakespanOperator(id=v, times=tuple(map(float, row))) for v, row in enumerate(_TIMES, start=1)),
    flows=tuple(
        MakespanFlow(
            id=f, source=u, target=v, times=tuple(tuple(float(cost * (a != b)) for b in range(3)) for a in range(3))
        )
        for f, ((u, v), cost) in enumerate(_EDGES.items())
    ),
    sender_congestion=False,
    receiver_congestion=False,
)


def plan_of(name: str, problem: MakespanProblem) -> MakespanPlan | None:
    baseline = next(entry for entry in DEFAULT_BASELINES if entry.name == name)
    return baseline.solve(problem, MakespanOptions(), Monitor()).plan


@pytest.mark.parametrize(("name", "makespan"), [("HEFT", 80.0), ("CPOP", 86.0)])
def test_the_example_of_the_paper(name: str, makespan: float) -> None:
    plan = plan_of(name, PAPER)
    assert plan is not None
    assert evaluate(PAPER, plan).objective == makespan


def test_single_device_and_fastest_devices() -> None:
    """All on the best one; each where it is fastest."""
    single = plan_of("single device", PAPER)
    assert single is not None
    assert {placed.device for placed in single.operators.values()} == {0}
    assert evaluate(PAPER, single).objective == 127.0
    fastest = plan_of("fastest devices", PAPER)
    assert fastest is not None
    assert [fastest.operators[v].device for v in range(1, 11)] == [2, 0, 0, 1, 2, 2, 0, 0, 1, 1]


def test_topological_pieces() -> None:
    """Four operators of size 1 on two devices: half each, and one more at most."""
    problem = row((1.0, 1.0, 1.0, 1.0), devices=2)
    plan = plan_of("m-TOPO", problem)
    assert plan is not None
    assert [plan.operators[v].device for v in range(4)] == [0, 0, 0, 1]


def test_favourite_children_stay() -> None:
    """The reader of the costliest transfer runs with its producer, though another device is free earlier."""
    slow = ((0.0, 9.0), (9.0, 0.0))
    problem = MakespanProblem(
        name="favourite",
        devices=(Device(name="a"), Device(name="b")),
        operators=tuple(MakespanOperator(id=v, times=(1.0, 1.0)) for v in range(4)),
        flows=(
            MakespanFlow(id=0, source=0, target=2, times=slow),
            MakespanFlow(id=1, source=1, target=3, times=slow),
        ),
    )
    plan = plan_of("m-SCT", problem)
    assert plan is not None
    assert plan.operators[0].device == plan.operators[2].device
    assert plan.operators[1].device == plan.operators[3].device
    assert evaluate(problem, plan).objective == 2.0


@pytest.mark.parametrize("name", ["m-TOPO", "m-ETF", "m-SCT", "GETF", "fastest devices"])
def test_those_that_look_at_memory_keep_it(name: str) -> None:
    """Room for a little more than an even share."""
    problem = fork_joins(4, blocks=3)
    room = len(problem.operators) / 4 + 2
    tight = problem.replace(devices=tuple(Device(name=d.name, memory=room) for d in problem.devices))
    plan = plan_of(name, tight)
    assert plan is not None
    assert evaluate(tight, plan).feasible


def test_a_better_plan_is_found() -> None:
    """The exact optimum of the paper's example is below both heuristics."""
    result = pt.solve(PAPER, solver="annealing", time_limit_s=20.0)
    assert result.objective is not None
    assert result.objective < 80.0
