"""Richest sets along narrow orders against all sets, and the charges that rest on them against other proofs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from partita.api.solving import solve
from partita.engines.kernels.arrays import Floats
from partita.engines.mip.solve import available
from partita.engines.search.monitor import Monitor
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.free import narrow
from partita.problems.throughput.free.bound import FreeCoveringBound, covering
from partita.problems.throughput.free.columns import DeviceSets
from partita.problems.throughput.free.covers import split_of_sets
from partita.problems.throughput.free.narrow import NarrowSets, narrow_states, order_of
from partita.problems.throughput.free.narrow_covering import NarrowCovering
from partita.problems.throughput.free.search import FreeIncumbent, FreeInstance, FreeRounds, free_instance, start
from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator
from problems.throughput.free.drawn import drawn

needs_highs = pytest.mark.skipif(not available("highs"), reason="highspy is not installed")


def finders(free: FreeInstance) -> dict[int, NarrowSets]:
    """One for each kind."""
    arrays = free.arrays
    order = order_of(arrays)
    assert order is not None
    assert sorted(order.tolist()) == list(range(free.items))
    found = {}
    for kind in set(arrays.kind_of.tolist()):
        states = narrow_states(arrays, kind, order)
        assert states is not None
        found[kind] = NarrowSets(states, order, lambda: False)
    return found


def richest_of_all(columns: DeviceSets, kind: int, charge: Floats, target: float) -> float:
    """The same by looking at every set."""
    best = 0.0
    for chosen in itertools.product((False, True), repeat=columns.items):
        items = np.array(chosen)
        if float(charge[items].sum()) > best and columns.load(kind, items) <= target:
            best = float(charge[items].sum())
    return best


@pytest.mark.parametrize("coarse", [(), ("MOST_STEPS",), ("ALL_STEPS",)], ids=["whole", "coarse", "crowded"])
def test_the_richest_set_is_the_richest_of_all(coarse: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where outlooks have to be made coarse, and labels have to find what these leave open."""
    for name in (*coarse, "FEWEST_STEPS", "FEW_LABELS") if coarse else ():
        monkeypatch.setattr(narrow, name, 2)
    compared = looked = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        free = free_instance(drawn(seed, items=9))
        columns = DeviceSets(start(free.problem), lambda: False)
        for kind, finder in finders(free).items():
            for target in rng.uniform(2, 40, size=2).tolist():
                charge = rng.random(free.items) * (rng.random(free.items) < 0.8)
                real = richest_of_all(columns, kind, charge, target)
                floor = float(rng.choice([0.0, 0.9 * real, 1.1 * real]))
                found = finder.richest(charge, target, floor, exact=True)
                assert found.most == pytest.approx(max(floor, real), rel=1e-9, abs=1e-9)
                assert found.most >= real
                assert finder.richest(charge, target, floor, exact=False).most >= real
                for items, load in zip(found.sets, found.loads, strict=True):
                    assert columns.load(kind, items) == pytest.approx(load, abs=1e-9)
                    assert load <= target * (1 + 1e-9)
                if real > floor:
                    assert max(float(charge[items].sum()) for items in found.sets) == pytest.approx(real, rel=1e-9)
                compared += 1
            looked += finder.searches
    assert compared > 100
    assert looked > (80 if coarse else 0)


def test_a_search_with_too_many_labels_says_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "PLACE_LABELS", 3)
    monkeypatch.setattr(narrow, "MOST_STEPS", 2)
    monkeypatch.setattr(narrow, "FEWEST_STEPS", 2)
    given_up = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        free = free_instance(drawn(seed, items=9))
        columns, charge = DeviceSets(start(free.problem), lambda: False), rng.random(free.items)
        for kind, finder in finders(free).items():
            most = finder.richest(charge, 20.0, 0.0, exact=True).most
            assert most >= richest_of_all(columns, kind, charge, 20.0)
            given_up += finder.too_many
    assert given_up > 10


def test_wide_graphs_have_no_narrow_order() -> None:
    """All tensors of the first half go to all of the second half."""
    half = 2 * narrow.WIDEST
    problem = ThroughputProblem(
        name="wide",
        kinds=(DeviceKind(name="gpu", count=2),),
        operators=tuple(TimedOperator(id=v, times=(1.0,)) for v in range(2 * half)),
        tensors=tuple(MovedTensor(producer=v, consumers=tuple(range(half, 2 * half)), size=1.0) for v in range(half)),
    )
    arrays = free_instance(problem).arrays
    assert order_of(arrays) is None


def charges_of(best: FreeIncumbent) -> NarrowCovering:
    """Those of a narrow problem."""
    charges = covering(best, lambda: False)
    assert isinstance(charges, NarrowCovering)
    return charges


@needs_highs
def test_charges_refute_nothing_that_is_there() -> None:
    """With everything at hand for charges, their bound stays below what the backends prove, and is often the same."""
    met = 0
    for seed in range(12):
        problem = drawn(seed, items=14, devices=3)
        best = start(problem)
        FreeRounds(best, 0).run(rounds=4)
        charges = charges_of(best)
        charges.run()
        least = solve(problem, contiguity="free", solver="highs", explain=False)
        assert least.objective is not None
        assert least.status == "optimal"
        assert best.bound <= least.objective * (1 + 1e-9)
        assert charges.columns.known
        met += best.bound >= least.objective * (1 - 1e-5)
    assert met >= 4


@needs_highs
def test_the_covering_bound_ends_by_itself() -> None:
    value = FreeCoveringBound().bound(drawn(3, items=40), Monitor())
    assert value.value > 0


@needs_highs
def test_splits_are_made_of_the_sets_that_charges_found() -> None:
    """From a first split that is far off: what the sets make is a split with the value that it is taken for."""
    better = 0
    for seed in range(8):
        problem = drawn(seed, items=14, devices=3)
        best = start(problem)
        best.take(np.zeros(best.free.items, dtype=np.int32))
        before = best.value
        charges = charges_of(best)
        charges.run(1e-3)
        if split_of_sets(best, charges.columns, charges.centre, lambda: False):
            assert best.answer is not None
            assert evaluate(problem, best.free.plan(best.answer)).objective == pytest.approx(best.value, rel=1e-9)
            assert best.bound <= best.value < before
            better += 1
    assert better >= 4
