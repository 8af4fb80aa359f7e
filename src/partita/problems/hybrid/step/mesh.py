"""A uniform mesh: the same degrees, schedule and ZeRO stage in every stage, and what a stage of it costs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from partita.nouns.catalogue.meshes import Mesh as Degrees
from partita.nouns.pipeline import SharedDegrees, state_copies
from partita.problems.hybrid.layer import Configuration
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.costs import Exchanges, MeshNetwork, exchanges_of, network_of
from partita.problems.hybrid.step.layout import MeshLayout
from partita.problems.hybrid.step.pipeline import held, passing_time


@dataclass(frozen=True)
class PartWork:
    """What a stage, or a part of one, does for one microbatch, in the problem's unit of time.

    ``forward`` and ``backward`` hold the layers' work and what waits for weights and gradients of other replicas, of
    which ``exposed`` is the sum; ``forward_in`` to ``backward_out`` are transfers before and after that.
    """

    forward: float
    backward: float
    weight_gradients: float
    exposed: float
    traffic: float
    forward_in: float
    forward_out: float
    backward_in: float
    backward_out: float
    activation_bytes: float

    @property
    def transfer(self) -> float:
        """All transfers."""
        return self.forward_in + self.forward_out + self.backward_in + self.backward_out

    @property
    def time(self) -> float:
        """All of it, τ."""
        return self.forward + self.backward + self.transfer


@dataclass(frozen=True)
class StageCost:
    """What a stage costs each of its devices."""

    parts: tuple[PartWork, ...]  #: Its work, part by part.
    #: φ and κ of ``pipeline``, and the κ of forward parts where all of them come first.
    passing: float
    holding: float
    ahead: float
    #: What replicas still exchange after the last backward part or before the first forward part, and the optimizer's
    #: step: once.
    sync: float
    update: float
    #: Memory that is always in use, and at the most.
    state_bytes: float
    memory_bytes: float
    in_flight: int  #: Microbatches of which it holds activations, of all its parts, at the most.

    @property
    def time(self) -> float:
        """Time of one microbatch, τ."""
        return sum(part.time for part in self.parts)


@dataclass(frozen=True)
class DeviceMesh:
    """How all stages run: ``stages`` of ``data`` replicas of ``tensor`` devices, each stage in ``chunks`` parts.

    With ``context`` a replica is of so many groups of ``tensor`` devices, which share out the sequence; of all groups
    of a stage ``expert`` share out experts, or such groups of ``expert_tensor`` devices. ``zero_shards`` of them share
    out what ZeRO's stage says, 0 for all. ``problem`` says what layers cost then (``HybridProblem.at``).
    """

    problem: HybridProblem
    stages: int
    data: int
    tensor: int
    schedule: str = "1f1b"
    chunks: int = 1
    zero: int = 0
    context: int = 1
    expert: int = 1
    expert_tensor: int = 0
    zero_shards: int = 0

    @property
    def shared(self) -> SharedDegrees:
        """What devices share out beside features."""
        return SharedDegrees(self.context, self.expert, self.expert_tensor)

    @property
    def layout(self) -> MeshLayout:
        """Its degrees and schedule, as users write them down."""
        return MeshLayout(
            tensor=self.tensor,
            pipeline=self.stages,
            data=self.data,
            chunks=self.chunks,
            zero=self.zero,
            zero_shards=self.zero_shards,
            schedule=self.schedule,
            **self.shared._asdict(),
        )

    @property
    def degrees(self) -> Degrees:
        """The same for limits of runtimes."""
        return Degrees(
            stages=self.stages,
            data=self.data,
            tensor=self.tensor,
            context=self.context,
            expert=self.expert,
            expert_tensor=self.expert_tensor,
            zero=self.zero,
            zero_shards=self.zero_shards,
            schedule=self.schedule,
            microbatches=self.microbatches,
        )

    @property
    def unlike(self) -> bool:
        """Whether its stages are passed several times, in parts that may have unlike numbers of layers."""
        return self.chunks > 1 and self.problem.step.uneven

    @property
    def groups(self) -> int:
        """Groups of ``tensor`` devices in a stage: each holds all weights but for experts."""
        return self.data * self.context

    @property
    def state_copies(self) -> int:
        """How often what ZeRO's stage says is held."""
        return state_copies(self.groups, self.zero_shards)

    @functools.cached_property
    def microbatches(self) -> int:
        """Microbatches of each replica."""
        return self.problem.microbatches // self.data

    @functools.cached_property
    def network(self) -> MeshNetwork:
        """Its links."""
        return network_of(self.problem, self.groups, self.tensor)

    @functools.cached_property
    def exchanges(self) -> Exchanges:
        """What replicas exchange."""
        return exchanges_of(self.problem, self.groups, self.tensor, self.zero, self.shared, self.zero_shards)

    @functools.cached_property
    def place(self) -> dict[int, int]:
        """Topological place of each layer, by id."""
        return {self.problem.layers[number].id: place for place, number in enumerate(self.problem.order())}

    def cost(self, rank: int, parts: Sequence[Sequence[tuple[int, Configuration]]]) -> StageCost:
        """What stage number ``rank`` costs; ``parts`` are its layers by id with the configurations that they run."""
        chains = [sorted(part, key=lambda entry: self.place[entry[0]]) for part in parts]
        works = tuple(self._work(rank, chain) for chain in chains)
        layers = [self.place[identity] for chain in chains for identity, _ in chain]
        choices = [choice for chain in chains for _, choice in chain]
        fixed = self.reserve + self.exchanges.held(layers) + sum(choice.memory_bytes for choice in choices)
        flying = self.flying(rank)
        active = max(
            sum(count * work.activation_bytes for count, work in zip(counts, works, strict=True)) for counts in flying
        )
        time = sum(work.time for work in works)
        ahead = sum(work.forward + work.forward_in + work.forward_out for work in works)
        gradients = sum(work.weight_gradients for work in works)
        passing = passing_time(self.schedule, self.chunks, ahead, time - ahead, gradients)
        apart = self.schedule == "gpipe"
        return StageCost(
            parts=works,
            passing=passing,
            holding=(self.microbatches - 1) * (time - ahead) if apart else self.microbatches * time - passing,
            ahead=(self.microbatches - 1) * ahead if apart else 0.0,
            sync=self.exchanges.exposed_once(layers),
            update=float(sum(self.exchanges.update[v] for v in layers)),
            state_bytes=fixed,
            memory_bytes=fixed + active,
            in_flight=max(sum(counts) for counts in flying),
        )

    def _work(self, rank: int, chain: Sequence[tuple[int, Configuration]]) -> PartWork:
        layers = [self.place[identity] for identity, _ in chain]
        ahead, back = self.exchanges.exposed_each(layers)
        # What saving memory takes is part of the backward pass, whatever a configuration says.
        forward = float(sum(self.exchanges.forward[v] for v in layers))
        into, out, gathered, returned = self._boundary(rank, chain)
        return PartWork(
            forward=forward + ahead,
            backward=sum(choice.time for _, choice in chain) - forward + back,
            weight_gradients=float(sum(self.exchanges.weight_gradients[v] for v in layers)),
            exposed=ahead + back,
            traffic=sum(choice.traffic_time for _, choice in chain),
            forward_in=into + gathered,
            forward_out=out,
            backward_in=out + returned,
            backward_out=into,
            activation_bytes=sum(choice.memory_per_microbatch_bytes for _, choice in chain),
        )

    def _boundary(self, rank: int, chain: Sequence[tuple[int, Configuration]]) -> tuple[float, float, float, float]:
        """Time of each end for what enters and for what leaves, and what the group then moves to have it whole.

        A device sends and receives at once: each end of a transfer counts as half of the time it takes. Each of the t
        devices hands over a t-th of a tensor.
        """
        inside = dict(chain)
        into = out = gathered = returned = 0.0
        for edge in self.problem.edges:
            if (edge.source in inside) == (edge.target in inside):
                continue
            if edge.target in inside:
                into += edge.bytes
                gathered += inside[edge.target].sync_in_bytes.get(edge.source, 0.0)
            else:
                out += edge.bytes
                returned += inside[edge.source].sync_out_bytes.get(edge.target, 0.0)
        before, after, first, last = self.handover(rank)
        within = self.network.inside
        entering = into * before + (first if into > 0 else 0.0)
        leaving = out * after + (last if out > 0 else 0.0)
        return entering, leaving, gathered / within, returned / within

    def handover(self, rank: int) -> tuple[float, float, float, float]:
        """What a byte costs a stage that enters it, and one that leaves it; and what a transfer of each does."""
        before, entering = self.network.handover((rank - 1) % self.stages, self.stages)
        after, leaving = self.network.handover(rank, self.stages)
        return 0.5 / (self.tensor * before), 0.5 / (self.tensor * after), 0.5 * entering, 0.5 * leaving

    def flying(self, rank: int) -> tuple[tuple[int, ...], ...]:
        """The most that a stage holds: numbers of microbatches in flight in each of its parts."""
        return held(self.schedule, self.stages, self.chunks, self.microbatches, rank)

    @property
    def reserve(self) -> float:
        """Working memory of each device."""
        return self.problem.step.reserves.get(self.tensor, 0.0)
