"""A few columns in a few islands, where all islands are alike: what these have in common with a whole mapping.

Source: own. Machines that are alike, with links that are alike between any two of them, are many islands for few
questions. A *group* is as few columns as fill whole islands. A mapping of a group is one of all columns when it is
repeated on the next islands, but for rings, which lead from group to group. So programs of a group are small, and
their solutions make mappings; that they have none proves nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.problems.mapping.bounds.parts import Column, Island, islands_of
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.problem import MappingProblem

#: Fewest columns of a group: in rings of fewer, both ways lead to the same one.
_FEWEST = 3


class Group(NamedTuple):
    """Some columns on the first islands."""

    column: Column  #: Of the problem of these columns and islands alone.
    islands: list[Island]
    #: (groups, devices) The device of the whole problem that each device of the small one is, group by group.
    devices: Ints

    def repeated(self, device: Ints) -> Ints:
        """The mapping of all columns that a mapping of these makes."""
        stages = self.column.instance.stages
        found = self.devices[:, device].reshape(len(self.devices), stages, -1)
        return np.ascontiguousarray(found.transpose(1, 0, 2).ravel())


def columns_that_fill(instance: MappingInstance, islands: list[Island]) -> int:
    """Fewest columns, three or more, that fill whole islands if all are as large; 0 where all columns are."""
    sizes, every = {len(island.members) for island in islands}, instance.replicas
    if len(sizes) != 1:
        return 0
    whole = (n for n in range(_FEWEST, every) if every % n == 0 and n * instance.stages % max(sizes) == 0)
    return next(whole, 0)


def group_of(instance: MappingInstance, islands: list[Island]) -> Group | None:
    """The group of some islands; None if these are not alike, or all columns are needed to fill whole ones."""
    first, columns = islands[0], columns_that_fill(instance, islands)
    alike = all(island.key == first.key and len(island.classes) == 1 for island in islands)
    if columns == 0 or not alike or instance.devices != instance.count:
        return None
    count = columns * instance.stages // len(first.members)
    used = np.concatenate([island.members for island in islands[:count]])
    groups = [islands[k : k + count] for k in range(0, len(islands), count)]
    small = MappingInstance(_on(instance.problem, columns, used.tolist()))
    return Group(
        Column(small),
        islands_of(small, np.split(np.arange(len(used)), count)),
        np.array([np.concatenate([island.members for island in group]) for group in groups], dtype=np.int32),
    )


def _on(problem: MappingProblem, columns: int, devices: list[int]) -> MappingProblem:
    """The problem of so many columns on some devices, whose rings move as many bytes over a link as those of all."""
    every = problem.counts[0]
    more = (1 - 1 / every) / (1 - 1 / columns)
    return msgspec.structs.replace(
        problem,
        replicas=columns,
        machines=(),
        devices=(),
        stages=tuple(
            msgspec.structs.replace(
                stage,
                replicas=None,
                parameter_bytes=stage.parameter_bytes * more,
                times_s=None if stage.times_s is None else tuple(stage.times_s[d] for d in devices),
            )
            for stage in problem.stages
        ),
        # Stages that state their own replicas share what the problem's exchange.
        transfers=tuple(
            msgspec.structs.replace(one, bytes=one.bytes * problem.replicas / every) for one in problem.transfers
        ),
        bandwidth_bytes_per_s=tuple(tuple(problem.link(d, e) for e in devices) for d in devices),
    )
