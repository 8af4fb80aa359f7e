"""Schedules of jobs that choose a site, and of flows between them: what a linear program states badly.

All times are whole numbers. A point is the site of every job, the start of every job, the start of every flow, and the
makespan, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partita.engines.mip.backend import SCHEDULERS
from partita.engines.mip.child import run_in_child
from partita.engines.mip.model import QUIET, Callbacks, Floats, ProgramResult
from partita.ground.errors import MissingExtraError

#: The only one there is.
NAME = "cpsat-schedule"

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScheduleModel:
    """Minimise the end of the last job; n jobs, D sites, F flows."""

    time: Longs  #: (n, D) Length of every job on every site; −1 where it cannot be.
    cost: Longs  #: (F, D, D) Length of every flow from site to site; it takes nothing within one.
    #: Source and target job with the flow between them, −1 for none: the target starts after source and flow.
    edges: tuple[tuple[int, int, int], ...]
    groups: tuple[tuple[int, ...], ...]  #: Jobs that share a site.
    #: (n,) What jobs take of their site, (D,) what there is; −1 for no limit.
    weight: Longs
    limit: Longs
    #: Whether jobs on one site, flows that leave one, and flows that enter one exclude each other.
    serial: tuple[bool, bool, bool]
    #: (n, D) Valid lower bounds on the start of a job on a site, and on what follows its end; they only help.
    head: Longs
    tail: Longs
    horizon: int  #: Only schedules that end by then are wanted.

    def value(self, values: Floats) -> float:
        """The makespan of a point."""
        return float(values[-1])


def schedule_refusal() -> str | None:
    """What a component that solves such models says where it cannot; None where it can."""
    return SCHEDULERS[NAME].missing


def solve_schedule(
    model: ScheduleModel,
    *,
    time_limit_s: float | None = None,
    threads: int = 1,
    seed: int = 0,
    warm_start: Floats | None = None,
    callbacks: Callbacks = QUIET,
) -> ProgramResult:
    """Minimise the makespan with CP-SAT, in a child process: as ``solve_program``, which see, but for what is asked.

    Times of the model are below 2^40, so that sums of them stay whole; with one thread the same run gives the same
    answer, and ``infeasible`` means that no schedule ends by the horizon.
    """
    if schedule_refusal() is not None:
        raise MissingExtraError(SCHEDULERS[NAME].package, "solvers")
    return run_in_child(
        NAME, model, callbacks, time_limit_s, threads=max(1, threads), seed=seed, gap=0.0, warm_start=warm_start
    )
