"""Small random problems for bounds on splits into blocks: one kind of device, loads that are multiples of a quarter."""

from __future__ import annotations

from hypothesis import strategies as st

from partita.problems.throughput.problem import DeviceKind, MovedTensor, ThroughputProblem, TimedOperator

#: Rounding.
SLACK = 1e-6


@st.composite
def block_problems(draw: st.DrawFn, least: int, most: int) -> ThroughputProblem:
    """From ``least`` to ``most`` operators on up to four devices; some without work, tensors with several readers."""
    count = draw(st.integers(least, most))
    tensors = []
    for u in range(count - 1):
        readers = draw(st.sets(st.integers(u + 1, count - 1), max_size=4))
        if readers:
            tensors.append(MovedTensor(producer=u, consumers=tuple(sorted(readers)), size=draw(st.integers(0, 12)) / 4))
    return ThroughputProblem(
        name="blocks",
        kinds=(DeviceKind(name="a", count=draw(st.integers(2, 4))),),
        operators=tuple(TimedOperator(id=i, times=(float(draw(st.integers(0, 5))),)) for i in range(count)),
        tensors=tuple(tensors),
    )
