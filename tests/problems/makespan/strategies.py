"""Random makespan problems, small enough to try everything."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from instances.strategies import halves
from partita.problems.makespan.problem import Device, MakespanFlow, MakespanOperator, MakespanProblem

__all__ = ["TYPES", "chain_problems", "makespan_problems"]

#: What operators say they are, for those who fuse them.
TYPES = ("conv", "bn", "relu", "add")


@st.composite
def makespan_problems(
    draw: st.DrawFn,
    *,
    operators: tuple[int, int] = (1, 6),
    devices: tuple[int, int] = (1, 3),
    limits: bool = False,
    congestion: bool | None = True,
    thirds: bool = False,
) -> MakespanProblem:
    """Operators with edges from earlier to later ones.

    With ``limits`` there is memory, there are classes, and operators that do not run everywhere; ``congestion`` None
    draws every switch; with ``thirds`` times are no decimals.
    """
    count, width = draw(st.integers(*operators)), draw(st.integers(*devices))
    if width == 3:
        count = min(count, 5)
    times = halves(0, 4).map(lambda value: value / 3 if thirds else value)
    ids = draw(st.permutations(range(0, 3 * count, 3)))
    made = []
    for v in range(count):
        row: list[float | None] = [draw(times) for _ in range(width)]
        if limits and width > 1 and draw(st.integers(0, 3)) == 0:
            row[draw(st.integers(0, width - 1))] = None
        extra: dict[str, Any] = {"type": draw(st.sampled_from(TYPES))}
        if limits:
            extra["memory"] = draw(halves(0, 2))
            extra["colocation"] = draw(st.sampled_from((None, None, None, 1, 2)))
        made.append(MakespanOperator(id=ids[v], times=tuple(row), **extra))
    flows, pairs = [], []
    for v in range(1, count):
        for u in range(v):
            kind = draw(
                st.sampled_from(("none", "none", "flow", "flow", "flow", "pair") if v - u < 3 else ("none", "flow"))
            )
            if kind == "pair":
                pairs.append((ids[u], ids[v]))
            elif kind == "flow" and len(flows) < 6:
                matrix = tuple(tuple(0.0 if a == b else draw(times) for b in range(width)) for a in range(width))
                flows.append(MakespanFlow(id=len(flows), source=ids[u], target=ids[v], times=matrix))
    switches = {"sender_congestion": True, "receiver_congestion": True, "serial_operators": True}
    if congestion is not True:
        switches = {name: congestion is None and draw(st.booleans()) for name in switches}
        switches["serial_operators"] = draw(st.booleans())
    return MakespanProblem(
        name="random",
        devices=tuple(
            Device(name=f"d{d}", memory=draw(st.none() | halves(1, 5)) if limits else None) for d in range(width)
        ),
        operators=tuple(made),
        flows=tuple(flows),
        precedence=tuple(pairs),
        **switches,
    )


@st.composite
def chain_problems(
    draw: st.DrawFn, *, blocks: tuple[int, int] = (2, 4), most: int = 3, width: int = 2
) -> MakespanProblem:
    """Blocks of a few parallel operators between separators; a block may stand there several times."""
    times = halves(0, 4)

    def matrix() -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(0.0 if a == b else draw(times) for b in range(width)) for a in range(width))

    operators = [MakespanOperator(id=0, times=tuple(draw(times) for _ in range(width)), type=TYPES[0])]
    flows: list[MakespanFlow] = []
    pairs = []

    def connect(source: int, target: int, table: tuple[tuple[float, ...], ...]) -> None:
        flows.append(MakespanFlow(id=len(flows), source=source, target=target, times=table))

    again: list[Any] = []
    for _ in range(draw(st.integers(*blocks))):
        entry = operators[-1].id
        if not again or draw(st.booleans()):
            inside = draw(st.integers(0, most))
            again = [[tuple(draw(times) for _ in range(width)), matrix(), matrix()] for _ in range(inside)]
            again.append([tuple(draw(times) for _ in range(width)), matrix(), draw(st.booleans())])
        *inner, (exit_times, direct, past) = again
        exit_id = entry + len(inner) + 1
        for k, (row, into, out) in enumerate(inner):
            operators.append(MakespanOperator(id=entry + 1 + k, times=row, type=TYPES[k % 4]))
            connect(entry, entry + 1 + k, into)
            connect(entry + 1 + k, exit_id, out)
        operators.append(MakespanOperator(id=exit_id, times=exit_times, type=TYPES[exit_id % 4]))
        if past or not inner:
            connect(entry, exit_id, direct)
    if draw(st.booleans()):
        pairs.append((operators[0].id, operators[-1].id))
    return MakespanProblem(
        name="chain",
        devices=tuple(Device(name=f"d{d}") for d in range(width)),
        operators=tuple(operators),
        flows=tuple(flows),
        precedence=tuple(pairs),
        sender_congestion=draw(st.booleans()),
        receiver_congestion=draw(st.booleans()),
    )
