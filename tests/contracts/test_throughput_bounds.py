"""What every lower bound for throughput keeps: it is never above what it bounds, however early it is stopped.

A bound joins by being in the default list; there is nothing to add here.
"""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given

import brute_force
import partita.problems.throughput.baselines
import partita.problems.throughput.components
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.problem import DeviceKind, Operator, ThroughputProblem
from partita.problems.throughput.protocol import BoundMethod, Options
from partita.run.monitor import Monitor
from partita.run.result import Bound
from strategies import examples, random_problem, throughput_problems

BOUNDS: tuple[BoundMethod, ...] = partita.problems.throughput.components.BOUNDS

every_bound = pytest.mark.parametrize("component", BOUNDS, ids=lambda component: component.name)

#: Rounding; the values of test problems are at least a quarter apart.
SLACK = 1e-6


def compute(component: BoundMethod, problem: ThroughputProblem, monitor: Monitor) -> Bound | None:
    """The bound, None where it is refused with a sentence; the problem stays as it is."""
    refusal = component.supports(problem)
    if refusal is not None:
        assert isinstance(refusal, str)
        assert len(refusal.split()) >= 3
        return None
    before = msgspec.json.encode(problem)
    bound = component.bound(problem, monitor)
    assert msgspec.json.encode(problem) == before, "the problem was changed"
    assert bound.method == component.name
    assert bound.scope in ("acyclic", "free")
    assert component.scope == "acyclic" or bound.scope == "free"
    assert not math.isnan(bound.value)
    return bound


def check(component: BoundMethod, problem: ThroughputProblem, monitor: Monitor) -> None:
    """Never above the optimum of what it is valid for."""
    bound = compute(component, problem, monitor)
    if bound is None:
        return
    optimum = brute_force.best(problem, bound.scope)
    if math.isinf(bound.value):
        assert bound.value > 0
        assert optimum is None, f"infinite says that there is no plan, but there is one with objective {optimum}"
    elif optimum is not None:
        assert bound.value <= optimum * (1 + SLACK) + SLACK


def test_the_list_holds_named_components() -> None:
    """The list is not empty and names are unique."""
    assert BOUNDS
    names = [component.name for component in BOUNDS]
    assert len(set(names)) == len(names)
    assert all(names)
    assert all(component.summary and "\n" not in component.summary for component in BOUNDS)


@every_bound
@examples(80)
@given(problem=throughput_problems() | throughput_problems(unsupported=False, memory=False))
def test_never_above_the_optimum(component: BoundMethod, problem: ThroughputProblem) -> None:
    """On tiny problems with every feature."""
    check(component, problem, Monitor(5.0))


@every_bound
@examples(80)
@given(problem=throughput_problems(unsupported=False, memory=False, kinds=(1, 1), training=False, colocation=False))
def test_never_above_the_optimum_of_plain_problems(component: BoundMethod, problem: ThroughputProblem) -> None:
    """On tiny problems with alike accelerators and nothing else, which every bound should take on."""
    check(component, problem, Monitor(5.0))


@every_bound
@examples(20)
@given(problem=throughput_problems())
def test_never_above_the_optimum_without_time(component: BoundMethod, problem: ThroughputProblem) -> None:
    """A bound that is stopped early is weak, not wrong."""
    check(component, problem, Monitor(1e-9))
    stopped = Monitor()
    stopped.interrupt()
    check(component, problem, stopped)


@every_bound
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("devices", [2, 8])
def test_never_above_a_plan_of_a_larger_problem(component: BoundMethod, training: bool, devices: int) -> None:
    """Every plan is an upper bound, also where the brute force cannot go."""
    problem = random_problem(5, operators=40, devices=devices, training=training)
    bound = compute(component, problem, Monitor(2.0))
    if bound is None:
        pytest.skip("not supported")
    plans = [
        b.solve(problem, Options(), Monitor(10.0)).plan for b in partita.problems.throughput.baselines.DEFAULT_BASELINES
    ]
    values = [evaluate(problem, plan).objective for plan in plans if plan is not None]
    assert bound.value <= min(values) * (1 + SLACK)


@every_bound
def test_at_least_the_mean_work(component: BoundMethod) -> None:
    """Three operators that share nothing on three devices: the optimum is 8, and 11 / 3 is what anyone can prove."""
    problem = ThroughputProblem(
        name="apart",
        kinds=(DeviceKind(name="gpu", count=3),),
        operators=tuple(Operator(id=i, times=(time,)) for i, time in enumerate((1.0, 8.0, 2.0))),
    )
    bound = compute(component, problem, Monitor(5.0))
    assert bound is not None, "it refuses the plainest problem"
    assert 11 / 3 * (1 - SLACK) <= bound.value <= 8 * (1 + SLACK)
