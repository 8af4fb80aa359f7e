"""What people do today, each an ordinary solver, so that it is judged by the same evaluator."""

from __future__ import annotations

from partita.problems.throughput.baselines import free, parmesan, paths, rules
from partita.problems.throughput.protocol import Solver

#: Splits of layers by hand, layouts of runtimes, published planners.
DEFAULT_BASELINES: tuple[Solver, ...] = (
    rules.Unsplit(),
    rules.EqualLayers(),
    rules.EqualParameters(),
    rules.EqualTime(),
    paths.LayerCuts(),
    rules.MemoryGreedy(),
    rules.GreedyTopological(),
    rules.DeepSpeedParameters(),
    rules.DeepSpeedUniform(),
    rules.MegatronLayout(),
    rules.TorchTitanLayout(),
    rules.VllmLayout(),
    paths.PipeDreamCuts(),
    parmesan.ParmesanSplit(),
    free.LocalSearch(),
    free.Scotch(),
)
