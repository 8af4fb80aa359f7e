"""Small latency problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.latency.problem import LatencyOperator, LatencyProblem


def _row(first: int, memory_bytes: float, *, tied: bool = True, backward: bool = False) -> tuple[LatencyOperator, ...]:
    """Six operators; tied ones are of the class of their place."""
    return tuple(
        LatencyOperator(
            id=first + v,
            cpu_time=10.0,
            accelerator_time=1.0,
            transfer_time=2.0,
            memory_bytes=memory_bytes,
            colocation=v if tied else None,
            backward=backward,
        )
        for v in range(6)
    )


def _samples() -> tuple[tuple[LatencyProblem, ...], ...]:
    """A row whose memory binds, with a branch; and a training step of it."""
    edges = ((0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5))
    operators = _row(0, 4.0, tied=False)
    plain = LatencyProblem(name="warm-up", accelerators=2, memory_bytes=16.0, operators=operators, edges=edges)
    back = tuple((b + 6, a + 6) for a, b in edges)
    both = _row(0, 4.0) + _row(6, 1.0, backward=True)
    return ((plain, plain.replace(pieces=2), plain.replace(operators=both, edges=(*edges, (5, 11), *back))),)


SAMPLES = _samples()
