"""Why no hybrid plan is faster than a target, as a table that a second program can check without trusting this one."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from partita.checker.certificate import Certificate, Problem, as_in_file, first_proving
from partita.checker.hybrid.downsets import SuffixSets, closed_sets
from partita.engines.kernels.arrays import Ints
from partita.engines.search.result import Bound
from partita.ground.errors import InputError, UnsupportedError
from partita.ground.rounding import just_below
from partita.problems.hybrid.downsets import all_downsets
from partita.problems.hybrid.instance import build_instance
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.steady.solvers.decision import Family

#: Most downsets that a certificate lists.
MOST_SETS = 20_000
#: Devices that rounding may add to what layers need, less than decisions allow for.
_FEW = 5e-7
#: Most sets that a compact certificate lists, and most stages that have to be looked at.
_SETS, _STAGES = 200, 100_000


class HybridCertificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Proof that no plan has an objective of at most ``target``; ``docs/hybrid.md`` says why and how to check it."""

    target: float  #: The objective that cannot be reached, in the problem's unit.
    available: int  #: Devices of the problem; with a hierarchy, machines.
    sets: tuple[tuple[int, ...], ...]  #: Every set of layers that is closed under successors, as sorted ids.
    outside: tuple[int, ...]  #: For each set, devices (machines) that the layers outside it need at least.
    #: For each set the places where the fewest devices (machines) fall, as pairs (s, count) with growing s: with
    #: data-parallel degrees that add up to less than the first s the set cannot be run, or not be completed.
    fewest: tuple[tuple[tuple[int, int], ...], ...]


def refutation(problem: HybridProblem, target: float) -> HybridCertificate | None:
    """A proof that no plan reaches the target, a time per sample; None if one does.

    A proven lower bound of ``partita.solve``, or a little less, is refuted. InputError if the target is not positive,
    UnsupportedError if there are too many downsets to list.
    """
    if not target > 0:
        raise InputError(f"the target is {target}; it must be positive")
    model = build_instance(problem)
    sets = all_downsets(model.after, model.before, MOST_SETS)
    if sets is None:
        raise UnsupportedError(
            f"problem {problem.name!r} has more than {MOST_SETS} suffix sets; a proof lists them all"
        )
    available = problem.devices if problem.hierarchy is None else problem.machines
    listed = list(sets)
    fewest: list[tuple[tuple[int, int], ...]]
    if model.homeless:
        # Nothing is enough for the layers outside sets without them.
        outside = [available + 1 if model.homeless & ~members else 0 for members in listed]
        fewest = [((0, 0),) if members == 0 else () for members in listed]
    else:
        family = Family(model, sets, np.zeros(1, dtype=np.int64))
        if family.fewest_devices(target) is not None:
            return None
        listed = family.sets
        # Nothing needs nothing, even where what is outside needs too much.
        fewest = [((0, 0),), *(_falls(row, available) for row in family.fewest[1:])]
        if problem.hierarchy is None:
            outside = family.ahead.tolist()
        else:
            size = problem.devices_per_machine
            # Decisions allow for more, so that what they leave out for want of machines is left out here.
            outside = [math.ceil(rest / (size * target) - _FEW / size) for rest in family.work.arrays.rest]
    return HybridCertificate(
        target=target,
        available=available,
        sets=tuple(model.ids(members) for members in listed),
        outside=tuple(outside),
        fewest=tuple(fewest),
    )


def _falls(row: Ints, available: int) -> tuple[tuple[int, int], ...]:
    """Where a row falls, as far as that many devices (machines) are available."""
    falls = np.flatnonzero(np.diff(row, prepend=available + 1) < 0)
    return tuple((int(s), int(row[s])) for s in falls if row[s] <= available)


def certify(problem: HybridProblem, bound: Bound) -> Certificate | None:
    """A certificate that shows a bound; None with a hierarchy, or where it would not be small."""
    if problem.hierarchy is not None or not bound.value > 0:
        return None
    width = min(problem.devices, problem.microbatches)
    degrees = {t for layer in problem.layers for t in layer.configurations if t <= problem.devices}
    stages = width * sum(min(width, problem.devices // t) for t in degrees)

    def made(stated: Problem) -> Certificate | None:
        count = len(closed_sets(stated, _SETS))
        if count > _SETS or count * count * stages > 2 * _STAGES:
            return None
        found = refutation(problem, just_below(bound.value))
        if found is None:
            return None
        return SuffixSets(value=found.target, sets=found.sets, outside=found.outside, fewest=found.fewest)

    return first_proving(as_in_file(problem), bound.value, [made])
