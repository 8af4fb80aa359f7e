"""What people do today to train on many devices, and planners that do without one of the means."""

from __future__ import annotations

from partita.problems.hybrid.baselines.equal_stages import EqualStages, EqualStagesNoTensor
from partita.problems.hybrid.baselines.megatron import Megatron
from partita.problems.hybrid.baselines.restricted import NoDataParallel, NoRecomputation, NoTensorParallel, PurePipeline
from partita.problems.hybrid.baselines.single_stage import PureDataParallel, PureTensorParallel
from partita.problems.hybrid.solvers.protocol import Solver

#: By hand first, then the restricted planners.
DEFAULT_BASELINES: tuple[Solver, ...] = (
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
