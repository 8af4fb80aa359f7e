"""Compile every kernel once, so that the first answer a person waits for is fast: ``python -m partita.warm_up``.

Compiled code is kept beside the package; running this again only loads it.
"""

from __future__ import annotations

import subprocess
import sys
import time

from partita.problems.hybrid.options import Options as HybridOptions
from partita.problems.hybrid.problem import Configuration, Edge, Hierarchy, HybridProblem, Layer
from partita.problems.hybrid.solvers import DEFAULT_HYBRID_SOLVERS
from partita.problems.throughput.baselines import DEFAULT_BASELINES
from partita.problems.throughput.bounds.covering import CoveringBound
from partita.problems.throughput.bounds.forced_transfers import ChargeBound
from partita.problems.throughput.bounds.node import NodeBound
from partita.problems.throughput.components import SOLVERS
from partita.problems.throughput.plan import Contiguity
from partita.problems.throughput.problem import DeviceKind, Operator, Schedule, Tensor, ThroughputProblem
from partita.problems.throughput.protocol import Options, Solver
from partita.run.monitor import Monitor

__all__ = ["main"]

#: Wall time for one solver on one tiny problem; compiling does not count its own time against it.
_LIMIT_S = 5.0


def _problems() -> list[ThroughputProblem]:
    """Small problems that between them reach every kernel: plain, alike devices, training, a variant of each search."""
    times = (2.0, 3.0, 4.0, 1.0, 2.0, 3.0)
    plain = ThroughputProblem(
        name="warm-up",
        kinds=(DeviceKind(name="a", count=2, memory_bytes=50.0), DeviceKind(name="b", count=1, memory_bytes=60.0)),
        operators=tuple(Operator(id=i, times=(t, 2 * t), memory_bytes=10.0) for i, t in enumerate(times)),
        tensors=tuple(Tensor(producer=i, consumers=(i + 1,), size=1.0) for i in range(len(times) - 1)),
    )
    alike = plain.replace(
        kinds=plain.kinds[:1], operators=tuple(Operator(id=i, times=(t,)) for i, t in enumerate(times))
    )
    backward = tuple(
        Operator(id=op.id + 10, times=op.times, backward=True, colocation=op.id, memory_bytes=1.0)
        for op in plain.operators
    )
    forward = tuple(Operator(id=op.id, times=op.times, colocation=op.id, memory_bytes=10.0) for op in plain.operators)
    training = plain.replace(operators=forward + backward, schedule=Schedule(name="1f1b", microbatches=4))
    gpipe = training.replace(schedule=Schedule(name="gpipe", microbatches=4))
    tight = tuple(DeviceKind(name=name, count=2, memory_bytes=15.0, reload_time_per_byte=0.1) for name in "ab")
    peak = plain.replace(kinds=tight, streaming=True, working_memory="peak")
    return [plain, alike, training, gpipe, plain.replace(communication="overlap"), plain.replace(max_replicas=2), peak]


def _run(solvers: tuple[Solver, ...], problems: list[ThroughputProblem]) -> None:
    contiguities: tuple[Contiguity, ...] = ("acyclic", "free")
    for problem in problems:
        for solver in solvers:
            for contiguity in contiguities:
                options = Options(contiguity=contiguity)
                if solver.supports(problem, options) is None:
                    solver.solve(problem, options, Monitor(_LIMIT_S))


def _run_hybrid() -> None:
    """Small hybrid problems, with choices that share weights and choices that do not."""
    for weight in (0.0, 2.0):
        choices = (
            Configuration(id="fast", time=1.0, memory_per_microbatch_bytes=4.0),
            Configuration(id="small", time=2.0, weight_bytes=weight, memory_per_microbatch_bytes=1.0, memory_bytes=1.0),
        )
        problem = HybridProblem(
            name="warm-up",
            devices=3,
            memory_bytes=12.0,
            bandwidth_bytes_per_unit=1.0,
            microbatches=3,
            layers=tuple(Layer(id=v, configurations={1: choices}) for v in range(4)),
            edges=tuple(Edge(source=v, target=v + 1, bytes=0.1) for v in range(3)),
        )
        machine = Hierarchy(devices_per_machine=1, machine_bandwidth_bytes_per_unit=1.0)
        for solver in DEFAULT_HYBRID_SOLVERS:
            solver.solve(problem, HybridOptions(), Monitor(_LIMIT_S))
            solver.solve(problem.replace(hierarchy=machine), HybridOptions(), Monitor(_LIMIT_S))


def _run_bounds() -> None:
    """The compiled bounds on operators that feed one or two later ones."""
    problem = ThroughputProblem(
        name="warm-up",
        kinds=(DeviceKind(name="a", count=3),),
        operators=tuple(Operator(id=i, times=(1.0 + i % 3,)) for i in range(8)),
        tensors=tuple(
            Tensor(producer=i, consumers=tuple(range(i + 1, min(8, i + 2 + i % 2))), size=1) for i in range(7)
        ),
    )
    for bound in (NodeBound(), ChargeBound(), CoveringBound()):
        bound.bound(problem, Monitor(_LIMIT_S))


def main(arguments: list[str]) -> int:
    """Run every solver and baseline that takes them on over the small problems, the variants in a second process."""
    problems = _problems()
    if arguments == ["variants"]:
        _run(SOLVERS[:1], problems[3:])
        _run_hybrid()
        return 0
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "partita.warm_up", "variants"]) as other:
        _run((*SOLVERS, *DEFAULT_BASELINES), problems[:3])
        _run_bounds()
        code = other.wait()
    print(f"kernels ready after {time.perf_counter() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
