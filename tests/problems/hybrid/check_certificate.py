"""Check a proof that no hybrid plan reaches a target, from the problem alone and sharing no code with the package.

Sums are exact, in whole multiples of a unit; the least time of a stage comes from merging the trade-offs of its layers.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from typing import Any

from problems.hybrid.independent_evaluator import link_cost


def check(problem: Any, proof: Any) -> str | None:
    """None if the proof holds, otherwise what is wrong with it."""
    target = Fraction(proof.target)
    layers = {layer.id: layer for layer in problem.layers}
    machines = problem.hierarchy is not None
    size = min(problem.devices, problem.hierarchy.devices_per_machine) if machines else problem.devices
    available = problem.devices // size if machines else problem.devices
    width = min(problem.devices, problem.microbatches)
    if proof.available != available:
        return "other devices"
    sets = [frozenset(members) for members in proof.sets]
    if set(sets) != closed_sets(problem) or len(set(sets)) != len(sets):
        return "the sets are not all closed sets"
    outside = dict(zip(sets, proof.outside, strict=True))
    steps = dict(zip(sets, proof.fewest, strict=True))

    def fewest(members: frozenset[int], s: int) -> int:
        return min((count for at, count in steps[members] if at <= s), default=available + 1)

    whole_model = frozenset(layers)
    degrees = sorted({t for layer in problem.layers for t in layer.configurations if t <= size})

    bandwidth = Fraction(problem.bandwidth_bytes_per_unit)
    choices = [c for layer in problem.layers for row in layer.configurations.values() for c in row]
    numbers = [target, bandwidth, *(Fraction(e.bytes) for e in problem.edges)]
    for c in choices:
        numbers += [Fraction(c.time) * bandwidth, Fraction(c.weight_bytes), Fraction(c.sharded_bytes)]
        numbers += [Fraction(c.memory_per_microbatch_bytes), Fraction(c.memory_bytes)]
        numbers += [Fraction(value) for table in (c.sync_in_bytes, c.sync_out_bytes) for value in table.values()]
    # Everything in whole multiples of this, and times as the bytes that could be moved meanwhile: exact and fast.
    unit = math.lcm(*(number.denominator for number in numbers))

    def whole(value: float, factor: Fraction = Fraction(1)) -> int:
        return int(Fraction(value) * factor * unit)

    @cache
    def ways(v: int, members: frozenset[int], t: int) -> tuple[tuple[int, ...], ...]:
        """Of each choice the time of one microbatch with what crosses the boundary, the weights, and the memory.

        ``members`` are the layers of the stage, as far as they are neighbours of v.
        """
        found = []
        for c in layers[v].configurations.get(t, ()):
            time = whole(c.time, bandwidth)
            for e in problem.edges:
                if e.target == v and e.source not in members:
                    time += 2 * (whole(e.bytes) + whole(c.sync_in_bytes.get(e.source, 0)))
                if e.source == v and e.target not in members:
                    time += 2 * (whole(e.bytes) + whole(c.sync_out_bytes.get(e.target, 0)))
            memory = (c.memory_per_microbatch_bytes, c.memory_bytes, c.sharded_bytes)
            found.append((time, whole(c.weight_bytes), *(whole(part) for part in memory)))
        return tuple(sorted(found))

    neighbours = {v: {v} for v in layers}
    for e in problem.edges:
        neighbours[e.source].add(e.target)
        neighbours[e.target].add(e.source)
    room = target * bandwidth * unit
    empty = ((0, 0, 0, 0, 0),)

    def front(points: set[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        """The points that no other one is at least as good as in every respect."""
        kept: list[tuple[int, ...]] = []
        for one in sorted(points):
            _, v, w, x, y = one
            for _, p, q, r, s in kept:
                if p <= v and q <= w and r <= x and s <= y:
                    break
            else:
                kept.append(one)
        return tuple(kept)

    def joined(one: tuple[tuple[int, ...], ...], two: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        return front({tuple(x + y for x, y in zip(a, b, strict=True)) for a in one for b in two})

    @cache
    def repeated(space: tuple[tuple[int, ...], ...], count: int) -> tuple[tuple[int, ...], ...]:
        """The trade-offs of so many layers alike."""
        return empty if count == 0 else joined(repeated(space, count - 1), space)

    @cache
    def trade_offs(members: frozenset[int], t: int) -> tuple[tuple[int, ...], ...]:
        """Time, weights, and memory (per microbatch in flight, always, shared) of what no other choice beats."""
        kept = empty
        for space, count in sorted(Counter(ways(v, members & neighbours[v], t) for v in members).items()):
            kept = joined(kept, repeated(space, count))
        return kept

    @cache
    def least(members: frozenset[int], t: int, sync: Fraction, stored: int, replicas: int) -> Fraction | None:
        """The least of time plus synchronisation within memory, in units."""
        limit = None if problem.memory_bytes is None else Fraction(problem.memory_bytes) * unit
        found = [
            time + sync * weights
            for time, weights, a, b, shared in trade_offs(members, t)
            if limit is None or replicas * (a * stored + b) + shared <= replicas * limit
        ]
        return min(found, default=None)

    def within(outer: frozenset[int], inner: frozenset[int], d: int, d2: int, t: int, s: int) -> bool:
        """Whether a stage meets the target: d replicas in each of d2 machines, and s replicas from here on."""
        if problem.weight_sync_per_batch and problem.microbatches % (d * d2):
            return False
        sync = (
            Fraction(4 * (d - 1) * d2, problem.microbatches)
            if problem.weight_sync_per_batch
            else Fraction(4 * (d - 1), d)
        )
        time = least(outer - inner, t, sync, math.ceil(Fraction(s, d * d2)), d * d2)
        return time is not None and time <= d * d2 * room

    def after(inner: frozenset[int]) -> list[frozenset[int]]:
        return [outer for outer in sets if inner < outer]

    @cache
    def inside(start: frozenset[int], end: frozenset[int], free: int, d2: int, s: int) -> frozenset[int]:
        """Sums of replicas in each machine with which a group can run the layers from one set to another."""
        if start == end:
            return frozenset({0})
        found = set()
        for outer in after(start):
            if outer <= end:
                for t in degrees:
                    for d in range(1, free // t + 1):
                        total = s + d * d2
                        if total <= width and within(outer, start, d, d2, t, total):
                            found |= {x + d for x in inside(outer, end, free - d * t, d2, total)}
        return frozenset(found)

    if fewest(frozenset(), 0) > 0:
        return "the empty set needs devices"
    if any(fewest(whole_model, s) <= available for s in range(width + 1)) or outside[whole_model] > 0:
        return "the whole model is within reach"
    for inner in sets:
        for outer in after(inner):
            for s in range(width):
                before = fewest(inner, s)
                # What lies outside must hold whatever is inside; with nothing inside most is possible.
                if before > available and (s > 0 or outside[inner] <= 0):
                    continue
                if machines:
                    moves = [
                        (d2, d2 * x)
                        for d2 in range(1, available + 1)
                        if link_cost(problem, outer - inner, d2) <= target
                        for x in inside(inner, outer, size, d2, s)
                    ]
                else:
                    moves = [
                        (d * t, d)
                        for t in degrees
                        for d in range(1, min(width - s, size // t) + 1)
                        if within(outer, inner, d, 1, t, s + d)
                    ]
                for cost, replicas in moves:
                    if before + cost + outside[outer] <= available and fewest(outer, s + replicas) > before + cost:
                        return f"{sorted(outer)} can be reached from {sorted(inner)} with {s} + {replicas} replicas"
                    if s == 0 and outside[inner] > cost + outside[outer]:
                        return f"outside {sorted(inner)} less is needed"
    return None


def closed_sets(problem: Any) -> set[frozenset[int]]:
    """Every set of layers that holds the successors of its layers."""
    after: dict[int, set[int]] = {layer.id: set() for layer in problem.layers}
    for edge in problem.edges:
        after[edge.source].add(edge.target)
    found = {frozenset[int]()}
    pending = list(found)
    while pending:
        members = pending.pop()
        for v in after:
            if v not in members and after[v] <= members and members | {v} not in found:
                found.add(members | {v})
                pending.append(members | {v})
    return found
