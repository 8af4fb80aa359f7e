"""Placeto: devices by a policy that is trained on the problem at hand."""

from __future__ import annotations

import importlib.util

from partita.engines.search.monitor import Monitor
from partita.ground.errors import MissingExtraError
from partita.problems.makespan.baselines.placeto.world import World
from partita.problems.makespan.coarse import coarse, packed
from partita.problems.makespan.heuristics import NO_ROOM
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.options import MakespanOptions, Outcome, Solver
from partita.problems.makespan.problem import MakespanProblem
from partita.problems.makespan.schedules import list_schedule

#: Most groups to decide about; the later numbers only where groups that coarse do not fit into memory.
_GROUPS = (32, 128, 512)


class Placeto(Solver):
    """Source: Addanki et al., "Placeto: Learning Generalizable Device Placement Algorithms for Distributed Machine
    Learning" (2019), on one graph. The answer is the best placement that was met while training.

    The makespan is the list scheduler's, with HEFT's order, where the paper simulates a runtime that runs first what
    is ready first. Episodes start from a placement that fits.
    """

    name = "Placeto"
    summary = "a small graph network, trained on this problem by policy gradient, places groups; keeps HEFT's order"

    def supports(self, problem: MakespanProblem, options: MakespanOptions) -> str | None:
        return str(MissingExtraError("torch", "torch")) if importlib.util.find_spec("torch") is None else None

    def solve(self, problem: MakespanProblem, options: MakespanOptions, monitor: Monitor) -> Outcome:
        if monitor.stopping:
            return Outcome(None, reason="there was no time")
        instance = build_instance(problem)
        for most in _GROUPS:
            groups = coarse(instance, most)
            first = packed(groups, instance.arrays.limit)
            if first is not None:
                break
        else:
            return Outcome(None, reason=NO_ROOM)
        world = World(instance, groups)
        world.meet(first, monitor)
        if not monitor.stopping and int(world.able.sum(axis=1).max()) > 1:
            from partita.problems.makespan.baselines.placeto.training import train

            means = train(world, first, episodes=options.episodes, seed=options.seed, monitor=monitor)
            monitor.statistics.counters |= {"groups": groups.count, "updates": len(means)}
        return Outcome(list_schedule(instance, world.best.tolist(), instance.by_rank.tolist()))
