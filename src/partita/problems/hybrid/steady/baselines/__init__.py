"""What people do today to train on many devices, and planners that do without one of the means."""

from __future__ import annotations

from partita.problems.hybrid.protocol import Solver
from partita.problems.hybrid.steady.baselines import recipes, restricted

RECIPES: tuple[Solver, ...] = (
    recipes.PURE_DATA_PARALLEL,
    recipes.PURE_TENSOR_PARALLEL,
    restricted.PURE_PIPELINE,
    recipes.MegatronRecipe(),
    recipes.EQUAL_STAGES,
    recipes.EQUAL_STAGES_NO_TENSOR,
)
RESTRICTED: tuple[Solver, ...] = (
    restricted.NO_DATA_PARALLEL,
    restricted.NO_TENSOR_PARALLEL,
    restricted.NO_RECOMPUTATION,
)
#: By hand first, then the restricted planners.
BASELINES = (*RECIPES, *RESTRICTED)
