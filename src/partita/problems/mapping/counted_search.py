"""The search on counted machines: orders that people take, tiles of every shape, and the bounds of sorts.

Source: own. Tiles are looked at by their loads as arrays; what is better than the best goes through ``evaluate``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.mapping.bounds.counted_machines import CountedBounds
from partita.problems.mapping.bounds.domains import Thresholds
from partita.problems.mapping.bounds.moving import lowered
from partita.problems.mapping.bounds.neighbours import Neighbours
from partita.problems.mapping.counted import CountedInstance
from partita.problems.mapping.options import Outcome
from partita.problems.mapping.orders import chains, consecutive
from partita.problems.mapping.problem import MappingProblem, Placement
from partita.problems.mapping.tiles import tilings
from partita.problems.outcome import searched


def counted_search(problem: MappingProblem, monitor: Monitor) -> Outcome:
    """The best mapping of a problem whose machines are counted, and the bound of ``thresholds``."""
    best: Incumbent[Placement] = Incumbent()

    def work() -> None:
        instance = CountedInstance(problem)
        if not instance.enough:
            best.refute("counting devices")
            return
        bounds = CountedBounds(instance)
        first = bounds.neighbours()
        chosen, value = None, np.inf
        for device in _candidates(instance, bounds, first):
            worst = float(instance.loads(device).max())
            if chosen is None or worst < value:
                chosen, value = device, worst
            if best.done:
                break
        if chosen is not None:
            instance.offer(best, chosen, "tiles")
        best.prove(lowered(instance, first), Neighbours.name)
        second = max(first, bounds.left())
        best.prove(lowered(instance, second), Thresholds.name)
        bounds.thresholds(second, best.value, lambda: best.done, lambda low: best.prove(low, Thresholds.name))

    found: Outcome = searched(best, monitor, work)
    return found


def _candidates(instance: CountedInstance, bounds: CountedBounds, target: float) -> Iterator[Ints]:
    yield consecutive(instance)
    yield chains(instance)
    # Of several sorts, those where every stage is as fast as can be may be too few.
    for limit in (target, 2.0 * target, np.inf) if len(instance.room) > 1 else (np.inf,):
        yield from tilings(instance, limit, bounds.least)
