"""What every throughput solver and baseline keeps, whatever it does inside.

A solver joins by being in the default list; there is nothing to add here. Baselines are solvers too, with one licence:
what they return may not fit (too much memory, an operator that cannot run there), because they do not look.
"""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given

import brute_force
import partita.problems.throughput.baselines
import partita.problems.throughput.components
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.plan import Contiguity
from partita.problems.throughput.problem import DeviceKind, Operator, Tensor, ThroughputProblem
from partita.problems.throughput.protocol import Options, Outcome, Solver
from partita.run.monitor import Monitor
from strategies import examples, random_problem, throughput_problems

SOLVERS: tuple[Solver, ...] = partita.problems.throughput.components.SOLVERS
BASELINES: tuple[Solver, ...] = partita.problems.throughput.baselines.DEFAULT_BASELINES

CONTIGUITIES: tuple[Contiguity, ...] = ("acyclic", "free")

every_case = pytest.mark.parametrize(
    ("solver", "contiguity"),
    [
        pytest.param(solver, contiguity, id=f"{solver.name}-{contiguity}")
        for solver in (*SOLVERS, *BASELINES)
        for contiguity in CONTIGUITIES
    ],
)

#: Enough for a tiny problem; a solver that runs on until the clock stops it uses all of it.
TINY_S = 0.5

#: What a solver may take beyond its limit, on a machine that does other things too.
GRACE_S = 3.0

#: Far too little.
NO_TIME_S = 1e-9

CHAIN = ThroughputProblem(
    name="chain",
    kinds=(DeviceKind(name="gpu", count=2),),
    operators=tuple(Operator(id=i, times=(1.0,)) for i in range(4)),
    tensors=tuple(Tensor(producer=i, consumers=(i + 1,), size=0.5) for i in range(3)),
)


def equal(left: float, right: float) -> bool:
    """Equal up to rounding; the values of test problems are at least a quarter apart."""
    return abs(left - right) <= 1e-6 * max(1.0, abs(left), abs(right))


def at_most(left: float, right: float) -> bool:
    """At most, up to rounding."""
    return left <= right or equal(left, right)


