"""What people do today, each an ordinary solver, so that it is judged by the same evaluator."""

from __future__ import annotations

from partita.baselines.deepspeed import DeepSpeed, DeepSpeedUniform
from partita.baselines.equal_layers import EqualLayers
from partita.baselines.equal_parameters import EqualParameters
from partita.baselines.equal_time import EqualTime
from partita.baselines.greedy_topological import GreedyTopological
from partita.baselines.local_search import LocalSearch
from partita.baselines.megatron import Megatron
from partita.baselines.memory_greedy import MemoryGreedy
from partita.baselines.pipedream import PipeDream
from partita.baselines.scotch import Scotch
from partita.baselines.single_device import SingleDevice
from partita.baselines.torchtitan import TorchTitan
from partita.baselines.vllm import Vllm
from partita.throughput.solvers.protocol import Solver

__all__ = ["DEFAULT_BASELINES"]

#: Splits of layers by hand, layouts of runtimes, published planners.
DEFAULT_BASELINES: tuple[Solver, ...] = (
    SingleDevice(),
    EqualLayers(),
    EqualParameters(),
    EqualTime(),
    MemoryGreedy(),
    GreedyTopological(),
    DeepSpeed(),
    DeepSpeedUniform(),
    Megatron(),
    TorchTitan(),
    Vllm(),
    PipeDream(),
    LocalSearch(),
    Scotch(),
)
