"""The conductor: calls the verbs in order. Verbs do not know each other."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from partita.conductor.comparison import Comparison, adopt_better, compare
from partita.conductor.hybrid_pipeline import HybridResult, bound_hybrid, solve_hybrid
from partita.errors import DisagreementError, InputError, UnsupportedError
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.kind import Proof
from partita.problems.throughput.baselines import DEFAULT_BASELINES
from partita.problems.throughput.components import BOUNDS, DEFAULT_FOR, SOLVERS
from partita.problems.throughput.evaluate import Evaluation, evaluate
from partita.problems.throughput.explain import explain_infeasible
from partita.problems.throughput.plan import Contiguity, Plan
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.problems.throughput.proving import prove
from partita.problems.throughput.working_memory import ordered_plan
from partita.run.interrupt import interruptible
from partita.run.monitor import Monitor
from partita.run.result import OPTIMALITY_GAP, Bound, Progress, Result, Status, relative_gap
from partita.units import TOLERANCE

if TYPE_CHECKING:
    from partita.cluster import Cluster
    from partita.graph import Graph

__all__ = [
    "Comparison",
    "ModelPlan",
    "ThroughputResult",
    "bound",
    "compare",
    "find_solver",
    "plan",
    "proof",
    "solve",
]

#: A stage whose memory is this full may owe its cut to the limit.
NEARLY_FULL = 0.8

ThroughputResult = Result[ThroughputProblem, Plan, Evaluation]


def find_solver(name: str | None, contiguity: Contiguity = "acyclic") -> Solver:
    """A solver or baseline by name; None is the default for the contiguity.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name is None:
        name = DEFAULT_FOR[contiguity]
    known = {solver.name: solver for solver in (*SOLVERS, *DEFAULT_BASELINES)}
    if name not in known:
        raise InputError(f"there is no solver {name!r}; known are {', '.join(known)}")
    return known[name]


@overload
def solve(
    problem: ThroughputProblem,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    contiguity: Contiguity = "acyclic",
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    target: float | None = None,
    explain: bool = True,
) -> ThroughputResult: ...


@overload
def solve(
    problem: HybridProblem,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    target: float | None = None,
    explain: bool = True,
) -> HybridResult: ...


def solve(
    problem: ThroughputProblem | HybridProblem,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    contiguity: Contiguity = "acyclic",
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    target: float | None = None,
    explain: bool = True,
) -> ThroughputResult | HybridResult:
    """Split a problem over its devices: a throughput problem, or a hybrid one with its degrees of parallelism.

    Parameters
    ----------
    problem
        What to split.
    time_limit_s
        Wall time after which the best plan so far is returned; None runs until the proof is done.
    seed
        Same seed, same answer, when the clock is not what stops the run.
    contiguity
        ``acyclic``: stages in an order along which every forward tensor goes forward; ``free``: any assignment.
    solver
        A solver's or baseline's name; None for the default.
    threads
        Most threads to use.
    progress
        Called with an ``Event`` for every better plan or bound.
    target
        Stop as soon as a plan at most this good is known.
    explain
        For an infeasible problem, look for the smallest device count or memory that would do.

    Returns
    -------
    Result
        Never raises for a time limit or Ctrl-C; the result says why it stopped.

    Raises
    ------
    InputError
        If an option has no meaning or the solver does not support the problem.
    DisagreementError
        If a solver's claim does not survive the evaluator: a defect.
    """
    _check_options(time_limit_s, contiguity, threads)
    if isinstance(problem, HybridProblem):
        return solve_hybrid(
            problem,
            time_limit_s=time_limit_s,
            seed=seed,
            solver=solver,
            threads=threads,
            progress=progress,
            target=target,
            explain=explain,
        )
    chosen = find_solver(solver, contiguity)
    options = Options(contiguity=contiguity, seed=seed, threads=threads)
    refusal = chosen.supports(problem, options)
    if refusal is not None:
        raise UnsupportedError(f"solver {chosen.name}: {refusal}")
    monitor = Monitor(time_limit_s, progress, target)
    with interruptible(monitor):
        outcome = chosen.solve(problem, options, monitor)
    result = _judge(problem, chosen, outcome, options, monitor)
    if result.status is Status.INFEASIBLE and explain:
        return dataclasses.replace(result, reason=_explain(problem, chosen, options))
    return result


