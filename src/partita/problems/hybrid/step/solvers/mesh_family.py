"""Pipelines of uniform meshes over downsets: the kernel's answers, and plans from them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.engines.kernels.hybrid.arrays import StageIndex
from partita.engines.kernels.hybrid.passing import ALL_FORWARD, SPLIT_BACKWARD, PipelineTask, Sacks, StageOptions
from partita.engines.kernels.hybrid.pipelines import best_pipeline
from partita.ground.dags import members_of
from partita.ground.rounding import rounded_down
from partita.nouns.pipeline import Plan
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.step.free_stages import stage_in_flight
from partita.problems.hybrid.step.layout import uniform_plan
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.step_family import NUMBERS, Box, StepFamily

#: Bytes of tables of stages that are kept.
_KEPT = 1 << 28


@dataclass(frozen=True)
class UniformPipeline:
    """A pipeline: the sets between them, the least sum of passing times, and its largest κs and single cost."""

    passing: float
    costs: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def step(self) -> float:
        """The time of the step."""
        return self.passing + sum(self.costs)


class MeshFamily(StepFamily):
    """The pipelines of one tensor-parallel degree, of at most ``most`` stages."""

    def __init__(
        self,
        problem: HybridProblem,
        degree: int,
        sets: Iterable[int],
        stop: Longs,
        most: int,
        room: Room = most_room,
    ) -> None:
        super().__init__(problem, [(0, degree)], sets, stop, room)
        self.most = most
        # What bounds what is left.
        fastest = np.array([min(choice.time for choice in choices) for choices in self.model.options[0]])
        rest = (1.0 - as_bits(self.sets, len(fastest))) @ fastest
        self.rest = rounded_down(rest, rest, 2 * len(fastest))
        self.known: OrderedDict[tuple[int, int, int], tuple[StageOptions, Sacks]] = OrderedDict()

    def best(self, mesh: DeviceMesh, box: Box, limit: float) -> UniformPipeline | None:
        """The pipeline of a mesh with the least sum of passing times within a box's caps, or None."""
        options, sacks = self._known(mesh)
        shape, number = (mesh.stages + 1, len(self.sets)), NUMBERS[mesh.schedule]
        rates = np.array([mesh.handover(rank) for rank in range(mesh.stages)])
        options = options._replace(
            price=np.ascontiguousarray(rates[None, :, 1::2]),
            replicas=np.array([mesh.data]),
            microbatches=np.array([mesh.microbatches]),
        )
        if number == ALL_FORWARD:
            # What fits depends on all microbatches here, and on the stages behind elsewhere.
            sacks = sacks._replace(extra=np.full((len(sacks.inner), 1), math.nan), first=mesh.microbatches)
        holding, ahead, once = box.highs
        replicas = mesh.stages * mesh.data
        task = PipelineTask(number, holding, ahead, once, limit, replicas, replicas)
        rest = self.rest if number != SPLIT_BACKWARD else np.zeros(shape[1])
        least, parent = np.empty(shape), np.full(shape, -1, dtype=np.int32)
        steps, costs = np.empty(shape[0], dtype=np.int32), np.empty(3)
        passing = best_pipeline(self.work, options, sacks, task, rest, least, parent, steps, costs)
        if not passing < math.inf or self.work.stop[0] != 0:
            return None
        return UniformPipeline(passing, tuple(costs.tolist()), tuple(steps.tolist()))

    def plan(self, mesh: DeviceMesh, found: UniformPipeline) -> Plan | None:
        """The plan of a pipeline; None if stopped."""
        options, sacks = self._known(mesh)
        order = [self.problem.layers[place] for place in self.model.order]
        parts: list[list[int]] = []
        configurations: dict[int, str] = {}
        total = mesh.stages * mesh.data
        for rank, (outer, inner) in enumerate(zip(found.steps, found.steps[1:], strict=False)):
            flying = stage_in_flight(mesh.schedule, total - rank * mesh.data, total, mesh.data, mesh.microbatches)
            room = float(sacks.room[options.sack[inner, outer, 0]])
            chosen = self.configurations(StageIndex(inner, outer, 0), room, flying)
            if chosen is None:
                return None
            configurations |= chosen
            parts.append(list(members_of(self.sets[outer] & ~self.sets[inner])))
        return uniform_plan(self.problem, order, parts, configurations, mesh.layout)

    def _known(self, mesh: DeviceMesh) -> tuple[StageOptions, Sacks]:
        """The stages of meshes with as many groups, which share out the same among as many."""
        key = mesh.groups, mesh.zero, mesh.zero_shards
        if key not in self.known:
            self.known[key] = self.tables([(0, mesh)], self.most + 1)
        self.known.move_to_end(key)
        while len(self.known) > max(1, _KEPT // (len(self.sets) ** 2 * 52)):
            self.known.popitem(last=False)
        return self.known[key]
