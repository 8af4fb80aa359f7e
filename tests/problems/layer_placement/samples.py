"""Layer placements for the contract suite."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from contracts.samples import Family, Samples
from partita.problems.kind import SearchOptions
from partita.problems.layer_placement.evaluate import evaluate
from partita.problems.layer_placement.generators import random_layer_placement
from partita.problems.layer_placement.problem import (
    LayerMachine,
    LayerPlacement,
    LayerPlacementProblem,
    PublishedFlow,
    TokenLink,
)
from partita.problems.layer_placement.samples import OVERLAP, SERVED, THREE
from problems.layer_placement.random_problems import random_problem, random_served
from second_opinions.layer_flows import best_flow, judge
from second_opinions.layer_runs import best_served, served_by

__all__ = ["SAMPLES"]


def optimum(problem: LayerPlacementProblem, options: SearchOptions) -> float | None:
    """By trying everything."""
    if problem.worth == "served":
        served = best_served(problem)
        return 1.0 / served if served > 0 else None
    flow = best_flow(problem)
    return 1.0 / flow if flow > 0 else None


def check(problem: LayerPlacementProblem, plan: LayerPlacement, options: SearchOptions) -> None:
    """The evaluator agrees with an independent one."""
    found = evaluate(problem, plan)
    if problem.worth == "served":
        held = {one.name: one.layers for one in plan.machines}
        assert 1 / found.objective == pytest.approx(served_by(problem, held), rel=1e-9)
        return
    if len(problem.machines) > 6:
        # There are too many cuts.
        return
    value, feasible = judge(problem, plan)
    assert found.objective == pytest.approx(value, rel=1e-12)
    assert found.feasible == feasible


def _family(name: str, typical: LayerPlacementProblem) -> Family:
    problems = st.integers(0, 10**6).map(lambda seed: random_problem(seed, 3, overlap=typical.overlap))
    return Family(name, problems, typical)


#: One machine that holds both layers.
ALONE = LayerPlacementProblem(
    name="alone",
    layers=2,
    machines=(LayerMachine(name="m", tokens_per_s={1: 9.0, 2: 4.0}),),
    links=(
        TokenLink(source="source", target="m", tokens_per_s=8.0),
        TokenLink(source="m", target="sink", tokens_per_s=8.0),
    ),
)

SAMPLES = Samples(
    families=(
        _family("intervals that follow each other", THREE),
        _family("overlap", OVERLAP),
        Family("tokens served", st.integers(0, 10**6).map(lambda seed: random_served(seed, 2)), SERVED),
    ),
    optimum=optimum,
    check=check,
    infeasible=(THREE.replace(layers=9), ALONE.replace(links=ALONE.links[:1])),
    floors=(
        (ALONE, 0.25),
        (ALONE.replace(layers=1), 0.125),
        (ALONE.replace(worth="served", output_tokens=3, layer_requests=2, run_requests=4), 0.25),
    ),
    large=(
        random_layer_placement(0, machines=16, regions=2),
        random_layer_placement(1, machines=8, layers=24, kinds=2, regions=2),
        random_layer_placement(0, machines=16, regions=2).replace(
            worth="served",
            output_tokens=50,
            layer_requests=20,
            run_requests=100,
            published=PublishedFlow(objective=100.0),
        ),
    ),
)
