"""Annealing on devices and order, of all operators or of fused ones first; the bounds that cost nothing beside it."""

from __future__ import annotations

import math
from functools import partial

from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.fusion import fuse_problem, lift
from partita.problems.makespan.improving import MakespanSearch, begin, first_schedules, improve
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.local_search import State, offer, offer_heuristics, search, state_of
from partita.problems.makespan.options import NONE_FOUND, MakespanOptions, Outcome, Solver
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.solvers.exact import MakespanExact
from partita.problems.outcome import outcome_of

#: Rounds of annealing everything, on problems that are not too large for that.
_ROUNDS = 40
#: Share of the time for the fused problem, and seconds where there is no limit.
_SHARE, _UNLIMITED_S = 0.5, 30.0


class MakespanAnnealing(MakespanSearch):
    """Iterated annealing from list schedules; proof of small problems only, beyond simple bounds."""

    name = "annealing"
    summary = "annealing on devices and order, schedules by a list scheduler; proof for small problems only"
    argument = "every choice of devices and order of a small problem was tried; else the longest chain, or work divided"

    def search(
        self, instance: MakespanInstance, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
    ) -> None:
        first_schedules(instance, best, seed=options.seed, rounds=_ROUNDS, exhaustive=True)
        improve(instance, best, seed=options.seed, threads=options.threads)


class FusedFirst(Solver):
    """Solve the problem of fused operators, take its schedule back, anneal on; no proof beyond simple bounds.

    The fused problem has fewer schedules (``partita.problems.makespan.fusion``), so what is proven of it is dropped.
    """

    name = "fused first"
    summary = "operators fused by type first, then annealing on from that schedule; proves simple bounds only"
    argument = "the longest chain with the best devices, or the work divided over the devices"

    def supports(self, problem: MakespanProblem, options: MakespanOptions) -> str | None:
        if not any(op.type for op in problem.operators):
            return "its operators do not say their types, by which they are fused; use another solver"
        return None

    def solve(self, problem: MakespanProblem, options: MakespanOptions, monitor: Monitor) -> Outcome:
        best: Incumbent[MakespanPlan] = Incumbent()
        instance = begin(problem, best)
        if instance is None:
            return outcome_of(best, missing=NONE_FOUND)
        offer_heuristics(instance, best)
        monitor.report(objective=best.value if math.isfinite(best.value) else None)
        if monitor.stopping:
            return outcome_of(best, missing=NONE_FOUND)
        states = self._coarse(instance, options, monitor, best)
        work = partial(search, instance, best, seed=options.seed, rounds=_ROUNDS, states=states)
        run_in_background(best, monitor, work)
        return outcome_of(best, missing=NONE_FOUND)

    def _coarse(
        self, instance: MakespanInstance, options: MakespanOptions, monitor: Monitor, best: Incumbent[MakespanPlan]
    ) -> list[State]:
        """Where to start: the schedule of the fused problem, if it has one."""
        fused = fuse_problem(instance.problem)
        solver = MakespanExact() if schedule_refusal() is None else MakespanAnnealing()
        part = monitor.part(_SHARE * monitor.remaining_s if math.isfinite(monitor.remaining_s) else _UNLIMITED_S)
        plan = solver.solve(fused.problem, options, part).plan
        if plan is None:
            return []
        made = lift(instance.problem, fused.groups, plan)
        offer(instance, best, made, "fused operators")
        return [state_of(instance, made)]
