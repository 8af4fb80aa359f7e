"""Two devices split anew, against every split of their items."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from partita.engines.kernels.arrays import Ints
from partita.problems.throughput.evaluate import evaluate
from partita.problems.throughput.free import pairs
from partita.problems.throughput.free.pairs import PairSplits
from partita.problems.throughput.free.search import FreeIncumbent, start
from problems.throughput.free.drawn import drawn


def least_of_all(best: FreeIncumbent, label: Ints, pair: tuple[int, int], limit: float, exponent: float) -> float:
    """The least Σ load^exponent of two devices within a limit, by looking at every split of what they hold."""
    least = float("inf")
    items = np.flatnonzero(np.isin(label, pair))
    for chosen in itertools.product(pair, repeat=len(items)):
        new = label.copy()
        new[items] = chosen
        load = best.free.state(new).load[list(pair)]
        if load.max() <= limit:
            least = min(least, float((load**exponent).sum()))
    return least


def test_a_pair_is_split_as_well_as_it_can_be() -> None:
    """Both of one kind or of two, with nets that third devices touch or not, and memory out of the way."""
    found = missed = mixed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        best = start(drawn(seed, items=11, reach=4, devices=3))
        arrays = best.free.arrays
        walk, draws = PairSplits(best.free), np.random.default_rng(seed)
        label = rng.integers(0, 3, best.free.items).astype(np.int32)
        label[rng.random(best.free.items) < 0.3] = len(arrays.kind_of) - 1
        one, two, third = rng.permutation(len(arrays.kind_of))[:3].tolist()
        # Items that one of the two cannot run are not moved.
        label[~np.isfinite(arrays.work[:, arrays.kind_of[[one, two]]]).all(axis=1)] = third
        held = np.isin(label, (one, two))
        if held.sum() < 2:
            continue
        load = best.free.state(label).load
        exponent = float(rng.choice([1.0, 8.0]))
        # A limit in between: no load is near it.
        limit = float(np.ceil(max(load[one], load[two]) * rng.uniform(0.7, 1.1))) + 0.5
        new = walk.split(draws, label, (one, two), limit, exponent)
        now = float((load[[one, two]] ** exponent).sum())
        least = least_of_all(best, label, (one, two), limit, exponent)
        mixed += arrays.kind_of[one] != arrays.kind_of[two]
        if new is None:
            assert least >= now * (1 - 1e-9)
            missed += 1
            continue
        after = best.free.state(new).load
        assert (new[~held] == label[~held]).all()
        assert np.isin(new[held], (one, two)).all()
        assert after[[one, two]].max() <= limit
        assert float((after[[one, two]] ** exponent).sum()) == pytest.approx(least, rel=1e-9)
        found += 1
    assert found > 15
    assert missed > 0
    assert mixed > 3


def test_a_walk_ends_with_a_split_of_the_value_it_is_taken_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """From everything on one device, with few labels for each state."""
    monkeypatch.setattr(pairs, "STATE_LABELS", 4)
    problem = drawn(3, items=30, devices=3)
    best = start(problem)
    assert not PairSplits(best.free).run(best, np.random.default_rng(0), lambda: False)
    best.take(np.zeros(best.free.items, dtype=np.int32))
    before = best.value
    assert PairSplits(best.free).run(best, np.random.default_rng(0), lambda: False)
    assert best.answer is not None
    assert best.bound <= best.value < 0.5 * before
    assert evaluate(problem, best.free.plan(best.answer)).objective == pytest.approx(best.value, rel=1e-9)
