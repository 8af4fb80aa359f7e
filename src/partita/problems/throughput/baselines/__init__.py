"""What people do today, each an ordinary solver, so that it is judged by the same evaluator."""

from __future__ import annotations

from partita.problems.throughput.baselines.deepspeed import DeepSpeed, DeepSpeedUniform
from partita.problems.throughput.baselines.equal_layers import EqualLayers
from partita.problems.throughput.baselines.equal_parameters import EqualParameters
from partita.problems.throughput.baselines.equal_time import EqualTime
from partita.problems.throughput.baselines.greedy_topological import GreedyTopological
from partita.problems.throughput.baselines.layer_cuts import LayerCuts
from partita.problems.throughput.baselines.local_search import LocalSearch
from partita.problems.throughput.baselines.megatron import Megatron
from partita.problems.throughput.baselines.memory_greedy import MemoryGreedy
from partita.problems.throughput.baselines.parmesan import Parmesan
from partita.problems.throughput.baselines.pipedream import PipeDream
from partita.problems.throughput.baselines.scotch import Scotch
from partita.problems.throughput.baselines.single_device import SingleDevice
from partita.problems.throughput.baselines.torchtitan import TorchTitan
from partita.problems.throughput.baselines.vllm import Vllm
from partita.problems.throughput.protocol import Solver

#: Splits of layers by hand, layouts of runtimes, published planners.
DEFAULT_BASELINES: tuple[Solver, ...] = (
    SingleDevice(),
    EqualLayers(),
    EqualParameters(),
    EqualTime(),
    LayerCuts(),
    MemoryGreedy(),
    GreedyTopological(),
    DeepSpeed(),
    DeepSpeedUniform(),
    Megatron(),
    TorchTitan(),
    Vllm(),
    PipeDream(),
    Parmesan(),
    LocalSearch(),
    Scotch(),
)
