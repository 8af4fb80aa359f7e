"""Small hybrid problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.hybrid.layer import Configuration, Edge, Layer
from partita.problems.hybrid.problem import Hierarchy, HybridProblem
from partita.problems.hybrid.training import Training


def _samples() -> tuple[tuple[HybridProblem, ...], ...]:
    """With choices that share weights and choices that do not, flat and on machines."""
    found: list[HybridProblem] = []
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
        found += [problem, problem.replace(hierarchy=machine)]
    found.append(found[0].replace(training=Training(schedules=("1f1b", "zero-bubble"), zero=(0, 3))))
    found.append(found[0].replace(training=Training(mesh="free")))
    return (tuple(found),)


SAMPLES = _samples()
