"""Small latency problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.latency.problem import LatencyOperator, LatencyProblem


def _samples() -> tuple[tuple[LatencyProblem, ...], ...]:
    """A row whose memory binds, with a branch; and a training step of it."""
    operators = tuple(
        LatencyOperator(id=v, cpu_time=10.0, accelerator_time=1.0, transfer_time=2.0, memory_bytes=4.0)
        for v in range(6)
    )
    edges = ((0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5))
    plain = LatencyProblem(name="warm-up", accelerators=2, memory_bytes=16.0, operators=operators, edges=edges)
    backward = tuple(
        LatencyOperator(
            id=v + 6,
            cpu_time=10.0,
            accelerator_time=1.0,
            transfer_time=2.0,
            memory_bytes=1.0,
            colocation=v,
            backward=True,
        )
        for v in range(6)
    )
    forward = tuple(
        LatencyOperator(id=v, cpu_time=10.0, accelerator_time=1.0, transfer_time=2.0, memory_bytes=4.0, colocation=v)
        for v in range(6)
    )
    back = tuple((b + 6, a + 6) for a, b in edges)
    training = plain.replace(operators=forward + backward, edges=(*edges, (5, 11), *back))
    return ((plain, plain.replace(pieces=2), training),)


SAMPLES = _samples()
