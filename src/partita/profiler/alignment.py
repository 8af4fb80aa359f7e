"""Which operator of a graph is which of the operators that ran."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from partita.frontends.fused import ATTENTION, ATTENTION_BACKWARD
from partita.frontends.records import DispatchedCall

#: Operators that stand for several kernels: what they read is not told apart.
_WHOLE = frozenset({ATTENTION, ATTENTION_BACKWARD})


def align(traced: Sequence[DispatchedCall], ran: Sequence[DispatchedCall]) -> list[int | None]:
    """For every traced event its place among those that ran, None where there is none; both in order.

    Traces and runs differ in few places: which kernels a call becomes, gradients that are added up, constants. So the
    longest common subsequence is found from the number of differences upwards (Myers, "An O(ND) Difference Algorithm
    and Its Variations", Algorithmica 1, 1986, section 4).
    """
    n, m = len(traced), len(ran)
    # By diagonal (place in the run behind the place in the trace), how far into the trace the furthest way reaches.
    furthest = {1: 0}
    history: list[dict[int, int]] = []
    for differences in range(n + m + 1):
        history.append(dict(furthest))
        for diagonal in range(-differences, differences + 1, 2):
            x, _ = _step(furthest, diagonal, differences)
            while x < n and x - diagonal < m and _same(traced[x], ran[x - diagonal]):
                x += 1
            furthest[diagonal] = x
            if x >= n and x - diagonal >= m:
                return _matches(history, n, m)
    raise AssertionError("two rows always differ in as many events as they have together, at most")


def _step(furthest: dict[int, int], diagonal: int, differences: int) -> tuple[int, bool]:
    """Where a diagonal is entered, and whether by leaving out an event of the run rather than one of the trace."""
    left, right = furthest.get(diagonal - 1, -1), furthest.get(diagonal + 1, -1)
    of_run = diagonal == -differences or (diagonal != differences and left < right)
    return right if of_run else left + 1, of_run


def _matches(history: list[dict[int, int]], n: int, m: int) -> list[int | None]:
    found: list[int | None] = [None] * n
    x, y = n, m
    for differences in range(len(history) - 1, -1, -1):
        entered, of_run = _step(history[differences], x - y, differences)
        while x > max(entered, 0) and y > 0:
            x, y = x - 1, y - 1
            found[x] = y
        # One event of either was left out before.
        x, y = (x, y - 1) if of_run else (x - 1, y)
    return found


def besides(operators: Collection[int], ran: Sequence[DispatchedCall], views: Collection[str]) -> dict[int, list[int]]:
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


def _same(a: DispatchedCall, b: DispatchedCall) -> bool:
    return a.target == b.target and (a.arguments == b.arguments or a.target in _WHOLE)
