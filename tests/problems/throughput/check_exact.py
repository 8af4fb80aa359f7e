"""What the exact solver must answer, against trying everything."""

from __future__ import annotations

import pytest

from partita.engines.search.monitor import Monitor
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import ThroughputOptions
from partita.problems.throughput.solvers.exact import Exact
from second_opinions.brute_force import best_acyclic


def check_exact(problem: ThroughputProblem) -> float | None:
    """Same optimum, plan and proof, infeasible exactly where there is no plan; the optimum, None if there is none."""
    outcome = Exact().solve(problem, ThroughputOptions(), Monitor())
    best = best_acyclic(problem)
    if best is None:
        assert outcome.infeasible
        assert outcome.plan is None
        return None
    assert not outcome.infeasible
    assert outcome.plan is not None
    evaluation = evaluate(problem, outcome.plan)
    assert evaluation.feasible, evaluation.violations
    assert evaluation.objective == pytest.approx(best, rel=1e-8, abs=1e-9)
    assert outcome.bound is not None
    assert outcome.bound == pytest.approx(best, rel=1e-8, abs=1e-9)
    return best
