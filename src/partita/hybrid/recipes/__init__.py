"""What people do today to train on many devices, and planners that do without one of the means."""

from __future__ import annotations

from partita.hybrid.recipes.equal_stages import EqualStages, EqualStagesNoTensor
from partita.hybrid.recipes.megatron import Megatron
from partita.hybrid.recipes.protocol import Recipe
from partita.hybrid.recipes.restricted import NoDataParallel, NoRecomputation, NoTensorParallel, PurePipeline
from partita.hybrid.recipes.single_stage import PureDataParallel, PureTensorParallel

__all__ = ["DEFAULT_RECIPES"]

#: By hand first, then the restricted planners.
DEFAULT_RECIPES: tuple[Recipe, ...] = (
    PureDataParallel(),
    PureTensorParallel(),
    PurePipeline(),
    Megatron(),
    EqualStages(),
    EqualStagesNoTensor(),
    NoDataParallel(),
    NoTensorParallel(),
    NoRecomputation(),
)
