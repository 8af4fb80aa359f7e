"""Mappings from shares of columns: parts are put together to columns, and these get devices of their islands.

Source: own. What ``partita.problems.mapping.bounds.columns`` counts says which parts every island holds, and how
columns consist of parts. Which part goes with which is open; parts that are alike change places between columns as long
as that makes exchanges cheaper. Links differ inside of islands and rings are not in order yet: what comes out is for a
search to begin from.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partita.engines.kernels.arrays import Floats, Ints
from partita.problems.mapping.bounds.part_program import PartProgram
from partita.problems.mapping.bounds.parts import Island
from partita.problems.mapping.bounds.passages import Passages
from partita.problems.mapping.instance import MappingInstance

#: The power of what an exchange takes in sums, and sweeps over all parts at most.
_POWER, _SWEEPS = 4, 20

Part = frozenset[int]


def composed(program: PartProgram, values: Floats) -> Ints:
    """A mapping with as many of each part in every island, and columns of each split, as a solution has."""
    instance, islands = program.instance, program.islands
    pace = Passages(instance, islands).pace
    having = [{part: round(values[z]) for part, z in row.items()} for row in program.having]
    splits = {split: round(values[n]) for split, n in program.split.items()}
    columns: dict[Part, list[int]] = {}
    number = 0
    for split, count in splits.items():
        for column in range(number, number + count):
            for part in split:
                columns.setdefault(part, []).append(column)
        number += count
    where = np.zeros((instance.stages, instance.replicas), dtype=np.int64)
    for part, those in columns.items():
        places = [i for i, row in enumerate(having) for _ in range(row.get(part, 0))]
        where[np.ix_(np.array(sorted(part)), np.array(those))] = places
    for _ in range(_SWEEPS):
        better = [_swapped(instance, pace, where, part, np.array(those)) for part, those in columns.items()]
        if not any(better):
            break
    return placed(instance, islands, where)


def _swapped(
    instance: MappingInstance, pace: Floats, where: npt.NDArray[np.int64], part: Part, those: npt.NDArray[np.int64]
) -> bool:
    """Let islands of a part change places among the columns that have it, while that helps; whether any did."""
    some, stages = False, np.array(sorted(part))
    while len(those) > 1:
        here = where[min(part), those]
        cost = np.zeros((len(those), len(those)))  # [column, whose island]
        for s in part:
            for t, moved in instance.exchanges_of[s]:
                if t not in part:
                    cost += (moved * pace[np.ix_(here, where[t, those])].T) ** _POWER
        now = np.diag(cost)
        gain = now[:, None] + now[None, :] - cost - cost.T
        a, b = divmod(int(np.argmax(gain)), len(those))
        if gain[a, b] <= 1e-9 * now.sum():
            break
        some = True
        where[np.ix_(stages, those[[a, b]])] = where[np.ix_(stages, those[[b, a]])]
    return some


def placed(instance: MappingInstance, islands: list[Island], where: npt.NDArray[np.int64]) -> Ints:
    """Some device for every replica of its island: ``where`` is [stage, replica]."""
    found = np.empty(where.shape, dtype=np.int32)
    for i, island in enumerate(islands):
        here = where == i
        found[here] = island.members[: int(here.sum())]
    return np.ascontiguousarray(found.ravel())
