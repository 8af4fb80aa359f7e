"""Rows of stages with degrees of their own over suffix sets: what the kernels work on, and plans from their answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from partita.kernels.arrays import as_arrays
from partita.kernels.hybrid.arrays import HybridKnown, HybridWork
from partita.kernels.hybrid.mesh import MeshStages, fill_stages
from partita.kernels.hybrid.rows import (
    FULL,
    Entries,
    Labels,
    Left,
    RowTask,
    Sacks,
    StageOptions,
    bound_rows,
    extend_rows,
    lost_time,
)
from partita.problems.hybrid.downsets import as_bits
from partita.problems.hybrid.instance import build_arrays, build_instance, new_scratch, of_step
from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.solvers.mesh_family import NUMBERS, replicas_of
from partita.problems.hybrid.step.limits import passed_over
from partita.problems.hybrid.step.mesh import Mesh
from partita.problems.hybrid.step.rows import handover_price, row_in_flight

#: Most elements of a table of stages by option, and labels that are kept.
MOST_STAGES = 12_000_000
MOST_LABELS = 1 << 21
#: Microbatches in flight whose loss is remembered.
_COLUMNS = 256

Floats = npt.NDArray[np.float64]


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


@dataclass(frozen=True)
class Within:
    """Caps on κ, that of forward parts and single costs; replicas of all stages, and of each (0 for any number).

    ``tensors`` are the tensor-parallel degrees on every kind of devices, None for any.
    """

    caps: tuple[float, ...]
    least: int = 0
    most: int = 1 << 40
    data: int = 0
    tensors: tuple[int, ...] | None = None


@dataclass(frozen=True)
class FoundStages:
    """A row: the plan, the sum of its passing times, and its replicas."""

    plan: HybridPlan
    passing: float
    replicas: int


class RowFamily:
    """Rows of stages of a problem with one of ZeRO's stages."""

    def __init__(
        self,
        problem: HybridProblem,
        choices: Sequence[Choice],
        zero: int,
        sets: Iterable[int],
        stop: npt.NDArray[np.int64],
        room: Room = most_room,
    ) -> None:
        self.problem, self.choices, self.zero = (
            problem,
            sorted(choices, key=lambda choice: (choice.width, choice)),
            zero,
        )
        self.degrees = sorted({(choice.kind, choice.tensor) for choice in choices})
        self.rooms = [room(kind.memory_bytes, len(problem.layers)) for kind in problem.kinds]
        self.model = build_instance(_by_number(problem, self.degrees))
        arrays, self.sets = build_arrays(self.model, sets)
        nothing = np.zeros(1, dtype=np.int32)
        known = HybridKnown(nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1))
        self.work = HybridWork(arrays, new_scratch(self.model), known, stop)
        self.options, self.sacks = self._tables()
        self.cheap = np.ascontiguousarray(self.options.price.min(axis=1))
        pairs = np.isfinite(self.options.forward).sum()
        size = len(self.sets)
        self.entries = Entries(
            np.zeros(size * size + 1, dtype=np.int64), np.zeros(pairs + 1, dtype=np.int32), np.zeros(pairs + 1)
        )
        columns = 1 if problem.others else problem.devices + 1
        self.left = Left(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), np.zeros((size, columns)))
        self.head = np.zeros(size, dtype=np.int64)
        self.labels = _labels(1 << 15, len(problem.kinds))

    def least(self, schedule: str, within: Within, limit: float = math.inf) -> float | None:
        """No row within the caps has a smaller sum of passing times; None if stopped. What is left is kept."""
        options = self.options
        if within.tensors is not None:
            # Options that are too wide for all devices are none.
            alike = [choice.tensor == within.tensors[choice.kind] for choice in self.choices]
            options = options._replace(width=np.where(alike, options.width, options.devices.sum() + 1))
        found = bound_rows(
            self.work, options, self.sacks, self._task(schedule, within, limit), self.cheap, self.entries, self.left
        )
        return None if found < 0 else float(self.left.rest[0, -1])

    def best(self, schedule: str, within: Within, limit: float, effort: int) -> FoundStages | None:
        """The row with the least sum of passing times below the limit, after ``least`` with no smaller caps.

        Raises
        ------
        LabelsFull
            If it takes more labels than there is room for, or looks at more than ``effort``.
        """
        task = self._task(schedule, within, limit)._replace(effort=effort)
        while True:
            passing, label = extend_rows(
                self.work, self.options, self.sacks, task, self.entries, self.left, self.labels, self.head
            )
            if passing != FULL:
                break
            if label == -2 or len(self.labels.passing) >= MOST_LABELS:
                raise LabelsFull
            self.labels = _labels(len(self.labels.passing) * 4, len(self.problem.kinds))
        if label < 0 or self.work.stop[0] != 0:
            return None
        return self._plan(schedule, within, float(passing), int(label))

    def _task(self, schedule: str, within: Within, limit: float) -> RowTask:
        holding, ahead, once = within.caps
        return RowTask(NUMBERS[schedule], holding, ahead, once, limit, within.least, within.most, within.data, 0)

    def _plan(self, schedule: str, within: Within, passing: float, label: int) -> FoundStages | None:
        order = [self.problem.layers[place] for place in self.model.order]
        place = {layer.id: number for number, layer in enumerate(self.problem.layers)}
        replicas = int(self.labels.replicas[label])
        stages = []
        while label > 0:
            o, outer = int(self.labels.option[label]), int(self.labels.place[label])
            behind, parent = int(self.labels.replicas[label]), int(self.labels.parent[label])
            inner = int(self.labels.place[parent])
            total = max(behind, within.least)
            flying = row_in_flight(schedule, behind, total, self.choices[o].data, int(self.options.microbatches[o]))
            sack = int(self.options.sack[inner, outer, o])
            # Remembered losses have no options with them.
            fresh = self.sacks._replace(
                inner=np.array([inner], dtype=np.int32),
                outer=np.array([outer], dtype=np.int32),
                degree=self.sacks.degree[sack : sack + 1].copy(),
                room=self.sacks.room[sack : sack + 1].copy(),
                extra=np.full((1, 1), math.nan),
            )
            if lost_time(self.work, fresh, 0, flying) == math.inf or self.work.stop[0] != 0:
                return None
            r, members = int(self.options.degree[o]), self.sets[outer] & ~self.sets[inner]
            part = [v for v in range(len(order)) if members >> v & 1]
            configurations = {}
            for v in part:
                option = int(self.work.scratch.best[v]) - int(self.work.arrays.option_ptr[r, v])
                configurations[order[v].id] = self.model.options[r][v][option].id
            operators = tuple(sorted(configurations, key=place.__getitem__))
            choice = self.choices[o]
            stages.append(
                HybridStage(
                    operators=operators,
                    data_parallel=choice.data,
                    tensor_parallel=choice.tensor,
                    device=self.problem.kinds[choice.kind].device if self.problem.others else "",
                    configurations={identity: configurations[identity] for identity in operators},
                )
            )
            label = parent
        return FoundStages(HybridPlan(stages=tuple(stages), schedule=schedule, zero=self.zero), passing, replicas)

    # -- tables ------------------------------------------------------------------------------------------------------

    def _tables(self) -> tuple[StageOptions, Sacks]:
        size, count = len(self.sets), len(self.choices)
        sorts = self._sorts()
        tables = {name: np.empty((count, size, size)) for name in ("forward", "backward", "gradients", "once")}
        sack = np.full((count, size, size), -1, dtype=np.int32)
        price = np.empty((count, len(self.problem.kinds) + 1, 2))
        examples: list[npt.NDArray[np.float64]] = []
        total = 0
        # Bytes do not depend on the degree; stages that a degree does not have are infinite there.
        enter = leave = np.full((size, size), math.inf)
        over = passed_over(self.problem, self.model.order, self.sets)
        for o, choice in enumerate(self.choices):
            mesh = Mesh(self.problem.kinds[choice.kind], 1, choice.data, choice.tensor, zero=self.zero)
            r = self.degrees.index((choice.kind, choice.tensor))
            stages = self._stages(mesh, r)
            stages.forward[over] = math.inf
            tables["forward"][o] = stages.forward + stages.gathered
            tables["backward"][o] = stages.backward + stages.returned
            tables["gradients"][o], tables["once"][o] = stages.weight_gradients, stages.once
            enter, leave = np.minimum(enter, stages.enter), np.minimum(leave, stages.leave)
            for joint, other in enumerate((None, *self.problem.kinds)):
                price[o, joint] = handover_price(mesh, other)
            inner, outer = np.nonzero(np.isfinite(stages.forward))
            if not len(inner):
                continue
            left = self.rooms[choice.kind] - (stages.state[inner, outer] + mesh.reserve)
            rooms, place = np.unique(left, return_inverse=True)
            of_sorts = sorts[r]
            alike = np.arange(len(inner))
            if of_sorts is not None:
                alike = (of_sorts[outer] - of_sorts[inner]) * len(rooms) + place.ravel()
            _, example, found = np.unique(alike, return_index=True, return_inverse=True)
            sack[o, inner, outer] = total + found.ravel()
            total += len(example)
            examples.append(np.stack([inner[example], outer[example], np.full(len(example), r), left[example]]))
        rows = np.concatenate(examples, axis=1) if examples else np.zeros((4, 1))
        most = max((self.problem.microbatches // choice.data for choice in self.choices), default=1)
        sacks = Sacks(
            inner=rows[0].astype(np.int32),
            outer=rows[1].astype(np.int32),
            degree=rows[2].astype(np.int64),
            room=np.ascontiguousarray(rows[3]),
            extra=np.full((rows.shape[1], min(_COLUMNS, most + 1)), math.nan),
        )
        each = [
            (
                choice.width,
                choice.data,
                self.problem.microbatches // choice.data,
                self.degrees.index((choice.kind, choice.tensor)),
                choice.kind,
            )
            for choice in self.choices
        ]
        columns_of = np.array(each, dtype=np.int64).reshape(-1, 5).T
        values: dict[str, Any] = {
            name: np.ascontiguousarray(table.transpose(1, 2, 0)) for name, table in tables.items()
        }
        values["sack"] = np.ascontiguousarray(sack.transpose(1, 2, 0))
        values |= dict(zip(("width", "replicas", "microbatches", "degree", "group"), columns_of, strict=True))
        values |= {"price": price, "enter": enter, "leave": leave}
        values["devices"] = [kind.devices for kind in self.problem.kinds]
        values["machine"] = [kind.devices_per_machine for kind in self.problem.kinds]
        options = as_arrays(StageOptions, values)
        return options, sacks

    def _stages(self, mesh: Mesh, r: int) -> MeshStages:
        size = len(self.sets)
        stages = MeshStages(*(np.full((size, size), math.inf) for _ in MeshStages._fields))
        arrays = self.work.arrays._replace(missing=np.ascontiguousarray(self.work.arrays.missing[r : r + 1]))
        fill_stages(self.work._replace(arrays=arrays), replicas_of(mesh), stages)
        return stages

    def _sorts(self) -> list[npt.NDArray[np.int64] | None]:
        """For every degree, (Z,) numbers whose differences say how many layers of every sort a stage has.

        Layers of one sort have the same options. None where there are too many sorts.
        """
        found: list[npt.NDArray[np.int64] | None] = []
        for row in self.model.options:
            numbers: dict[object, int] = {}
            of_layer = np.array(
                [
                    numbers.setdefault(
                        tuple((c.time, c.memory_per_microbatch_bytes, c.memory_bytes) for c in choices), len(numbers)
                    )
                    for choices in row
                ]
            )
            bits = as_bits(self.sets, len(of_layer))
            if (len(of_layer) + 1) ** len(numbers) * bits.shape[0] ** 2 >= 1 << 62:
                found.append(None)
                continue
            code = np.zeros(len(self.sets), dtype=np.int64)
            for sort in range(len(numbers)):
                code = code * (len(of_layer) + 1) + bits[:, of_layer == sort].sum(axis=1, dtype=np.int64)
            found.append(code)
        return found


def _by_number(problem: HybridProblem, degrees: Sequence[tuple[int, int]]) -> HybridProblem:
    """The layers with degrees of all kinds numbered from 1, so that each has a row of the arrays."""
    rows = [problem.kinds[kind].layers for kind, _ in degrees]
    layers = tuple(
        msgspec.structs.replace(
            layer,
            configurations={
                number + 1: of_step(rows[number][place].configurations.get(t, ()))
                for number, (_, t) in enumerate(degrees)
            },
            states={},
            update_times={},
        )
        for place, layer in enumerate(problem.layers)
    )
    return problem.replace(
        layers=layers,
        devices=len(degrees),
        microbatches=1,
        hierarchy=None,
        training=None,
        weight_sync_per_batch=False,
        others=(),
        spreads=(),
    )


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
