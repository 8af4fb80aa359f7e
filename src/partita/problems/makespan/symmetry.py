"""Devices that can change places: whoever swaps two of them in a schedule has another one, as long and as full."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from partita.engines.kernels.arrays import Floats, Longs
from partita.problems.makespan.instance import MakespanInstance

#: Most ways to renumber devices that are looked at; classes of more are divided.
_MOST = 600


def interchangeable(instance: MakespanInstance) -> list[list[int]]:
    """Classes of several devices that can change places in any way, as far as these ways are not too many.

    Two can if they take equally long for every operator and hold as much, and if every flow takes as long from and to
    one as from and to the other, and as long between them in both directions. Swaps of the first with all others of a
    class make all its permutations.
    """
    classes: list[list[int]] = []
    for d in range(instance.devices):
        mine = next((row for row in classes if _swap(instance, row[0], d)), None)
        if mine is None:
            classes.append([d])
        else:
            mine.append(d)
    while math.prod(math.factorial(len(row)) for row in classes) > _MOST:
        row = max(classes, key=len)
        classes.remove(row)
        classes += [row[: len(row) // 2], row[len(row) // 2 :]]
    return sorted(row for row in classes if len(row) > 1)


def _swap(instance: MakespanInstance, d: int, e: int) -> bool:
    """Whether a problem stays the same with two devices swapped."""
    a, other = instance.arrays, np.arange(instance.devices)
    other[[d, e]] = e, d
    return bool(
        a.limit[d] == a.limit[e]
        and (a.time[:, d] == a.time[:, e]).all()
        and (a.cost == a.cost[:, other][:, :, other]).all()
    )


def renumberings(devices: int, classes: Sequence[Sequence[int]]) -> Longs:
    """(m, D + 1) All new numbers of so many devices within their classes; −1, no device, keeps its place at the end."""
    found = []
    for rows in itertools.product(*(itertools.permutations(row) for row in classes)):
        number = np.append(np.arange(devices), -1)
        for row, mine in zip(classes, rows, strict=True):
            number[list(row)] = mine
        found.append(number)
    return np.array(found, dtype=np.int64)


def evened(values: Floats, classes: Sequence[Sequence[int]]) -> Floats:
    """(D,) values, those of a class in its mean."""
    found = values.copy()
    for row in classes:
        found[list(row)] = values[list(row)].mean()
    return found
