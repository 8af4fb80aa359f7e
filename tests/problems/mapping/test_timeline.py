"""Mapped pipelines in the simulator."""

from __future__ import annotations

import pytest

import partita as pt
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.problem import MappingProblem, MappingStage, MappingTransfer, Placement
from problems.mapping.random_problems import random_problem, uneven_problem


def placed(problem: MappingProblem) -> Placement:
    """MappingStage after stage."""
    rows, first = [], 0
    for count in problem.counts:
        rows.append(tuple(range(first, first + count)))
        first += count
    return Placement(placement=tuple(rows))


def pair(**changes: object) -> MappingProblem:
    """Two stages of two replicas with links of 1 and, between devices of different parity, 2 s/byte."""
    links = tuple(tuple(1.0 if (a - b) % 2 == 0 else 0.5 for b in range(4)) for a in range(4))
    return MappingProblem(
        name="pair", replicas=2,
        stages=(MappingStage(name="a", time_s=3.0), MappingStage(name="b", time_s=1.0, parameter_bytes=2.0)),
        transfers=(MappingTransfer(source=0, target=1, bytes=1.0),), bandwidth_bytes_per_s=links,
    ).replace(**changes)  # fmt: skip


def test_one_turn_of_every_replica() -> None:
    """Both replicas of a work for 3 + 1 s, then those of b for 1 + 1 s, then b's ring moves 2 bytes at 2 s/byte."""
    problem = pair()
    plan = Placement(placement=((0, 1), (2, 3)))
    found = pt.simulate(problem, plan)
    assert found.step_time == pytest.approx(4 + 2 + 4)
    assert found.program.microbatches == 2
    # Twice as many microbatches: halves of the work and of the bytes, so b begins after 2 s.
    assert pt.simulate(problem, plan, microbatches=4).step_time == pytest.approx(4 + 1 + 4)
    assert pt.simulate(problem.replace(form="point-to-point"), plan).step_time == pytest.approx(6)
    assert pt.simulate(problem.replace(form="all-reduce"), plan).step_time == pytest.approx(1 + 4)


@pytest.mark.parametrize("make", [random_problem, uneven_problem])
def test_a_run_takes_at_least_the_objective(make: object) -> None:
    """Every device is as busy as its replica's load says, but for rings, which wait for their slowest link."""
    assert callable(make)
    for seed in range(60):
        problem = make(seed)
        plan = placed(problem)
        worth = evaluate(problem, plan)
        step = pt.simulate(problem, plan).step_time
        assert step >= worth.objective * (1 - 1e-9)
        alone = problem.replace(form="point-to-point")
        assert pt.simulate(alone, plan).step_time >= evaluate(alone, plan).objective * (1 - 1e-9)


def test_what_a_mapping_does_not_say() -> None:
    problem, plan = pair(), Placement(placement=((0, 1), (2, 3)))
    with pytest.raises(pt.InputError, match="take a multiple of 2"):
        pt.simulate(problem, plan, microbatches=3)
    with pytest.raises(pt.InputError, match="what of a stage's time is backward"):
        pt.simulate(problem, plan, schedule="1f1b")
    circle = MappingProblem(
        name="circle", replicas=1, stages=tuple(MappingStage(name=str(s), time_s=1.0) for s in range(3)),
        transfers=tuple(MappingTransfer(source=s, target=(s + 1) % 3, bytes=1.0) for s in range(3)),
        bandwidth_bytes_per_s=((1.0,) * 3,) * 3,
    )  # fmt: skip
    with pytest.raises(pt.InputError, match="in a circle"):
        pt.simulate(circle, Placement(placement=((0,), (1,), (2,))))
