"""The published search: bisection on the target, with depth-first assignment of replicas to devices.

Source: Parmesan, §V, algorithms 1 and 2. It knows the two easy forms of the objective, the one with transfers and the
one with the all-reduce; of these it takes the one whose bytes are more, all-reduce over all stages against transfers
between all stages. The first upper end is the better of a random and of the consecutive mapping, the first lower end
what every replica takes at best. A target at which the search gives up counts as not reached.

Here a replica is checked as soon as the partners placed so far exceed the target, which is no later than in the paper.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from partita.engines.kernels.arrays import Ints, Longs
from partita.engines.kernels.mapping.placing import FOUND, depth_first
from partita.problems.mapping.bounds.neighbours import best_loads
from partita.problems.mapping.evaluate import evaluate
from partita.problems.mapping.instance import MappingInstance
from partita.problems.mapping.orders import consecutive

#: Devices tried for one target at most.
CHECKS = 1_000_000
#: Width of the interval at which it ends, as a share of its upper end.
_PRECISION = 1e-3

EasyForm = Literal["point-to-point", "all-reduce"]
EASY_FORMS: tuple[EasyForm, ...] = ("point-to-point", "all-reduce")


def heavier_form(instance: MappingInstance) -> EasyForm:
    """The form that the paper chooses: the one of the larger traffic."""
    a = instance.arrays
    return "all-reduce" if a.ring.sum() > a.weight.sum() / 2 else "point-to-point"


def bisection(instance: MappingInstance, form: EasyForm, stop: Longs, seed: int = 0) -> Ints:
    """The mapping that the published search finds for one form of a problem, whatever its own; ``stop`` is polled."""
    easy = MappingInstance(instance.problem.replace(form=form))
    random = np.random.default_rng(seed).permutation(easy.devices)[: easy.count].astype(np.int32)

    def value(device: Ints) -> float:
        return evaluate(easy.problem, easy.plan(device)).objective

    best = min((consecutive(easy), random), key=value)
    low, high = float(best_loads(easy).min(axis=1).max()), value(best)
    order = placing_order(easy, by_stage=form == "all-reduce")
    nobody = np.full(easy.count, -1, dtype=np.int32)
    untwinned = np.full(easy.devices, -1, dtype=np.int32)
    everywhere = np.ones((easy.stages, easy.devices), dtype=np.int32)
    device = np.empty(easy.count, dtype=np.int32)
    while high - low > _PRECISION * high and stop[0] == 0:
        target = (low + high) / 2
        answer = depth_first(
            easy.arrays, order, nobody, untwinned, everywhere, np.zeros(easy.devices), target, CHECKS, stop, device
        )
        if answer == FOUND:
            best, high = device.copy(), min(target, value(device))
        else:
            low = target
    return best


def placing_order(instance: MappingInstance, *, by_stage: bool) -> Ints:
    """Replicas in the order in which they are placed: stage after stage, or one replica of all stages after another."""
    numbers = np.arange(instance.count, dtype=np.int32).reshape(instance.stages, instance.replicas)
    return np.ascontiguousarray((numbers if by_stage else numbers.T).ravel())
