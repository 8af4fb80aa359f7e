"""The best hybrid plan by trying everything: every pipeline, every degree, every choice of configurations."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from typing import Any

from problems.hybrid.independent_evaluator import accepted, stage_cost


def best_objective(problem: Any) -> float | None:
    """The smallest time per sample; None if no plan is feasible. For a handful of layers and devices."""
    layers = {layer.id: layer for layer in problem.layers}
    degrees = sorted({t for layer in problem.layers for t in layer.configurations})
    width = min(problem.devices, problem.microbatches)

    @cache
    def stage(members: frozenset[int], earlier: frozenset[int], d: int, t: int, s: int) -> Fraction | None:
        lists = [layers[v].configurations.get(t, ()) for v in sorted(members)]
        best = None
        for choice in itertools.product(*lists):
            chosen = dict(zip(sorted(members), choice, strict=True))
            time, memory = stage_cost(problem, members, earlier, d, s, chosen)
            fits = problem.memory_bytes is None or memory <= accepted(problem.memory_bytes)
            if fits and (best is None or time < best):
                best = time
        return best

    def rows(left: frozenset[int], devices: int, s: int) -> Fraction | None:
        """The best pipeline for the layers left, when later stages hold ``s`` replicas."""
        if not left:
            return Fraction(0)
        best = None
        for size in range(1, len(left) + 1):
            for group in itertools.combinations(sorted(left), size):
                members = frozenset(group)
                earlier = left - members
                if any(edge.source in members and edge.target in earlier for edge in problem.edges):
                    continue
                for d, t in itertools.product(range(1, width - s + 1), degrees):
                    if d * t > devices or (problem.weight_sync_per_batch and problem.microbatches % d):
                        continue
                    here = stage(members, earlier, d, t, s + d)
                    if here is None or (best is not None and here >= best):
                        continue
                    rest = remembered(earlier, devices - d * t, s + d)
                    if rest is not None and (best is None or max(here, rest) < best):
                        best = max(here, rest)
        return best

    remembered = cache(rows)
    answer = rows(frozenset(layers), problem.devices, 0)
    return None if answer is None else float(answer)
