"""How people set up a step by hand, and planners that do without one of the means."""

from __future__ import annotations

from partita.problems.hybrid.protocol import Solver
from partita.problems.hybrid.step.baselines import recipes, restricted

RECIPES: tuple[Solver, ...] = (
    recipes.REPLICAS,
    recipes.GROUP,
    recipes.PIPELINE,
    recipes.MEGATRON,
    recipes.FSDP,
    recipes.DEEPSPEED,
    recipes.TORCHTITAN,
    recipes.NANOTRON,
)
#: For several kinds of devices; all others are for one.
ON_KINDS: tuple[Solver, ...] = (restricted.FASTEST_KIND, restricted.PROPORTIONAL)
RESTRICTED: tuple[Solver, ...] = (
    restricted.NO_DATA_PARALLEL,
    restricted.NO_TENSOR_PARALLEL,
    restricted.NO_RECOMPUTATION,
    *ON_KINDS,
)
#: By hand first, then the restricted planners.
BASELINES = (*RECIPES, *RESTRICTED)
