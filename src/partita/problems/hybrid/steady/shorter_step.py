"""Plans with a shorter step than one that is best in the steady state.

The objective is an endless stream of microbatches; a step has an end. Filling takes about as many microbatches as there
are replicas in all stages together, so plans that are best with fewer of them trade steady speed for a smaller bubble.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.rounding import CLOSE, OPTIMALITY_GAP
from partita.nouns.pipeline import Plan
from partita.problems.facets.model import RefinedPlan
from partita.problems.hybrid.evaluation import HybridEvaluation
from partita.problems.hybrid.options import HybridOptions
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.baselines.layouts import LayoutPlanner
from partita.problems.hybrid.steady.baselines.recipes import every
from partita.problems.hybrid.steady.baselines.restricted import change_weights
from partita.problems.hybrid.steady.evaluate import evaluate
from partita.problems.hybrid.steady.solvers.exact import HybridExact
from partita.problems.hybrid.steady.timeline import simulated_step


def shorter_steps(
    result: Result[HybridProblem, Plan, HybridEvaluation],
    rows: Sequence[Rival],
    options: HybridOptions,
    monitor: Monitor,
) -> RefinedPlan:
    """What to take instead of a result's plan, and what else to know of.

    The answer stays as good as it is in the steady state; the other plan has the shortest step among ``rows`` and of a
    search with these options for plans with fewer replicas.
    """
    problem = result.problem
    assert result.evaluation is not None

    def step(row: Rival) -> float:
        found = simulated_step(problem, row.plan, row.evaluation)
        return math.inf if found is None else float(found.step)

    mine = Rival("the plan", "", result.plan, result.evaluation)
    feasible = [row for row in rows if row.feasible]
    # The objective does not tell equal plans apart.
    most = result.evaluation.objective * (1 + CLOSE)
    equal = [row for row in feasible if row.evaluation.objective <= most]
    answer = min([mine, *equal], key=step)
    if step(answer) >= step(mine) * (1 - OPTIMALITY_GAP):
        answer = mine
    fastest = min([*feasible, *_others(problem, options, monitor)], key=step, default=answer)
    kept = None if answer is mine else answer
    if step(fastest) >= step(answer) * (1 - OPTIMALITY_GAP):
        return RefinedPlan(kept)
    return RefinedPlan(kept, fastest)


def _others(problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> list[Rival]:
    """Equal stages, and the best plans with fewer and fewer replicas at once."""
    layouts = LayoutPlanner(problem)
    shortest = layouts.best(every(layouts), monitor, by_step=True)
    plans: list[tuple[str, Any]] = [("equal stages, by step", shortest.plan)]
    size = problem.microbatches
    while size > 1 and not monitor.stopping:
        size //= 2
        if problem.microbatches % size:
            continue
        outcome = HybridExact().solve(fewer_replicas(problem, size), options, monitor.part())
        if outcome.infeasible:
            break
        plans.append((f"the best plan with {size} replicas at most", outcome.plan))
    found = [Rival(name, "", plan, evaluate(problem, plan)) for name, plan in plans if plan is not None]
    return [row for row in found if row.feasible]


def fewer_replicas(problem: HybridProblem, most: int) -> HybridProblem:
    """The problem with that many replicas of all stages together; synchronisation once per batch costs what it did."""
    if not problem.weight_sync_per_batch:
        return problem.replace(microbatches=most)
    share = most / problem.microbatches
    return change_weights(problem, lambda weight: weight * share).replace(microbatches=most)
