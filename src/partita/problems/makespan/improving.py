"""The search for schedules of a whole problem: from all heuristics, by annealing everything, then by windows.

Small problems are settled by trying everything (``kernels.makespan.exhaust``): plan and proof, without a solver.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from partita.engines.kernels.makespan.exhaust import exhaust
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.ground.rounding import rounded_down
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.coarse import coarse_search
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.local_search import WHOLE, offer, offer_heuristics, search
from partita.problems.makespan.options import NONE_FOUND, MakespanOptions, Outcome, Solver
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.schedules import left_shifted
from partita.problems.makespan.windows import Windows
from partita.problems.outcome import outcome_of

#: Rounds of windows without success after which it ends.
_PATIENCE = 12
#: Placements and tasks of orders that are tried: about a second.
STEPS = 1_000_000
#: Most operators, and most operators and flows, of a problem that may be small.
_OPERATORS, _TASKS = 14, 40


def begin(problem: MakespanProblem, best: Incumbent[MakespanPlan]) -> MakespanInstance | None:
    """The problem as arrays, its simple bounds proven; None if they leave no schedule."""
    instance = build_instance(problem)
    value = simple_bound(instance)
    if math.isinf(value):
        best.refute("devices of classes")
        return None
    best.prove(value, "simple bounds")
    return instance


class MakespanSearch(Solver):
    """A solver that searches in the background, from the simple bounds of a problem on."""

    @abstractmethod
    def search(
        self, instance: MakespanInstance, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
    ) -> None:
        """Offer and prove what can be found, until ``best`` is done."""

    def solve(self, problem: MakespanProblem, options: MakespanOptions, monitor: Monitor) -> Outcome:
        best: Incumbent[MakespanPlan] = Incumbent()

        def work() -> None:
            instance = begin(problem, best)
            if instance is not None:
                self.search(instance, best, options, monitor)

        run_in_background(best, monitor, work)
        return outcome_of(best, missing=NONE_FOUND)


def first_schedules(
    instance: MakespanInstance, best: Incumbent[MakespanPlan], *, seed: int, rounds: int, exhaustive: bool = False
) -> None:
    """Every heuristic's schedule, then so many rounds of annealing everything.

    Large problems are annealed in groups, and get these rounds only where nothing fits into memory so far. Small ones
    are closed by trying everything before that, if it is to be ``exhaustive``.
    """
    offer_heuristics(instance, best)
    if exhaustive and try_everything(instance, best):
        # Rounding may have the last word, so that it is not closed, but there is nothing more to find.
        return
    if instance.count > WHOLE and not best.done:
        coarse_search(instance, best, seed=seed)
    if not best.done:
        search(instance, best, seed=seed, rounds=rounds)


def improve(
    instance: MakespanInstance,
    best: Incumbent[MakespanPlan],
    *,
    seed: int,
    threads: int,
    stop: Callable[[], bool] = lambda: False,
    patience: int = _PATIENCE,
) -> None:
    """Anneal windows until told to stop, or until so many runs in a row found nothing; nothing without a schedule."""
    plan = best.snapshot()[1]
    if plan is None or instance.count < 2:
        return
    windows = Windows(instance, plan, best, seed=seed, threads=threads)
    windows.run(stop, patience=patience)
    best.counters["windows"] = best.counters.get("windows", 0) + windows.windows


def try_everything(
    instance: MakespanInstance, best: Incumbent[MakespanPlan], *, steps: int = STEPS, most: float = math.inf
) -> bool:
    """Look at every placement and every order, as far as so many steps go; whether they were enough.

    Only schedules better than the best, and shorter than ``most``, are looked for. What is found goes to ``best``, and
    so does the proof, if it came to an end. Problems of many operators are not begun with.
    """
    n, flows = instance.count, len(instance.problem.flows)
    if n > _OPERATORS or n + flows > _TASKS or best.done:
        return False
    most = min(most, best.value)
    device, start, flow_start = np.zeros(n, dtype=np.int32), np.zeros(n), np.zeros(flows)
    known = instance.arrays, instance.able, instance.head, instance.ordered, instance.most_held
    found, ended = exhaust(*known, most, steps, best.stop, device, start, flow_start)
    if found < most:
        made = left_shifted(instance, device.tolist(), start.tolist(), flow_start.tolist())
        offer(instance, best, made, "enumeration")
    if not ended:
        return False
    if math.isinf(found):
        best.refute("enumeration")
    else:
        best.prove(rounded_down(found, found, n + flows), "enumeration")
    return True
