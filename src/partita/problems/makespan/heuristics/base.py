"""What list scheduling heuristics have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from partita.problems.makespan.greedy import Growing
from partita.problems.makespan.instance import MakespanInstance


class Heuristic(Protocol):
    """One way to decide devices and an order, without congestion.

    Attributes
    ----------
    name, summary
        As a baseline.
    """

    name: str
    summary: str

    @abstractmethod
    def grow(self, instance: MakespanInstance) -> Growing | str:
        """Everything placed, or why nothing is, in words."""


#: What greedy placements say that run out of room.
NO_ROOM = "an operator fits nowhere beside what is placed"
