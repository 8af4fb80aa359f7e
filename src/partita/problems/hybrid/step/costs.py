"""What a stage of a uniform mesh costs its devices in a step: exposed exchanges between replicas, and memory.

Under ZeRO-3 every layer's weights are gathered for its forward and its backward part while the layer before (in the
backward pass: behind) it runs; what takes longer is exposed. From ZeRO-2 on a layer's gradients are reduced for every
microbatch, beside the gathers. What hides slows down the work that hides it (``costs.collectives``). Else gradients are
reduced once, behind the last backward part, as DDP (Li et al., VLDB 2020, §3.2.3) and Megatron-LM's distributed
optimizer do it, and with ZeRO-1 and 2 weights are gathered once, ahead of the first forward part. Times that hide
exchanges are those of a layer's fastest configuration.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partita.costs.collectives import Level, collective_time, exposed, exposed_once, sent_share
from partita.engines.kernels.arrays import Floats
from partita.nouns.pipeline import UNSHARED, SharedDegrees, state_copies
from partita.problems.hybrid.layer import Configuration, Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.training import LayerState, Training

_NOTHING = LayerState()


def fastest(choices: Sequence[Configuration]) -> Configuration:
    """The configuration that takes least; of equally fast ones that whose backward part takes least."""
    return min(choices, key=lambda choice: (choice.time, -choice.forward))


def weight_gradient_time(state: LayerState, choices: Sequence[Configuration]) -> float:
    """Time of the gradients of weights in a layer's backward part, whichever configuration runs."""
    plain = fastest(choices)
    backward = plain.time - plain.forward
    return 0.5 * backward if state.weight_gradient_time is None else min(state.weight_gradient_time, backward)


@dataclass(frozen=True)
class Exchanges:
    """Layers in topological order, (n,) each; times in the problem's unit, bytes on each device."""

    #: Parts of the fastest configuration, which hide exchanges.
    forward: Floats
    backward: Floats
    weight_gradients: Floats  #: What of the backward part makes gradients of weights.
    #: Time to gather weights (for the forward part, and again for the backward part) and to reduce gradients of every
    #: microbatch.
    gather_each: Floats
    reduce_each: Floats
    #: The same once in a step.
    gather_once: Floats
    reduce_once: Floats
    update: Floats  #: Of the optimizer's step.
    #: Memory that is always held: weights, gradients and optimizer states, each a share where it is shared out.
    state: Floats
    #: What is held whole while the layer runs.
    whole_weights: Floats
    whole_gradients: Floats
    #: As in ``Training``.
    overlap: bool
    occupied: float

    def exposed_each(self, layers: Sequence[int]) -> tuple[float, float]:
        """What a run of layers, in order, waits for exchanges in the forward and backward part of a microbatch."""
        g, r, share = self.gather_each, self.reduce_each, self.occupied
        ahead = back = 0.0
        for k, v in enumerate(layers):
            ahead += g[v] if k == 0 else exposed(g[v], self.forward[layers[k - 1]], share)
        # The last layer's weights are still there; each of the others hides its neighbours' exchanges.
        for k in range(len(layers) - 1, 0, -1):
            v = layers[k]
            behind = r[layers[k + 1]] if k + 1 < len(layers) else 0.0
            back += exposed(g[layers[k - 1]] + behind, self.backward[v], share)
        if len(layers) > 1:
            back += exposed(r[layers[1]], self.backward[layers[0]], share)
        return float(ahead), float(back)

    def exposed_once(self, layers: Sequence[int]) -> float:
        """What the same waits for once in a step: the rest of the gradients, and the first weights."""
        rest = float(self.reduce_each[layers[0]])
        if not self.overlap:
            return rest + float(sum(self.reduce_once[v] + self.gather_once[v] for v in layers))
        forward, backward, gather, reduce = (
            column[list(layers)].tolist()
            for column in (self.forward, self.backward, self.gather_once, self.reduce_once)
        )
        return rest + exposed_once(forward, backward, reduce, gather, self.occupied)

    def held(self, layers: Sequence[int]) -> float:
        """Bytes of weights, gradients and optimizer states of each device: what is whole, of two layers at once."""
        total = float(sum(self.state[v] for v in layers))
        weights = [float(self.whole_weights[v]) for v in layers]
        pairs = [a + b for a, b in itertools.pairwise(weights)] or weights
        return total + max(pairs) + max(float(self.whole_gradients[v]) for v in layers)


