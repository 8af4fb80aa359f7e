"""Check a proof that no hybrid plan reaches a target, from the problem alone and sharing no code with the package.

Sums are exact fractions; the least time of a stage comes from merging the trade-offs of its layers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

from hybrid.independent_evaluator import link_cost


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

    whole = frozenset(layers)
    degrees = sorted({t for layer in problem.layers for t in layer.configurations if t <= size})

    @cache
    def trade_offs(members: frozenset[int], inner: frozenset[int], t: int, sync: Fraction) -> list[Any]:
        """Time of one microbatch, memory per microbatch in flight, memory, shared memory: what no choice beats."""
        bandwidth = Fraction(problem.bandwidth_bytes_per_unit)
        kept = [(Fraction(0), Fraction(0), Fraction(0), Fraction(0))]
        for v in sorted(members):
            grown = set()
            for c in layers[v].configurations.get(t, ()):
                moved = sync * Fraction(c.weight_bytes)
                for e in problem.edges:
                    if e.target == v and e.source not in members:
                        moved += 2 * (Fraction(e.bytes) + Fraction(c.sync_in_bytes.get(e.source, 0)))
                    if e.source == v and e.target not in members:
                        moved += 2 * (Fraction(e.bytes) + Fraction(c.sync_out_bytes.get(e.target, 0)))
                time = Fraction(c.time) + moved / bandwidth
                a, b = Fraction(c.memory_per_microbatch_bytes), Fraction(c.memory_bytes)
                shared = Fraction(c.sharded_bytes)
                grown |= {(x + time, y + a, z + b, w + shared) for x, y, z, w in kept}
            kept = []
            for one in sorted(grown):
                if not any(y <= one[1] and z <= one[2] and w <= one[3] for _, y, z, w in kept):
                    kept.append(one)
        return kept

    @cache
    def least(
        members: frozenset[int], inner: frozenset[int], t: int, sync: Fraction, stored: int, replicas: int
    ) -> Fraction | None:
        limit = None if problem.memory_bytes is None else Fraction(problem.memory_bytes)
        for time, a, b, shared in trade_offs(members, inner, t, sync):
            if limit is None or a * stored + b + shared / replicas <= limit:
                return time
        return None

    def within(outer: frozenset[int], inner: frozenset[int], d: int, d2: int, t: int, s: int) -> bool:
        """Whether a stage meets the target: d replicas in each of d2 machines, and s replicas from here on."""
        if problem.weight_sync_per_batch and problem.microbatches % (d * d2):
            return False
        sync = (
            Fraction(4 * (d - 1) * d2, problem.microbatches)
            if problem.weight_sync_per_batch
            else Fraction(4 * (d - 1), d)
        )
        time = least(outer - inner, inner, t, sync, math.ceil(Fraction(s, d * d2)), d * d2)
        return time is not None and time <= d * d2 * target

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
    if any(fewest(whole, s) <= available for s in range(width + 1)) or outside[whole] > 0:
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
