"""How plans of stages reach physical devices: what they ask for, and the problem of giving it to them.

A problem that is not in seconds and bytes, and a topology that cannot hold a plan, raise ``InputError``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, Protocol

from partita.nouns.topology.topology import Topology
from partita.problems.facets import E, Facet, L, P
from partita.simulator.pipeline import Pipeline
from partita.simulator.placed import Layout


class Staging(Facet, Generic[P, L, E]):
    """What plans of a problem ask of devices."""

    @abstractmethod
    def staged(self, problem: P, plan: L, evaluation: E) -> Pipeline:
        """Stages, replicas, and what they hand to each other, in seconds and bytes."""


class Placing(Protocol):
    """A plan of stages on a topology, as a problem."""

    problem: Any  #: To be solved.

    def layout(self, plan: Any) -> Layout:
        """The devices of the topology that a plan of the problem says."""

    def in_order(self) -> Layout | None:
        """The devices that the plan itself names; None if the topology does not have them."""

    def plan(self, layout: Layout) -> Any | None:
        """The plan of the problem with these devices; None if it cannot be said there."""


class FromResult(Facet, Generic[P]):
    """How a plan of stages on a topology becomes a problem."""

    quick: str  #: A solver that ends by itself after a moment.
    simple: tuple[str, ...] = ()  #: Baselines that are orders without search.

    @abstractmethod
    def placing(self, staged: Pipeline, topology: Topology) -> Placing:
        """The problem."""
