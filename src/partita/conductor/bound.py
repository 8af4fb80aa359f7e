"""Bound: a problem in, what no plan can beat out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from partita.conductor.judge import explained, proven
from partita.conductor.solve import check_time_limit, run_solver
from partita.engines.search.interrupt import interruptible
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound, Status
from partita.ground.errors import InputError, UnsupportedError
from partita.problems import kind_of
from partita.problems.kind import Proof

#: Share of the time for bounds that were added to a problem whose own work together.
ADDED = 0.25


def proof(problem: Any, method: str | None = None, *, time_limit_s: float | None = 60.0) -> Proof:
    """A proven lower bound, with the share of each method; see ``partita.bound``."""
    check_time_limit(time_limit_s)
    monitor = Monitor(time_limit_s)
    with interruptible(monitor):
        if method is not None:
            found = _by(problem, method, monitor)
        else:
            found = _by_all(problem, monitor)
    if found.infeasible:
        raise InputError(f"problem {problem.name!r} is infeasible, so it has no finite bound")
    return dataclasses.replace(found, best=explained(problem, found.best))


def _by_all(problem: Any, monitor: Monitor) -> Proof:
    """What the problem's bounds prove together, and then those that were added to it, for which some time is left."""
    kind = kind_of(problem)
    added = kind.added("bound")
    found = kind.prove(problem, monitor.share(1 - ADDED) if added else monitor)
    if found is None:
        return _one_after_the_other(problem, monitor)
    more = [one.bound(problem, monitor) for one in added if one.supports(problem) is None and not monitor.interrupted]
    options = kind.options()
    best = max([found.best, *(part for part in more if options.covers(part.scope))], key=lambda part: part.value)
    if best is not found.best:
        # Beside a plan shows whether what was added is a bound at all.
        by_search = _by_solver(problem, None, monitor) if found.objective is None else found
        if by_search is not None and by_search.objective is not None:
            best = proven(by_search.objective, best)[0] or best
    return dataclasses.replace(
        found, best=best, methods=(*found.methods, *more), infeasible=found.infeasible or math.isinf(best.value)
    )


def _by(problem: Any, method: str, monitor: Monitor) -> Proof:
    """What one bound, or one solver, proves."""
    kind = kind_of(problem)
    bounds = {component.name: component for component in kind.bounds}
    if method in bounds:
        if (refusal := bounds[method].supports(problem)) is not None:
            raise UnsupportedError(f"bound {method}: {refusal}")
        best = bounds[method].bound(problem, monitor)
        return Proof(best, (best,), infeasible=math.isinf(best.value))
    known = ", ".join([*bounds, *(solver.name for solver in kind.solvers)])
    if method not in {solver.name for solver in kind.solvers}:
        raise InputError(f"there is no bound {method!r}; known are {known}")
    found = _by_solver(problem, method, monitor)
    if found is None:
        raise InputError(f"{method} proved no bound in the time given; give it more, or use one of {known}")
    return found


def _by_solver(problem: Any, name: str | None, monitor: Monitor) -> Proof | None:
    """What a solver proves on the way, judged beside its plan; None for nothing."""
    kind = kind_of(problem)
    options = kind.options()
    result = run_solver(problem, name, options, monitor, explain=False)
    best = result.bound
    if result.status is Status.INFEASIBLE:
        best = Bound(math.inf, result.solver, options.scope, result.runtime_s)
    return None if best is None else Proof(best, (best,), result.objective, math.isinf(best.value))


def _one_after_the_other(problem: Any, monitor: Monitor) -> Proof:
    """Every bound that fits, cheapest first, then the default solver, whose plan none of them may be above."""
    kind = kind_of(problem)
    options = kind.options()
    parts: list[Bound] = []
    for method in kind.bounds:
        if method.supports(problem) is None and not monitor.stopping:
            parts.append(method.bound(problem, monitor))
    by_search = None if monitor.stopping and parts else _by_solver(problem, None, monitor)
    objective = None
    if by_search is not None:
        parts += by_search.methods
        objective = by_search.objective
    holding = [part for part in parts if options.covers(part.scope)]
    if not holding:
        raise InputError(f"nothing was proved about problem {problem.name!r} in the time given; give it more")
    best = max(holding, key=lambda part: part.value)
    if objective is not None:
        agreed, _ = proven(objective, best)
        best = best if agreed is None else agreed
    return Proof(best, tuple(parts), objective, math.isinf(best.value))
