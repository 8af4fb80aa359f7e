"""What people do today to train on many devices, and planners that do without one of the means."""

from __future__ import annotations

from partita.problems.hybrid.baselines.equal_stages import EQUAL_STAGES, EQUAL_STAGES_NO_TENSOR
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
    PURE_DATA_PARALLEL,
    PURE_TENSOR_PARALLEL,
    PURE_PIPELINE,
    Megatron(),
    EQUAL_STAGES,
    EQUAL_STAGES_NO_TENSOR,
    NO_DATA_PARALLEL,
    NO_TENSOR_PARALLEL,
    NO_RECOMPUTATION,
)
