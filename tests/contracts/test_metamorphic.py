"""The same problem in other words has the same plans, values and proofs.

Units of time and of memory, ids and the order of a problem's parts mean nothing. So every solver, bound and baseline
answers a problem and its rewordings alike: what is proven is proven, and values change with the unit of time.

Powers of two change no digit of a number: there even searches that prove nothing find the very same plan. Other units
round, and other ids break ties another way: there answers must agree as far as they are proven.

A component joins by being in the default list, for every family of problems of which it supports the example.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partita
import partita.problems.throughput.baselines
import partita.problems.throughput.components
from contracts.cases import checked, pool
from instances.strategies import examples, plans, throughput_problems
from partita.engines.search.monitor import Monitor
from partita.problems import kind_of
from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.protocol import HybridOptions
from partita.problems.throughput.problem import (
    DeviceKind,
    LinkedGroup,
    MicrobatchSchedule,
    MovedTensor,
    SavedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
    UnitChain,
)
from partita.problems.throughput.protocol import ThroughputOptions
from problems.hybrid.step_strategies import random_step, step_problems
from problems.hybrid.strategies import hybrid_problems, machine_problems
from problems.throughput.every_chain import rows
from second_opinions.metamorphic import in_other_bytes, in_other_ids, in_other_time, renumbered

#: Relative distance of values that are both proven; what is called optimal may be this far from it.
CLOSE = 2e-6

#: Enough for every component to end by itself on such small problems.
LIMIT_S = 60.0

#: Factors of time and of bytes: exact ones, and the units that models and instance files use. Files may count GiB.
EXACT = ((2.0**-20, 1.0), (2.0**20, 1.0), (2.0**-34, 2.0**-30), (1.0, 2.0**10))
ROUNDED = ((1e-6, 1.0), (1e6, 1.0), (1.0, 1e3), (1e-6, 1e3))

#: Bounds that draw orders or sets by chance, numbered by place: how far they get depends on the draw.
BY_CHANCE = frozenset({"covering", "covering-free", "streaming"})

PLAIN = ThroughputProblem(
    name="plain",
    kinds=(DeviceKind(name="gpu", count=3),),
    operators=tuple(TimedOperator(id=3 * i, times=(time,)) for i, time in enumerate((3.0, 1.0, 2.0, 2.5, 4.0, 1.0))),
    tensors=(
        MovedTensor(producer=0, consumers=(3, 6), size=1.0),
        MovedTensor(producer=3, consumers=(9,), size=0.5),
        MovedTensor(producer=6, consumers=(9, 12), size=2.0),
        MovedTensor(producer=9, consumers=(15,), size=0.5),
        MovedTensor(producer=12, consumers=(15,), size=1.5),
    ),
    schedule=MicrobatchSchedule(microbatches=3),
)
ROW = PLAIN.replace(row=UnitChain(units=((0,), (3, 6), (9,), (12, 15))))

LIMITED = PLAIN.replace(
    memory_bytes=5.0,
    operators=tuple(msgspec.structs.replace(op, memory_bytes=2.0, workspace_bytes=0.5) for op in PLAIN.operators),
    parameters=(StoredParameter(name="w", users=(3, 12), weight_bytes=0.5),),
)

KINDS = ThroughputProblem(
    name="kinds",
    kinds=(
        DeviceKind(name="fast", count=2, transfer_latency=0.5),
        DeviceKind(name="slow", count=1, transfer_time_per_unit=0.5),
        DeviceKind(name="cpu", count=1, accelerator=False, transfer_time_per_unit=0.0),
    ),
    operators=tuple(
        TimedOperator(
            id=op.id, times=(op.times[0], None if op.id == 6 else 4.0, 9.0), colocation=1 if op.id in (0, 12) else None
        )
        for op in PLAIN.operators
    ),
    tensors=PLAIN.tensors,
)

TRAINING = ThroughputProblem(
    name="training",
    kinds=(DeviceKind(name="gpu", count=2, memory_bytes=8.0),),
    operators=(
        *(TimedOperator(id=i, times=(1.0 + i,), colocation=i, memory_bytes=0.5) for i in range(3)),
        *(TimedOperator(id=9 - i, times=(2.0 + i,), colocation=i, backward=True) for i in range(3)),
    ),
    tensors=(
        MovedTensor(producer=0, consumers=(1, 9), size=1.0),
        MovedTensor(producer=1, consumers=(2, 8), size=0.5),
        MovedTensor(producer=2, consumers=(7,), size=0.5),
        MovedTensor(producer=7, consumers=(8,), size=1.0),
        MovedTensor(producer=8, consumers=(9,), size=1.0),
    ),
    parameters=(StoredParameter(name="w", users=(1, 8), weight_bytes=1.0, gradient_bytes=1.0, optimizer_bytes=1.0),),
    saved=(SavedTensor(name="s", users=(9,), bytes=1.0),),
    schedule=MicrobatchSchedule(name="1f1b", microbatches=4),
)

STREAMING = msgspec.structs.replace(
    LIMITED,
    streaming=True,
    kinds=(DeviceKind(name="gpu", count=3, memory_bytes=3.0, reload_time_per_byte=0.5),),
)

VARIANTS = msgspec.structs.replace(
    TRAINING,
    kinds=(DeviceKind(name="gpu", count=4, sync_time_per_byte=0.5),),
    communication="overlap",
    max_replicas=2,
    groups=tuple(LinkedGroup(name=n, counts=(2,), transfer_time_per_unit=2.0) for n in ("left", "right")),
)

_INFERENCE = {"training": False, "schedules": ("inference",)}
_ALIKE = {"kinds": (1, 1), "cpus": False, "unsupported": False}

#: Families of problems: an example with all that the family is about, and small problems of the kind.
FAMILIES: dict[str, tuple[ThroughputProblem, st.SearchStrategy[ThroughputProblem]]] = {
    "plain": (PLAIN, throughput_problems(memory=False, colocation=False, latency=False, **_INFERENCE, **_ALIKE)),
    "limited": (LIMITED, throughput_problems(memory=True, **_INFERENCE, **_ALIKE)),
    "kinds": (KINDS, throughput_problems(memory=False, **_INFERENCE)),
    "training": (TRAINING, throughput_problems(training=True, memory=True, schedules=("1f1b",), **_ALIKE)),
    "gpipe": (
        msgspec.structs.replace(TRAINING, schedule=MicrobatchSchedule(name="gpipe", microbatches=2)),
        throughput_problems(training=True, schedules=("gpipe",), **_ALIKE),
    ),
    "variants": (VARIANTS, throughput_problems(variants=("overlap", "duplex", "replicas", "groups"))),
    "streaming": (STREAMING, throughput_problems(variants=("streaming",), memory=True, **_INFERENCE, **_ALIKE)),
    "rows": (ROW, rows(max_operators=5, variants=("replicas",))),
    "peak": (
        msgspec.structs.replace(STREAMING, working_memory="peak"),
        throughput_problems(variants=("streaming",), memory=True, **_INFERENCE).map(
            lambda problem: msgspec.structs.replace(problem, working_memory="peak")
        ),
    ),
}

FLAT = HybridProblem(
    name="flat",
    devices=4,
    memory_bytes=11.0,
    bandwidth_bytes_per_unit=4.0,
    microbatches=4,
    layers=tuple(
        Layer(
            id=2 * v,
            configurations={
                t: (
                    Configuration(
                        id="keep", time=6.0 / t + v, weight_bytes=2.0 / t, memory_per_microbatch_bytes=4.0 / t
                    ),
                    Configuration(id="again", time=8.0 / t + v, weight_bytes=2.0 / t, memory_bytes=1.0),
                )
                for t in (1, 2)
            },
        )
        for v in range(4)
    ),
    edges=(
        Edge(source=0, target=2, bytes=2.0),
        Edge(source=0, target=4, bytes=1.0),
        Edge(source=2, target=6, bytes=2.0),
        Edge(source=4, target=6, bytes=1.0),
    ),
)

HYBRID: dict[str, tuple[HybridProblem, st.SearchStrategy[HybridProblem]]] = {
    "flat": (FLAT, hybrid_problems()),
    "machines": (
        FLAT.replace(hierarchy=Hierarchy(devices_per_machine=2, machine_bandwidth_bytes_per_unit=1.0)),
        machine_problems(),
    ),
    "steps": (random_step(3, ("1f1b", "zero-bubble"), in_a_row=True), step_problems()),
}


def hybrid_cases(listed: str) -> list[Any]:
    """Every component with every family of which it supports the example."""
    return [
        pytest.param(component, family, id=f"{component.name}-{family}")
        for family, (example, _) in HYBRID.items()
        for component in getattr(kind_of(example), listed)
        if component.supports(example, HybridOptions()) is None
    ]


def cases(components: Any, *contiguities: str) -> list[Any]:
    """Every component with every family of which it supports the example, by each contiguity."""
    found = []
    for component in components:
        for contiguity in contiguities or ("",):
            for family, (example, _) in FAMILIES.items():
                asked = (ThroughputOptions(contiguity=contiguity),) if contiguity else ()
                if component.supports(example, *asked) is None:
                    name = "-".join(word for word in (component.name, contiguity, family) if word)
                    found.append(pytest.param(component, contiguity, family, id=name))
    return found


SOLVERS = cases(partita.problems.throughput.components.SOLVERS, "acyclic", "free")
BOUNDS = [
    case
    for case in cases(partita.problems.throughput.components.BOUNDS)
    # They see the same relaxation there as elsewhere, and proofs by charges take seconds.
    if case.values[2] != "rows"
    and (case.values[0].name not in BY_CHANCE or case.values[2] not in ("training", "gpipe"))
]
BASELINES = cases(partita.problems.throughput.baselines.DEFAULT_BASELINES, "acyclic", "free")


def over(
    family: tuple[Any, st.SearchStrategy[Any]], count: int, check: Callable[[Any], bool], *, at_least: float = 0.5
) -> None:
    """Check the example of a family and ``count`` random problems, of which so large a part must be accepted."""
    example, strategy = family
    assert check(example), "the example is refused"
    problems = pool(strategy, count)
    taken = checked(problems, check)
    assert taken >= at_least * len(problems), f"{len(problems) - taken} of {len(problems)} problems are refused"


def close(left: float | None, right: float | None, unit: float = 1.0) -> bool:
    """Whether two proven values agree, the left one after a change of unit."""
    if left is None or right is None:
        return left is right
    return left * unit == right or abs(left * unit - right) <= CLOSE * max(abs(left * unit), abs(right))


def reworded(problem: Any, time: float, size: float) -> Any:
    """In other units."""
    return in_other_bytes(in_other_time(problem, time), size)


def check_solver(problem: Any, **asked: Any) -> bool:
    """A problem and its rewordings, solved; false if the solver does not take it on."""

    def solve(changed: Any) -> Any:
        result = partita.solve(changed, time_limit_s=LIMIT_S, explain=False, **asked)
        assert result.stop_reason is not partita.StopReason.TIME_LIMIT
        return result

    try:
        before = solve(problem)
    except partita.UnsupportedError:
        return False
    proven = before.status in (partita.Status.OPTIMAL, partita.Status.INFEASIBLE)
    low = None if before.bound is None else before.bound.value

    def agree(changed: Any, after: Any, unit: float, number: dict[int, int] | None = None) -> None:
        """Both results, and what each plan is worth in the other's words."""
        high = None if after.bound is None else after.bound.value
        if proven:
            assert after.status is before.status
            assert close(before.objective, after.objective, unit)
            assert close(low, high, unit)
        elif after.objective is not None and low is not None:
            assert after.objective >= low * unit * (1 - CLOSE), "a plan is better than a bound in other words"
        if before.plan is not None:
            there = partita.evaluate(changed, before.plan if number is None else in_other_ids(before.plan, number))
            assert there.feasible, there.violations
            assert close(before.objective, there.objective, unit)
            assert high is None or there.objective >= high * (1 - CLOSE), "a bound in other words is above this plan"

    for time, size in EXACT:
        changed = reworded(problem, time, size)
        after = solve(changed)
        agree(changed, after, time)
        assert after.status is before.status
        assert after.objective == (None if before.objective is None else before.objective * time)
    for time, size in ROUNDED:
        changed = reworded(problem, time, size)
        agree(changed, solve(changed), time)
    for seed in (1, 2):
        changed, number = renumbered(problem, seed)
        agree(changed, solve(changed), 1.0, number)
    return True


