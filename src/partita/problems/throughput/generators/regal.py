"""Problems like the synthetic data of REGAL: random graphs, tensors of about one size, work in proportion to them.

Sources: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), Appendix C.2;
Paliwal et al., "REGAL" (ICLR 2020), Appendix A.1.4. ``docs/instances.md`` says what they leave open.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from partita.ground.checks import check_at_least, check_number
from partita.ground.errors import InputError
from partita.ground.random_dags import FAMILIES, REGAL_FAMILIES, random_dag
from partita.problems.throughput.devices import DeviceKind
from partita.problems.throughput.problem import (
    MovedTensor,
    StoredParameter,
    ThroughputProblem,
    TimedOperator,
    WorkingMemory,
)
from partita.problems.throughput.working_memory import best_order

#: Fewest and most operators of the published graphs.
NODES = (50, 200)

#: What the random part of the work is a fraction of: all tensors of the graph, or the operator's own.
Noise = Literal["graph", "operator"]

SIZE_MEAN, SIZE_DEVIATION = 50.0, 10.0
NOISE_DEVIATION = 0.1
PARAMETER_DEVIATION = 0.2

#: Most graphs drawn for one that is hard enough.
ATTEMPTS = 100


def regal_problem(
    seed: int,
    *,
    family: str | None = None,
    nodes: int | None = None,
    devices: int = 8,
    noise: Noise = "graph",
    parameter_bytes: float = 0.0,
    memory_bytes: float | None = None,
    working_memory: WorkingMemory = "largest",
    hard: float = 0.0,
) -> ThroughputProblem:
    """A random throughput problem: identical devices, one tensor per operator, work and sizes in the same unit.

    Tensor sizes are N(50, 10), rounded and at least 1. The work of an operator is the sum of the tensors it reads and
    of the one it makes plus what ``noise`` says, rounded. Moving a tensor takes its size. A tensor that no operator
    reads costs its producer work and is not moved.

    Parameters
    ----------
    seed
        The same seed and options give the same problem.
    family
        One of ``FAMILIES``; None draws one of REGAL's four.
    nodes
        Number of operators; None draws one of 50 … 200.
    devices
        Number of devices.
    noise
        ``graph``: |r| times the sum of all tensor sizes of the graph with r from N(0, 0.1). Appendix C.2 says r; a
        fraction is not negative, and many works would be. ``operator``: r times the sizes that the operator
        reads and makes, so that work follows the graph closely; not below 0.
    parameter_bytes
        Mean size of a parameter that each operator gets: N(mean, mean / 5), rounded, at least 0. With 0 there are none.
    memory_bytes
        Memory of each device; what exceeds it is streamed, and takes its size in time. None for no limit.
    working_memory
        ``peak``: beside parameters, devices hold the tensors of the operators they run (needs ``memory_bytes``).
    hard
        Draw graphs of the seed until one is hard to run in little memory: until a search for an order of all operators
        beats its own first attempt by this fraction. 0 takes the first graph.

    Raises
    ------
    InputError
        If the family is unknown, a number is out of range, or no graph is hard enough.
    """
    if family is not None and family not in FAMILIES:
        raise InputError(f"there is no graph family {family!r}; known are {', '.join(FAMILIES)}")
    if noise not in get_args(Noise):
        raise InputError(f"noise is {noise!r}; it must be one of {', '.join(get_args(Noise))}")
    check_at_least("the seed", seed, 0)
    check_at_least("nodes", 1 if nodes is None else nodes)
    check_at_least("devices", devices)
    check_number("a random problem", "parameter_bytes", parameter_bytes)
    if not 0 <= hard < 1:
        raise InputError(f"hard is {hard}; it must be at least 0 and less than 1")

    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, attempt] if attempt else seed)
        # Both are drawn in any case, so that naming what a seed draws anyway changes nothing.
        drawn_family = REGAL_FAMILIES[int(rng.integers(len(REGAL_FAMILIES)))]
        drawn_nodes = int(rng.integers(NODES[0], NODES[1] + 1))
        shape, count = family or drawn_family, nodes or drawn_nodes
        operators, tensors, parameters = _draw(rng, shape, count, noise, parameter_bytes)
        problem = ThroughputProblem(
            name=f"regal {shape} n={count} seed={seed}",
            unit="units",
            kinds=(DeviceKind(name="device", count=devices, memory_bytes=memory_bytes, reload_time_per_byte=1.0),),
            operators=operators,
            tensors=tensors,
            parameters=parameters,
            streaming=memory_bytes is not None,
            working_memory=working_memory,
            notes=(
                f"made by `partita generate regal`: family {shape}, {count} operators, seed {seed}, "
                f"noise of the {noise}",
            ),
        )
        if hard == 0 or _hardness(problem) >= hard:
            return problem
    raise InputError(f"none of {ATTEMPTS} graphs of seed {seed} is hard enough; ask for less than {hard} (--hard)")


def _hardness(problem: ThroughputProblem) -> float:
    """By what fraction a search for an order of all operators beats its first, greedy attempt."""
    operators = [op.id for op in problem.operators]
    first = best_order(problem, operators, nodes=1).peak
    return 1.0 - best_order(problem, operators).peak / first


def _draw(
    rng: np.random.Generator, family: str, nodes: int, noise: Noise, parameter_bytes: float
) -> tuple[tuple[TimedOperator, ...], tuple[MovedTensor, ...], tuple[StoredParameter, ...]]:
    edges = random_dag(rng, family, nodes)
    sizes = np.maximum(1.0, np.round(rng.normal(SIZE_MEAN, SIZE_DEVIATION, nodes)))
    own = sizes.copy()
    consumers: list[list[int]] = [[] for _ in range(nodes)]
    for u, v in edges:
        own[v] += sizes[u]
        consumers[u].append(v)
    fraction = rng.normal(0.0, NOISE_DEVIATION, nodes)
    added = np.abs(fraction) * sizes.sum() if noise == "graph" else fraction * own
    work = np.maximum(0.0, np.round(own + added))
    weights = np.maximum(0.0, np.round(rng.normal(parameter_bytes, PARAMETER_DEVIATION * parameter_bytes, nodes)))
    held = enumerate(weights.tolist() if parameter_bytes > 0 else ())
    return (
        tuple(TimedOperator(id=i, times=(time,)) for i, time in enumerate(work.tolist())),
        tuple(
            MovedTensor(producer=i, consumers=tuple(sorted(consumers[i])), size=float(sizes[i])) for i in range(nodes)
        ),
        tuple(StoredParameter(name=f"parameter:{i}", users=(i,), weight_bytes=weight) for i, weight in held),
    )
