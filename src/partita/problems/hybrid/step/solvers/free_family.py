"""Pipelines with degrees of their own over downsets: what the kernels work on, and plans from their answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partita.engines.kernels.arrays import Bools, Longs
from partita.engines.kernels.hybrid.arrays import StageIndex
from partita.engines.kernels.hybrid.passing import PipelineTask
from partita.engines.kernels.hybrid.pipelines import FULL, Entries, Labels, Left, bound_pipelines, extend_pipelines
from partita.nouns.pipeline import Plan, Stage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.step.free_stages import handover_price, stage_in_flight
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.solvers.step_family import NUMBERS, Box, StepFamily

#: Most elements of a table of stages by option, and labels that are kept.
MOST_STAGES = 12_000_000
MOST_LABELS = 1 << 21
#: Microbatches in flight whose loss is remembered.
_COLUMNS = 256
#: By how much pipelines are first looked for that are longer than the bound.
_AHEAD = (0.003, 0.03, 0.15)
#: Most additions of a bound that counts devices kind by kind.
_STEPS = 1_000_000_000


class LabelsFull(Exception):
    """There are more labels than room for them."""


@dataclass(frozen=True, order=True)
class Choice:
    """Degrees of a stage, and the kind of its devices by number."""

    tensor: int
    data: int
    kind: int = 0

    @property
    def width(self) -> int:
        """Devices."""
        return self.tensor * self.data


def _is_in(choice: Choice, box: FreeBox) -> bool:
    """Whether stages of a box may have these degrees."""
    return box.data in (0, choice.data) and (box.tensors is None or choice.tensor == box.tensors[choice.kind])


@dataclass(frozen=True, kw_only=True)
class FreeBox(Box):
    """Pipelines of a schedule and one of ZeRO's stages, with bounds on all replicas as well.

    Stages have ``data`` replicas each, any number if that is 0, and on each kind of devices the same tensor-parallel
    degree of ``tensors``, any if that is None.
    """

    schedule: str
    zero: int
    fewest: int = 0
    replicas: int = 1 << 40
    data: int = 0
    tensors: tuple[int, ...] | None = None


@dataclass(frozen=True)
class FreePipeline:
    """A pipeline: the plan, the sum of its passing times, and its replicas."""

    plan: Plan
    passing: float
    replicas: int


class FreeFamily(StepFamily):
    """Pipelines of a problem with one of ZeRO's stages."""

    def __init__(
        self,
        problem: HybridProblem,
        choices: Sequence[Choice],
        zero: int,
        sets: Iterable[int],
        stop: Longs,
        room: Room = most_room,
    ) -> None:
        super().__init__(problem, sorted({(choice.kind, choice.tensor) for choice in choices}), sets, stop, room)
        self.choices, self.zero = sorted(choices, key=lambda choice: (choice.width, choice)), zero
        meshes = [(c.kind, DeviceMesh(problem.kinds[c.kind], 1, c.data, c.tensor, zero=zero)) for c in self.choices]
        most = max((mesh.microbatches for _, mesh in meshes), default=1)
        options, self.sacks = self.tables(meshes, min(_COLUMNS, most + 1))
        joints = (None, *problem.kinds)
        prices = [[handover_price(mesh, other) for other in joints] for _, mesh in meshes]
        self.options = options._replace(price=np.array(prices, dtype=np.float64).reshape(-1, len(joints), 2))
        self.cheap = np.ascontiguousarray(self.options.price.min(axis=1))
        pairs = np.isfinite(self.options.forward).sum()
        size = len(self.sets)
        self.entries = Entries(
            np.zeros(size * size + 1, dtype=np.int64), np.zeros(pairs + 1, dtype=np.int32), np.zeros(pairs + 1)
        )
        self.left = self._left(np.ones(len(self.choices), dtype=np.bool_))
        self.head = np.zeros(size, dtype=np.int64)
        self.labels = _labels(1 << 15, len(problem.kinds))

    def least(self, box: FreeBox, limit: float = math.inf) -> float | None:
        """No pipeline within a box's caps has a smaller sum of passing times; None if stopped. What is left is kept."""
        options, task = self.options, _task(box, limit)
        asked = np.array([_is_in(choice, box) for choice in self.choices], dtype=np.bool_)
        # Options that are too wide for all devices are none.
        options = options._replace(width=np.where(asked, options.width, options.devices.sum() + 1))
        self.left = self._left(asked)
        found = bound_pipelines(self.work, options, self.sacks, task, self.cheap, self.entries, self.left)
        return None if found < 0 else float(self.left.rest[0, -1])

    def _left(self, asked: Bools) -> Left:
        """Room for bounds on what options that are asked for leave."""
        size, count = len(self.sets), len(self.problem.kinds)
        unit, most = np.ones(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for k, kind in enumerate(self.problem.kinds):
            widths = [c.width for c, one in zip(self.choices, asked, strict=True) if one and c.kind == k]
            if count == 1:
                most[k] = kind.devices
            elif widths:
                unit[k] = math.gcd(*widths)
                most[k] = kind.devices // unit[k]
                if unit[k] == max(widths):
                    # A stage takes a unit, and there are no more stages than that.
                    most[k] = min(most[k], size - 1)
        room = max(1, _STEPS // max(1, int(asked.sum()) * size * size)) if count > 1 else most[0] + 1
        while np.prod(most + 1.0) > room:
            # Units twice as large leave out what is smaller, and at last all of the kind.
            k = int(np.argmax(most))
            unit[k] *= 2
            widest = max(c.width for c, one in zip(self.choices, asked, strict=True) if one and c.kind == k)
            most[k] = self.problem.kinds[k].devices // unit[k] if unit[k] <= widest else 0
        columns = np.cumprod(np.concatenate([[1], most + 1]))
        # What is not counted is taken from all columns.
        step = np.where(most > 0, columns[:-1], columns[-1])
        return Left(
            np.zeros(size, dtype=np.int64),
            np.zeros(size, dtype=np.int64),
            np.zeros((size, int(columns[-1]))),
            unit,
            most,
            step,
        )

    def best(self, box: FreeBox, limit: float, effort: int) -> FreePipeline | None:
        """The pipeline with the least sum of passing times below the limit, after ``least`` of no smaller box.

        ``LabelsFull`` if it takes more labels than there is room for, or looks at more than ``effort``.
        """
        least = float(self.left.rest[0, -1])
        # Bounds are close, and the closer the limit is, the fewer labels there are.
        for near in (*(least * (1 + share) for share in _AHEAD), limit):
            found = self._best(_task(box, min(near, limit))._replace(effort=effort), box)
            if found is not None or near >= limit or self.work.stop[0] != 0:
                return found
        return None

    def _best(self, task: PipelineTask, box: FreeBox) -> FreePipeline | None:
        while True:
            passing, label = extend_pipelines(
                self.work, self.options, self.sacks, task, self.entries, self.left, self.labels, self.head
            )
            if passing != FULL:
                break
            if label == -2 or len(self.labels.passing) >= MOST_LABELS:
                raise LabelsFull
            self.labels = _labels(len(self.labels.passing) * 4, len(self.problem.kinds))
        if label < 0 or self.work.stop[0] != 0:
            return None
        return self._plan(box, float(passing), int(label))

    def _plan(self, box: FreeBox, passing: float, label: int) -> FreePipeline | None:
        replicas = int(self.labels.replicas[label])
        stages = []
        while label > 0:
            o, outer = int(self.labels.option[label]), int(self.labels.place[label])
            behind, parent = int(self.labels.replicas[label]), int(self.labels.parent[label])
            inner, choice = int(self.labels.place[parent]), self.choices[o]
            total = max(behind, box.fewest)
            flying = stage_in_flight(box.schedule, behind, total, choice.data, int(self.options.microbatches[o]))
            room = float(self.sacks.room[self.options.sack[inner, outer, o]])
            chosen = self.configurations(StageIndex(inner, outer, int(self.options.degree[o])), room, flying)
            if chosen is None:
                return None
            stages.append(
                Stage(
                    operators=tuple(chosen),
                    data_parallel=choice.data,
                    tensor_parallel=choice.tensor,
                    kind=self.problem.kinds[choice.kind].device if self.problem.others else "",
                    configurations=chosen,
                )
            )
            label = parent
        plan = Plan(stages=tuple(stages), schedule=box.schedule, zero=self.zero)
        return FreePipeline(plan, passing, replicas)


def _task(box: FreeBox, limit: float) -> PipelineTask:
    holding, ahead, once = box.highs
    return PipelineTask(NUMBERS[box.schedule], holding, ahead, once, limit, box.fewest, box.replicas, box.data)


def _labels(room: int, groups: int) -> Labels:
    longs = {
        name: np.zeros(room, dtype=np.int64) for name in ("replicas", "joint", "group", "narrow", "same", "parent")
    }
    return Labels(
        used=np.zeros((room, groups), dtype=np.int64),
        passing=np.zeros(room),
        option=np.zeros(room, dtype=np.int32),
        place=np.zeros(room, dtype=np.int32),
        following=np.zeros(room, dtype=np.int64),
        **longs,
    )
