"""What people do today to train on many devices, and planners that do without one of the means."""

from __future__ import annotations

from partita.problems.hybrid.baselines import recipes
from partita.problems.hybrid.baselines.by_objective import ByObjective
from partita.problems.hybrid.baselines.equal_stages import EQUAL_STAGES, EQUAL_STAGES_NO_TENSOR
from partita.problems.hybrid.baselines.kinds import FASTEST_KIND, PROPORTIONAL
from partita.problems.hybrid.baselines.megatron import Megatron
from partita.problems.hybrid.baselines.restricted import (
    NO_DATA_PARALLEL,
    NO_RECOMPUTATION,
    NO_TENSOR_PARALLEL,
    PURE_PIPELINE,
)
from partita.problems.hybrid.baselines.single_stage import PURE_DATA_PARALLEL, PURE_TENSOR_PARALLEL
from partita.problems.hybrid.solvers.protocol import Solver

#: By hand first, then the restricted planners.
DEFAULT_BASELINES: tuple[Solver, ...] = (
    ByObjective(PURE_DATA_PARALLEL, recipes.REPLICAS),
    ByObjective(PURE_TENSOR_PARALLEL, recipes.GROUP),
    ByObjective(PURE_PIPELINE, recipes.PIPELINE),
    ByObjective(Megatron(), recipes.MEGATRON),
    ByObjective(None, recipes.FSDP),
    ByObjective(None, recipes.DEEPSPEED),
    ByObjective(None, recipes.TORCHTITAN),
    ByObjective(None, recipes.NANOTRON),
    ByObjective(EQUAL_STAGES, None),
    ByObjective(EQUAL_STAGES_NO_TENSOR, None),
    NO_DATA_PARALLEL,
    NO_TENSOR_PARALLEL,
    NO_RECOMPUTATION,
    FASTEST_KIND,
    PROPORTIONAL,
)
