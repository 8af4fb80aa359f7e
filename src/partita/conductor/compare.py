"""Compare: what people do by hand, judged by the one evaluator."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from partita.conductor.judge import adopt_better, judge_plan
from partita.engines.search.interrupt import interruptible
from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Rival, Status, StopReason
from partita.problems import kind_of
from partita.problems.kind import AnyResult

#: Wall time past its limit that a run without a plan spends on the simplest ones.
LATE_S = 1.0


def run_baselines(
    problem: Any, options: Any, time_limit_s: float | None = None, clock: Monitor | None = None, wanted: bool = False
) -> list[Rival]:
    """Every baseline on a problem; those that do not give what the options ask for are rows without a plan.

    Each has ``time_limit_s`` of wall time, the problem's own unless stated; all share the time of ``clock``, if there
    is one. Ctrl-C ends the baseline that runs and leaves out the rest.

    Those that the clock leaves no time are rows without a plan. If a plan is still wanted, the simplest go on for a
    moment until one has a plan: who asks for an answer within less than that is better off with it.
    """
    kind = kind_of(problem)
    whole = Monitor() if clock is None else clock
    each_s = kind.baseline_time_s if time_limit_s is None else time_limit_s
    rows: list[Rival] = []
    baselines = kind.baselines_of(problem)
    late = False
    for place, baseline in enumerate(baselines):
        refusal = baseline.supports(problem, options)
        if refusal is not None:
            rows.append(Rival(baseline.name, baseline.summary, note=refusal))
            continue
        if whole.stopping and wanted and not (late or whole.interrupted):
            whole, late = Monitor(LATE_S), True
        if whole.stopping or (late and any(row.feasible for row in rows)):
            rows.append(Rival(baseline.name, baseline.summary, note="left out: the time limit came first"))
            continue
        monitor = whole.share(1 / (len(baselines) - place), each_s)
        with interruptible(monitor):
            outcome = baseline.solve(problem, options, monitor)
        plan = None if outcome.plan is None else kind.complete(problem, outcome.plan)
        row = judge_plan(problem, baseline.name, baseline.summary, plan, monitor.elapsed_s, outcome.reason)
        rows.append(dataclasses.replace(row, interrupted=monitor.interrupted))
        if monitor.interrupted:
            break
    return rows


def beside_baselines(
    result: AnyResult, options: Any, guesses: Sequence[Rival] = (), clock: Monitor | None = None
) -> tuple[AnyResult, list[Rival]]:
    """Every baseline, unless the result was interrupted, and the result with the best plan of these and of guesses."""
    stopped = result.stop_reason is StopReason.INTERRUPTED
    wanted = result.plan is None and result.status is not Status.INFEASIBLE
    rows = [] if stopped else run_baselines(result.problem, options, clock=clock, wanted=wanted)
    return adopt_better(result, [*guesses, *rows], options), rows
