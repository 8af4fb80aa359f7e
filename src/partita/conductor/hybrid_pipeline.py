"""The conductor's part for the hybrid problem: solve, judge and explain."""

from __future__ import annotations

import dataclasses

from partita.errors import DisagreementError, InputError, UnsupportedError
from partita.problems.hybrid.evaluate import HybridEvaluation, evaluate
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.solvers import DEFAULT_HYBRID_SOLVERS
from partita.problems.hybrid.solvers.protocol import Options, Outcome, Solver
from partita.run.interrupt import interruptible
from partita.run.monitor import Monitor
from partita.run.result import OPTIMALITY_GAP, Bound, Progress, Result, Status, relative_gap
from partita.units import TOLERANCE

__all__ = ["HybridResult", "bound_hybrid", "find_hybrid_solver", "solve_hybrid"]

HybridResult = Result[HybridProblem, HybridPlan, HybridEvaluation]


def find_hybrid_solver(name: str | None) -> Solver:
    """A hybrid solver by name; None is the default.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    known = {solver.name: solver for solver in DEFAULT_HYBRID_SOLVERS}
    if name is not None and name not in known:
        raise InputError(f"there is no solver {name!r} for hybrid problems; known are {', '.join(known)}")
    return DEFAULT_HYBRID_SOLVERS[0] if name is None else known[name]


def solve_hybrid(
    problem: HybridProblem,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    target: float | None = None,
    explain: bool = True,
) -> HybridResult:
    """Plan data, tensor and pipeline parallelism; parameters, result and errors are those of ``partita.solve``."""
    if time_limit_s is not None and not time_limit_s > 0:
        raise InputError(f"the time limit is {time_limit_s}; it must be positive")
    chosen = find_hybrid_solver(solver)
    options = Options(seed=seed, threads=threads)
    refusal = chosen.supports(problem, options)
    if refusal is not None:
        raise UnsupportedError(f"solver {chosen.name}: {refusal}")
    monitor = Monitor(time_limit_s, progress, target)
    with interruptible(monitor):
        outcome = chosen.solve(problem, options, monitor)
    result = _judge(problem, chosen, outcome, options, monitor)
    if result.status is Status.INFEASIBLE and explain:
        from partita.problems.hybrid.explain import explain_infeasible

        return dataclasses.replace(result, reason=explain_infeasible(problem))
    return result


def _judge(
    problem: HybridProblem, solver: Solver, outcome: Outcome, options: Options, monitor: Monitor
) -> HybridResult:
    """Evaluate what a solver hands back, and say only what is proven."""
    bound = None
    if outcome.bound is not None:
        bound = Bound(outcome.bound, solver.name, "acyclic", monitor.elapsed_s)
    evaluation = None
    status = Status.INFEASIBLE if outcome.infeasible else Status.UNKNOWN
    if outcome.plan is not None:
        evaluation = evaluate(problem, outcome.plan)
        if not evaluation.feasible:
            raise DisagreementError(f"solver {solver.name} returned a plan that fails: {evaluation.violations[0]}")
        if bound is not None and bound.value > evaluation.objective * (1 + 1e3 * TOLERANCE) + TOLERANCE:
            raise DisagreementError(
                f"solver {solver.name} claims bound {bound.value!r} above the objective {evaluation.objective!r}"
            )
        if bound is not None:
            bound = dataclasses.replace(bound, value=min(bound.value, evaluation.objective))
        gap = relative_gap(evaluation.objective, None if bound is None else bound.value)
        status = Status.OPTIMAL if gap is not None and gap <= OPTIMALITY_GAP else Status.FEASIBLE
    return Result(
        problem=problem,
        plan=outcome.plan,
        evaluation=evaluation,
        bound=bound,
        status=status,
        stop_reason=monitor.stop_reason(proved=status in (Status.OPTIMAL, Status.INFEASIBLE)),
        solver=solver.name,
        seed=options.seed,
        runtime_s=monitor.elapsed_s,
        statistics=monitor.statistics,
    )


def bound_hybrid(problem: HybridProblem, method: str | None = None, *, time_limit_s: float | None = 60.0) -> Bound:
    """A proven lower bound, from a solver that proves one; as ``partita.bound``."""
    result = solve_hybrid(problem, solver=method, time_limit_s=time_limit_s, explain=False)
    if result.status is Status.INFEASIBLE:
        raise InputError(f"problem {problem.name!r} is infeasible, so it has no finite bound")
    if result.bound is None:
        raise InputError(f"{result.solver} proved no bound within the time; give it more")
    return result.bound
