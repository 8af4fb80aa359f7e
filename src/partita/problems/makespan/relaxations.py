"""Linear relaxations of schedules, which heuristics of the literature round: of favourite children, and of groups.

They know mean times and transfers, or times alone, and neither orders nor congestion.
"""

from __future__ import annotations

import math

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.engines.mip.model import MixedProgram
from partita.engines.mip.solve import available, solve_program
from partita.ground.errors import SolverCrashError
from partita.problems.makespan.instance import MakespanInstance

#: Variables up to which programs are solved, half a second each, and seconds after which one is given up.
MOST_VARIABLES, PROGRAM_S = 10_000, 10.0
#: What is rounded down: of the edges of an operator, all but one are at least so much together with it.
HALF = 0.5


def favourite_children(instance: MakespanInstance) -> dict[int, int] | None:
    """Of favourite children their parents, from whom they had best get what they read without a transfer.

    At most one child of a parent and one parent of a child. None where the program is too large, or was not solved.
    Source: Hanen and Munier, "An approximation algorithm for scheduling dependent tasks on m processors with small
    communication delays" (1995), the program of §3, with transfers of any length as in Baechi (2020), §3.1.
    """
    flows = [(u, v, f) for u, v, f in instance.edges if f >= 0]
    if instance.count + len(flows) > MOST_VARIABLES or not available("highs"):
        return None
    scale = _scale(instance)
    time, moved = (instance.mean_times * scale).tolist(), [scale * cost for cost in instance.mean_transfers]
    model = MixedProgram()
    last = model.add_continuous(0.0, math.inf, 1.0)
    start = [model.add_continuous() for _ in range(instance.count)]
    apart = {(u, v): model.add_continuous(0.0, 1.0) for u, v, _ in flows}
    for v in range(instance.count):
        model.add_row([(last, 1.0), (start[v], -1.0)], lower=time[v])
    for u, v, f in instance.edges:
        ends = [(start[v], 1.0), (start[u], -1.0)]
        model.add_row([*ends, (apart[u, v], -moved[f])] if f >= 0 else ends, lower=time[u])
    for side in (0, 1):
        rows: dict[int, list[tuple[int, float]]] = {}
        for edge, variable in apart.items():
            rows.setdefault(edge[side], []).append((variable, 1.0))
        for row in rows.values():
            model.add_row(row, lower=len(row) - 1.0)
    values = _solved(model)
    if values is None:
        return None
    return {v: u for (u, v), variable in apart.items() if values[variable] < HALF - 1e-6}


def device_fractions(instance: MakespanInstance) -> Floats | None:
    """(n, D) which fraction of an operator is on which device where chains and devices end as early as can be.

    None where the program is too large, or was not solved. Source: Chudak and Shmoys, "Approximation algorithms for
    precedence-constrained scheduling problems on parallel machines that run at different speeds" (1999), §3, which
    GETF rounds.
    """
    time, able = instance.arrays.time, np.isfinite(instance.arrays.time)
    if instance.count + int(able.sum()) > MOST_VARIABLES or not available("highs"):
        return None
    scale = _scale(instance)
    model = MixedProgram()
    last = model.add_continuous(0.0, math.inf, 1.0)
    end = [model.add_continuous() for _ in range(instance.count)]
    on = {(v, d): model.add_continuous(0.0, 1.0) for v, d in np.argwhere(able).tolist()}
    long = {(v, d): scale * float(time[v, d]) for v, d in on}
    rows: list[list[tuple[int, float]]] = [[] for _ in range(instance.count)]
    loads: list[list[tuple[int, float]]] = [[(last, 1.0)] for _ in range(instance.devices)]
    for (v, d), variable in on.items():
        rows[v].append((variable, -long[v, d]))
        loads[d].append((variable, -long[v, d]))
    for v in range(instance.count):
        model.add_row([(variable, 1.0) for variable, _ in rows[v]], lower=1.0, upper=1.0)
        model.add_row([(last, 1.0), (end[v], -1.0)], lower=0.0)
        model.add_row([(end[v], 1.0), *rows[v]], lower=0.0)
    for u, v, _ in instance.edges:
        model.add_row([(end[v], 1.0), (end[u], -1.0), *rows[v]], lower=0.0)
    for load in loads:
        model.add_row(load, lower=0.0)
    values = _solved(model)
    if values is None:
        return None
    found = np.zeros(time.shape)
    for (v, d), variable in on.items():
        found[v, d] = values[variable]
    return found


def _scale(instance: MakespanInstance) -> float:
    """What times are multiplied with, so that the mean ones are near 1."""
    usual = float(np.mean(instance.mean_times))
    return 1.0 / usual if usual > 0 else 1.0


def _solved(model: MixedProgram) -> Floats | None:
    """What the variables are; None where time ran out or HiGHS crashed."""
    try:
        return solve_program(model, "highs", time_limit_s=PROGRAM_S).values
    except SolverCrashError:
        return None