def exchanges_of(
    problem: HybridProblem, data: int, tensor: int, zero: int, shared: SharedDegrees = UNSHARED, shards: int = 0
) -> Exchanges:
    """The exchanges of a mesh's replicas, and what they share out; layers that lack the degree have none.

    ``data`` counts all groups of ``tensor`` devices that hold the same weights; experts that groups share out have
    other replicas, as far apart as all experts have devices. ``shards`` are those groups among which ZeRO shares out, 0
    for all; of what experts hold there are as many copies then as of all else.
    """
    training, copies = problem.step, state_copies(data, shards)
    networks = (
        network_of(problem, data, tensor).sharded(copies),
        network_of_experts(problem, data, tensor, shared).sharded(copies),
    )
    order = [problem.layers[place] for place in problem.order()]
    known: dict[object, tuple[float, ...]] = {}
    rows = []
    for layer in order:
        times = tuple((choice.time, choice.forward_time) for choice in layer.configurations.get(tensor, ()))
        key = layer.states.get(tensor), times
        if key not in known:
            known[key] = _row(layer, networks, tensor, zero)
        rows.append(known[key])
    names = [field.name for field in dataclasses.fields(Exchanges) if field.name not in ("overlap", "occupied")]
    columns = np.array(rows, dtype=np.float64).reshape(-1, len(names)).T
    arrays = {name: np.ascontiguousarray(column) for name, column in zip(names, columns, strict=True)}
    return Exchanges(overlap=training.overlap, occupied=training.occupied, **arrays)


def _row(layer: Layer, networks: tuple[ShardedNetwork, ShardedNetwork], tensor: int, zero: int) -> tuple[float, ...]:
    """The columns of ``Exchanges`` for a layer; ``networks`` are those of its replicas, and of its experts'."""
    state, choices = layer.states.get(tensor, _NOTHING), layer.configurations.get(tensor, ())
    plain = fastest(choices) if choices else None
    forward = 0.0 if plain is None else plain.forward
    shared = _shared(state, networks[0], zero)
    if state.experts is not None:
        shared = tuple(a + b for a, b in zip(shared, _shared(state.experts, networks[1], zero), strict=True))
    return (
        forward,
        0.0 if plain is None else plain.time - forward,
        weight_gradient_time(state, choices) if choices else 0.0,
        *shared,
    )


def state_bytes(state: LayerState, zero: int, replicas: int) -> float:
    """Weights, gradients and optimizer states of each device, a share of what ZeRO's stage shares out."""
    sizes = zip((3, 2, 1), (state.parameter_bytes, state.gradient_bytes, state.optimizer_bytes), strict=True)
    return sum(size / (replicas if zero >= stage else 1) for stage, size in sizes)


def moved_bytes(states: Iterable[LayerState], zero: int, groups: int, copies: int = 1) -> float:
    """What each of so many groups of the same weights moves once in a step around rings: sums of gradients, weights.

    ``copies`` is how often what they share out is held.
    """
    held, shards = list(states), groups // copies
    gradients, weights = sum(s.gradient_bytes for s in held), sum(s.parameter_bytes for s in held)
    if zero == 0:
        return sent_share("all-reduce", groups) * gradients
    summed = sent_share("all-reduce", copies) * gradients / shards
    shares = (weights if zero < 3 else 0.0) + (gradients if zero < 2 else 0.0)
    return summed + sent_share("all-gather", shards) * shares