def _check_options(time_limit_s: float | None, contiguity: str, threads: int) -> None:
    if time_limit_s is not None and not time_limit_s > 0:
        raise InputError(f"the time limit is {time_limit_s}; it must be positive")
    if contiguity not in ("acyclic", "free"):
        raise InputError(f"contiguity {contiguity!r} is unknown; use acyclic or free")
    if threads < 1:
        raise InputError(f"threads is {threads}; it must be at least 1")


def _judge(
    problem: ThroughputProblem, solver: Solver, outcome: Outcome, options: Options, monitor: Monitor
) -> ThroughputResult:
    """Evaluate what a solver hands back, and say only what is proven."""
    bound = None
    if outcome.bound is not None:
        bound = Bound(outcome.bound, solver.name, options.contiguity, monitor.elapsed_s)
    evaluation = None
    plan = outcome.plan
    if plan is not None and solver in DEFAULT_BASELINES:
        plan = ordered_plan(problem, plan)
    status, reason = Status.UNKNOWN, ""
    if plan is not None:
        evaluation = evaluate(problem, plan)
        if not evaluation.feasible:
            if solver not in DEFAULT_BASELINES:
                raise DisagreementError(f"solver {solver.name} returned a plan that fails: {evaluation.violations[0]}")
            reason, plan, evaluation = evaluation.violations[0], None, None
        elif options.contiguity == "acyclic" and not evaluation.acyclic:
            raise DisagreementError(f"solver {solver.name} returned a split that is not contiguous")
        elif bound is not None and bound.value > evaluation.objective * (1 + 1e3 * TOLERANCE) + TOLERANCE:
            raise DisagreementError(
                f"solver {solver.name} claims bound {bound.value!r} above the objective {evaluation.objective!r}"
            )
        else:
            gap = relative_gap(evaluation.objective, None if bound is None else bound.value)
            status = Status.OPTIMAL if gap is not None and gap <= OPTIMALITY_GAP else Status.FEASIBLE
            if bound is not None:
                bound = Bound(min(bound.value, evaluation.objective), bound.method, bound.scope, bound.runtime_s)
    elif outcome.infeasible:
        status = Status.INFEASIBLE
    return Result(
        problem=problem,
        plan=plan,
        evaluation=evaluation,
        bound=bound,
        status=status,
        stop_reason=monitor.stop_reason(proved=status in (Status.OPTIMAL, Status.INFEASIBLE)),
        solver=solver.name,
        seed=options.seed,
        runtime_s=monitor.elapsed_s,
        reason=reason,
        statistics=monitor.statistics,
    )


def _explain(problem: ThroughputProblem, solver: Solver, options: Options) -> str:
    def probe(changed: ThroughputProblem, time_s: float) -> Plan | bool | None:
        monitor = Monitor(max(0.05, time_s), target=float("inf"))
        outcome = solver.solve(changed, options, monitor)
        if outcome.plan is not None and evaluate(changed, outcome.plan).feasible:
            return outcome.plan
        return False if outcome.infeasible else None

    return explain_infeasible(problem, probe)


def bound(
    problem: ThroughputProblem | HybridProblem, method: str | None = None, *, time_limit_s: float | None = 60.0
) -> Bound:
    """A proven lower bound.

    Parameters
    ----------
    problem
        The problem.
    method
        A bound's name, or a solver's that proves one; None takes the hierarchy of bounds and the default solver's.
    time_limit_s
        Wall time; the bound reached by then is returned.

    Raises
    ------
    InputError
        If there is no such method, or it proves nothing for this problem.
    """
    _check_options(time_limit_s, "acyclic", 1)
    if isinstance(problem, HybridProblem):
        return bound_hybrid(problem, method, time_limit_s=time_limit_s)
    if method is None:
        return proof(problem, time_limit_s=time_limit_s).best
    started = time.perf_counter()
    methods = {component.name: component for component in BOUNDS}
    monitor = Monitor(time_limit_s)
    with interruptible(monitor):
        if method in methods:
            component = methods[method]
            refusal = component.supports(problem)
            if refusal is not None:
                raise UnsupportedError(f"bound {component.name}: {refusal}")
            return component.bound(problem, monitor)
        solvers = {solver.name: solver for solver in SOLVERS}
        if method not in solvers:
            raise InputError(f"there is no bound {method!r}; known are {', '.join([*methods, *solvers])}")
        chosen = find_solver(method)
        outcome = chosen.solve(problem, Options(), monitor)
    if outcome.infeasible:
        raise InputError(f"problem {problem.name!r} is infeasible, so it has no finite bound")
    if outcome.bound is None:
        raise InputError(f"{chosen.name} proves no bound; use one of {', '.join(methods)}")
    return Bound(outcome.bound, chosen.name, "acyclic", time.perf_counter() - started)


