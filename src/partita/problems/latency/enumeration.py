"""Every placement of a tiny problem: the plainest proof there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from partita.kernels.latency.arrays import Ints
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.view import View

#: Placements up to which a problem is tiny; symmetric ones count, too.
MOST = 60_000


def tiny(view: View) -> bool:
    """Whether all placements can be tried."""
    passes = view.passes
    choices = view.slots // view.passes + 1
    return view.count * math.log(choices) + math.log(passes) <= math.log(MOST)


def best_placement(
    view: View, offer: Callable[[float, LatencyPlan], object], stopping: Callable[[], bool]
) -> float | None:
    """The optimum, every better plan offered on the way; None if it was stopped.

    Accelerators are alike: one is used only after all before it. Forward and backward pieces of an accelerator are
    tried in every order.
    """
    best = float("inf")
    for slot in _placements(view):
        if stopping():
            return None
        for plan in _orders(view, view.plan(slot)):
            worth = evaluate(view.problem, plan)
            if worth.feasible and worth.objective < best:
                best = worth.objective
                offer(best, plan)
    return best


def _orders(view: View, plan: LatencyPlan) -> Iterator[LatencyPlan]:
    """The plan with the pieces of every accelerator in every order where their order is not in the slots."""
    if view.passes == 1:
        yield plan
        return
    for rows in itertools.product(*(itertools.permutations(row) for row in plan.accelerators)):
        yield LatencyPlan(accelerators=rows)


def _placements(view: View) -> Iterator[Ints]:
    """Placements that keep memory and classes."""
    a, n = view.arrays, view.count
    each, pieces = view.passes * view.problem.pieces, view.problem.pieces
    devices = view.problem.accelerators
    slot = np.full(n, view.slots, np.int32)
    held = [0.0] * devices
    home: dict[int, int] = {}

    def place(v: int, used: int) -> Iterator[Ints]:
        if v == n:
            yield slot
            return
        group = int(a.class_of[v])
        first = group not in home
        for device in range(-1, min(used + 1, devices)) if first else (home[group],):
            home[group] = device
            if device < 0:
                slot[v] = view.slots
                yield from place(v + 1, used)
            elif a.acc[v] < np.inf and held[device] + a.mem[v] <= a.limit[0]:
                held[device] += float(a.mem[v])
                for j in range(pieces):
                    slot[v] = device * each + int(a.part[v]) * pieces + j
                    yield from place(v + 1, max(used, device + 1))
                held[device] -= float(a.mem[v])
        if first:
            home.pop(group, None)

    yield from place(0, 0)
