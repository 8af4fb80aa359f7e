"""Whole tables against one search for every entry."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.ground.errors import UnsupportedError
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.solvers.exact import HybridExact
from partita.problems.hybrid.steady.table import best_times
from problems.hybrid.strategies import hybrid_problems


@given(hybrid_problems(max_layers=4, max_devices=5))
@settings(max_examples=60)
def test_every_entry_is_what_a_search_finds(problem: HybridProblem) -> None:
    try:
        table = best_times(problem)
    except UnsupportedError:
        assume(False)
        return
    width = min(problem.devices, problem.microbatches)
    assert table.shape == (problem.devices + 1, width + 1)
    for devices in range(1, problem.devices + 1):
        # Once per batch, N is in the formula as well, so only its own column can be searched.
        for s in [width] if problem.weight_sync_per_batch else range(1, width + 1):
            changed = problem.replace(devices=devices, microbatches=problem.microbatches if s == width else s)
            outcome = HybridExact().solve(changed, HybridOptions(), Monitor(600.0))
            if outcome.plan is None:
                assert outcome.infeasible
                assert math.isinf(table[devices, s])
            else:
                assert table[devices, s] == pytest.approx(evaluate(changed, outcome.plan).objective, rel=1e-6, abs=1e-9)


def test_machines_are_refused() -> None:
    ways = {1: (Configuration(id="c", time=1.0),)}
    problem = HybridProblem(
        name="two",
        devices=2,
        bandwidth_bytes_per_unit=1.0,
        microbatches=2,
        layers=(Layer(id=0, configurations=ways),),
        hierarchy=Hierarchy(devices_per_machine=1, machine_bandwidth_bytes_per_unit=1.0),
    )
    with pytest.raises(UnsupportedError, match="machines"):
        best_times(problem)


def test_configurations_that_differ_in_weights_are_refused() -> None:
    ways = {1: tuple(Configuration(id=str(k), time=k, weight_bytes=3 - k) for k in (1, 2))}
    problem = HybridProblem(
        name="two", devices=2, bandwidth_bytes_per_unit=1.0, microbatches=2, layers=(Layer(id=0, configurations=ways),)
    )
    with pytest.raises(UnsupportedError, match="differ"):
        best_times(problem)
