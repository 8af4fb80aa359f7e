"""What may be changed of a stated latency problem, and the words of ``partita.problems.kind`` for it."""

from __future__ import annotations

from typing import Annotated

from partita.problems import kind, outcome
from partita.problems.facets.model import AcceleratorChanges
from partita.problems.latency.plan import LatencyPlan
from partita.problems.latency.problem import LatencyProblem
from partita.problems.settings import setting

Outcome = outcome.Outcome[LatencyPlan]
Solver = kind.Solver[LatencyProblem, LatencyPlan, kind.SearchOptions]


class LatencyChanges(AcceleratorChanges, frozen=True, kw_only=True):
    """What may be changed of a stated problem."""

    pieces: Annotated[
        int | None, setting("Most contiguous pieces of an accelerator.", metavar="Q", least=1, unit="pieces")
    ] = None


def change(problem: LatencyProblem, changes: LatencyChanges) -> LatencyProblem:
    """The problem with the changes that are stated.

    Raises ``InputError`` if the problem cannot be changed so.
    """
    stated = {"accelerators": changes.devices, "pieces": changes.pieces, "memory_bytes": changes.memory}
    kept = {name: value for name, value in stated.items() if value is not None}
    return problem.replace(**kept) if kept else problem
