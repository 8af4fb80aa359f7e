"""The search over stages and replicas: its bounds against every cut and layout, and that they lose nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

import partita as pt
from partita.conductor import search as module
from partita.conductor.place import staged_plan
from partita.conductor.search import search_stages
from partita.nouns.topology.topology import Topology
from partita.problems import find_kind
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import (
    MicrobatchSchedule,
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
)


def model(draw: random.Random, devices: int, memory: float | None = None) -> ThroughputProblem:
    """Training of three to five operators, in a row or with a branch."""
    count = draw.randint(3, 5)
    skip = draw.random() < 0.5
    pairs = [(i, i + 1) for i in range(count - 1)] + ([(0, count - 1)] if skip else [])
    times = [draw.randint(1, 9) / 100 for _ in range(count)]
    operators = [TimedOperator(id=i, times=(t,), colocation=i) for i, t in enumerate(times)]
    operators += [TimedOperator(id=count + i, times=(2 * t,), colocation=i, backward=True) for i, t in enumerate(times)]
    tensors = []
    for a, b in pairs:
        size = draw.randint(1, 30) * 1e5
        tensors.append(MovedTensor(producer=a, consumers=(b,), size=size))
        tensors.append(MovedTensor(producer=count + b, consumers=(count + a,), size=size))
    tensors.append(MovedTensor(producer=count - 1, consumers=(2 * count - 1,), size=0.0))
    weights = [draw.randint(1, 30) * 1e6 for _ in times]
    return ThroughputProblem(
        name="model",
        kinds=(DeviceKind(name="gpu", count=devices, memory_bytes=memory, transfer_time_per_unit=1e-9),),
        operators=tuple(operators),
        tensors=tuple(tensors),
        parameters=tuple(
            StoredParameter(name=f"w{i}", users=(i, count + i), weight_bytes=w, gradient_bytes=w)
            for i, w in enumerate(weights)
        ),
        schedule=MicrobatchSchedule(name="1f1b", microbatches=4),
    )


def links(draw: random.Random, devices: int) -> Topology:
    """Random links, symmetric."""
    band = np.random.default_rng(draw.randrange(2**31)).uniform(0.1e9, 3e9, (devices, devices))
    return Topology(
        name="links", names=tuple(map(str, range(devices))), bandwidth_bytes_per_s=(band + band.T) / 2,
        machine_of=(0,) * devices,
    )  # fmt: skip


def cuts(problem: ThroughputProblem, stages: int) -> Iterator[pt.Plan]:
    """Every plan of so many stages that follow the row."""
    count = len(problem.operators) // 2
    for inner in itertools.combinations(range(1, count), stages - 1):
        ends = (0, *inner, count)
        yield pt.Plan(
            stages=tuple(
                pt.Stage(
                    devices=(f"gpu:{s}",), kind="gpu",
                    operators=(*range(a, b), *range(count + a, count + b)),
                )
                for s, (a, b) in enumerate(itertools.pairwise(ends))
            )
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_bounds_lose_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(100 + seed)
    problem, where = model(draw, 3, memory=2e8), links(draw, 3)
    quick = search_stages(problem, where, time_limit_s=None)
    assert quick.finished
    monkeypatch.setattr(module, "shape_bound", lambda shape, links: 0.0)
    monkeypatch.setattr(module, "least_step", lambda staged, links: 0.0)
    whole = search_stages(problem, where, time_limit_s=None)
    assert all(one.outcome in ("placed", "does not fit") for one in whole.explored)
    assert quick.best.step == pytest.approx(whole.best.step)
    assert sum(one.outcome == "placed" for one in quick.explored) < sum(o.outcome == "placed" for o in whole.explored)


def test_plans_from_elsewhere_compete() -> None:
    draw = random.Random(3)
    problem, where = model(draw, 4), links(draw, 4)
    plan = next(cuts(problem, 2))
    found = search_stages(problem, where, known=[("by hand", problem, plan)], time_limit_s=None)
    by_hand = found.explored[0]
    assert by_hand.name == "by hand"
    assert by_hand.step is not None
    assert found.best.step is not None
    assert found.best.step <= by_hand.step
    # Nothing else fits into so little memory that only this plan is left.
    with pytest.raises(pt.InputError, match="no numbers of stages and replicas fit"):
        search_stages(problem.replace(memory_bytes=1.0), where, time_limit_s=None)


@pytest.mark.parametrize("change", ["inference", "overlap", "streaming"])
def test_what_is_not_searched_is_refused(change: str) -> None:
    draw = random.Random(5)
    problem, where = model(draw, 2), links(draw, 2)
    expected = "overlaps transfers or streams"
    if change == "inference":
        kept = tuple(op for op in problem.operators if not op.backward)
        ids = {op.id for op in kept}
        inside = tuple(t for t in problem.tensors if {t.producer, *t.consumers} <= ids)
        problem, expected = problem.replace(operators=kept, tensors=inside, parameters=()), "is inference"
    elif change == "overlap":
        problem = problem.replace(communication="overlap")
    else:
        problem = problem.replace(streaming=True)
    with pytest.raises(pt.InputError, match=expected):
        search_stages(problem, where)


def test_problems_without_stages_are_refused() -> None:
    sample = next(p for group in find_kind("makespan").samples for p in group)
    with pytest.raises(pt.UnsupportedError, match="not searched for makespan problems; use hybrid and throughput"):
        search_stages(sample, links(random.Random(1), 2))
    plan = pt.solve(sample, time_limit_s=2.0).plan
    with pytest.raises(pt.UnsupportedError, match="plans of makespan problems are not made of stages"):
        staged_plan(sample, plan)
