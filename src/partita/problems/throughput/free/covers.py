"""Splits made of the sets that charges have found: the covering program in whole numbers, over known sets.

Where charges prove a bound, the best split is often made of sets that the proof has come across, and annealing, which
moves one item at a time, does not get from one such split to the next.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partita.engines.kernels.arrays import Floats, Ints
from partita.engines.mip.model import Callbacks, MixedProgram
from partita.engines.mip.solve import solve_program
from partita.ground.rounding import NOT_ZERO, clearly_below
from partita.problems.throughput.free.columns import DeviceSets
from partita.problems.throughput.free.search import FreeIncumbent

#: How far above the bound the loads of sets may be, in turn.
ABOVE = (1e-6, 1e-4, 1e-3, 1e-2)
#: Seconds for one program.
COVER_S = 5.0
#: Items that may be left over: each is put where it does least harm.
MOST_LEFT = 100


def split_of_sets(best: FreeIncumbent, columns: DeviceSets, charge: Floats, stop: Callable[[], bool]) -> bool:
    """Whether a better split was made of known sets whose loads are near the bound."""
    for above in ABOVE:
        target = best.bound * (1 + above)
        if stop() or not target < clearly_below(best.value):
            return False
        label = _covering(best, columns, charge, target, stop)
        if label is not None and best.take(label, "sets of the bound"):
            return True
    return False


def _covering(
    best: FreeIncumbent, columns: DeviceSets, charge: Floats, target: float, stop: Callable[[], bool]
) -> Ints | None:
    """The split by the sets that cover most charge; items in several go to one of them, those in none fill up."""
    chosen = columns.fitting(target)
    model = MixedProgram()
    used = [model.add_binary() for _ in chosen]
    for kind in columns.moving:
        row = [(z, 1.0) for z, column in zip(used, chosen, strict=True) if column.kind == kind]
        model.add_row(row, upper=float(columns.number[kind]))
    # Items without a charge count a little, too.
    worth = charge / max(float(charge.sum()), NOT_ZERO) + 1e-6
    for v in range(columns.items):
        covered = model.add_continuous(0.0, 1.0, -float(worth[v]))
        holding = [(z, -1.0) for z, column in zip(used, chosen, strict=True) if column.items[v]]
        model.add_row([(covered, 1.0), *holding], upper=0.0)
    answer = solve_program(model, "highs", time_limit_s=COVER_S, callbacks=Callbacks(stop=stop))
    if answer.values is None:
        return None
    arrays = columns.arrays
    free = {kind: np.flatnonzero(arrays.kind_of == kind).tolist() for kind in columns.moving}
    label = np.full(columns.items, -1, dtype=np.int32)
    for z, column in zip(used, chosen, strict=True):
        if answer.values[z] > 0.5:
            label[column.items & (label < 0)] = free[column.kind].pop(0)
    left = np.flatnonzero(label < 0)
    if len(left) > MOST_LEFT:
        return None
    fastest = np.argmin(arrays.work[:, arrays.kind_of], axis=1).astype(np.int32)
    label[left] = fastest[left]
    for v in left[np.argsort(-arrays.work[left, arrays.kind_of[fastest[left]]], kind="stable")].tolist():
        label[v] = _place_of(best, label, v)
    return label


def _place_of(best: FreeIncumbent, label: Ints, v: int) -> int:
    """The device where an item leaves the smallest largest load, and of these the smallest sum."""

    def harm(device: int) -> tuple[float, float]:
        moved = label.copy()
        moved[v] = device
        load = best.free.state(moved).load
        return float(load.max()), float(load.sum())

    return min(range(len(best.free.devices)), key=harm)
