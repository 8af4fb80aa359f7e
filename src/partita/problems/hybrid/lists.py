"""The solvers and baselines of both objectives, one of each name."""

from __future__ import annotations

from typing import Any

from partita.problems.hybrid.steady import baselines as steady_baselines
from partita.problems.hybrid.steady import solvers as steady_solvers
from partita.problems.hybrid.step import baselines as step_baselines
from partita.problems.hybrid.step import solvers as step_solvers

SOLVERS: tuple[Any, ...] = (*steady_solvers.SOLVERS, *step_solvers.SOLVERS)
_RECIPES = (*step_baselines.RECIPES, *steady_baselines.RECIPES, *step_baselines.RESTRICTED)
#: Of two with one name that of a step.
BASELINES: tuple[Any, ...] = tuple({each.name: each for each in (*_RECIPES, *step_baselines.RECIPES)}.values())
