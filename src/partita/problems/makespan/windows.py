"""Schedules of large problems by annealing one window of the order after the other (``kernels.makespan.lists``)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from partita.engines.kernels.annealing import Cooling
from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.makespan.anneal import anneal
from partita.engines.kernels.makespan.arrays import Room
from partita.engines.kernels.makespan.lists import close_window, find_lags, open_window, schedule
from partita.engines.kernels.random import generator
from partita.engines.search.incumbent import Incumbent
from partita.ground.rounding import raised
from partita.problems.annealing import AnnealingSearch, Length
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import offer, state_of
from partita.problems.makespan.problem import MakespanPlan
from partita.problems.makespan.schedules import from_room

#: Operators of a window, at least and at most.
_NARROW, _WIDE = 24, 160
#: Moves for each operator of a window, how they grow after a round in vain, and up to what.
_MOVES, _GROWTH, _MOST = 20.0, 1.5, 400.0
#: Temperatures at the start, as shares of the mean time of an operator in the window, in turn; what is left at the end.
_START, _COOLED = (0.2, 0.1, 0.4), 0.02
#: Penalty of overfull devices.
_PENALTY = 10.0
#: Operators for each window that is annealed at the same time.
_APART = 4 * _WIDE


class Windows(AnnealingSearch):
    """One search from a schedule, of ``each`` windows in a round: the state, and what follows every operator.

    Same seed, threads and number of windows, same schedules, unless told to stop. Large problems have windows that can
    be annealed at the same time.
    """

    def __init__(
        self,
        instance: MakespanInstance,
        plan: MakespanPlan,
        best: Incumbent[MakespanPlan],
        *,
        seed: int,
        threads: int,
        each: int = 40,
    ) -> None:
        super().__init__(best, seed, Length(_MOVES, _GROWTH, _MOST, in_vain=True))
        self.instance, self.threads, self.each = instance, threads, each
        self.rank = np.empty(instance.count, dtype=np.int64)
        self.rank[instance.order] = np.arange(instance.count)
        self.ends = np.array([(u, v) for u, v, f in instance.edges if f >= 0], dtype=np.int32).reshape(-1, 2)
        self.room = instance.room()
        self.rooms = [instance.room() for _ in range(max(1, threads))]
        self.free = np.zeros(instance.devices)
        self.rest = np.zeros(instance.count + len(self.ends))
        self.device, self.order = state_of(instance, plan)
        self.now = self._schedule(self.device, self.order)
        self.windows = 0
        self._look()

    def round(self, number: int) -> Iterator[None]:
        """Windows of random size and place."""
        many = max(1, min(self.threads, self.instance.count // _APART))
        with ThreadPoolExecutor(many) as pool:
            for _ in range(0, self.each, many):
                if self.done:
                    continue
                annealed = list(pool.map(self._anneal, self._choose(many)))
                # All together if the schedule is no worse for it, else each that does no harm.
                if len(annealed) == 1 or not self._accept(annealed):
                    for window in annealed:
                        self._accept([window])
        if self.now < self.best.value:
            self._schedule(self.device, self.order)
            offer(self.instance, self.best, from_room(self.instance, self.device.tolist(), self.room), "windows")
            self._look()
        yield

    def _choose(self, many: int) -> list[tuple[int, int, float, int, Room]]:
        """Windows that do not touch: first and last place, temperature as a share, seed, and a room for each."""
        n, chosen = self.instance.count, []
        share = n // many
        turn = int(self.random.integers(n)) if many > 1 else 0
        for k in range(many):
            low, high = (turn + k * share) % n, (turn + (k + 1) * share - 1) % n + 1
            if low >= high:
                # It would begin at the end and go on at the start.
                low, high = (low, n) if n - low > high else (0, high)
            width = min(high - low, int(math.exp(self.random.uniform(math.log(_NARROW), math.log(_WIDE)))))
            first = int(self.random.integers(low - width // 2, high - width // 2))
            first = min(max(first, low), high - width)
            self.windows += 1
            start = _START[self.windows % len(_START)]
            chosen.append((first, first + width, start, int(self.random.integers(2**31)), self.rooms[k]))
        return chosen

    def _anneal(self, chosen: tuple[int, int, float, int, Room]) -> tuple[int, int, Ints, Ints]:
        """A window, as it is after that: its place, and the devices and the order of its operators."""
        first, last, share, seed, room = chosen
        a, device, order = self.instance.arrays, self.device.copy(), self.order.copy()
        for mine, there in zip(room[:4], self.room[:4], strict=True):
            np.copyto(mine, there)
        open_window(a, device, order, self.place, first, last, self.rest, room)
        inside = self.order[first:last]
        start = max(float((room.end[inside] - room.start[inside]).mean()) * share, 1e-300)
        cooling = Cooling(start, start * _COOLED, int(self.length * (last - first)))
        draws = generator(seed)
        anneal(a, device, order, inside, first, last, True, _PENALTY, self.free, room, cooling, draws, self.best.stop)
        close_window(order, first, last, room)
        return first, last, device[order[first:last]], order[first:last]

    def _accept(self, annealed: list[tuple[int, int, Ints, Ints]]) -> bool:
        device, order = self.device.copy(), self.order.copy()
        for first, last, devices, inside in annealed:
            order[first:last] = inside
            device[inside] = devices
        kept = self._keep(device, order)
        if kept:
            # The order of the starts, where this does no harm: windows are then windows of time.
            self._keep(device, np.lexsort((self.rank, self.room.start)).astype(np.int32))
        self._look()
        return kept

    def _keep(self, device: Ints, order: Ints) -> bool:
        """Take a schedule that is no longer and keeps the limits; what is taken is in the room."""
        a = self.instance.arrays
        value, held = self._schedule(device, order), np.bincount(device, a.memory, self.instance.devices)
        kept = value <= self.now and bool((held <= raised(a.limit)).all())
        if kept:
            self.device, self.order, self.now = device, order, value
        else:
            self._schedule(self.device, self.order)
        return kept

    def _schedule(self, device: Ints, order: Ints) -> float:
        return float(schedule(self.instance.arrays, device, order, True, math.inf, self.room))

    def _look(self) -> None:
        """Lags of the schedule that is in the room."""
        starts = np.concatenate([self.room.start, self.room.flow_start])
        ends = np.concatenate([self.room.end, self.room.flow_end])
        tasks = np.lexsort((ends, starts))[::-1].astype(np.int64)
        find_lags(self.instance.arrays, self.device, tasks, self.ends, self.room, self.rest)
        self.place = np.empty(self.instance.count, dtype=np.int32)
        self.place[self.order] = np.arange(self.instance.count, dtype=np.int32)