def proof(problem: ThroughputProblem, *, time_limit_s: float | None = 60.0) -> Proof:
    """What all methods prove together about acyclic splits: the best bound, and the share of each.

    Parameters
    ----------
    problem
        The problem.
    time_limit_s
        Wall time; what is proven by then is returned.

    Raises
    ------
    InputError
        If the problem is infeasible.
    """
    _check_options(time_limit_s, "acyclic", 1)
    monitor = Monitor(time_limit_s)
    with interruptible(monitor):
        found = prove(problem, find_solver(None), monitor)
    if found.infeasible:
        raise InputError(f"problem {problem.name!r} is infeasible, so it has no finite bound")
    return found


@dataclass(frozen=True)
class ModelPlan:
    """A plan for a model on a cluster, with what is needed to judge it.

    Attributes
    ----------
    graph, cluster
        What was planned.
    result
        The plan, its evaluation and bound.
    baselines
        What simple splits reach on the same problem.
    without_memory
        Objective reachable without memory limits, where a limit is nearly full; None otherwise.
    """

    graph: Graph
    cluster: Cluster
    result: ThroughputResult
    baselines: tuple[Comparison, ...]
    without_memory: float | None = None

    @property
    def problem(self) -> ThroughputProblem:
        """The priced problem."""
        return self.result.problem


def plan(
    graph: Graph,
    cluster: Cluster,
    *,
    time_limit_s: float | None = 60.0,
    seed: int = 0,
    contiguity: Contiguity = "acyclic",
    solver: str | None = None,
    threads: int = 2,
    progress: Progress | None = None,
    change: Callable[[ThroughputProblem], ThroughputProblem] | None = None,
    **pricing: Any,
) -> ModelPlan:
    """Price a model on a cluster, split it, and compare the split with what people do by hand.

    Parameters
    ----------
    graph
        A traced model.
    cluster
        The devices.
    time_limit_s, seed, contiguity, solver, threads, progress
        As for ``solve``.
    change
        Applied to the priced problem: other variants, for example.
    pricing
        Further arguments of ``price``: microbatches, schedule, optimizer, recompute, and so on.

    Raises
    ------
    InputError
        As ``price`` and ``solve`` do.
    """
    from partita.problems.throughput.from_model import price

    problem = price(graph, cluster, **pricing)
    if change is not None:
        problem = change(problem)
    result = solve(
        problem,
        time_limit_s=time_limit_s,
        seed=seed,
        contiguity=contiguity,
        solver=solver,
        threads=threads,
        progress=progress,
    )
    rows = compare(problem, contiguity=contiguity, seed=seed)
    result = adopt_better(result, rows, contiguity)
    return ModelPlan(graph, cluster, result, tuple(rows), _without_memory(result, seed, threads))


def _without_memory(result: ThroughputResult, seed: int, threads: int) -> float | None:
    """Solve again without limits, if some stage's memory is nearly full: only then may it have shaped the plan."""
    if result.evaluation is None:
        return None
    memories = [stage.memory for stage in result.evaluation.stages]
    if all(m.limit is None or m.total < NEARLY_FULL * m.limit for m in memories):
        return None
    unlimited = result.problem.replace(memory_bytes=float("inf"))
    return solve(unlimited, time_limit_s=5.0, seed=seed, threads=threads).objective
