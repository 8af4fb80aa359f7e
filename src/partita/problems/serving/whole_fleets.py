"""The fleet of whole units that all values of requests together allow most: an integer program.

For every row of values (``partita.problems.serving.request_values``) the units of a fleet have a capacity, and serve no
more requests per second than all rows allow. The program counts units of every form and role, each kind of device by
itself: no more devices than there are, and of groups that lie inside a machine no more than machines have room for. Its
bound is one for every fleet. Forms that another one of no more devices beats in all rows are left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import available, solve_program
from partita.engines.search.result import Status
from partita.problems.serving.fleets import FleetBound
from partita.problems.serving.mixes import ROOM
from partita.problems.serving.packing import blocks_of

#: Seconds that the program may take.
_LIMIT_S = 10.0
#: Rows of values that it begins with, and that come in at once; how near bounds are.
_FIRST, _MORE, _GAP = 30, 10, 1e-3


class WholeFleets:
    """The integer program over the items of a bound, of runs of so many seconds or fewer."""

    def __init__(self, bound: FleetBound, longest_s: float = math.inf) -> None:
        self.bound = bound
        finite = np.isfinite(bound.capacities).all(axis=1)
        totals = bound.values.total[finite]
        #: (V, items) Requests per second that a unit stands for, by rows of values.
        self.rates = bound.capacities[finite] / totals[:, None] * bound.count
        # At the end of a run, units for prompts have nothing to do while the last request is decoded.
        busy = max(0.0, 1 - bound.decoding_s / longest_s) if longest_s > 0 else 1.0
        self.rates[:, [item.role == "prefill" for item in bound.items]] *= busy * (1 + ROOM)
        self.sizes = {
            pool.kind: sorted({size for item in bound.items for size in blocks_of(item.form, pool.machines)})
            for pool in bound.problem.pools
        }
        #: Of each item what a unit takes: devices, then groups of at least each size.
        self.rooms = [self._room(place) for place in range(len(bound.items))]
        #: Places of the items that no other beats.
        self.items = self._undominated()

    def _room(self, place: int) -> Longs:
        item = self.bound.items[place]
        blocks = blocks_of(item.form, self.bound.problem.pool(item.form.kind).machines)
        groups = [sum(n for own, n in blocks.items() if own >= size) for size in self.sizes[item.form.kind]]
        return np.array([item.form.devices, *groups], np.int64)

    def _undominated(self) -> list[int]:
        items = self.bound.items
        rooms = self.rooms
        kept: list[int] = []
        worth = self.rates.sum(0)
        for place in np.lexsort((np.arange(len(items)), -worth)).tolist():
            beaten = any(
                items[one].form.kind == items[place].form.kind
                and (rooms[one] <= rooms[place]).all()
                and (self.rates[:, one] >= self.rates[:, place]).all()
                for one in kept
            )
            if not beaten and worth[place] > 0:
                kept.append(place)
        return sorted(kept)

    def _program(self) -> tuple[MixedProgram, list[int]]:
        program, problem = MixedProgram(), self.bound.problem
        counts = []
        for place in self.items:
            form = self.bound.items[place].form
            pool = problem.pool(form.kind)
            cost = pool.cost_per_device * form.devices if problem.goal == "cost" else 0.0
            counts.append(program.add_count(pool.devices // form.devices, cost))
        for pool in problem.pools:
            own = [
                (n, self.rooms[i])
                for n, i in zip(counts, self.items, strict=True)
                if self.bound.items[i].form.kind == pool.kind
            ]
            limits = [pool.devices, *(sum(m // size for m in pool.machines) for size in self.sizes[pool.kind])]
            for row, limit in enumerate(limits):
                program.add_row([(n, float(room[row])) for n, room in own], upper=float(limit))
        return program, counts

    def least(self, stop: Callable[[], bool]) -> float:
        """The objective of every fleet at least: seconds per request, or costs of what keeps up; 0 without a proof."""
        if self.bound.problem.goal == "cost":
            return max(0.0, self._solved(stop)) if self.bound.longest_s > 0 else 0.0
        found = self._solved(stop)
        return 1.0 / -found if found < 0 and math.isfinite(found) else 0.0

    def _solved(self, stop: Callable[[], bool]) -> float:
        """A bound on the program; minus infinity for none, infinity where it has no solution.

        Rows of values come in as the best fleets of those before break them.
        """
        if not self.items or not len(self.rates) or not available("highs"):
            return -math.inf
        rates, begun, best = self.rates[:, self.items], time.monotonic(), -math.inf
        asked = self.bound.count / max(self.bound.longest_s, 1e-30) * (1 - ROOM)
        most = self.bound.in_parts(self.rates)
        program, counts = self._program()
        rate = (
            program.add_continuous(asked, asked)
            if self.bound.problem.goal == "cost"
            else program.add_continuous(0.0, float(most.min()) * 1.01, cost=-1.0)
        )
        new = np.argsort(most, kind="stable")[:_FIRST]
        used: set[int] = set()
        while len(new) and not stop():
            for place in new.tolist():
                program.add_row([*zip(counts, rates[place].tolist(), strict=True), (rate, -1.0)], lower=0.0)
            used.update(new.tolist())
            left = _LIMIT_S - (time.monotonic() - begun)
            if left <= 0:
                break
            found = solve_program(program, "highs", time_limit_s=left, gap=_GAP, callbacks=Callbacks(stop=stop))
            if found.status is Status.INFEASIBLE:
                return math.inf
            best = max(best, found.bound)
            if found.values is None:
                break
            allowed = rates @ np.rint(found.values[counts])
            broken = np.argsort(allowed, kind="stable")[:_MORE]
            limit = float(found.values[rate]) * (1 - _GAP)
            new = np.array(
                [place for place in broken.tolist() if allowed[place] < limit and place not in used], np.int64
            )
        return best


def least_whole(bound: FleetBound, stop: Callable[[], bool]) -> float:
    """The objective of every fleet of whole units at least; 0 without a proof.

    How long units for prompts have nothing to do counts most in short runs: if runs of T seconds or fewer need more
    than T, all runs take more than T; otherwise they take what those need.
    """
    least = WholeFleets(bound).least(stop)
    if bound.problem.goal == "cost" or not 0 < least < math.inf or not bound.decoding_s:
        return least
    longest = least
    for _ in range(2):
        needed = WholeFleets(bound, longest * bound.count).least(stop)
        least, longest = max(least, min(longest, needed)), needed
        if not least < longest < math.inf:
            break
    return least
