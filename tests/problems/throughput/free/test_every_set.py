"""Lists of all sets against all subsets, the search among them against every choice, and proofs that rest on both."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from partita.api.solving import solve
from partita.engines.mip.solve import available
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.free import every_set, narrow
from partita.problems.throughput.free.bound import covering
from partita.problems.throughput.free.columns import DeviceSets
from partita.problems.throughput.free.every_set import EverySet, ListedSets, Remainder, TargetFound, search_sets
from partita.problems.throughput.free.narrow import path_room
from partita.problems.throughput.free.narrow_covering import NarrowCovering
from partita.problems.throughput.free.search import free_instance, start
from problems.throughput.free.drawn import drawn
from problems.throughput.free.test_narrow import finders

needs_highs = pytest.mark.skipif(not available("highs"), reason="highspy is not installed")


@pytest.mark.parametrize("steps", [10_000, 3])
def test_all_sets_are_listed_once(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However coarse the outlooks are."""
    monkeypatch.setattr(narrow, "MOST_LISTED", steps)
    room, listed = path_room(100_000, 10_000), 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        free = free_instance(drawn(seed, items=9))
        columns = DeviceSets(start(free.problem), lambda: False)
        every = [np.array(chosen) for chosen in itertools.product((False, True), repeat=free.items)]
        for kind, finder in finders(free).items():
            charge, target = rng.random(free.items), float(rng.uniform(5, 40))
            light = [items for items in every if columns.load(kind, items) <= target]
            held = {items.tobytes(): float(charge[items].sum()) for items in light}
            # Sets that carry nothing may be left out.
            floor = max(1e-6, float(np.quantile(list(held.values()), rng.choice([0.0, 0.7, 0.95]))))
            found = finder.listed(charge, target, floor, room)
            assert found is not None
            sets, loads = found
            assert loads == pytest.approx([columns.load(kind, items) for items in sets])
            keys = [items.tobytes() for items in sets]
            assert len(set(keys)) == len(keys)
            assert {key for key, carried in held.items() if carried >= floor} <= set(keys) <= set(held)
            assert all(held[key] >= floor * (1 - 1e-9) - 1e-9 for key in keys)
            listed += len(keys)
            assert len(keys) < 2 or finder.listed(charge, target, floor, path_room(len(keys) // 2, 5)) is None
    assert listed > 500


def drawn_sets(seed: int) -> tuple[ListedSets, list[int]]:
    """Sets of some items, and how many of each kind there may be."""
    rng = np.random.default_rng(seed)
    n, number, kinds = int(rng.integers(5, 9)), int(rng.integers(4, 14)), int(rng.integers(1, 3))
    items = rng.random((number, n)) < rng.choice([0.3, 0.5])
    lacks = np.sort(rng.random(number))
    beside = Remainder(
        0.0, rng.integers(1, 6, n).astype(float), float(rng.integers(0, 9)), 0.2 * rng.random(n), np.zeros(n)
    )
    if rng.random() < 0.3:
        beside = beside._replace(time=np.full(n, np.inf), limit=0.0)
    kind = rng.integers(0, kinds, number).astype(np.int32)
    sets = ListedSets(
        items, np.zeros(number), kind, lacks, float(rng.uniform(0.5, 3)), np.full(kinds, 0.7), 1.0, True, beside
    )
    return sets, rng.integers(1, 4, kinds).tolist()


def fits(sets: ListedSets, left: list[int], chosen: tuple[int, ...]) -> bool:
    """Whether sets are apart, no more of a kind than there may be, and what they leave fits beside them."""
    taken = sets.items[list(chosen)].sum(0)
    rest = taken == 0
    counts = np.bincount(sets.kind[list(chosen)], minlength=len(left))
    costs = sets.lacks[list(chosen)].sum() + sets.beside.costs[rest].sum()
    return bool(
        (taken <= 1).all()
        and (counts <= left).all()
        and costs <= sets.room
        and sets.beside.time[rest].sum() <= sets.beside.limit
    )


def test_sets_are_found_where_some_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is cut short goes on where it was."""
    monkeypatch.setattr(every_set, "STEPS", 3)
    outcomes = [0, 0]
    for seed in range(400):
        sets, left = drawn_sets(seed)
        number = len(sets.kind)
        choices = itertools.chain.from_iterable(itertools.combinations(range(number), k) for k in range(5))
        # Devices that get no set lack all that a set can carry, which is more than the cheapest one.
        allowed = [one for one in choices if len(one) == sum(left) and fits(sets, left, one)]
        found, picked = search_sets(sets, left, lambda: False)
        assert found is not TargetFound.HARD
        if allowed:
            assert found is TargetFound.SPLIT
            outcomes[1] += 1
        if found is TargetFound.SPLIT:
            assert fits(sets, left, tuple(picked))
        else:
            outcomes[0] += 1
    assert min(outcomes) >= 40


def prepared(seed: int, *, uneven: bool) -> tuple[EverySet, float]:
    """A problem on three devices with a split that is far off, and the least objective; loads hardly ever meet."""
    problem, rng = drawn(seed, items=13, devices=3, reach=4), np.random.default_rng(seed)
    operators = tuple(
        msgspec.structs.replace(op, times=tuple(None if t is None else t * more for t in op.times))
        for op, more in zip(problem.operators, rng.uniform(0.7, 1.3, len(problem.operators)).tolist(), strict=True)
    )
    if uneven:
        problem = problem.replace(operators=operators)
    best = start(problem)
    best.take(np.zeros(best.free.items, dtype=np.int32))
    charges = covering(best, lambda: False)
    assert isinstance(charges, NarrowCovering)
    least = solve(problem, contiguity="free", solver="highs", explain=False).objective
    assert least is not None
    return EverySet(charges, lambda: False), least


@needs_highs
@pytest.mark.parametrize("uneven", [False, True])
def test_whatever_charges_are_targets_are_refuted_where_there_is_no_split(
    uneven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charges that are not the best leave many sets, among which the search has to look."""
    monkeypatch.setattr(NarrowCovering, "nearest", lambda own, *asked: own.centre)
    refuted = split = 0
    for seed in range(12):
        every, least = prepared(seed, uneven=uneven)
        best, rng = every.best, np.random.default_rng(seed)
        if not every.supported:
            continue
        centre = every.charges.centre
        for target in (0.98 * least, least * (1 - 1e-6), least * (1 + 1e-6)):
            every.charges.centre = centre * rng.uniform(0.9, 1.1, len(centre))
            found = every.tried(target)
            assert found is (TargetFound.SPLIT if target > least else TargetFound.REFUTED)
            refuted += found is TargetFound.REFUTED and every.listed > 0
        assert best.value == pytest.approx(least, rel=2e-6)
        assert best.bound == pytest.approx(least, rel=2e-6)
        assert best.answer is not None
        assert evaluate(best.free.problem, best.free.plan(best.answer)).objective == pytest.approx(best.value, rel=1e-9)
        split += 1
    assert refuted >= 12
    assert split >= 6


@needs_highs
def test_targets_move_until_the_gap_is_closed() -> None:
    for seed in range(8):
        every, least = prepared(seed, uneven=True)
        if every.supported:
            every.charges.run(1e-2)
            every.run()
            assert every.best.closed
            assert every.best.value == pytest.approx(least, rel=1e-9)


@needs_highs
def test_too_many_sets_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_set, "MOST_SETS", 2)
    monkeypatch.setattr(NarrowCovering, "nearest", lambda own, *asked: own.centre)
    hard = 0
    for seed in range(8):
        every, least = prepared(seed, uneven=True)
        if every.supported and every.tried(0.9999 * least) is TargetFound.HARD:
            assert every.following < 0.9999 * least
            assert every.best.bound < 0.9999 * least
            hard += 1
    assert hard >= 4
