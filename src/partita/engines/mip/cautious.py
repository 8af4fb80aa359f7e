"""What may be believed of a backend that computes with floating-point numbers and tolerances.

Such a backend takes what differs by no more than its tolerance for equal, and not everywhere in the same way: one step
may fix a variable at a value that another then finds to break a row. What lies at the edge of what rows allow may so
be cut off, and an answer of "no solution", or a bound, be that of a smaller program. Hence

*Wider rows.* It is given a program whose rows, and bounds of variables, are wider by several tolerances of their size:
all points of the program lie inside of it by more than what the backend may take for nothing, and what it proves of the
wider program holds for the program. Rows of whole numbers stay as they are: nothing is near their edge but points on it
where they are exact. Coefficients that backends drop as too small are dropped here, for what they may add; where they
branch, also those of less than a millionth of their row's largest: HiGHS 1.16 cut off optima with 900 beside 3e-4 in a
row, and was then wrong by the smaller ones.

*Lower bounds.* The bound of a linear program is its dual objective up to what reduced costs of the wrong sign add: at
most the tolerance for each, times the range of its variable. Branches within the gap asked for of the best solution are
cut off, so as much is given up, too.

*Linear programs.* What any multipliers of the rows prove is computed anew from them, with directed rounding (Neumaier
and Shcherbina, "Safe bounds in linear and mixed-integer linear programming", Mathematical Programming 99, 2004, §3).
"""

from __future__ import annotations

import math
from dataclasses import replace

from partita.engines.mip.model import Floats, MixedProgram
from partita.ground.rounding import allowance, rounded_down

#: What backends are asked for, for rows, bounds, whole numbers and reduced costs: near the least that they take, and
#: the same for all of them, because some steps compare with one and some with another.
FEASIBILITY = 1e-9
#: Tolerances by which rows are wider, relative to the size of what a row compares.
WIDTH = 8.0
#: Coefficients below this are none to backends.
SMALL = 1e-9
#: Nor are, where they branch, those below this share of their row's largest.
FADED = 1e-6

Row = tuple[list[int], list[float], float, float]


def widened(model: MixedProgram) -> MixedProgram:
    """The program with room for tolerances; every point of the program is one of it, and costs the same."""
    lower, upper = list(model.lower), list(model.upper)
    for v in range(model.size):
        if not model.binary[v] and (lower[v], upper[v]) != (0.0, 1.0):
            lower[v] -= _room(abs(lower[v])) if math.isfinite(lower[v]) else 0.0
            upper[v] += _room(abs(upper[v])) if math.isfinite(upper[v]) else 0.0
    faded = FADED if any(model.binary) else 0.0
    rows = [row if _whole(model, row) else _wider(model, row, faded) for row in model.rows]
    return replace(model, lower=lower, upper=upper, rows=rows)


def _room(size: float, terms: int = 1) -> float:
    return WIDTH * FEASIBILITY * max(1.0, size) + allowance(size, terms)


def _whole(model: MixedProgram, row: Row) -> bool:
    """Whether a row compares whole numbers: its variables are 0 or 1 at all points of interest."""
    variables, coefficients, lower, upper = row
    sides = all(math.isinf(side) or side == round(side) for side in (lower, upper))
    return (
        sides
        and all(c == round(c) for c in coefficients)
        and all(model.lower[v] >= 0.0 and model.upper[v] <= 1.0 for v in variables)
    )


def _wider(model: MixedProgram, row: Row, faded: float) -> Row:
    """A row with more room on both sides, without coefficients below ``SMALL`` or a share of its largest."""
    variables, coefficients, lower, upper = row
    below = above = dropped = 0.0
    kept: list[tuple[int, float]] = []
    small = max(SMALL, faded * max(map(abs, coefficients), default=0.0))
    for v, c in zip(variables, coefficients, strict=True):
        ends = c * model.lower[v], c * model.upper[v]
        if abs(c) < small and math.isfinite(sum(ends)):
            dropped += max(map(abs, ends))
            continue
        kept.append((v, c))
        below += max(0.0, -min(ends))
        above += max(0.0, max(ends))
    # What is compared where a side is met: positive terms with it and the others, both no more than all of one sign.
    size = 0.0
    for side in (lower, upper):
        if math.isfinite(side):
            size = max(size, min(above, below + side) if side >= 0 else min(below, above - side))
    if not math.isfinite(size):
        # Only programs without branching, whose bounds are computed anew, have variables without bounds.
        size = max(abs(c) for _, c in kept)
    room = _room(size, len(kept)) + dropped
    return [v for v, _ in kept], [c for _, c in kept], lower - room, upper + room


def proven(model: MixedProgram, bound: float, gap: float) -> float:
    """What a bound of a branching backend proves; minus infinity for nothing."""
    if not math.isfinite(bound):
        return bound if bound < 0 else -math.inf
    ranges = math.fsum(b - a for a, b in zip(model.lower, model.upper, strict=True))
    if not math.isfinite(ranges):
        return -math.inf
    return bound - 2.0 * FEASIBILITY * (ranges + abs(bound)) - gap * abs(bound)


def linear_bound(model: MixedProgram, multipliers: Floats) -> float:
    """What multipliers of the rows prove of a linear program; minus infinity for nothing.

    Σ_i y_i·(row i) <= objective for all points, where the left side takes the side of each row that y_i's sign allows,
    plus the least that the reduced costs c − Aᵀy can add over the ranges of the variables.
    """
    reduced = [[cost] for cost in model.cost]
    parts: list[float] = []
    for (variables, coefficients, lower, upper), y in zip(model.rows, multipliers.tolist(), strict=True):
        side = lower if y > 0 else upper
        # A side that is not there proves nothing.
        if y == 0 or not math.isfinite(side):
            continue
        parts.append(y * side)
        for v, c in zip(variables, coefficients, strict=True):
            reduced[v].append(-y * c)
    for v, row in enumerate(reduced):
        # Products are rounded once each, their sum is not.
        value, slack = math.fsum(row), allowance(math.fsum(map(abs, row)), 1)
        ends = [
            cost * (model.lower[v] if cost > 0 else model.upper[v]) for cost in (value - slack, value + slack) if cost
        ]
        parts.append(min(ends, default=0.0))
    if not all(map(math.isfinite, parts)):
        return -math.inf
    return rounded_down(math.fsum(parts), math.fsum(map(abs, parts)), 1)
