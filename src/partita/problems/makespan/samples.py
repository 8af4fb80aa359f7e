"""Small makespan problems that between them reach every compiled loop."""

from __future__ import annotations

from partita.problems.makespan.problem import Device, Flow, MakespanProblem, Operator

_LINK = ((0.0, 1.0), (1.5, 0.0))

#: A diamond between two operators, on two devices of which none holds everything.
DIAMOND = MakespanProblem(
    name="warm-up",
    devices=(Device(name="a", memory=4.0), Device(name="b", memory=4.0)),
    operators=tuple(Operator(id=v, times=(1.0 + v % 3, 2.0), memory=1.0) for v in range(6)),
    flows=tuple(
        Flow(id=f, source=u, target=v, times=_LINK)
        for f, (u, v) in enumerate(((0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)))
    ),
    precedence=((0, 5),),
)

SAMPLES = ((DIAMOND,),)