def run(solver: Solver, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
    """Solve, and check what needs no optimum: the plan is one, keeps what it claims, and the problem is untouched."""
    before = msgspec.json.encode(problem)
    outcome = solver.solve(problem, options, monitor)
    assert msgspec.json.encode(problem) == before, "the problem was changed"
    if outcome.plan is None:
        return outcome
    assert not outcome.infeasible, "a plan, and a proof that there is none"
    evaluation = evaluate(problem, outcome.plan)
    placed = [identity for stage in outcome.plan.stages for identity in stage.operators]
    assert sorted(placed) == sorted(op.id for op in problem.operators)
    assert all(stage.operators for stage in outcome.plan.stages), "devices left empty are not listed"
    if solver not in BASELINES:
        assert evaluation.feasible, evaluation.violations
    if options.contiguity == "acyclic":
        assert evaluation.acyclic
        assert outcome.plan.contiguity == "acyclic"
    if outcome.bound is not None:
        assert at_most(outcome.bound, evaluation.objective)
    return outcome


def check_against_optimum(solver: Solver, problem: ThroughputProblem, options: Options, monitor: Monitor) -> Outcome:
    """Solve a tiny problem, and hold what is claimed against the optimum."""
    outcome = run(solver, problem, options, monitor)
    optimum = brute_force.best(problem, options.contiguity)
    if outcome.infeasible:
        assert optimum is None, f"there is a plan with objective {optimum}"
        return outcome
    if optimum is None:
        assert outcome.plan is None or not evaluate(problem, outcome.plan).feasible
        return outcome
    for claimed in (outcome.bound, monitor.bound):
        assert claimed is None or at_most(claimed, optimum), f"bound {claimed} is above the optimum {optimum}"
    assert monitor.objective is None or at_most(optimum, monitor.objective), "an objective was reported that none has"
    if outcome.plan is not None:
        evaluation = evaluate(problem, outcome.plan)
        if evaluation.feasible:
            assert at_most(optimum, evaluation.objective)
            if outcome.bound is not None and equal(outcome.bound, evaluation.objective):
                assert equal(evaluation.objective, optimum)
    return outcome


def supported(solver: Solver, problem: ThroughputProblem, options: Options) -> bool:
    """Whether the solver takes the problem on; a refusal is a sentence."""
    refusal = solver.supports(problem, options)
    assert refusal is None or (isinstance(refusal, str) and len(refusal.split()) >= 3)
    return refusal is None


@pytest.mark.parametrize("components", [SOLVERS, BASELINES], ids=["solvers", "baselines"])
def test_lists_hold_named_components(components: tuple[Solver, ...]) -> None:
    """The lists are not empty, and each name and summary can be shown on a line of its own."""
    assert components
    for component in components:
        assert component.name
        assert not component.name.strip("abcdefghijklmnopqrstuvwxyz0123456789-"), component.name
        assert component.summary
        assert "\n" not in component.summary


def test_names_are_unique() -> None:
    """A name picks one solver or baseline."""
    names = [component.name for component in (*SOLVERS, *BASELINES)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("contiguity", CONTIGUITIES)
def test_every_contiguity_has_a_solver(contiguity: Contiguity) -> None:
    """Some solver takes a plain problem on."""
    assert any(supported(solver, CHAIN, Options(contiguity=contiguity)) for solver in SOLVERS)


@pytest.mark.parametrize("solver", [*SOLVERS, *BASELINES], ids=lambda solver: solver.name)
def test_a_chain_of_four_gets_a_plan(solver: Solver) -> None:
    """Four equal operators on two devices: every solver has an answer, and none is better than 2 + 0.5."""
    options = [Options(contiguity=c) for c in CONTIGUITIES if supported(solver, CHAIN, Options(contiguity=c))]
    assert options, "it supports nothing"
    for option in options:
        outcome = check_against_optimum(solver, CHAIN, option, Monitor(20.0))
        assert outcome.plan is not None
        assert evaluate(CHAIN, outcome.plan).objective >= 2.5


@every_case
@examples(40)
@given(problem=throughput_problems(max_operators=6) | throughput_problems(unsupported=False, max_devices=4))
def test_claims_hold(solver: Solver, contiguity: Contiguity, problem: ThroughputProblem) -> None:
    """Plans are plans, bounds are below the optimum, infeasible means that there is none, optimal means optimal."""
    options = Options(contiguity=contiguity)
    if supported(solver, problem, options):
        check_against_optimum(solver, problem, options, Monitor(TINY_S))


@every_case
@examples(15)
@given(problem=throughput_problems())
def test_claims_hold_without_time(solver: Solver, contiguity: Contiguity, problem: ThroughputProblem) -> None:
    """With no time at all it may find nothing, but it raises nothing and claims nothing wrong."""
    options = Options(contiguity=contiguity)
    if supported(solver, problem, options):
        check_against_optimum(solver, problem, options, Monitor(NO_TIME_S))


@every_case
@examples(8)
@given(problem=throughput_problems(unsupported=False))
def test_same_seed_same_plan(solver: Solver, contiguity: Contiguity, problem: ThroughputProblem) -> None:
    """Twice the same, unless the clock stopped it."""
    options = Options(contiguity=contiguity, seed=7)
    if not supported(solver, problem, options):
        return
    monitors = [Monitor(TINY_S), Monitor(TINY_S)]
    first, second = (run(solver, problem, options, monitor) for monitor in monitors)
    if all(monitor.remaining_s > 0 for monitor in monitors):
        assert first == second


@every_case
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_time_limit_is_kept(solver: Solver, contiguity: Contiguity, training: bool) -> None:
    """On a problem of 60 operators the run ends soon after its limit."""
    problem = random_problem(1, training=training)
    options = Options(contiguity=contiguity)
    if not supported(solver, problem, options):
        pytest.skip("not supported")
    run(solver, CHAIN, options, Monitor(20.0))  # Compiling is not part of the limit.
    monitor = Monitor(0.3)
    run(solver, problem, options, monitor)
    assert monitor.elapsed_s < 0.3 + GRACE_S


@every_case
def test_interrupted_before_it_starts(solver: Solver, contiguity: Contiguity) -> None:
    """It returns at once, with a plan or without."""
    problem = random_problem(2)
    options = Options(contiguity=contiguity)
    if not supported(solver, problem, options):
        pytest.skip("not supported")
    run(solver, CHAIN, options, Monitor(20.0))
    monitor = Monitor()
    monitor.interrupt()
    started = time.perf_counter()
    run(solver, problem, options, monitor)
    assert time.perf_counter() - started < GRACE_S


@every_case
def test_interrupted_by_its_own_progress(solver: Solver, contiguity: Contiguity) -> None:
    """A caller that has seen enough stops the run from the progress callback and gets the best plan so far."""
    problem = random_problem(3)
    options = Options(contiguity=contiguity)
    if not supported(solver, problem, options):
        pytest.skip("not supported")
    run(solver, CHAIN, options, Monitor(20.0))
    seen: list[float] = []

    def enough(event: object) -> None:
        objective = getattr(event, "objective", None)
        if objective is not None:
            seen.append(objective)
            monitor.interrupt()

    monitor = Monitor(20.0, progress=enough)
    outcome = run(solver, problem, options, monitor)
    if seen:
        assert monitor.elapsed_s < 20.0
        assert outcome.plan is not None
        assert at_most(evaluate(problem, outcome.plan).objective, seen[0])


@every_case
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_history_agrees_with_the_outcome(solver: Solver, contiguity: Contiguity, training: bool) -> None:
    """Objectives fall and bounds rise along the events, and the outcome is no worse than the last event."""
    problem = random_problem(4, operators=24, devices=3, training=training)
    options = Options(contiguity=contiguity)
    if not supported(solver, problem, options):
        pytest.skip("not supported")
    monitor = Monitor(TINY_S)
    outcome = run(solver, problem, options, monitor)
    events = monitor.statistics.events
    objectives = [event.objective for event in events if event.objective is not None]
    bounds = [event.bound for event in events if event.bound is not None]
    assert objectives == sorted(objectives, reverse=True)
    assert bounds == sorted(bounds)
    if objectives:
        assert outcome.plan is not None
        assert at_most(evaluate(problem, outcome.plan).objective, objectives[-1])
    if bounds and outcome.plan is not None:
        assert at_most(bounds[-1], evaluate(problem, outcome.plan).objective)
