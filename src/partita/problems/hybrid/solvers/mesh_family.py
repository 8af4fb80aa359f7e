"""Rows of stages of uniform meshes over suffix sets: what the kernel works on, and plans from its answers."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from partita.kernels.arrays import as_arrays
from partita.kernels.hybrid.arrays import HybridKnown, HybridWork
from partita.kernels.hybrid.mesh import (
    ALL_FORWARD,
    IN_TURN,
    SPLIT_BACKWARD,
    Knapsacks,
    MeshStages,
    Replicas,
    Row,
    best_row,
    extra_time,
    fill_stages,
    held_time,
)
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.instance import HybridInstance, build_arrays, build_instance, new_scratch, of_step
from partita.problems.hybrid.plan import HybridPlan
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.step.layout import Layout, uniform_plan
from partita.problems.hybrid.step.limits import passed_over
from partita.problems.hybrid.step.mesh import Mesh
from partita.rounding import rounded_down

#: The kernel's numbers of schedules.
NUMBERS = {"1f1b": IN_TURN, "gpipe": ALL_FORWARD, "zero-bubble": SPLIT_BACKWARD}
#: Bytes of tables of stages that are kept.
_KEPT = 1 << 28


@dataclass(frozen=True)
class Caps:
    """Caps on κ, on that of forward parts, on what happens once, and the sum of passing times that is of no use."""

    holding: float
    ahead: float
    once: float
    limit: float


@dataclass(frozen=True)
class FoundRow:
    """A row of stages: the sets between them, the least sum of passing times, and its largest κs and single cost."""

    passing: float
    holding: float
    ahead: float
    once: float
    steps: tuple[int, ...]

    @property
    def step(self) -> float:
        """The time of the step."""
        return self.passing + self.holding + self.ahead + self.once


class DegreeFamily:
    """The rows of one tensor-parallel degree."""

    def __init__(
        self,
        problem: HybridProblem,
        degree: int,
        sets: Iterable[int],
        stop: npt.NDArray[np.int64],
        most: int,
        room: Room = most_room,
    ) -> None:
        self.problem, self.degree, self.most = problem, degree, most
        self.model = _single_degree(problem, degree)
        arrays, self.sets = build_arrays(self.model, sets, room)
        nothing = np.zeros(1, dtype=np.int32)
        known = HybridKnown(nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1))
        self.work = HybridWork(arrays, new_scratch(self.model), known, stop)
        # What bounds what is left.
        fastest = np.array([min(choice.time for choice in choices) for choices in self.model.options[0]])
        rest = (1.0 - as_bits(self.sets, len(fastest))) @ fastest
        self.rest = rounded_down(rest, rest, 2 * len(fastest))
        self.sorts = self._sorts()
        self.passed_over = passed_over(problem, self.model.order, self.sets)
        self.tables: OrderedDict[tuple[int, int], tuple[MeshStages, Knapsacks]] = OrderedDict()

    def best(self, mesh: Mesh, caps: Caps) -> FoundRow | None:
        """The row of a mesh with the least sum of passing times within the caps; None if there is none."""
        stages, known = self._tables(mesh)
        number, sets = NUMBERS[mesh.schedule], len(self.sets)
        rates = np.array([mesh.handover(rank) for rank in range(mesh.stages)])
        row = Row(mesh.stages, mesh.microbatches, number, rates, caps.holding, caps.ahead, caps.once, caps.limit)
        least = np.empty((mesh.stages + 1, sets))
        parent = np.full((mesh.stages + 1, sets), -1, dtype=np.int32)
        rest = self.rest if number != SPLIT_BACKWARD else np.zeros(sets)
        if number == ALL_FORWARD:
            # What fits depends on all microbatches here, and on the stages behind elsewhere.
            known = known._replace(extra=np.full((len(known.inner), 1), math.nan))
        passing = best_row(self.work, stages, known, row, least, parent, rest)
        if not passing < math.inf or self.work.stop[0] != 0:
            return None
        holding = ahead = once = 0.0
        steps = [sets - 1]
        for k in range(mesh.stages, 0, -1):
            outer, inner = steps[-1], int(parent[k, steps[-1]])
            steps.append(inner)
            held, first = self._stage(mesh, stages, known, rates[mesh.stages - k], inner, outer, k)
            holding, ahead = max(holding, held), max(ahead, first)
            once = max(once, float(stages.once[inner, outer]))
        return FoundRow(passing, holding, ahead, once, tuple(steps))

    def plan(self, mesh: Mesh, row: FoundRow) -> HybridPlan | None:
        """The plan of a row; None if stopped."""
        stages, _ = self._tables(mesh)
        order = [self.problem.layers[place] for place in self.model.order]
        parts, configurations = [], {}
        for rank, (outer, inner) in enumerate(zip(row.steps, row.steps[1:], strict=False)):
            flying = in_flight(mesh, mesh.stages - rank)
            lost = extra_time(self.work, float(stages.state[inner, outer]), inner, outer, flying)
            if self.work.stop[0] != 0 or lost == math.inf:
                return None
            members = self.sets[outer] & ~self.sets[inner]
            part = [v for v in range(len(order)) if members >> v & 1]
            for v in part:
                option = int(self.work.scratch.best[v]) - int(self.work.arrays.option_ptr[0, v])
                configurations[order[v].id] = self.model.options[0][v][option].id
            parts.append(part)
        layout = Layout(
            tensor=mesh.tensor,
            pipeline=mesh.stages,
            data=mesh.data,
            zero=mesh.zero,
            schedule=mesh.schedule,
            context=mesh.context,
            expert=mesh.expert,
        )
        return uniform_plan(self.problem, order, parts, configurations, layout)

    def _stage(
        self,
        mesh: Mesh,
        stages: MeshStages,
        known: Knapsacks,
        rates: npt.NDArray[np.float64],
        inner: int,
        outer: int,
        k: int,
    ) -> tuple[float, float]:
        """κ of a stage, the k-th from the end, and that of its forward parts where they come first."""
        enter, leave = stages.enter[inner, outer], stages.leave[inner, outer]
        moved = rates[0] * enter + rates[1] * leave
        moved += (rates[2] if enter > 0 else 0.0) + (rates[3] if leave > 0 else 0.0)
        forward = stages.forward[inner, outer] + moved + stages.gathered[inner, outer]
        backward = stages.backward[inner, outer] + moved + stages.returned[inner, outer]
        column = min(in_flight(mesh, k), known.extra.shape[1] - 1)
        backward += known.extra[known.kind[inner, outer], column]
        number, gradients = NUMBERS[mesh.schedule], stages.weight_gradients[inner, outer]
        held = held_time(number, mesh.microbatches, forward, backward, gradients)
        return float(held), float((mesh.microbatches - 1) * forward) if number == ALL_FORWARD else 0.0

    def _tables(self, mesh: Mesh) -> tuple[MeshStages, Knapsacks]:
        key = mesh.groups, mesh.zero
        if key in self.tables:
            self.tables.move_to_end(key)
            return self.tables[key]
        size = len(self.sets)
        stages = MeshStages(*(np.full((size, size), math.inf) for _ in MeshStages._fields))
        fill_stages(self.work, replicas_of(mesh), stages)
        stages.forward[self.passed_over] = math.inf
        stages.state[:] += mesh.reserve
        found = stages, self._knapsacks(stages)
        self.tables[key] = found
        while len(self.tables) > max(1, _KEPT // (size * size * 80)):
            self.tables.popitem(last=False)
        return found

    def _sorts(self) -> npt.NDArray[np.int64]:
        """(sorts, Z) how many layers of every sort a set has; layers of one sort have the same options."""
        numbers: dict[object, int] = {}
        of_layer = np.array(
            [
                numbers.setdefault(
                    tuple((c.time, c.memory_per_microbatch_bytes, c.memory_bytes) for c in choices), len(numbers)
                )
                for choices in self.model.options[0]
            ]
        )
        bits = as_bits(self.sets, len(of_layer))
        return np.stack([bits[:, of_layer == sort].sum(axis=1) for sort in range(len(numbers))]).astype(np.int64)

    def _knapsacks(self, stages: MeshStages) -> Knapsacks:
        """Stages with as many layers of every sort and as much state share what is known of their memory."""
        inner, outer = np.nonzero(np.isfinite(stages.forward))
        kind = np.full(stages.forward.shape, -1, dtype=np.int32)
        if not len(inner):
            nothing = np.zeros(1, dtype=np.int32)
            return Knapsacks(kind, nothing, nothing, np.full((1, 1), math.nan))
        columns = [stages.state[inner, outer], *(row[outer] - row[inner] for row in self.sorts)]
        _, example, found = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
        kind[inner, outer] = found.ravel()
        extra = np.full((len(example), self.most + 1), math.nan)
        return Knapsacks(kind, inner[example].astype(np.int32), outer[example].astype(np.int32), extra)


def in_flight(mesh: Mesh, k: int) -> int:
    """Microbatches of which the k-th stage from the end holds activations."""
    if mesh.schedule == "gpipe":
        return mesh.microbatches
    return min(mesh.stages if mesh.schedule == "zero-bubble" else k, mesh.microbatches)


def replicas_of(mesh: Mesh) -> Replicas:
    """What the replicas of a mesh exchange, for the kernels."""
    exchanges, degree, problem = mesh.exchanges, mesh.tensor, mesh.problem
    layers = {layer.id: layer for layer in problem.layers}
    into, out = [], []
    within = mesh.network.inside
    for edge in problem.edges:
        source, target = (layers[end].configurations.get(degree, ()) for end in (edge.source, edge.target))
        into.append(target[0].sync_in_bytes.get(edge.source, 0.0) / within if target else 0.0)
        out.append(source[0].sync_out_bytes.get(edge.target, 0.0) / within if source else 0.0)
    values = {name: getattr(exchanges, name) for name in Replicas._fields if hasattr(exchanges, name)}
    values |= {
        "edge_bytes": [edge.bytes for edge in problem.edges],
        "edge_in": into,
        "edge_out": out,
        "overlap": [exchanges.overlap],
        "occupied": [exchanges.occupied],
    }
    return as_arrays(Replicas, values)


def _single_degree(problem: HybridProblem, degree: int) -> HybridInstance:
    """The layers with one degree, on as many devices; kernels read memory and options of it only."""
    layers = tuple(
        msgspec.structs.replace(layer, configurations={degree: of_step(layer.configurations[degree])}, states={})
        for layer in problem.layers
    )
    single = problem.replace(
        layers=layers, devices=degree, microbatches=1, hierarchy=None, training=None, weight_sync_per_batch=False
    )
    return build_instance(single)
