"""Proven optimal hybrid plans: bisection over decisions about the fewest devices.

Source: the downsets and the stage model are Piper's (NeurIPS 2021, §4); the decision form, the exact choice of
configurations, and the pruning by what the remaining devices can do are described in ``docs/hybrid.md``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import CLOSE, rounded_down
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.downsets import all_downsets, along_orders, downset_order, some_orders
from partita.problems.hybrid.instance import HybridInstance, build_instance
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.protocol import HybridOptions, Outcome, Solver
from partita.problems.hybrid.room import sure_room
from partita.problems.hybrid.steady.solvers.decision import Family, Tight
from partita.problems.outcome import searched

#: Most downsets, and most entries of a table: beyond these only sets along some orders are searched.
MOST_SETS = 200_000
MOST_ENTRIES = 1 << 28
#: Up to this many downsets a decision takes milliseconds, and a first plan from a few orders is not worth it.
FEW_SETS = 400
#: Relative distance from which on the next target is just under the plan.
NEAR = 2e-3
#: Times this small are nothing.
_TINY = 1e-200
_ORDERS = 12
_ROUNDS = 4


class HybridExact(Solver):
    """Exact solver of the hybrid problem; with very many downsets the plan comes without proof."""

    name = "exact"
    summary = "plans with proof: bisection over the fewest devices per suffix set, exact choice of configurations"
    argument = (
        "for every set closed under successors the fewest devices were counted under a target, and they are too many"
    )

    def solve(self, problem: HybridProblem, options: HybridOptions, monitor: Monitor) -> Outcome:
        search = _Bisection(problem, options)
        return searched(search.best, monitor, search.prove)


class _Bisection:
    """What one run works on; ``prove`` runs in a worker thread."""

    def __init__(self, problem: HybridProblem, options: HybridOptions) -> None:
        self.problem, self.options = problem, options
        self.best: Incumbent[Plan] = Incumbent()

    def prove(self) -> None:
        model = build_instance(self.problem)
        if model.homeless:
            self.best.refute("the degrees to choose from")
            return
        entries = model.width + 1
        if self.problem.hierarchy is not None:
            entries = 4 * max(entries, (self.problem.devices_per_machine + 1) ** 2)
        sets = all_downsets(model.after, model.before, min(MOST_SETS, MOST_ENTRIES // entries))
        if sets is None or len(sets) > FEW_SETS:
            self._outline(model)
        counters = self.best.counters
        counters["suffix_sets"] = 0 if sets is None else len(sets)
        if sets is None or self.best.stop[0] != 0:
            return
        family = self._family(model, sets)
        self._close(family, proof=True)
        searches, nodes = family.work.scratch.counters[:2].tolist()
        counters |= {"knapsacks": searches, "knapsack_nodes": nodes}

    def _family(self, model: HybridInstance, sets: Iterable[int]) -> Family:
        family = Family(model, sets, self.best.stop)
        shared = float(family.work.arrays.rest[0]) / self.problem.devices
        self.best.prove(rounded_down(shared, shared, 1), "division of work")
        return family

    def _outline(self, model: HybridInstance) -> None:
        """A plan from the sets along a few orders, then along orders that respect the stages found."""
        generator = random.Random(self.options.seed)
        orders = some_orders(model.after, model.before, _ORDERS, self.options.seed)
        for _ in range(_ROUNDS):
            if self.best.stop[0] != 0:
                return
            before = self.best.value
            self._close(self._family(model, along_orders(orders)), proof=False)
            plan = self.best.answer
            if plan is None or self.best.value > before * (1 - 1e-4):
                return
            stage_of = {identity: i for i, stage in enumerate(plan.stages) for identity in stage.operators}
            stages = [-stage_of[self.problem.layers[place].id] for place in model.order]
            orders = [
                downset_order(model.before, [stage + 0.9 * generator.random() for stage in stages])
                for _ in range(_ORDERS)
            ]

    def _close(self, family: Family, *, proof: bool) -> None:
        """Bisect until plan and bound meet; only with ``proof`` does a refuted target bound the problem."""
        best, low = self.best, self.best.bound
        step = 0.05
        decisions = 0
        late = len(family.sets) > FEW_SETS and best.answer is not None
        while best.value > low * (1 + CLOSE) and best.value > _TINY and best.stop[0] == 0:
            target = self._target(low, step, late)
            decisions += 1
            try:
                answer = family.decide(target)
            except Tight:
                # What fits for certain; other plans may be better, so that nothing more is proven.
                family, proof = Family(family.model, family.sets, best.stop, sure_room), False
                continue
            if answer is None:
                break
            if isinstance(answer, tuple):
                best.offer(*answer, "decision")
                late = False
                continue
            if math.isinf(target):
                # Not even the weakest target: without more sets there is no plan.
                if proof:
                    best.refute("decision")
                break
            low = rounded_down(target, target, 1)
            step *= 2.5
            late = best.value < low * (1 + NEAR)
            if proof:
                best.prove(low, "decision")
        best.counters["decisions"] = best.counters.get("decisions", 0) + decisions

    def _target(self, low: float, step: float, late: bool) -> float:
        value = self.best.value
        if math.isinf(value):
            return low * (1 + step) if low > 0 and step < 20 else math.inf
        just_under = value * (1 - CLOSE / 2)
        if late:
            return just_under
        if low <= 0:
            # Nothing is known of the scale: a plan this much better, or a first bound.
            return value * 1e-6
        return min(
            just_under,
            low * (1 + step),
            (low + value) / 2 if value < 2 * low else math.sqrt(low * value),
        )
