"""Large-neighbourhood search: CP-SAT decides a few operators anew, the rest keeps its devices and its order on them.

Source of the method: Shaw, "Using constraint programming and local search methods to solve vehicle routing problems"
(1998). Neighbourhoods are operators that follow each other in time, or that are connected. Transfers are free to move,
so that a neighbourhood may change the end of the whole wherever it lies.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks
from partita.engines.mip.schedule import ScheduleModel, solve_schedule
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.result import Status
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import offer
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import devices_of, order_of
from partita.problems.makespan.timetable import Timetable, timetable

#: Operators of a neighbourhood at first, and at least; seconds for one.
_SIZE, _LEAST, _EACH_S = 16, 6, 3.0
#: How a neighbourhood grows that was searched through, and shrinks that was not.
_GROWTH, _SHRINK = 1.15, 0.8


class Neighbourhoods:
    """One search; the incumbent must have a schedule."""

    def __init__(self, instance: MakespanInstance, best: Incumbent[MakespanPlan], options: MakespanOptions) -> None:
        self.instance, self.best, self.options = instance, best, options
        self.random = random.Random(options.seed)
        self.size = float(_SIZE)
        self.tried = 0

    def run(self, count: int, stop: Callable[[], bool], left_s: Callable[[], float]) -> bool:
        """Search so many neighbourhoods; whether the incumbent became better."""
        before = self.best.value
        for _ in range(count):
            if stop() or left_s() <= 0 or not self._search(stop, min(_EACH_S, left_s())):
                break
        self.best.counters["neighbourhoods"] = self.tried
        return self.best.value < before

    def _search(self, stop: Callable[[], bool], time_s: float) -> bool:
        """One neighbourhood; false if there can be nothing better."""
        value, plan, _ = self.best.snapshot()
        assert plan is not None
        table = timetable(self.instance, value)
        device, order = devices_of(self.instance, plan), order_of(self.instance, plan)
        free = self._chosen(order)
        point = table.point(plan)
        model = _narrowed(table, device, order, free, int(point[-1]) - 1)
        if model.horizon < 0:
            return False
        self.tried += 1
        answer = solve_schedule(
            model,
            time_limit_s=time_s,
            threads=self.options.threads,
            seed=self.options.seed + self.tried,
            # Devices come first; times that lie beyond are none.
            warm_start=np.concatenate([point[: len(device)], np.minimum(point[len(device) :], model.horizon)]),
            callbacks=Callbacks(stop=stop, on_incumbent=lambda found, _: self._offer(table, found)),
        )
        if answer.values is not None:
            self._offer(table, answer.values)
        ended = answer.status in (Status.OPTIMAL, Status.INFEASIBLE)
        self.size = max(_LEAST, min(self.size * (_GROWTH if ended else _SHRINK), self.instance.count))
        return True

    def _offer(self, table: Timetable, point: Floats) -> None:
        offer(self.instance, self.best, table.schedule(point), "neighbourhoods")

    def _chosen(self, order: list[int]) -> set[int]:
        """Operators that follow each other in time, or a connected set."""
        size, n = max(1, int(self.size)), len(order)
        if self.random.random() < 0.6:
            first = self.random.randrange(max(1, n - size + 1))
            return set(order[first : first + size])
        found = {self.random.choice(order)}
        rim = set(found)
        while rim and len(found) < size:
            v = self.random.choice(sorted(rim))
            near = [w for w, _ in itertools.chain(self.instance.before[v], self.instance.after[v]) if w not in found]
            if not near:
                rim.discard(v)
                continue
            w = self.random.choice(near)
            found.add(w)
            rim.add(w)
        return found


def _narrowed(table: Timetable, device: list[int], order: list[int], free: set[int], horizon: int) -> ScheduleModel:
    """The model in which only some operators may change their device, or their order with others on one device.

    With one member of a group that may change all of it may.
    """
    model = table.model
    free = free | {v for group in model.groups if free & set(group) for v in group}
    time = model.time.copy()
    for v, d in enumerate(device):
        if v not in free:
            time[v, :d] = time[v, d + 1 :] = -1
    edges = list(model.edges)
    if model.serial[0]:
        rows: dict[int, list[int]] = {}
        for v in order:
            if v not in free:
                rows.setdefault(device[v], []).append(v)
        edges += [(u, v, -1) for row in rows.values() for u, v in itertools.pairwise(row)]
    # Heads and tails of the whole problem hold for less of it, too.
    return dataclasses.replace(model, time=time, edges=tuple(edges), horizon=horizon)