def _shared(state: LayerState, network: ShardedNetwork, zero: int) -> tuple[float, ...]:
    """What replicas exchange of some weights, and hold: from ``gather_each`` on."""
    whole, within, data = network.whole, network.within, network.within.data
    weights, gradients = state.parameter_bytes, state.gradient_bytes
    gather = within.collective_time("all-gather", weights)
    reduce = within.collective_time("reduce-scatter", gradients)
    summed = network.across.collective_time("all-reduce", gradients / data)
    each, shared = zero == 3, zero >= 2
    return (
        gather if each else 0.0,
        reduce if shared else 0.0,
        gather if zero in (1, 2) else 0.0,
        (summed + (0.0 if shared else reduce)) if zero else whole.collective_time("all-reduce", gradients),
        state.update_time / (data if zero else 1),
        state_bytes(state, zero, data),
        weights if each and data > 1 else 0.0,
        gradients if shared and data > 1 else 0.0,
    )


@dataclass(frozen=True)
class MeshNetwork:
    """The links of a mesh of d replicas of t devices a stage.

    Ranks are numbered as in Megatron-LM (Narayanan et al., SC 2021, §3): the t devices of a tensor-parallel group are
    neighbours, then come the d replicas of a stage, then the stages. Machines are filled in that order.
    """

    #: The degrees; groups that share out the sequence count as replicas.
    data: int
    tensor: int
    #: What a device moves to others in its machine, and to other machines while all its neighbours do the same: bytes
    #: per unit of time in each direction.
    inside: float
    outside: float
    per_machine: int  #: Devices of a machine.
    training: Training  #: Latencies.

    def collective_time(self, kind: str, size: float) -> float:
        """Time of an ``all-gather``, ``reduce-scatter`` or ``all-reduce`` of so many bytes among a stage's replicas.

        Where they leave machines, each of these has as many of them as fill the smallest part that a stage may have.
        """
        if self.data == 1 or size <= 0:
            return 0.0
        together = math.gcd(self.data, max(1, self.per_machine // self.tensor))
        sizes, rates = (together, self.data // together), (self.inside, self.outside)
        t = self.training
        parts = zip(sizes, rates, t.call_times, t.hop_times, t.switched, strict=True)
        return collective_time(kind, size, [Level(*part) for part in parts])

    def sharded(self, copies: int) -> ShardedNetwork:
        """The same where what ZeRO shares out is held so many times."""
        within = max(1, self.data // copies)
        across = dataclasses.replace(self, data=copies, tensor=self.tensor * within)
        return ShardedNetwork(self, dataclasses.replace(self, data=within), across)

    def handover(self, before: int, stages: int) -> tuple[float, float]:
        """Bytes per unit of time and device from a stage to the next one, and what a transfer takes beside its bytes.

        ``before`` is the number of the stage that hands over; the last one of ``stages`` hands over to the first.
        """
        width = self.data * self.tensor
        if before == stages - 1:
            crosses = stages * width > self.per_machine
        else:
            crosses = self.per_machine % width != 0 or (before + 1) * width % self.per_machine == 0
        return (self.outside if crosses else self.inside), self.training.call_times[crosses]


class ShardedNetwork(NamedTuple):
    """The network of a stage's replicas, of neighbours that share out what they hold, and of those with equal shares.

    Gradients are summed up among neighbours, each for its share, and these sums once in a step among all that have the
    same share, the "2-hop" synchronisation of Zhang et al., "MiCS: Near-linear Scaling for Training Gigantic Model on
    Public Cloud" (VLDB 2022); weights are gathered from neighbours alone.
    """

    whole: MeshNetwork
    within: MeshNetwork
    across: MeshNetwork


def network_of_experts(problem: HybridProblem, data: int, tensor: int, shared: SharedDegrees) -> MeshNetwork:
    """The network that the replicas of an expert see, given all groups of ``tensor`` devices of a stage."""
    apart = shared.experts_on(tensor)
    return network_of(problem, data * tensor // apart, apart)


def network_of(problem: HybridProblem, data: int, tensor: int) -> MeshNetwork:
    """The network that a mesh of a problem about a step sees."""
    inside, hierarchy = problem.bandwidth_bytes_per_unit, problem.hierarchy
    outside, size = inside, problem.devices
    if hierarchy is not None:
        size = hierarchy.devices_per_machine
        outside = min(inside, hierarchy.machine_bandwidth_bytes_per_unit / size)
    return MeshNetwork(data, tensor, inside, outside, size, problem.step)
