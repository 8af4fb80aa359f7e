"""CP-SAT on a whole makespan problem, or on a block of one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import Callbacks
from partita.engines.mip.schedule import schedule_refusal, solve_schedule
from partita.engines.search.incumbent import Incumbent
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Status
from partita.problems.makespan.evaluate import evaluate
from partita.problems.makespan.improving import MakespanSearch, first_schedules
from partita.problems.makespan.instance import MakespanInstance
from partita.problems.makespan.options import MakespanOptions
from partita.problems.makespan.problem import MakespanPlan, MakespanProblem
from partita.problems.makespan.timetable import timetable

#: Up to this many operators one thread is enough, and the same run gives the same answer.
FEW = 14
#: Rounds of annealing before.
_ROUNDS = 12


def prove_by_program(
    instance: MakespanInstance,
    best: Incumbent[MakespanPlan],
    stop: Callable[[], bool],
    *,
    time_s: float,
    options: MakespanOptions,
    horizon: float | None = None,
) -> bool:
    """Run CP-SAT until done, or for ``time_s``: better schedules and bounds go to ``best``; whether it came to an end.

    It starts from the best schedule; ``stop`` is polled often. Only schedules that end by the horizon are wanted, those
    no worse than the best where that is None; the bound is then proven up to it.
    """
    ends = time.monotonic() + time_s
    while True:
        done, coarse = _prove(instance, best, stop, ends - time.monotonic(), options, horizon)
        if not (done and coarse) or stop() or best.closed:
            return done


def _prove(
    instance: MakespanInstance,
    best: Incumbent[MakespanPlan],
    stop: Callable[[], bool],
    time_s: float,
    options: MakespanOptions,
    horizon: float | None,
) -> tuple[bool, bool]:
    """One run of ``prove_by_program``; whether it has come to an end, and whether another one would be finer.

    That is so where times were rounded, and what was found is shorter than half of all that was looked at.
    """
    value, plan, _ = best.snapshot()
    known = plan is not None and (horizon is None or value <= horizon)
    limit = value if known else horizon
    table = timetable(instance, limit)

    def found(point: Floats, _: float) -> None:
        # Rounding may make it one that fails, which is then none.
        made = table.schedule(point)
        worth = evaluate(instance.problem, made)
        if worth.feasible:
            best.offer(worth.objective, made, "CP-SAT")

    def bounded(bound: float) -> None:
        proven = table.bound(bound)
        if limit is not None:
            proven = min(proven, limit)
        if proven > 0 and math.isfinite(proven):
            best.prove(proven, "CP-SAT")

    answer = solve_schedule(
        table.model,
        time_limit_s=time_s,
        threads=1 if instance.count <= FEW else options.threads,
        seed=options.seed,
        warm_start=table.point(plan) if known and plan is not None else None,
        callbacks=Callbacks(stop=stop, on_incumbent=found, on_bound=bounded),
    )
    if answer.status is Status.INFEASIBLE:
        if limit is None:
            best.refute("CP-SAT")
        else:
            # None ends by the limit.
            best.prove(limit, "CP-SAT")
        return True, False
    if answer.values is not None:
        found(answer.values, answer.objective)
    bounded(answer.bound)
    coarse = not table.exact and best.value < (math.inf if limit is None else limit / 2)
    return answer.status is Status.OPTIMAL, coarse


class MakespanProgram(MakespanSearch):
    """The whole problem as one model, started from a short annealing."""

    name = "cp-sat"
    summary = "CP-SAT on optional intervals of all operators and flows, after a short annealing"
    argument = "CP-SAT bounded the program of all schedules, whose times are rounded down"

    def supports(self, problem: MakespanProblem, options: MakespanOptions) -> str | None:
        return schedule_refusal()

    def search(
        self, instance: MakespanInstance, best: Incumbent[MakespanPlan], options: MakespanOptions, monitor: Monitor
    ) -> None:
        first_schedules(instance, best, seed=options.seed, rounds=_ROUNDS)
        if not best.done:
            prove_by_program(instance, best, lambda: best.done, time_s=monitor.remaining_s, options=options)
