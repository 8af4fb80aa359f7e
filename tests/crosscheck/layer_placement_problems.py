"""Layer placements for the cross-check: tiny ones of every shape, and random ones like the published."""

from __future__ import annotations

import random
from collections.abc import Callable

from partita.problems.layer_placement.generators import random_layer_placement
from partita.problems.layer_placement.problem import LayerPlacementProblem
from problems.layer_placement.random_problems import random_problem

__all__ = ["FAMILIES"]


def tiny(rng: random.Random) -> LayerPlacementProblem:
    """Few enough intervals that everything is tried."""
    return random_problem(rng.randrange(10**9), 3)


def regions(rng: random.Random) -> LayerPlacementProblem:
    """Machines of several kinds in regions, between which links are slow or missing."""
    return random_layer_placement(
        rng.randrange(10**9),
        machines=rng.randint(4, 14),
        kinds=rng.randint(1, 4),
        regions=rng.randint(1, 4),
        slow=rng.choice((0.2, 0.5, 0.9)),
        kept=rng.choice((1.0, 0.7)),
        overlap=rng.random() < 0.2,
    )


def alike(rng: random.Random) -> LayerPlacementProblem:
    """Machines of one or two kinds side by side, all joined: ties."""
    return random_layer_placement(rng.randrange(10**9), machines=rng.randint(3, 12), kinds=rng.randint(1, 2), regions=1)


def cut_off(rng: random.Random) -> LayerPlacementProblem:
    """Many regions with few machines each, hardly joined."""
    return random_layer_placement(
        rng.randrange(10**9), machines=rng.randint(6, 12), kinds=3, regions=5, slow=0.1, kept=rng.choice((0.3, 0.6))
    )


FAMILIES: dict[str, Callable[[random.Random], LayerPlacementProblem]] = {
    "tiny": tiny,
    "regions": regions,
    "alike": alike,
    "cut off": cut_off,
}
