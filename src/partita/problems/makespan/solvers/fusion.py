"""Operators fused by their types first: the smaller problem is solved, its schedule taken back and improved."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from partita.engines.mip.schedule import schedule_refusal
from partita.engines.search.background import run_in_background
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.problems.makespan.bounds.simple import simple_bound
from partita.problems.makespan.fusion import fuse_problem, lift
from partita.problems.makespan.instance import MakespanInstance, build_instance
from partita.problems.makespan.local_search import State, offer, offer_heuristics, search
from partita.problems.makespan.plan import Schedule
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.protocol import Options, Outcome, Solver, outcome_of
from partita.problems.makespan.schedules import devices_of, order_of
from partita.problems.makespan.solvers.annealing import ROUNDS, Annealing
from partita.problems.makespan.solvers.exact import MakespanExact

#: Share of the time for the fused problem, and seconds where there is no limit.
_SHARE, _UNLIMITED_S = 0.5, 30.0


class FusedFirst(Solver):
    """Solve the problem of fused operators, take its schedule back, anneal on; no proof beyond simple bounds.

    The fused problem has fewer schedules (``partita.problems.makespan.fusion``), so what is proven of it is dropped.
    """

    name = "fused first"
    summary = "operators fused by type first, then annealing on from that schedule; proves simple bounds only"
    argument = "the longest chain with the best devices, or the work divided over the devices"

    def supports(self, problem: MakespanProblem, options: Options) -> str | None:
        if not any(op.type for op in problem.operators):
            return "its operators do not say their types, by which they are fused; use another solver"
        return None

    def solve(self, problem: MakespanProblem, options: Options, monitor: Monitor) -> Outcome:
        best: Incumbent[Schedule] = Incumbent()
        instance = build_instance(problem)
        value = simple_bound(instance)
        if math.isinf(value):
            best.refute("devices of classes")
            return outcome_of(best)
        best.prove(value, "simple bounds")
        offer_heuristics(instance, best)
        monitor.report(objective=best.value if math.isfinite(best.value) else None)
        if monitor.stopping:
            return outcome_of(best)
        states = self._coarse(instance, options, monitor, best)
        work = partial(search, instance, best, seed=options.seed, rounds=ROUNDS, states=states)
        run_in_background(best, monitor, work)
        return outcome_of(best)

    def _coarse(
        self, instance: MakespanInstance, options: Options, monitor: Monitor, best: Incumbent[Schedule]
    ) -> list[State]:
        """Where to start: the schedule of the fused problem, if it has one."""
        fused = fuse_problem(instance.problem)
        solver = MakespanExact() if schedule_refusal() is None else Annealing()
        part = monitor.part(_SHARE * monitor.remaining_s if math.isfinite(monitor.remaining_s) else _UNLIMITED_S)
        plan = solver.solve(fused.problem, options, part).plan
        if plan is None:
            return []
        made = lift(instance.problem, fused.groups, plan)
        offer(instance, best, made, "fused operators")
        devices = np.array(devices_of(instance, made), dtype=np.int32)
        return [(devices, np.array(order_of(instance, made), dtype=np.int32))]
