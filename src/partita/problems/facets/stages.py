"""How plans of stages reach physical devices: what they ask for, the problem of giving it to them, and replicas.

A problem that is not in seconds and bytes, and a topology that cannot hold a plan, raise ``InputError``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol

from partita.engines.search.monitor import Monitor
from partita.nouns.pipeline import zero_text
from partita.nouns.topology.topology import Topology
from partita.problems.facets import E, Facet, L, P
from partita.problems.outcome import Outcome

if TYPE_CHECKING:
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


@dataclass(frozen=True, kw_only=True)
class Shape(Generic[P]):
    """One way to use devices: stages, replicas of each, a schedule, and whether to recompute."""

    #: At most so many stages, each of so many replicas.
    stages: int
    replicas: int
    #: How they run.
    schedule: str
    recompute: bool
    microbatches: int  #: Of each replica.
    problem: P  #: To be split. Shapes with equal problems and equal ``mesh`` have equal splits.
    #: Least seconds of a microbatch, forward and backward: of the whole model, and of a chain of operators in it that
    #: wait for each other.
    work_s: float
    chain_s: float
    #: What the replicas of all stages together reduce at least, each device of a replica its share.
    parameter_bytes: float
    #: Devices of each replica, the stage of ZeRO, and how many share out what it says, 0 for all.
    group: int = 1
    zero: int = 0
    zero_shards: int = 0
    #: Of the time of each operator of the chain, what those behind it wait for at least before their last backward
    #: part: all of it, unless backward parts are cut in two.
    forward_share: float = 1.0
    mesh: tuple[Any, ...] = ()  #: What a split depends on beside its problem.
    #: Whether exchanges inside machines and between them go on at once; otherwise one follows the other, or all
    #: replicas make one ring.
    levels_at_once: bool = False

    @property
    def name(self) -> str:
        """For people."""
        text = f"{self.stages} × {self.replicas}" + (f" × {self.group}" if self.group > 1 else "")
        text += f", {self.schedule}" + (f", {zero_text(self.zero, self.zero_shards)}" if self.zero else "")
        return f"{text}, recompute" if self.recompute else text

    @property
    def devices(self) -> int:
        """Devices of all replicas of all stages, at most."""
        return self.stages * self.replicas * self.group


class Replication(Facet, Generic[P, L]):
    """How a problem is split with equally many replicas of every stage."""

    @abstractmethod
    def refusal(self, problem: P) -> str | None:
        """What keeps a problem from being replicated, as the rest of a sentence; None if nothing does."""

    @abstractmethod
    def shapes(self, problem: P) -> Sequence[Shape[P]]:
        """All shapes that the devices and the batch allow, of a problem that can be replicated."""

    @abstractmethod
    def split(self, shape: Shape[P], options: Any, monitor: Monitor) -> Outcome[L]:
        """The best plan of one shape, by a search that ends by itself; where it is proven, that there is none."""

    @abstractmethod
    def spread(self, problem: P, shape: Shape[P], plan: L) -> tuple[Any, Any]:
        """The problem as the shape asks for it, and the plan of ``split`` with the shape's replicas."""