@pytest.mark.parametrize(("solver", "contiguity", "family"), SOLVERS)
def test_solvers(solver: Any, contiguity: str, family: str) -> None:
    """Same status, objective and bound."""
    # These take a tenth of a second and more for every run.
    count = 1 if solver.name in ("free", "annealing", "random-orders") else 3
    # One thread has an order of events; the search for free splits proves beside searching.
    asked = {"solver": solver.name, "contiguity": contiguity, "threads": 2 if solver.name == "free" else 1}
    # Compiling is not part of the limit.
    partita.solve(FAMILIES[family][0], **asked)
    over(FAMILIES[family], count, lambda problem: check_solver(problem, **asked))


@pytest.mark.parametrize(("solver", "family"), hybrid_cases("solvers"))
def test_hybrid_solvers(solver: Any, family: str) -> None:
    """Same status, objective and bound."""
    over(HYBRID[family], 15, lambda problem: check_solver(problem, solver=solver.name))


@pytest.mark.parametrize(("component", "contiguity", "family"), BOUNDS)
def test_bounds(component: Any, contiguity: str, family: str) -> None:
    """Same value."""

    def prove(problem: ThroughputProblem) -> float:
        return float(component.bound(problem, Monitor(LIMIT_S)).value)

    def check(problem: ThroughputProblem) -> bool:
        if component.supports(problem) is not None:
            return False
        before = prove(problem)
        for time, size in (*EXACT, *ROUNDED):
            assert close(before, prove(reworded(problem, time, size)), time), (time, size)
        for seed in (1, 2):
            after = prove(renumbered(problem, seed)[0])
            if component.name not in BY_CHANCE:
                assert close(before, after), seed
            elif (optimum := partita.solve(problem, contiguity=component.scope, explain=False).objective) is not None:
                assert after <= optimum * (1 + CLOSE), seed
        return True

    over(FAMILIES[family], 1 if component.name in BY_CHANCE else 3, check)


