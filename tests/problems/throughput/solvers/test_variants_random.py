"""The contiguous search for variants against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instances.strategies import examples, throughput_problems
from partita.engines.kernels.throughput.search_state import FOUND, REFUTED
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.bounds.capacity import CapacityBound
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.solvers.exact import Slicing
from partita.problems.throughput.solvers.race import Target
from partita.problems.throughput.solvers.remaining_capacity import lower_bounds
from partita.problems.throughput.solvers.variant import VariantSearcher, variant_view
from problems.throughput.check_exact import check_exact
from second_opinions.brute_force import best_acyclic

GPIPE = {"schedules": ("gpipe",), "training": True}

#: Name, and what the strategy is asked for.
CASES = {
    "overlap": {"variants": ("overlap",)},
    "duplex": {"variants": ("duplex",)},
    "gpipe": GPIPE,
    "gpipe-overlap-duplex": {**GPIPE, "variants": ("overlap", "duplex")},
    "replicas": {"variants": ("replicas",)},
    "replicas-overlap-duplex": {"variants": ("replicas", "overlap", "duplex")},
    "replicas-memory": {"variants": ("replicas",), "memory": True, "schedules": ("1f1b",), "training": True},
    "groups": {"variants": ("groups",)},
    "groups-overlap-duplex": {"variants": ("groups", "overlap", "duplex"), "unsupported": False},
    "streaming": {"variants": ("streaming",), "memory": True},
    "streaming-overlap-duplex": {"variants": ("streaming", "overlap", "duplex"), "memory": True},
    "all": {"variants": ("streaming", "overlap", "duplex", "replicas", "groups")},
    "gpipe-all": {**GPIPE, "variants": ("streaming", "overlap", "duplex", "replicas", "groups")},
}

every_case = pytest.mark.parametrize("case", list(CASES))


def check(problem: ThroughputProblem) -> None:
    """Same optimum, plan and proof; infeasible exactly where there is no plan."""
    best = check_exact(problem)
    if best is None:
        return
    bound = CapacityBound().bound(problem, Monitor())
    assert bound.value <= best * (1 + 1e-9)
    check_targets(problem, best)


def check_targets(problem: ThroughputProblem, best: float) -> None:
    """Without the heuristic, which hides a wrong refutation where it happens to be optimal."""
    stop = np.zeros(1, dtype=np.int64)
    groups = [0, 1] if len(problem.groups) == 2 else [0]
    for backwards in (None, True):
        views = [variant_view(problem, backwards=backwards, first=first) for first in groups]
        searchers = [[VariantSearcher(view, 2 * best + 1)] for view in views]
        low = lower_bounds(views[0])
        assert low.both <= best * (1 + 1e-9)
        target = Target(searchers, best * (1 + 1e-9), low, None, stop)
        assert target.run(1 << 60) == FOUND
        assert target.found is not None
        view, split = target.found.view, target.found.split
        evaluation = evaluate(problem, view.plan(split))
        assert evaluation.feasible, evaluation.violations
        assert evaluation.objective == pytest.approx(view.value(split)[0], rel=1e-12)
        assert evaluation.objective == pytest.approx(best, rel=1e-8, abs=1e-9)
        if best > 0:
            assert Target(searchers, best * (1 - 1e-6), low, None, stop).run(1 << 60) == REFUTED


@every_case
@settings(examples(25), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_variants_against_brute_force(case: str, data: st.DataObject) -> None:
    """A few of every kind."""
    check(data.draw(throughput_problems(**CASES[case])))


@pytest.mark.slow
@every_case
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_variants_against_brute_force_thoroughly(case: str, data: st.DataObject) -> None:
    """Many of every kind, other ones each time."""
    check(data.draw(throughput_problems(**CASES[case])))


@every_case
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_slicing_is_feasible_and_its_bound_valid(case: str, data: st.DataObject) -> None:
    """The heuristic by itself."""
    problem = data.draw(throughput_problems(**CASES[case]))
    outcome = Slicing().solve(problem, ThroughputOptions(), Monitor())
    best = best_acyclic(problem)
    if outcome.plan is not None:
        assert best is not None
        evaluation = evaluate(problem, outcome.plan)
        assert evaluation.feasible, evaluation.violations
        assert evaluation.objective >= best - 1e-9
    if best is not None:
        assert outcome.bound is not None
        assert outcome.bound <= best * (1 + 1e-9)
