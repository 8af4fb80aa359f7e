"""Pipelines of equally many replicas of every stage: which there are, and plans of one of them as plans of all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from partita.problems.facets import Facet, L, P


@dataclass(frozen=True, kw_only=True)
class Shape(Generic[P]):
    """One way to use devices: stages, replicas of each, a schedule, and whether to recompute.

    Attributes
    ----------
    stages, replicas
        At most so many stages, each of so many replicas.
    schedule, recompute
        How they run.
    turns
        Microbatches of each replica.
    problem
        To be split: one replica of every stage. Shapes with equal problems have equal splits.
    work_s, chain_s
        Least seconds of a microbatch, forward and backward: of the whole model, and of a chain of operators in it that
        wait for each other.
    parameter_bytes
        What the replicas of all stages together reduce.
    """

    stages: int
    replicas: int
    schedule: str
    recompute: bool
    turns: int
    problem: P
    work_s: float
    chain_s: float
    parameter_bytes: float

    @property
    def name(self) -> str:
        """For people."""
        text = f"{self.stages} × {self.replicas}, {self.schedule}"
        return f"{text}, recompute" if self.recompute else text


class Replicas(Facet, Generic[P, L]):
    """How a problem is split with equally many replicas of every stage."""

    #: The solver for splits; one that ends by itself.
    solver: str

    @abstractmethod
    def shapes(self, problem: P) -> Sequence[Shape[P]]:
        """All shapes that the devices and the batch allow; ``InputError`` if the problem is not one to replicate."""

    @abstractmethod
    def spread(self, problem: P, shape: Shape[P], plan: L) -> tuple[Any, Any]:
        """The problem as the shape asks for it, and a plan of ``shape.problem`` with the shape's replicas."""
