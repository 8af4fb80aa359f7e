"""The search for schedules of a whole problem: from all heuristics, by annealing everything, then by windows."""

from __future__ import annotations

import math
from collections.abc import Callable

from partita.engines.search.incumbent import Incumbent
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.coarse import coarse_search
from partita.problems.makespan.exhaustive import try_everything
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.local_search import offer_heuristics, search
from partita.problems.makespan.plan import MakespanPlan
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.windows import Windows

#: Operators up to which everything is annealed at once, at first; more leave no time for it.
_FEW = 600
#: Rounds of windows without success after which it ends.
_PATIENCE = 12


def begin(problem: MakespanProblem, best: Incumbent[MakespanPlan]) -> MakespanInstance | None:
    """The problem as arrays, its simple bounds proven; None if they leave no schedule."""
    instance = build_instance(problem)
    value = simple_bound(instance)
    if math.isinf(value):
        best.refute("devices of classes")
        return None
    best.prove(value, "simple bounds")
    return instance


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
    if instance.count > _FEW and not best.done:
        coarse_search(instance, best, seed=seed)
    if not best.done:
        search(instance, best, seed=seed, rounds=rounds if instance.count <= _FEW or best.answer is None else 0)


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