@pytest.mark.parametrize("family", ["plain", "kinds", "training", "variants", "streaming"])
def test_all_bounds_together(family: str) -> None:
    """What ``partita.bound`` proves with all methods at once."""

    def check(problem: ThroughputProblem) -> bool:
        try:
            before = partita.bound(problem, time_limit_s=LIMIT_S).value
        except partita.InputError:
            # Infeasible, which must not depend on words either.
            for changed in (reworded(problem, 1e-6, 1e3), renumbered(problem, 1)[0]):
                with pytest.raises(partita.InputError):
                    partita.bound(changed, time_limit_s=LIMIT_S)
            return True
        for time, size in ROUNDED:
            assert close(before, partita.bound(reworded(problem, time, size), time_limit_s=LIMIT_S).value, time)
        assert close(before, partita.bound(renumbered(problem, 1)[0], time_limit_s=LIMIT_S).value)
        return True

    over(FAMILIES[family], 3, check, at_least=1.0)


def same_plan(component: Any, options: Any, problem: Any) -> bool:
    """A baseline's plan in exact units is the same one, worth the same; false if it does not take the problem on."""
    if component.supports(problem, options) is not None:
        return False
    before = component.solve(problem, options, Monitor(LIMIT_S)).plan
    for time, size in EXACT:
        changed = reworded(problem, time, size)
        assert component.solve(changed, options, Monitor(LIMIT_S)).plan == before
        if before is not None:
            here, there = partita.evaluate(problem, before), partita.evaluate(changed, before)
            assert there.objective == here.objective * time
            assert there.feasible == here.feasible
    return True


