"""Stages of steps between downsets, on meshes of some degrees: what the kernels read, and what layers run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Longs, as_arrays
from partita.engines.kernels.hybrid.arrays import HybridWork, StageIndex
from partita.engines.kernels.hybrid.passing import (
    ALL_FORWARD,
    IN_TURN,
    SPLIT_BACKWARD,
    ReplicaExchanges,
    Sacks,
    StageOptions,
    fill_option,
    lost_time,
)
from partita.ground.rounding import SUMMED
from partita.problems.hybrid.instance import (
    build_arrays,
    build_instance,
    configurations_of,
    new_scratch,
    nothing_known,
    of_step,
    sort_counts,
    stage_kinds,
)
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.room import Room, most_room
from partita.problems.hybrid.step.limits import passed_over
from partita.problems.hybrid.step.mesh import DeviceMesh

#: The kernel's numbers of schedules.
NUMBERS = {"1f1b": IN_TURN, "gpipe": ALL_FORWARD, "zero-bubble": SPLIT_BACKWARD}


class StepFamily:
    """Downsets whose differences may become stages; the empty one and the whole model are among them.

    ``degrees`` are kinds of devices, by number, with a tensor-parallel degree. A ``stop`` other than 0 asks kernels to
    return; ``room`` says how much of a device's memory is room.
    """

    def __init__(
        self,
        problem: HybridProblem,
        degrees: Sequence[tuple[int, int]],
        sets: Iterable[int],
        stop: Longs,
        room: Room = most_room,
    ) -> None:
        self.problem, self.degrees = problem, degrees
        self.rooms = [room(kind.memory_bytes, len(problem.layers)) for kind in problem.kinds]
        self.model = build_instance(_by_number(problem, degrees))
        arrays, self.sets = build_arrays(self.model, sets)
        self.work = HybridWork(arrays, new_scratch(self.model), nothing_known(), stop)
        self.sorts = [sort_counts(self.sets, [space]) for space in self.model.options]
        self.passed_over = passed_over(problem, self.model.order, self.sets)

    def tables(self, meshes: Sequence[tuple[int, DeviceMesh]], columns: int) -> tuple[StageOptions, Sacks]:
        """All stages on devices of a kind with the degrees of a mesh, option by option, without prices.

        ``columns`` is for how many microbatches in flight a stage's loss is remembered.
        """
        size, count = len(self.sets), len(meshes)
        names = ("width", "replicas", "microbatches", "degree", "group")
        degrees = [
            (mesh.groups * mesh.tensor, mesh.data, mesh.microbatches, self.degrees.index((kind, mesh.tensor)), kind)
            for kind, mesh in meshes
        ]
        values: dict[str, Any] = dict(
            zip(names, np.array(degrees, dtype=np.int64).reshape(-1, len(names)).T, strict=True)
        )
        values |= {
            name: np.full((size, size, count), math.inf) for name in ("forward", "backward", "gradients", "once")
        }
        values |= {name: np.full((size, size), math.inf) for name in ("enter", "leave")}
        values |= {"sack": np.full((size, size, count), -1), "price": np.zeros((count, 1, 2))}
        values["devices"] = [kind.devices for kind in self.problem.kinds]
        values["machine"] = [kind.devices_per_machine for kind in self.problem.kinds]
        options, state = as_arrays(StageOptions, values), np.empty((size, size))
        examples = [np.zeros((4, 0))]
        for o, (kind, mesh) in enumerate(meshes):
            fill_option(self.work, replicas_of(mesh), options, o, state)
            options.forward[self.passed_over, o] = math.inf
            inner, outer = np.nonzero(np.isfinite(options.forward[:, :, o]))
            left = self.rooms[kind] - (state[inner, outer] + mesh.reserve)
            r = int(options.degree[o])
            example, found = stage_kinds(self.sorts[r], inner, outer, left)
            options.sack[inner, outer, o] = sum(rows.shape[1] for rows in examples) + found
            examples.append(np.stack([inner[example], outer[example], np.full(len(example), r), left[example]]))
        each = np.concatenate(examples, axis=1)
        extra = np.full((each.shape[1], columns), math.nan)
        sacks = dict(zip(("inner", "outer", "degree", "room"), each, strict=True)) | {"extra": extra, "first": 0}
        return options, as_arrays(Sacks, sacks)

    def configurations(self, stage: StageIndex, room: float, in_flight: int) -> dict[int, str] | None:
        """What the layers of a stage run, by id, in their order; None if stopped, or if nothing fits."""
        if lost_time(self.work, stage, room, in_flight) == math.inf or self.work.stop[0] != 0:
            return None
        return configurations_of(self.model, self.work, self.sets, stage)


def replicas_of(mesh: DeviceMesh) -> ReplicaExchanges:
    """What the replicas of a mesh exchange, for the kernels."""
    exchanges, degree, problem = mesh.exchanges, mesh.tensor, mesh.problem
    layers = {layer.id: layer for layer in problem.layers}
    into, out = [], []
    within = mesh.network.inside
    for edge in problem.edges:
        source, target = (layers[end].configurations.get(degree, ()) for end in (edge.source, edge.target))
        into.append(target[0].sync_in_bytes.get(edge.source, 0.0) / within if target else 0.0)
        out.append(source[0].sync_out_bytes.get(edge.target, 0.0) / within if source else 0.0)
    values = {name: getattr(exchanges, name) for name in ReplicaExchanges._fields if hasattr(exchanges, name)}
    values |= {
        "edge_bytes": [edge.bytes for edge in problem.edges],
        "edge_in": into,
        "edge_out": out,
        "overlap": [exchanges.overlap],
        "occupied": [exchanges.occupied],
    }
    return as_arrays(ReplicaExchanges, values)


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


#: A cap this much below a value excludes it.
_BELOW = 10 * SUMMED


@dataclass(frozen=True, kw_only=True)
class Box:
    """Pipelines with bounds on the largest κ, that of forward parts where they come first, and the single cost."""

    lows: tuple[float, ...] = (0.0, 0.0, 0.0)
    highs: tuple[float, ...] = (math.inf, math.inf, math.inf)

    @property
    def least(self) -> float:
        """What the bounds add to the passing times at least."""
        return sum(self.lows)

    @property
    def widths(self) -> list[float]:
        """How far the bounds are apart."""
        return [high - low for low, high in zip(self.lows, self.highs, strict=True)]

    def cut(self, place: int, *, low: float | None = None, high: float | None = None) -> Self:
        """What is left of it with other bounds in one place."""
        lows, highs = list(self.lows), list(self.highs)
        lows[place] = lows[place] if low is None else max(low, lows[place])
        highs[place] = highs[place] if high is None else min(high, highs[place])
        return replace(self, lows=tuple(lows), highs=tuple(highs))

    def beside(self, costs: tuple[float, ...]) -> tuple[list[Self], Self]:
        """What is left beside that with the least sum of passing times: boxes with a smaller cost and the rest.

        Pipelines of the rest take no less than that, but for the share by which caps are below values.
        """
        parts: list[Self] = []
        rest = self
        for place, cost in enumerate(costs):
            below = cost * (1 - _BELOW)
            if rest.lows[place] >= below:
                continue
            part = rest.cut(place, high=below)
            middle = (part.lows[place] + part.highs[place]) / 2
            if place == 0 and part.lows[0] < middle < part.highs[0]:
                parts += [part.cut(0, high=middle), part.cut(0, low=middle)]
            else:
                parts.append(part)
            rest = rest.cut(place, low=below)
        return parts, rest
