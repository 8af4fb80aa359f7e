"""What the exact solver must answer, given the best value of any plan."""

from __future__ import annotations

import pytest

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.hybrid.steady.solvers.exact import HybridExact
from problems.hybrid.independent_evaluator import judge

#: Plan and bound may differ by this much when the search calls the plan optimal.
EQUAL = 1e-6


def check_exact(problem: HybridProblem, expected: float | None) -> None:
    """Plan, value and bound are those of the best plan; infeasible exactly where ``expected`` is None."""
    outcome = HybridExact().solve(problem, HybridOptions(), Monitor(600.0))
    if expected is None:
        assert outcome.plan is None
        assert outcome.infeasible
        return
    assert outcome.plan is not None
    assert not outcome.infeasible
    value, broken = judge(problem, outcome.plan)
    assert broken == []
    found = evaluate(problem, outcome.plan)
    assert found.feasible, found.violations
    assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-12)
    assert value == pytest.approx(expected, rel=EQUAL, abs=1e-9)
    bound = outcome.bound or 0.0
    assert expected * (1 - EQUAL) - 1e-12 <= bound <= expected * (1 + 1e-9)