@pytest.mark.parametrize(("component", "contiguity", "family"), BASELINES)
def test_baselines(component: Any, contiguity: Any, family: str) -> None:
    """Same plan."""
    check = partial(same_plan, component, ThroughputOptions(contiguity=contiguity))
    over(FAMILIES[family], 12, check, at_least=0.2)


@pytest.mark.parametrize(("component", "family"), hybrid_cases("baselines"))
def test_hybrid_baselines(component: Any, family: str) -> None:
    """Same plan."""
    over(HYBRID[family], 10, lambda problem: same_plan(component, HybridOptions(), problem), at_least=0.2)


@pytest.mark.parametrize("family", FAMILIES)
@examples(60)
@given(data=st.data())
def test_any_plan_is_worth_the_same(family: str, data: st.DataObject) -> None:
    """Feasible or not: loads, violations and memory of a plan that nobody searched for."""
    problem = data.draw(FAMILIES[family][1])
    plan = data.draw(plans(problem))
    before = partita.evaluate(problem, plan)
    time, size = data.draw(st.sampled_from((*EXACT, *ROUNDED)))
    changed, number = renumbered(reworded(problem, time, size), data.draw(st.integers(0, 99)))
    after = partita.evaluate(changed, in_other_ids(plan, number))
    assert after.objective == pytest.approx(before.objective * time, rel=1e-12)
    assert after.feasible == before.feasible
    # How many sentences it takes depends on which operator is named first.
    assert bool(after.violations) == bool(before.violations)
    assert after.acyclic == before.acyclic
    for mine, other in zip(before.stages, after.stages, strict=True):
        assert other.load == pytest.approx(mine.load * time, rel=1e-12)
        assert other.memory.total == pytest.approx(mine.memory.total * size, rel=1e-12)


