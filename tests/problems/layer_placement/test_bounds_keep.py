"""The cheapest machines side by side, against all sets of them."""

from __future__ import annotations

import itertools
import math
import random

from partita.problems.layer_placement.bounds.sides import PricedMachine, cheapest


def test_the_cheapest_set_is_the_cheapest_of_all() -> None:
    """Of two to five machines of any numbers; with and without one that holds so many layers."""
    found = 0
    for seed in range(300):
        rng = random.Random(seed)
        drawn = [
            PricedMachine((kind, True, k), rng.randint(1, 12) / 2, rng.randint(1, 8) / 4)
            for kind in range(rng.randint(1, 2))
            for k in range(1, rng.randint(2, 4))
        ]
        items = sorted(drawn, key=lambda item: (item.weight / item.rate, item.what))
        flow, size = rng.randint(1, 8) / 2 + 0.25 * rng.randint(0, 1), rng.randint(0, 2)
        # Rates are at least one half, so that nine machines are enough for these flows.
        sets = (
            [
                side
                for count in range(2, 10)
                for side in itertools.combinations_with_replacement(items, count)
                if sum(item.rate for item in side) >= flow and (not size or any(item.what[2] == size for item in side))
            ]
            if flow <= 4.25 and len(items) <= 4
            else []
        )
        if not sets:
            continue
        least = min(sum(item.weight for item in side) for side in sets)
        value, side = cheapest(items, flow, [item for item in items if item.what[2] == size] if size else None)
        assert side is not None
        weight = {item.what: item.weight for item in items}
        assert least * (1 - 1e-9) <= value <= least
        assert sum(weight[what] for what in side) == least
        assert not size or any(what[2] == size for what in side)
        found += 1
    assert found > 100


def test_without_machines_there_is_no_set() -> None:
    assert cheapest([], 1.0) == (math.inf, None)
    assert cheapest([PricedMachine((0, True, 2), 5.0, 1.0)], 1.0, []) == (math.inf, None)
