"""What solvers, bounds and baselines may say of a problem, given the best plan by trying everything."""

from __future__ import annotations

import pytest

from partita.conductor.judge import evaluate
from partita.engines.search.monitor import Monitor
from partita.problems import kind_of
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from problems.hybrid.samples import optimum

#: Rounding of the evaluator alone.
EXACT = 1e-12


def check_claims(problem: HybridProblem, expected: float | None = None) -> int:
    """No bound is above the best plan, and no plan or proof is refused; the number of solvers asked."""
    best, asked = optimum(problem, HybridOptions()), 0
    if expected is not None:
        assert best == pytest.approx(expected, rel=1e-9)
    for solver in kind_of(problem).solvers:
        if solver.supports(problem, HybridOptions()) is not None:
            continue
        asked += 1
        outcome = solver.solve(problem, HybridOptions(), Monitor(600.0))
        if best is None:
            assert outcome.plan is None
            assert outcome.infeasible, solver.name
            continue
        assert not outcome.infeasible, solver.name
        assert outcome.plan is not None
        value = evaluate(problem, outcome.plan)
        assert value.feasible, value.violations
        assert value.objective == pytest.approx(best, rel=1e-6)
        assert outcome.bound is not None
        assert best * (1 - 1e-6) <= outcome.bound <= best * (1 + EXACT), solver.name
    for baseline in kind_of(problem).baselines:
        if baseline.supports(problem, HybridOptions()) is None:
            plan = baseline.solve(problem, HybridOptions(), Monitor(600.0)).plan
            found = None if plan is None else evaluate(problem, plan)
            assert found is None or not found.feasible or best is not None
            if found is not None and found.feasible and best is not None:
                assert found.objective >= best * (1 - EXACT), baseline.name
    return asked