@pytest.mark.parametrize("size", [2.0**-40, 1e-9, 1.0, 1e3, 1e12])
def test_a_limit_is_a_limit_in_any_unit(size: float) -> None:
    """What is a millionth too much for a device is too much, and what fits exactly fits, whatever the bytes."""
    tight = LIMITED.replace(memory_bytes=5.0 - 5e-6)
    for problem in (LIMITED, tight):
        changed = in_other_bytes(problem, size)
        for solver, contiguity in (("exact", "acyclic"), ("free", "free")):
            result = partita.solve(changed, solver=solver, contiguity=contiguity, time_limit_s=LIMIT_S, explain=False)
            assert result.status is partita.Status.OPTIMAL if problem is LIMITED else partita.Status.INFEASIBLE
    result = partita.solve(FLAT)
    needed = max(stage.memory_bytes for stage in result.evaluation.stages)
    for memory, fits in ((needed, True), (needed * (1 - 1e-6), False)):
        changed = in_other_bytes(FLAT.replace(memory_bytes=memory), size)
        assert partita.evaluate(changed, result.plan).feasible is fits


def test_every_component_is_in() -> None:
    """No solver, bound or baseline is left out for want of a family that it supports."""
    for listed, found in (
        (partita.problems.throughput.components.SOLVERS, SOLVERS),
        (partita.problems.throughput.components.BOUNDS, BOUNDS),
        (partita.problems.throughput.baselines.DEFAULT_BASELINES, BASELINES),
    ):
        assert {component.name for component in listed} == {case.values[0].name for case in found}
    assert {case.values[2] for case in SOLVERS} == set(FAMILIES)
    assert all(math.isfinite(factor) for pair in (*EXACT, *ROUNDED) for factor in pair)
