"""A certificate that lists, for every set of last layers, the fewest devices that run it within a target.

Stages are laid from the last one to the first. After each, the layers laid so far are a set that holds all successors
of its layers. By induction over these sets, ``fewest`` says: to run a set with data-parallel degrees that add up to s,
every stage within the target, takes at least so many devices, or leaves too few for the layers outside, which need at
least ``outside``. Every next stage, of every degree and with the configurations that fit it best, leads from an entry
to one that is no larger than what the stage adds; and no entry of the whole model is within the devices there are. So
no plan has all stages within the target.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from partita.checker.certificate import Certificate, Problem
from partita.checker.numbers import TOLERANCE, FailedCheckError, exact, undominated

Layers = frozenset[int]
#: Time, weights, and memory (per microbatch in flight, always, shared by the replicas) of a choice for some layers.
Choice = tuple[Fraction, Fraction, Fraction, Fraction, Fraction]
_NOTHING: Choice = (Fraction(0),) * 5


class SuffixSets(Certificate, frozen=True, kw_only=True, tag="suffix-sets"):
    """See the module; ``value`` is the target."""

    says = "from the last stage to the first, the devices that a set of layers needs within the target were counted"

    sets: tuple[tuple[int, ...], ...]  #: Every set of layers that holds the successors of its layers, as sorted ids.
    outside: tuple[int, ...]  #: For each set, devices that the layers outside it need at least.
    #: For each set the places where the fewest devices fall, as pairs (s, devices) with growing s.
    fewest: tuple[tuple[tuple[int, int], ...], ...]

    def scope(self, problem: Problem) -> str:
        return "acyclic"

    def proves(self, problem: Problem) -> Fraction:
        """The target."""
        if problem.get("training") is not None or problem.get("hierarchy") is not None:
            raise FailedCheckError("it is for the time per sample on devices that are all linked alike")
        target = exact(self.value)
        stages = FittingStages(problem, target)
        sets = [frozenset(members) for members in self.sets]
        if len(set(sets)) < len(sets) or set(sets) != closed_sets(problem):
            raise FailedCheckError("the sets are not all that hold the successors of their layers")
        _check_table(stages, sets, self)
        return target


def _check_table(stages: FittingStages, sets: list[Layers], stated: SuffixSets) -> None:
    """Refuse a table of which some step does not hold."""
    devices = stages.devices
    outside = dict(zip(sets, stated.outside, strict=True))
    steps = dict(zip(sets, stated.fewest, strict=True))

    def fewest(members: Layers, s: int) -> int:
        return min((count for at, count in steps[members] if at <= s), default=devices + 1)

    nothing, everything = frozenset[int](), frozenset(stages.layers)
    if fewest(nothing, 0) > 0 and outside[nothing] <= devices:
        raise FailedCheckError("no layers at all are said to need devices")
    if any(fewest(everything, s) <= devices for s in range(stages.width + 1)) or outside[everything] > 0:
        raise FailedCheckError("the whole model is within the devices there are")
    for inner, outer in itertools.product(sets, repeat=2):
        for s in range(stages.width) if inner < outer else ():
            before = fewest(inner, s)
            if before > devices and (s > 0 or outside[inner] <= 0):
                continue
            for d, cost in stages.within(outer - inner, s):
                kept = before + cost + outside[outer] <= devices
                if kept and fewest(outer, s + d) > before + cost:
                    raise FailedCheckError(f"layers {sorted(outer)} can be run with {before + cost} devices")
                if s == 0 and outside[inner] > cost + outside[outer]:
                    raise FailedCheckError(f"the layers outside {sorted(inner)} need no more than {cost} devices")


class FittingStages:
    """Which stages are within a target."""

    def __init__(self, problem: Problem, target: Fraction) -> None:
        self.problem = problem
        self.devices: int = problem["devices"]
        self.width = min(self.devices, problem["microbatches"])
        self.layers: dict[int, Mapping[str, Any]] = {layer["id"]: layer for layer in problem["layers"]}
        self.room = target * exact(problem["bandwidth_bytes_per_unit"])
        limit = problem.get("memory_bytes")
        # What evaluators let pass as rounding is no proof that a stage does not fit.
        self.limit = None if limit is None else exact(limit) * (1 + TOLERANCE)
        self._choices: dict[tuple[Layers, int], list[Choice]] = {}
        self._found: dict[tuple[Layers, int], list[tuple[int, int]]] = {}

    @cached_property
    def neighbours(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {v: set() for v in self.layers}
        for edge in self.problem.get("edges", ()):
            found[edge["source"]].add(edge["target"])
            found[edge["target"]].add(edge["source"])
        return found

    @cached_property
    def degrees(self) -> list[int]:
        """Tensor-parallel degrees that layers have."""
        found = {int(t) for layer in self.layers.values() for t in layer["configurations"]}
        return sorted(t for t in found if t <= self.devices)

    def within(self, members: Layers, s: int) -> list[tuple[int, int]]:
        """Replicas and devices of the stages with these layers that meet the target, s replicas being behind them."""
        key = members, s
        if key not in self._found:
            self._found[key] = list(self._within(members, s))
        return self._found[key]

    def _within(self, members: Layers, s: int) -> Iterator[tuple[int, int]]:
        for t in self.degrees:
            choices = self.choices(members, t)
            for d in range(1, min(self.width - s, self.devices // t) + 1):
                if self._meets(choices, d, -(-(s + d) // d)):
                    yield d, d * t

    def _meets(self, choices: list[Choice], d: int, flying: int) -> bool:
        batch = self.problem["microbatches"]
        per_batch = self.problem.get("weight_sync_per_batch", False)
        if per_batch and batch % d:
            return False
        share = Fraction(4 * (d - 1), batch if per_batch else d)
        return any(
            time + share * weights <= d * self.room
            for time, weights, each, always, shared in choices
            if self.limit is None or each * flying + always + shared / d <= self.limit
        )

    def choices(self, members: Layers, t: int) -> list[Choice]:
        """Configurations of all layers together that no other ones are better than in every respect."""
        key = members, t
        if key not in self._choices:
            kept = [_NOTHING]
            each = Counter(tuple(sorted(self._of_layer(v, members, t))) for v in members)
            for layer, count in sorted(each.items()):
                for _ in range(count):
                    kept = undominated({_sum(one, other) for one in kept for other in layer})
            self._choices[key] = kept
        return self._choices[key]

    def _of_layer(self, v: int, members: Layers, t: int) -> Iterator[Choice]:
        """The configurations of a layer; times are bytes that could be moved meanwhile, with what crosses."""
        bandwidth = exact(self.problem["bandwidth_bytes_per_unit"])
        for choice in self.layers[v]["configurations"].get(str(t), ()):
            time = exact(choice["time"]) * bandwidth
            for edge in self.problem.get("edges", ()):
                a, b = edge["source"], edge["target"]
                if b == v and a not in members:
                    time += 2 * (exact(edge["bytes"]) + exact(choice.get("sync_in_bytes", {}).get(str(a), 0.0)))
                if a == v and b not in members:
                    time += 2 * (exact(edge["bytes"]) + exact(choice.get("sync_out_bytes", {}).get(str(b), 0.0)))
            weights, each, always, shared = (
                exact(choice.get(f"{name}_bytes", 0.0))
                for name in ("weight", "memory_per_microbatch", "memory", "sharded")
            )
            yield time, weights, each, always, shared


def _sum(one: Choice, other: Choice) -> Choice:
    a, b, c, d, e = (x + y for x, y in zip(one, other, strict=True))
    return a, b, c, d, e


def closed_sets(problem: Problem, most: float = math.inf) -> set[Layers]:
    """Every set of layers that holds the successors of its layers; one more than ``most`` if there are more."""
    after: dict[int, set[int]] = {layer["id"]: set() for layer in problem["layers"]}
    for edge in problem.get("edges", ()):
        after[edge["source"]].add(edge["target"])
    found = {frozenset[int]()}
    pending = list(found)
    while pending and len(found) <= most:
        members = pending.pop()
        for v in after:
            larger = members | {v}
            if v not in members and after[v] <= members and larger not in found:
                found.add(larger)
                pending.append(larger)
    return found
