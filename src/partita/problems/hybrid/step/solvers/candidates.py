"""Uniform meshes with bounds that hold whatever the layers of their stages are, and the least memory of a layer."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from partita.ground.rounding import rounded_down
from partita.nouns.catalogue.meshes import MeshLimits
from partita.nouns.pipeline import UNSHARED, SharedDegrees, state_copies
from partita.problems.hybrid.blocks import divisors
from partita.problems.hybrid.layer import Layer
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import most_room
from partita.problems.hybrid.step.costs import Exchanges, exchanges_of, state_bytes
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.pipeline import passing_time, refusal
from partita.problems.hybrid.training import LayerState, Training

#: What a group's bound is lowered by, more than rounding.
_ROOM = 1e-6


@dataclass(frozen=True)
class CandidateMesh:
    """A mesh with a bound on its steps, and bounds on the least φ, largest κs and single cost of a stage.

    ``way`` is how all blocks run; empty where each layer runs in its own.
    """

    bound: float
    mesh: DeviceMesh
    passing: float
    lows: tuple[float, float, float]
    way: str = ""

    @property
    def order(self) -> tuple[object, ...]:
        """By bound; of those that are alike the mesh that is looked at first."""
        mesh = self.mesh
        sizes = mesh.zero, mesh.zero_shards, mesh.data, mesh.tensor, mesh.stages, mesh.chunks, mesh.schedule
        return self.bound, *sizes, self.passing, *self.lows, *mesh.shared, self.way


@dataclass(frozen=True)
class _Totals:
    """Sums over the layers at one degree, and what all meshes of a group have alike."""

    microbatches: int
    terms: int
    time: float
    forward: float
    gradients: float
    update: float
    once: float
    memory: float


def at_degrees(problem: HybridProblem) -> dict[SharedDegrees, HybridProblem]:
    """What layers cost at all context-, expert- and expert-tensor degrees that plans may have together."""
    found = {shared: problem.at(*shared) for shared in problem.step.shared}
    return {shared: there for shared, there in found.items() if there is not None}


@dataclass(frozen=True)
class CandidateGroup:
    """Meshes of the same degrees and stage of ZeRO, none of which has a smaller bound."""

    bound: float
    meshes: Callable[[], Iterator[CandidateMesh]]


class CandidateOrder:
    """The meshes of groups in the order of ``CandidateMesh``, each group made when its turn comes.

    On a hundred thousand devices there are millions, of which few are looked at.
    """

    def __init__(self, groups: Iterable[CandidateGroup]) -> None:
        self._known: list[CandidateMesh] = []
        # At the same bound groups come before meshes, which have an order.
        self._ahead: list[tuple[float, tuple[object, ...], int, CandidateGroup | CandidateMesh]] = [
            (group.bound, (), number, group) for number, group in enumerate(groups)
        ]
        heapq.heapify(self._ahead)
        self._number = itertools.count(len(self._ahead))

    def __iter__(self) -> Iterator[CandidateMesh]:
        for place in itertools.count():
            while len(self._known) <= place and self._ahead:
                first = heapq.heappop(self._ahead)[-1]
                if isinstance(first, CandidateMesh):
                    self._known.append(first)
                    continue
                for one in first.meshes():
                    heapq.heappush(self._ahead, (one.bound, one.order, next(self._number), one))
            if len(self._known) <= place:
                return
            yield self._known[place]


def groups_of(
    problem: HybridProblem, starts: tuple[int, ...], shared: SharedDegrees = UNSHARED, way: str = ""
) -> Iterator[CandidateGroup]:
    """Every mesh that may run, with bounds that hold whatever the layers of its stages are.

    ``problem`` is the one where devices share out so, whose blocks all run that way.
    """
    training, batch, count = problem.step, problem.microbatches, len(problem.layers)
    if shared.expert_tensor > problem.devices_per_machine:
        return
    for t in problem.shared_degrees():
        for d in divisors(batch):
            groups, room = d * shared.context, problem.room(shared.block(t))
            if groups * t > room:
                break
            if groups * t % shared.experts_on(t):
                continue
            for zero, shards in _shares(training, groups, t, shared):
                totals = _totals(problem, exchanges_of(problem, groups, t, zero, shared, shards), t, batch // d)
                most = min(count, room // (groups * t))
                # Work is shared out best by the most stages.
                least = batch // d * totals.time / most * (1 - _ROOM)
                first = DeviceMesh(problem, most, d, t, "1f1b", 1, zero, *shared, shards)
                yield CandidateGroup(least, partial(_meshes, totals, first, len(starts), way))


def _shares(training: Training, groups: int, tensor: int, shared: SharedDegrees) -> Iterator[tuple[int, int]]:
    """Stages of ZeRO, and among how many of so many groups of the same weights they share out."""
    if groups == 1:
        # One group shares out nothing; which schedules there are depends on the stage of ZeRO all the same.
        yield min(training.zero), 0
        return
    held = groups * tensor // shared.experts_on(tensor) if shared.shares_experts else 0
    # All of them are what 0 stands for.
    alike = groups if 0 in training.zero_shards else None
    for zero in training.zero:
        for shards in training.zero_shards if zero else (0,):
            divides = shards == 0 or (groups % shards == 0 and held % state_copies(groups, shards) == 0)
            if divides and shards != alike:
                yield zero, shards


def _meshes(totals: _Totals, first: DeviceMesh, blocks: int, way: str) -> Iterator[CandidateMesh]:
    """The meshes with the degrees of one of them, and no more stages."""
    problem, training = first.problem, first.problem.step
    count, reserve = len(problem.layers), first.reserve
    limit = most_room(problem.memory_bytes, count) - reserve
    any_mesh = training.limits.meshes == MeshLimits()
    for stages in range(1, first.stages + 1):
        if totals.memory > stages * limit:
            continue
        for schedule, chunks in _ways(training, stages, totals.microbatches, blocks, count, first.zero):
            mesh = dataclasses.replace(first, stages=stages, schedule=schedule, chunks=chunks)
            if any_mesh or training.limits.meshes.admits(mesh.degrees):
                yield _bounded(totals, mesh, way)


def _ways(
    training: Training, stages: int, microbatches: int, blocks: int, layers: int, zero: int
) -> Iterator[tuple[str, int]]:
    """Schedules and parts of each stage; where there is one stage, they are alike, but for what GPipe holds.

    Interleaved parts have equally many of the model's ``blocks``, or where they may be uneven a layer at least.
    """
    schedules = training.schedules
    simple = sorted((name for name in schedules if name != "interleaved"), key=lambda name: name == "gpipe")
    for schedule in simple[:1] if stages == 1 else simple:
        if refusal(schedule, stages, 1, microbatches, zero) is None:
            yield schedule, 1
    if "interleaved" in schedules and (training.uneven or blocks % stages == 0):
        for chunks in range(2, layers // stages + 1) if training.uneven else divisors(blocks // stages):
            if chunks > 1 and refusal("interleaved", stages, chunks, microbatches, zero) is None:
                yield "interleaved", chunks


def _totals(problem: HybridProblem, exchanges: Exchanges, degree: int, microbatches: int) -> _Totals:
    least = [
        min(choice.memory_per_microbatch_bytes + choice.memory_bytes for choice in layer.configurations[degree])
        for layer in problem.layers
    ]
    forward = float(exchanges.forward.sum())
    return _Totals(
        microbatches=microbatches,
        terms=terms_of(problem),
        time=forward + float(exchanges.backward.sum()),
        forward=forward,
        gradients=float(exchanges.weight_gradients.sum()),
        update=float(exchanges.update.sum()),
        once=0.0 if exchanges.overlap else float(exchanges.reduce_once.sum() + exchanges.gather_once.sum()),
        memory=float(exchanges.state.sum()) + sum(least),
    )


def _bounded(totals: _Totals, mesh: DeviceMesh, way: str) -> CandidateMesh:
    """Stages share the work out evenly at best; waiting, transfers and what memory costs are left out."""
    terms, stages, microbatches = totals.terms, mesh.stages, totals.microbatches

    def down(value: float) -> float:
        return max(0.0, rounded_down(value, whole, terms))

    backward = totals.time - totals.forward
    passing = passing_time(mesh.schedule, mesh.chunks, totals.forward, backward, totals.gradients)
    # φ + max κ ≥ φ + (n·τ − φ)/p, and φ may be larger than its least.
    apart = mesh.schedule == "gpipe"
    holding = (microbatches - 1) * (backward if apart else totals.time) / stages
    ahead = (microbatches - 1) * totals.forward / stages if apart else 0.0
    pipeline = passing * (1 - 1 / stages) + microbatches * totals.time / stages
    once = (totals.update + totals.once) / stages
    whole = microbatches * totals.time + passing + once
    return CandidateMesh(down(pipeline + once), mesh, down(passing), (down(holding), down(ahead), down(once)), way)


def terms_of(problem: HybridProblem) -> int:
    """How many numbers make up the time of a step, at most."""
    return 16 * len(problem.layers) + 8 * len(problem.edges) + 16


def least_memory(problem: HybridProblem, layer: Layer) -> float:
    """Memory of a stage with one layer, one microbatch and as many replicas as there can be: no stage needs less.

    Infinite if it has no degree that the devices allow where they share out sequences or experts.
    """
    needs = (
        choice.memory_per_microbatch_bytes + choice.memory_bytes + _least_state(there, other, degree, shared)
        for shared, there in at_degrees(problem).items()
        for other in there.layers
        if other.id == layer.id
        for degree, choices in other.configurations.items()
        if degree <= problem.devices_per_machine
        for choice in choices
    )
    return min(needs, default=math.inf)


def _least_state(problem: HybridProblem, layer: Layer, degree: int, shared: SharedDegrees) -> float:
    """Weights, gradients and states of a layer with as many replicas as there can be."""
    state, zero = layer.states.get(degree, LayerState()), max(problem.step.zero)
    most = max(1, min(problem.devices // degree, problem.microbatches * shared.context))
    copies = max(1, most * degree // shared.experts_on(degree))
    return state_bytes(state, zero, most) + state_bytes(state.experts or LayerState(), zero, copies)
