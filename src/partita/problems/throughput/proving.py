"""Proves a lower bound on a throughput problem with all that fits it.

Plain problems over identical devices get the combined solver, of which only the bound is asked for.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.nouns.pipeline import Plan
from partita.problems.kind import Proof
from partita.problems.throughput.bounds.hierarchy import HIERARCHY, run_hierarchy
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.streaming import STREAMING, streams
from partita.problems.throughput.contraction.blocks import uniform, uniform_refusal
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.nodes import stage_of_operators
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Outcome, Solver, ThroughputOptions
from partita.problems.throughput.solvers.combined import CombinedRun, combined_refusal
from partita.problems.throughput.solvers.contiguous_run import DOWNSETS

#: Share of the time for a first search, and most seconds of it: it tells the bounds when to stop.
FIRST_SHARE, FIRST_S = 0.2, 3.0


def prove(problem: ThroughputProblem, search: Solver, monitor: Monitor) -> Proof:
    """A bound for acyclic splits by all means, cheapest first, within the monitor's time.

    Plain problems with identical devices get the combined solver; those whose memory costs time a short search, whose
    split tells the bounds where to stop, the bounds, and the rest of the time for the search's own proof. Others get
    the search alone.
    """
    if combined_refusal(problem) is None:
        return _combined(problem, monitor)
    refused = uniform_refusal(problem) is not None
    limit = monitor.remaining_s
    first_s = limit if refused else min(FIRST_SHARE * limit, FIRST_S)
    found, bound = _search(problem, search, monitor, first_s)
    value = _objective(problem, found.plan)
    if refused or found.infeasible:
        best = Bound(0.0, search.name, "acyclic", monitor.elapsed_s) if bound is None else bound
        return Proof(best, (best,), value, found.infeasible)
    relaxed = uniform(problem)
    # Splits of the relaxation may cost more as plans, or be none: only plans count.
    knowledge = Knowledge.watched(relaxed, monitor, from_label=lambda label, value: None, complete=False)
    if found.plan is not None and value is not None:
        label = np.zeros(relaxed.items, dtype=np.int32)
        label[relaxed.group] = stage_of_operators(problem, found.plan)
        # Blocks that fall somewhere along the order are none of the relaxation's.
        knowledge.incumbent.offer(value, None if relaxed.falls(label) else label)
    parts: list[Bound] = []

    def learn(proven: Bound | None) -> None:
        if proven is not None:
            parts.append(proven)
            knowledge.prove(proven.value, proven.method)

    learn(bound)
    reloads = streams(problem)
    if not knowledge.done:
        left = monitor.remaining_s / (2 if reloads else 1)
        run_hierarchy(knowledge, HIERARCHY, None if np.isinf(left) else left)
        parts += _by_method(problem, knowledge)
    if reloads and not knowledge.done:
        started = monitor.elapsed_s
        proven = STREAMING.prove(problem, monitor, knowledge.value)
        learn(Bound(proven, STREAMING.name, STREAMING.scope, monitor.elapsed_s - started))
    if not knowledge.done:
        again, better = _search(problem, search, monitor, monitor.remaining_s)
        if again.infeasible:
            return Proof(Bound(float("inf"), search.name, "acyclic", monitor.elapsed_s), tuple(parts), None, True)
        learn(better)
        values = (value, _objective(problem, again.plan))
        value = min((one for one in values if one is not None), default=None)
    best = Bound(knowledge.bound, knowledge.incumbent.proven_by, "acyclic", monitor.elapsed_s)
    return Proof(best, tuple(parts), value)


def _combined(problem: ThroughputProblem, monitor: Monitor) -> Proof:
    """What the combined solver proves."""
    driver = CombinedRun(problem, ThroughputOptions(), monitor)
    outcome = driver.search(monitor)
    if outcome.infeasible:
        return Proof(Bound(math.inf, DOWNSETS, "acyclic", monitor.elapsed_s), (), None, True)
    incumbent = driver.incumbent
    best = Bound(incumbent.bound, incumbent.proven_by, "acyclic", monitor.elapsed_s)
    parts = [] if driver.knowledge is None else _by_method(problem, driver.knowledge)
    if driver.downsets_s > 0 or not parts:
        parts.append(Bound(incumbent.bound, DOWNSETS, "acyclic", driver.downsets_s))
    return Proof(best, tuple(parts), _objective(problem, outcome.plan))


def _search(
    problem: ThroughputProblem, search: Solver, monitor: Monitor, seconds: float
) -> tuple[Outcome, Bound | None]:
    """A run of the search and the bound it proves."""
    own = monitor.part(seconds)
    outcome = search.solve(problem, ThroughputOptions(), own)
    bound = None if outcome.bound is None else Bound(outcome.bound, search.name, "acyclic", own.elapsed_s)
    return outcome, bound


def _objective(problem: ThroughputProblem, plan: Plan | None) -> float | None:
    if plan is None:
        return None
    evaluation = evaluate(problem, plan)
    return evaluation.objective if evaluation.feasible and evaluation.acyclic else None


def _by_method(problem: ThroughputProblem, knowledge: Knowledge) -> list[Bound]:
    """What was proven by the end of each method of the hierarchy; of several runs, all of the time counts."""
    valid = {method.name: method.scope for method in HIERARCHY}
    # The relaxation may keep together what free splits part.
    merged = knowledge.uniform.items < uniform(problem, free=True).items
    rows: dict[str, tuple[float, float]] = {}
    for name, proven, seconds in knowledge.proven:
        rows[name] = proven, seconds + rows.get(name, (0.0, 0.0))[1]
    return [
        Bound(proven, name, "acyclic" if merged else valid[name], seconds) for name, (proven, seconds) in rows.items()
    ]
