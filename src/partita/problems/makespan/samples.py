"""Small makespan problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem

_LINK = ((0.0, 1.0), (1.5, 0.0))

_EDGES = ((0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5))


def _diamonds(count: int) -> MakespanProblem:
    """Diamonds in a row, each between two operators of its own, on two devices of which none holds everything."""
    edges = [(6 * k + u, 6 * k + v) for k in range(count) for u, v in (*_EDGES, (5, 6))][:-1]
    return MakespanProblem(
        name="warm-up",
        devices=(Device(name="a", memory=4.0 * count), Device(name="b", memory=4.0 * count)),
        operators=tuple(MakespanOperator(id=v, times=(1.0 + v % 3, 2.0), memory=1.0) for v in range(6 * count)),
        flows=tuple(MakespanFlow(id=f, source=u, target=v, times=_LINK) for f, (u, v) in enumerate(edges)),
        precedence=((0, 5),),
    )


#: A diamond between two operators, on two devices of which none holds everything.
DIAMOND = _diamonds(1)

#: Three in a row are too many operators for everything to be tried.
SAMPLES = ((DIAMOND, _diamonds(3)),)
