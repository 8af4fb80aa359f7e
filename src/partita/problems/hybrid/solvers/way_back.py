"""From a filled table of a decision back to the stages of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from partita.engines.kernels.arrays import Ints
from partita.engines.kernels.hybrid.arrays import HybridWork, StageIndex
from partita.engines.kernels.hybrid.decide import STEP, trace
from partita.engines.kernels.hybrid.machines import Machines, fill_group
from partita.ground.errors import DisagreementError
from partita.problems.hybrid.instance import HybridInstance


class Placed(NamedTuple):
    """A stage of a plan: its replicas, microbatches in flight, and the machines and the number of its group."""

    stage: StageIndex
    replicas: int
    in_flight: int
    machines: int | None = None
    group: int | None = None


def single_stages(model: HybridInstance, work: HybridWork, fewest: Ints, target: float) -> Iterator[Placed]:
    """The stages of the plan that a table of devices holds, first stage first; they may break off if stopped."""
    steps = np.empty((len(model.order) + 1, STEP), dtype=np.int32)
    count = trace(work, target, fewest, steps)
    if count < 0 and work.stop[0] == 0:
        raise DisagreementError("the table of a hybrid decision cannot be followed back to a plan")
    found = steps[: max(0, count)]
    behind = int(found[:, 3].sum())
    for inner, outer, r, d in found.tolist():
        yield Placed(StageIndex(inner, outer, r), d, -(-behind // d))
        behind -= d


def stages_of_groups(
    model: HybridInstance, work: HybridWork, machines: Machines, fewest: Ints, target: float
) -> Iterator[Placed]:
    """As ``single_stages``, of a table of machines."""
    size, total = machines.size.tolist()
    ranks, within = len(model.degrees), target * (1.0 + float(work.arrays.limits[3]))
    outer, column, number = len(fewest) - 1, model.width, 0
    while outer > 0:
        while column > 0 and fewest[outer, column - 1] == fewest[outer, column]:
            column -= 1
        code, replicas = divmod(int(machines.group[outer, column]), size + 1)
        first, shared = divmod(code, total + 1)
        if not 0 <= first < outer:
            raise DisagreementError("the table of a decision about machines cannot be followed back to a plan")
        column -= shared * replicas
        # The table of the group, for the microbatches that later groups hold.
        waiting = -(-column // shared)
        fill_group(work, machines, first, outer, shared, within, math.inf, waiting, waiting)
        if work.stop[0] != 0:
            return
        devices = int(machines.room[outer, :, replicas].argmax())
        if machines.room[outer, devices, replicas] < waiting:
            raise DisagreementError("a group of stages cannot be followed back to a plan")
        while outer > first:
            code, d = divmod(int(machines.stage[outer, devices, replicas]), size + 1)
            inner, r = divmod(code, ranks)
            yield Placed(StageIndex(inner, outer, r), d * shared, -(-(waiting + replicas) // d), shared, number)
            outer, devices, replicas = inner, devices - d * model.degrees[r], replicas - d
        number += 1
