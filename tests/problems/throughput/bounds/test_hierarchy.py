"""Bounds of the hierarchy against all splits of tiny problems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples, throughput_problems
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.bounds.covering import CoveringBound
from partita.problems.throughput.bounds.forced_transfers import ChargeBound, Charges, charged_at
from partita.problems.throughput.bounds.hierarchy import run_hierarchy
from partita.problems.throughput.bounds.knowledge import HierarchyBound, Knowledge, SimpleBound
from partita.problems.throughput.bounds.node import FreeNodeBound, NodeBound
from partita.problems.throughput.bounds.windows import WindowBound
from partita.problems.throughput.components import HIERARCHY
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from second_opinions import brute_force

#: Rounding; the values of test problems are at least a quarter apart.
SLACK = 1e-6

alike = throughput_problems(unsupported=False, memory=False, kinds=(1, 1), cpus=False, max_count=4, max_operators=7)


@st.composite
def shaped_problems(draw: st.DrawFn) -> ThroughputProblem:
    """More operators and devices than the other strategies: no work in places, parts that do not meet, dear tensors."""
    count = draw(st.integers(1, 8))
    work = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    tensors = []
    for u in range(count - 1):
        readers = draw(st.sets(st.integers(u + 1, count - 1), max_size=3))
        if readers:
            tensors.append(MovedTensor(producer=u, consumers=tuple(sorted(readers)), size=draw(st.integers(0, 8)) / 2))
    return ThroughputProblem(
        name="shaped",
        kinds=(DeviceKind(name="a", count=draw(st.integers(1, 6))),),
        operators=tuple(TimedOperator(id=i, times=(float(w),)) for i, w in enumerate(work)),
        tensors=tuple(tensors),
    )


def splits(relaxed: BlockProblem) -> Iterator[tuple[np.ndarray, list[float]]]:
    """Every acyclic split of the items, with the loads of its blocks."""
    n, k = relaxed.items, relaxed.devices
    edges = [(u, int(v)) for u in range(n) for v in relaxed.graph.after(u)]
    loads: dict[bytes, float] = {}
    for labels in itertools.product(range(k), repeat=n):
        if any(labels[u] > labels[v] for u, v in edges):
            continue
        label = np.array(labels)
        found = []
        for j in range(k):
            members = label == j
            key = members.tobytes()
            if key not in loads:
                loads[key] = relaxed.load(members)
            found.append(loads[key])
        yield label, found


@examples(60)
@given(alike | shaped_problems(), st.floats(0.5, 2.0))
def test_what_charges_say_holds_in_every_split_up_to_the_target(problem: ThroughputProblem, factor: float) -> None:
    relaxed = uniform(problem)
    assume(relaxed.items <= 6 and relaxed.devices**relaxed.items <= 5000)
    known = list(splits(relaxed))
    best = min(max(loads) for _, loads in known)
    target = best * factor
    charged = charged_at(relaxed, target)
    charges = Charges(relaxed)
    state = charges.start(target)
    settled = charges.settle(state)
    assert settled == (charged is not None)
    feasible = [(label, loads) for label, loads in known if max(loads) <= target]
    if charged is None:
        assert not feasible
        return
    assert np.all(charged.work >= relaxed.work)
    apart = state.apart
    for label, loads in feasible:
        assert np.all(charged.parts.first <= label)
        assert np.all(label <= charged.parts.last)
        for j, load in enumerate(loads):
            members = np.flatnonzero(label == j)
            assert charged.work[members].sum() <= load + SLACK
            assert state.share[members].sum() <= 1 + SLACK
            assert not apart[np.ix_(members, members)].any(), "a pair that is apart shares a block"
        for e in np.flatnonzero(state.parts.forced):
            assert len(set(label[relaxed.net.members(int(e))].tolist())) > 1, "a forced net is not cut"


def relaxed_optimum(relaxed: BlockProblem) -> float:
    """Least largest load of all acyclic splits of the items: sets are put into blocks from first to last."""
    n, k = relaxed.items, relaxed.devices
    before = [0] * n
    for v in range(n):
        for u in relaxed.graph.before(v):
            before[v] |= 1 << int(u)
    ideals = [s for s in range(1 << n) if all(before[v] & ~s == 0 for v in range(n) if s >> v & 1)]
    load = {}
    best = {0: 0.0}
    for _ in range(k):
        better = dict(best)
        for inner, value in best.items():
            for outer in ideals:
                if inner & ~outer == 0 and inner != outer:
                    block = outer & ~inner
                    if block not in load:
                        load[block] = relaxed.load(np.array([bool(block >> v & 1) for v in range(n)]))
                    better[outer] = min(better.get(outer, np.inf), max(value, load[block]))
        best = better
    return best[(1 << n) - 1]


def alone(method: HierarchyBound, relaxed: BlockProblem, seconds: float | None = 5.0) -> float:
    """What a method proves by itself."""
    knowledge = Knowledge(relaxed)
    method.improve(knowledge, seconds)
    return knowledge.bound


OWN = (SimpleBound(), NodeBound(), FreeNodeBound(), ChargeBound(), WindowBound())


@pytest.mark.parametrize("method", OWN, ids=lambda method: method.name)
@examples(60)
@given(problem=alike | shaped_problems())
def test_never_above_the_optimum(method: HierarchyBound, problem: ThroughputProblem) -> None:
    found = method.bound(problem, Monitor(5.0))
    assert found.method == method.name
    optimum = brute_force.best(problem, found.scope)
    assert optimum is not None
    assert found.value <= optimum * (1 + SLACK) + SLACK


@examples(60)
@given(alike | shaped_problems())
def test_later_bounds_are_no_weaker(problem: ThroughputProblem) -> None:
    relaxed = uniform(problem)
    simple = alone(SimpleBound(), relaxed)
    assert simple <= alone(NodeBound(), relaxed) + SLACK
    assert simple <= alone(ChargeBound(), relaxed) + SLACK
    assert alone(FreeNodeBound(), relaxed) <= alone(NodeBound(), relaxed) + SLACK


@examples(40)
@given(alike | shaped_problems(), st.sampled_from([0.0, 0.01, None]))
def test_the_hierarchy_keeps_what_it_proves(problem: ThroughputProblem, seconds: float | None) -> None:
    """Together they are valid, with a split known or not, and say who proved what."""
    relaxed = uniform(problem)
    optimum = relaxed_optimum(relaxed)
    for value in (np.inf, optimum, 1.5 * optimum):
        knowledge = Knowledge(relaxed)
        if math.isfinite(value):
            knowledge.incumbent.offer(value, None)
        run_hierarchy(knowledge, OWN, seconds)
        assert knowledge.bound <= optimum * (1 + SLACK) + SLACK
        proven = [bound for _, bound, _ in knowledge.proven]
        assert proven == sorted(proven)
        assert [name for name, _, _ in knowledge.proven] == [method.name for method in OWN[: len(proven)]]
        if knowledge.charged is not None:
            assert knowledge.charged.target <= value


def test_a_stopped_method_returns_at_once() -> None:
    relaxed = uniform(plain(60, 8))
    knowledge = Knowledge(relaxed, stop=lambda: True)
    for method in HIERARCHY:
        method.improve(knowledge, None)
    assert knowledge.bound <= relaxed.work.sum()


def plain(operators: int, devices: int) -> ThroughputProblem:
    """A ladder: every operator feeds the next two."""
    return ThroughputProblem(
        name="ladder",
        kinds=(DeviceKind(name="a", count=devices),),
        operators=tuple(TimedOperator(id=i, times=(1.0 + i % 3,)) for i in range(operators)),
        tensors=tuple(
            MovedTensor(producer=i, consumers=tuple(range(i + 1, min(operators, i + 3))), size=1.0 + i % 2)
            for i in range(operators - 1)
        ),
    )


@pytest.mark.slow
def test_two_thousand_random_problems() -> None:
    """None of the bounds of the hierarchy is above the optimum; they run together, as they are run for people."""
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(1, 9))
        dear = float(rng.choice([0.25, 1.0, 4.0]))
        tensors = []
        for u in range(count - 1):
            readers = [v for v in range(u + 1, count) if rng.random() < rng.choice([0.15, 0.4, 0.8])]
            if readers:
                tensors.append(MovedTensor(producer=u, consumers=tuple(readers), size=dear * int(rng.integers(0, 9))))
        problem = ThroughputProblem(
            name=f"random {seed}",
            kinds=(DeviceKind(name="a", count=int(rng.integers(1, 7))),),
            operators=tuple(TimedOperator(id=i, times=(float(rng.integers(0, 9)),)) for i in range(count)),
            tensors=tuple(tensors),
        )
        relaxed = uniform(problem)
        optimum = relaxed_optimum(relaxed)
        knowledge = Knowledge(relaxed)
        run_hierarchy(knowledge, HIERARCHY, 10.0)
        for name, bound, _ in knowledge.proven:
            assert bound <= optimum * (1 + SLACK) + SLACK, f"{name} on seed {seed}"
        for method in (*OWN, CoveringBound()):
            assert alone(method, relaxed) <= optimum * (1 + SLACK) + SLACK, f"{method.name} on seed {seed}"
