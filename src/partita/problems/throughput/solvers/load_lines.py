"""A variant's load as lines with limits: what must hold for the objective to be at most T.

A maximum of terms is at most T when every term is, so each term is a line of its own. GPipe's objective A + B ≤ T with
A ≥ every forward load and B ≥ every backward load is cut into boxes A ≤ a, B ≤ b; a line of a phase has its limit, and
since every device's own forward and backward load add up to at most A + B, both together are lines with limit T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Floats
from partita.problems.throughput.problem import ThroughputProblem
from partita.problems.throughput.solvers.view import PhaseLoads

#: Which limit a line has: T, a or b, as places in ``PhaseLoads``.
BOTH, FORWARD, BACKWARD = 0, 1, 2

#: Terms of a load: coefficients of work, transfers in, transfers out.
_TERMS = {
    "sum": ((1.0, 1.0, 1.0),),
    "overlap": ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0)),
    "duplex": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
}


@dataclass(frozen=True)
class LoadLines:
    """The lines of a problem."""

    #: (L,) BOTH, FORWARD or BACKWARD of each line, places in ``PhaseLoads``; line 0 holds all work of the item.
    limit: tuple[int, ...]
    coefficients: Floats  #: (L, 6) of forward work, in, out, then backward work, in, out.
    #: (L,) 1 where reloading, and synchronising in turn with work, add to the line.
    with_reload: Floats
    with_sync: Floats

    @property
    def gpipe(self) -> bool:
        """Whether forward and backward have their own limits."""
        return len(set(self.limit)) > 1

    def limits(self, limits: PhaseLoads) -> Floats:
        """Limit of each line, and of synchronisation."""
        return np.array([*(limits[place] for place in self.limit), limits.backward if self.gpipe else limits.both])

    def combine(self, forward: Floats, backward: Floats, place: int) -> Floats:
        """Lines (last axis) of what both phases take: of work (place 0), of what comes in (1), of what goes out (2)."""
        return forward[..., None] * self.coefficients[:, place] + backward[..., None] * self.coefficients[:, place + 3]

    def loads(self, values: Floats, reload: Floats, sync: Floats, replicas: Floats) -> Floats:
        """(stages, 3) load, forward and backward load of stages from their lines, reload and synchronisation times.

        For a single phase the last two are the load as well.
        """
        each = (values + self.with_reload * reload[:, None]) / replicas[:, None]
        each = each + self.with_sync * sync[:, None]
        places = np.array(self.limit)
        apart = 0.0 if self.with_sync.any() else sync
        total = np.maximum(each[:, places == BOTH].max(axis=1), apart)
        if not self.gpipe:
            return np.stack([total, total, total], axis=1)
        first = each[:, places == FORWARD].max(axis=1)
        second = np.maximum(each[:, places == BACKWARD].max(axis=1), apart)
        return np.stack([first + second, first, second], axis=1)


def load_lines(problem: ThroughputProblem) -> LoadLines:
    """The lines of a problem's loads."""
    terms = np.array(_TERMS[problem.communication])
    phases = (BOTH, FORWARD, BACKWARD) if problem.gpipe else (BOTH,)
    coefficients = [np.hstack([terms * (phase != BACKWARD), terms * (phase != FORWARD)]) for phase in phases]
    limit = np.repeat(phases, len(terms))
    late = (limit != FORWARD).astype(np.float64)
    with_sync = late * (problem.communication == "sum")
    return LoadLines(tuple(limit.tolist()), np.concatenate(coefficients), late, with_sync)
