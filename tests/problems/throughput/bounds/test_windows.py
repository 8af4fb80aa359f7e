"""The window bound against all splits of small problems: what it narrows, what it proves, and that it ends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from instances.strategies import examples
from partita.api.judging import bound
from partita.engines.kernels.throughput.blocks import BlockProblem
from partita.engines.kernels.throughput.mincut import block_network
from partita.engines.kernels.throughput.windows import dividing_item, new_window_room, settle_windows
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.bounds.windows import WindowBound, WindowSearch
from partita.problems.throughput.contraction.blocks import uniform
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator, UnitChain
from problems.throughput.bounds.block_problems import SLACK, block_problems
from problems.throughput.every_chain import best_of_all
from second_opinions.metamorphic import in_other_time


def splits(relaxed: BlockProblem) -> list[tuple[np.ndarray, float]]:
    """Every acyclic split of the items, with its largest load."""
    found = []
    for labels in itertools.product(range(relaxed.devices), repeat=relaxed.items):
        label = np.array(labels, dtype=np.int32)
        if not relaxed.falls(label):
            found.append((label, max(relaxed.load(label == b) for b in range(relaxed.devices))))
    return found


@examples(120)
@given(block_problems(1, 8), st.floats(0.9, 1.6), st.data())
def test_windows_keep_every_split_up_to_the_target(
    problem: ThroughputProblem, factor: float, data: st.DataObject
) -> None:
    relaxed = uniform(problem)
    n, k = relaxed.items, relaxed.devices
    assume(k**n <= 5000)
    known = splits(relaxed)
    target = min(load for _, load in known) * factor
    first = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), dtype=np.int8)
    width = np.array(data.draw(st.lists(st.integers(1, k), min_size=n, max_size=n)))
    last = np.minimum(first + width, k - 1).astype(np.int8)
    inside = [(label, load) for label, load in known if (first <= label).all() and (label <= last).all()]
    room = new_window_room(relaxed, block_network(relaxed, np.zeros(relaxed.nets, dtype=np.int8)))
    bound = settle_windows(relaxed, first, last, target * (1 + SLACK), room)
    for label, load in inside:
        assert min(bound, target) <= load + SLACK
        if load <= target:
            assert (first <= label).all(), "a window starts behind a split that should be in it"
            assert (label <= last).all(), "a window ends before a split that should be in it"
    if bound <= target and (first == last).all():
        assert any((label == first).all() and load == pytest.approx(bound) for label, load in known)


@examples(120)
@given(block_problems(1, 8))
def test_it_ends_with_the_optimum_and_a_split_that_has_it(problem: ThroughputProblem) -> None:
    relaxed = uniform(problem)
    assume(relaxed.devices**relaxed.items <= 5000)
    knowledge = Knowledge(relaxed)
    WindowBound().improve(knowledge, None)
    optimum = min(load for _, load in splits(relaxed))
    assert knowledge.bound == pytest.approx(optimum, rel=1e-7, abs=SLACK)
    assert knowledge.value == pytest.approx(optimum, rel=1e-7, abs=SLACK)


@examples(60)
@given(block_problems(1, 8), st.integers(1, 5))
def test_it_goes_on_where_it_stopped(problem: ThroughputProblem, steps: int) -> None:
    relaxed = uniform(problem)
    assume(relaxed.devices**relaxed.items <= 5000)
    left = steps
    knowledge = Knowledge(relaxed)
    everything = np.ones(relaxed.items, dtype=bool)
    knowledge.offer(np.zeros(relaxed.items, dtype=np.int32), relaxed.load(everything), "test")
    search = WindowSearch(knowledge)

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    optimum = min(load for _, load in splits(relaxed))
    before = knowledge.bound
    for _ in range(10_000):
        left = steps
        search.run(stop, "test")
        assert before <= knowledge.bound <= optimum + SLACK
        before = knowledge.bound
        if not search.open:
            break
    assert knowledge.bound == pytest.approx(optimum, rel=1e-7, abs=SLACK)


def row(count: int, size: float, devices: int, beside: int = 0) -> BlockProblem:
    """A chain of equal operators, with operators beside it that read the first one and are read by the last."""
    tensors = [MovedTensor(producer=v, consumers=(v + 1,), size=size) for v in range(count - 1)]
    others = range(count, count + beside)
    tensors += [MovedTensor(producer=0, consumers=tuple(others), size=size)] if beside else []
    tensors += [MovedTensor(producer=v, consumers=(count + beside,), size=size / 4) for v in (count - 1, *others)]
    return uniform(
        ThroughputProblem(
            name="row",
            kinds=(DeviceKind(name="a", count=devices),),
            operators=tuple(TimedOperator(id=v, times=(1.0,)) for v in range(count + beside + 1)),
            tensors=tuple(tensors),
        )
    )


def test_a_wide_graph_is_settled() -> None:
    """A main line of 40 operators with six beside it, which have too many orders for all sets to be listed."""
    knowledge = Knowledge(row(40, 3.0, 4, beside=6))
    WindowBound().improve(knowledge, None)
    assert knowledge.label is not None
    assert knowledge.bound == pytest.approx(knowledge.value, rel=1e-7)
    loads = [knowledge.uniform.load(knowledge.label == b) for b in range(4)]
    assert max(loads) == pytest.approx(knowledge.value)
    # A quarter of all work and nothing else is less than any split takes.
    assert knowledge.bound > knowledge.uniform.work.sum() / 4 + 2.9


def test_the_dividing_item_lies_amid_what_is_open() -> None:
    relaxed = row(21, 1.0, 2)
    room = new_window_room(relaxed, block_network(relaxed, np.zeros(relaxed.nets, dtype=np.int8)))
    first, last = np.zeros(22, dtype=np.int8), np.ones(22, dtype=np.int8)
    boundary, item = dividing_item(relaxed, first, last, room)
    assert boundary == 0
    assert 9 <= item <= 12
    last[:] = first
    assert dividing_item(relaxed, first, last, room) == (-1, -1)


def test_a_known_value_ends_it_at_once() -> None:
    relaxed = row(30, 0.5, 3)
    slow, fast = Knowledge(relaxed), Knowledge(relaxed)
    WindowBound().improve(slow, None)
    fast.prove(slow.bound, "test")
    assert slow.label is not None
    fast.offer(slow.label, slow.value, "test")
    WindowBound().improve(fast, None)
    assert fast.kept == {}


@examples(40)
@given(block_problems(1, 8), st.sampled_from([1e-6, 1e3]))
def test_the_unit_does_not_matter(problem: ThroughputProblem, scale: float) -> None:
    found = [Knowledge(uniform(problem)), Knowledge(uniform(in_other_time(problem, scale)))]
    for knowledge in found:
        WindowBound().improve(knowledge, None)
    assert found[1].bound == pytest.approx(found[0].bound * scale, rel=1e-6)


def test_splits_without_a_known_plan_may_be_plans() -> None:
    """Of a row the bounds know no plan for a split; they used to leave out the best ones and prove what was left."""
    rng = np.random.default_rng(4)
    proven = 0
    for _ in range(40):
        n = int(rng.integers(2, 6))
        times = rng.choice([1.0, 1e3, 5e3, 1e6], n).tolist()
        cut = sorted(rng.choice(np.arange(1, n), int(rng.integers(0, n)), replace=False).tolist())
        problem = ThroughputProblem(
            name="row",
            kinds=(DeviceKind(name="gpu", count=2),),
            operators=tuple(TimedOperator(id=v, times=(time,)) for v, time in enumerate(times)),
            row=UnitChain(units=tuple(tuple(range(a, b)) for a, b in itertools.pairwise([0, *cut, n]))),
        )
        least = best_of_all(problem)
        assert least is not None
        found = bound(problem, time_limit_s=5.0).value
        assert found <= least * (1 + 1e-9)
        proven += found >= least * (1 - 1e-6)
    assert proven >= 20
