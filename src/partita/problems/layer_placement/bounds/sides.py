"""The cheapest machines that together pass a flow: a covering knapsack, depth first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from partita.ground.rounding import SUMMED

#: Sets that are tried for one cheapest one.
_TRIED = 20_000

#: Machines side by side: kind, whether it may be alone, and number of layers of each.
Side = tuple[tuple[int, bool, int], ...]


class PricedMachine(NamedTuple):
    """A machine, what it passes, and what it costs."""

    what: tuple[int, bool, int]
    rate: float
    weight: float


def cheapest(
    items: Sequence[PricedMachine], flow: float, first: Sequence[PricedMachine] | None = None
) -> tuple[float, Side | None]:
    """The least weight of two or more machines, of any numbers, that pass a flow, and one such set; infinite for none.

    One of them is one of ``first``, if that is given. Items come with the best rate for their weight first.
    """
    if not items:
        return math.inf, None
    floor = min(item.weight for item in items)
    enough = SUMMED * flow
    best, found, tried, opened = math.inf, None, 0, math.inf
    # What is still to be passed, what is spent, and the item from which on others are added: so no set comes twice.
    stack: list[tuple[float, float, int, Side]] = [(flow, 0.0, 0, ())]
    if first is not None:
        stack = [(flow - one.rate, one.weight, 0, (one.what,)) for one in first]
    while stack:
        need, spent, start, side = stack.pop()
        if spent + _rest(items, start, need, len(side), floor) >= best - 1e-12:
            continue
        tried += 1
        if tried > _TRIED:
            # What is below this one is not known, but for what it costs at least.
            opened = min(opened, spent + _rest(items, start, need, len(side), floor))
            continue
        for place in range(len(items) - 1, start - 1, -1):
            item = items[place]
            now, cost, chosen = need - item.rate, spent + item.weight, (*side, item.what)
            if now <= enough and len(chosen) >= 2:
                if cost < best:
                    best, found = cost, chosen
            elif cost + _rest(items, place, now, len(chosen), floor) < best - 1e-12:
                stack.append((now, cost, place, chosen))
    return min(best, opened) * (1 - SUMMED), found


def _rest(items: Sequence[PricedMachine], start: int, need: float, chosen: int, floor: float) -> float:
    """The least that is still to be spent: at the best rate for its weight, and on a second machine."""
    return max(max(0.0, need) * items[start].weight / items[start].rate, floor if chosen < 2 else 0.0)
