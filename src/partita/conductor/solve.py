"""Solve: a problem in, the best plan and what is proven about it out."""

from __future__ import annotations

import dataclasses
from typing import Any

from partita.conductor.ahead import compile_ahead
from partita.conductor.judge import explained, judge
from partita.engines.search.interrupt import interruptible
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.ground.errors import InputError, UnsupportedError
from partita.problems import kind_of, kinds
from partita.problems.kind import MOST_SEED, AnyKind, AnyResult, Solver
from partita.problems.settings import read_settings

#: Wall time to say why there is no plan, at least.
LEAST_EXPLAIN_S = 0.5


def find_solver(problem: Any, name: str | None, options: Any) -> Solver[Any, Any, Any]:
    """A solver or baseline of a problem by name; None is the default."""
    kind = kind_of(problem)
    chosen = kind.default_solver(problem, options) if name is None else name
    return check_solver(kind, chosen)[chosen]


def check_solver(kind: AnyKind, name: str | None) -> dict[str, Solver[Any, Any, Any]]:
    """The solvers and baselines of a problem by name; a name that is not among them is refused."""
    known = {solver.name: solver for solver in (*kind.solvers, *kind.baselines)}
    if name is not None and name not in known:
        parts = [part for each in kinds() for part in each.parts]
        able = [part.title for part in parts if name in {one.name for one in (*part.solvers, *part.baselines)}]
        hint = f" (it is one for {' and '.join(able)})" if able else ""
        raise InputError(f"there is no solver {name!r} for {kind.title}{hint}; known are {', '.join(known)}")
    return known


def options_of(kind: AnyKind, seed: int, threads: int, given: dict[str, Any]) -> Any:
    """A problem's search options from keyword arguments; what it does not know or has no meaning is refused."""
    if threads < 1:
        raise InputError(f"threads is {threads}; it must be at least 1")
    if not 0 <= seed <= MOST_SEED:
        # Not every random generator and MIP backend takes others.
        raise InputError(f"the seed is {seed}; it must be a whole number from 0 to {MOST_SEED:,}")
    return read_settings(kind.options, {"seed": seed, "threads": threads, **given}, f"{kind.name} search")


def check_time_limit(time_limit_s: float | None) -> None:
    """Refuse time limits that are no positive numbers."""
    if time_limit_s is not None and not (isinstance(time_limit_s, int | float) and time_limit_s > 0):
        raise InputError(f"the time limit is {time_limit_s!r}; it must be a positive number of seconds")


def run_solver(problem: Any, solver: str | None, options: Any, monitor: Monitor, *, explain: bool = True) -> AnyResult:
    """Find the best plan of a problem, and prove how good it is, with the problem's options as one value.

    Never raises for a time limit or Ctrl-C; the result says why it stopped. UnsupportedError if the solver does not
    support the problem; DisagreementError if its claim does not survive the evaluator, which is a defect.
    """
    kind = kind_of(problem)
    compile_ahead(kind)
    chosen = find_solver(problem, solver, options)
    refusal = chosen.supports(problem, options)
    if refusal is not None:
        raise UnsupportedError(f"solver {chosen.name}: {refusal}")
    monitor.unit = problem.unit
    with interruptible(monitor):
        outcome = chosen.solve(problem, options, monitor)
    result = judge(problem, chosen, outcome, options, monitor, trusted=chosen not in kind.baselines)
    if result.bound is not None:
        result = dataclasses.replace(result, bound=explained(problem, result.bound))
    if result.status is Status.INFEASIBLE and explain:
        return dataclasses.replace(result, reason=why_not(problem, chosen, options, monitor))
    return result


def why_not(problem: Any, solver: Solver[Any, Any, Any], options: Any, monitor: Monitor) -> str:
    """Why there is no plan, and what would be enough, as far as that shows in the time that is left."""
    return kind_of(problem).explain_infeasible(problem, solver, options, max(LEAST_EXPLAIN_S, monitor.remaining_s))
