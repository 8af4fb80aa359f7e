"""The best hybrid plan on machines by trying everything: every row of groups, every pipeline inside."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

from problems.hybrid.independent_evaluator import accepted, link_cost, stage_cost_in_machines


def best_objective_on_machines(problem: Any) -> float | None:
    """The smallest time per sample; None if no plan is feasible. For a handful of layers and devices."""
    layers = {layer.id: layer for layer in problem.layers}
    degrees = sorted({t for layer in problem.layers for t in layer.configurations})
    size = min(problem.devices, problem.hierarchy.devices_per_machine)

    @cache
    def stage(
        members: frozenset[int], earlier: frozenset[int], d: int, t: int, machines: int, s: int
    ) -> Fraction | None:
        lists = [layers[v].configurations.get(t, ()) for v in sorted(members)]
        best = None
        for choice in itertools.product(*lists):
            chosen = dict(zip(sorted(members), choice, strict=True))
            time, memory = stage_cost_in_machines(problem, members, earlier, d, machines, s, chosen)
            fits = problem.memory_bytes is None or memory <= accepted(problem.memory_bytes)
            if fits and (best is None or time < best):
                best = time
        return best

    def last_parts(left: frozenset[int]) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
        """The layers that may come last, and those before them."""
        for count in range(1, len(left) + 1):
            for group in itertools.combinations(sorted(left), count):
                members = frozenset(group)
                if not any(edge.source in members and edge.target in left - members for edge in problem.edges):
                    yield members, left - members

    @cache
    def inside(left: frozenset[int], before: frozenset[int], free: int, machines: int, s: int) -> dict[int, Fraction]:
        """For each sum of degrees the best pipeline of one machine for the layers left of a group."""
        if not left:
            return {0: Fraction(0)}
        found: dict[int, Fraction] = {}
        for members, rest in last_parts(left):
            for d, t in itertools.product(range(1, free + 1), degrees):
                total = s + d * machines
                if d * t > free or total > problem.microbatches:
                    continue
                if problem.weight_sync_per_batch and problem.microbatches % (d * machines):
                    continue
                here = stage(members, rest | before, d, t, machines, total)
                if here is None:
                    continue
                for x, time in inside(rest, before, free - d * t, machines, total).items():
                    found[x + d] = min(found.get(x + d, max(here, time)), max(here, time))
        return found

    @cache
    def groups(left: frozenset[int], machines: int, s: int) -> Fraction | None:
        """The best row of groups for the layers left, when later ones hold ``s`` replicas."""
        if not left:
            return Fraction(0)
        best = None
        for members, rest in last_parts(left):
            for d in range(1, machines + 1):
                link = link_cost(problem, members, d)
                for x, time in inside(members, rest, size, d, s).items():
                    others = groups(rest, machines - d, s + x * d)
                    if others is not None and (best is None or max(link, time, others) < best):
                        best = max(link, time, others)
        return best

    answer = groups(frozenset(layers), problem.devices // size, 0)
    return None if answer is None else float(answer)
