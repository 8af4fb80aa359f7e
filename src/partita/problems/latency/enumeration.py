"""Every placement of a small problem: the plainest proof there is.

Placements are made one operator after the other, in topological order, and left where what is placed takes too long
already; see ``kernels.latency.branches``. Accelerators are alike: one is used only after all before it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from partita.engines.kernels.latency.branches import FOUND, OVER, branch, rests
from partita.ground.rounding import rounded_down
from partita.problems.latency.evaluate import evaluate
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.view import View

#: Operators and slots up to which all placements are tried, and operators whose search ends by itself.
MOST_OPERATORS, MOST_SLOTS, FEW = 24, 62, 12
#: Placements of some operators that are looked at for more than a few, and between two looks at the stop button.
MOST_STEPS, TURN = 3_000_000, 100_000
#: Placements up to which there is nothing better to begin with.
TINY = 60_000


def tiny(view: View) -> bool:
    """Whether trying all placements takes no time."""
    choices = view.slots // view.passes + 1
    return few(view) and view.count * math.log(choices) + math.log(view.passes) <= math.log(TINY)


def few(view: View) -> bool:
    """Whether all placements can be tried, most likely."""
    return view.count <= MOST_OPERATORS and view.slots <= MOST_SLOTS


def best_placement(
    view: View, known: float, offer: Callable[[float, LatencyPlan], object], stopping: Callable[[], bool]
) -> float | None:
    """What no plan takes less than: the optimum, or what is ``known`` if nothing is better. None if it was stopped.

    Every plan that is better than what is known is offered on the way. Forward and backward pieces of an accelerator
    are tried in every order.
    """
    a, n = view.arrays, view.count
    barred = np.array(view.barred, np.int32)[a.group.of]
    rest = rests(a, barred)
    slot, choice, at = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(1, np.int64)
    best, spent = known, 0
    while True:
        if stopping() or (n > FEW and spent >= MOST_STEPS):
            return None
        status = branch(a, barred, rest, view.passes == 1, slot, choice, at, best, TURN)
        spent += TURN
        if status == OVER:
            # The search adds up in another order than the evaluator.
            return rounded_down(best, best, 4 * n)
        if status == FOUND:
            spent -= TURN
            for plan in _orders(view, view.plan(slot)):
                worth = evaluate(view.problem, plan)
                if worth.feasible and worth.objective < best:
                    best = worth.objective
                    offer(best, plan)


def _orders(view: View, plan: LatencyPlan) -> Iterator[LatencyPlan]:
    """The plan with the pieces of every accelerator in every order where their order is not in the slots."""
    if view.passes == 1:
        yield plan
        return
    for rows in itertools.product(*(itertools.permutations(row) for row in plan.accelerators)):
        yield LatencyPlan(accelerators=rows)
