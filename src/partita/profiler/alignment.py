"""Which operator of a graph is which of the operators that ran."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from partita.frontends.fused import ATTENTION, ATTENTION_BACKWARD
from partita.frontends.records import Event

#: So many operators one of the two may have that the other has not, in a row.
WINDOW = 24

#: Operators that stand for several kernels: what they read is not told apart.
_WHOLE = frozenset({ATTENTION, ATTENTION_BACKWARD})


def align(traced: Sequence[Event], ran: Sequence[Event]) -> list[int | None]:
    """For every traced event its place among those that ran, None where there is none; both in order.

    Traces and runs differ in few places: which kernel a call becomes, gradients that are added up, constants. Where
    they do, the nearest continuation that two events in a row confirm is taken.
    """
    found: list[int | None] = [None] * len(traced)
    i = j = 0
    while i < len(traced) and j < len(ran):
        if _same(traced[i], ran[j]):
            found[i] = j
            i, j = i + 1, j + 1
            continue
        step = _resume(traced, ran, i, j)
        if step is None:
            i, j = i + 1, j + 1
        else:
            i, j = i + step[0], j + step[1]
    return found


def besides(operators: Collection[int], ran: Sequence[Event], views: Collection[str]) -> dict[int, list[int]]:
    """By place of a graph's operator, the places of what ran behind it and is no operator; without views.

    That is copies that kernels ask for, and above all sums: gradients of microbatches are added up, and a graph is
    about one microbatch.
    """
    result: dict[int, list[int]] = {}
    last: int | None = None
    for place, event in enumerate(ran):
        if place in operators:
            last = place
        elif last is not None and event.target not in views:
            result.setdefault(last, []).append(place)
    return result


def _same(a: Event, b: Event) -> bool:
    return a.target == b.target and (a.arguments == b.arguments or a.target in _WHOLE)


def _resume(traced: Sequence[Event], ran: Sequence[Event], i: int, j: int) -> tuple[int, int] | None:
    """How many events of either to leave out, the fewest first."""
    for total in range(1, WINDOW):
        for skipped in range(total + 1):
            a, b = i + skipped, j + total - skipped
            if a >= len(traced) or b >= len(ran) or not _same(traced[a], ran[b]):
                continue
            alone = a + 1 == len(traced) or b + 1 == len(ran) or traced[a].target in _WHOLE
            if alone or _same(traced[a + 1], ran[b + 1]):
                return skipped, total - skipped
    return None
