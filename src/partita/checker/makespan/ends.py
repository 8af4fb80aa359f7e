"""Certificates of when operators end at the earliest, and how long it takes after that: chains with queues at links.

``before`` holds, for an operator v and all that it waits for, and each device, a number that no schedule ends the
operator before if it is on that device. Operator by operator, in an order in which each comes behind those that it
waits for, such a number holds if it is at most the operator's own time there and the largest of:

- for each operator waited for, the least over the devices that this may be on of its number and the transfer;
- *queues*: let r be any time, and take operators that hand something to v and that, wherever they are, either start no
  earlier than r (if they are on v's device) or end no earlier than r (if they are elsewhere). Those on v's device run
  there one by one, and the flows of the others enter it one by one, all between r and the start of v. With a weight w
  for the former and 1 − w for the latter, v starts no earlier than r and the sum over these operators of the smaller of
  w times the time on the device and 1 − w times the least time of their flows into it.

``behind`` says the same of what follows the end of v, backwards. The makespan is at least the least over the devices of
v of both numbers together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Certificate, Problem, check_follows
from partita.checker.makespan.work import Links, homes, moved
from partita.checker.numbers import FailedCheckError, down, exact, least
from partita.checker.walks import reached

#: Weights of the device against its link that are tried, in tenths.
_TENTHS = range(1, 10)
#: By operator and device, a number; None where the operator cannot be.
Table = dict[int, tuple[float | None, ...]]


class EarliestEnds(Certificate, frozen=True, kw_only=True, tag="earliest-ends"):
    """See the module."""

    says = (
        "no chain of operators and transfers through one operator is shorter, wherever they are, with queues at links"
    )

    operator: int  #: The operator v where both parts meet.
    before: Table  #: By operator and device, the earliest end; of v and of all that it waits for.
    behind: Table  #: By operator and device, the least that follows the end; of v and of all that waits for it.

    def proves(self, problem: Problem) -> Fraction:
        """The least over the devices of the operator."""
        steps = EndsSteps(problem)
        for table, step, following in (
            (self.before, steps.end, steps.links.before),
            (self.behind, steps.rest, steps.links.after),
        ):
            wanted = _closure(self.operator, following)
            if table.keys() != wanted:
                raise FailedCheckError(f"it is about other operators than those tied to operator {self.operator}")
            for v in wanted:
                if len(table[v]) != steps.devices:
                    raise FailedCheckError(f"operator {v} does not have a number for each device")
                for d in range(steps.devices):
                    check_follows(f"operator {v} on device {d}", table[v][d], step(v, d, table))
        value = least(_both(a, b) for a, b in zip(self.before[self.operator], self.behind[self.operator], strict=True))
        if value is None:
            raise FailedCheckError(f"operator {self.operator} can run nowhere")
        return value


def _both(before: float | None, behind: float | None) -> Fraction | None:
    return None if before is None or behind is None else exact(before) + exact(behind)


def _closure(start: int, following: dict[int, list[tuple[int, object]]]) -> set[int]:
    return {start} | reached({v: [other for other, _ in row] for v, row in following.items()}, start)


class EndsSteps:
    """One step of either table, from the entries of the operators before or behind."""

    def __init__(self, problem: Problem) -> None:
        self.links, self.home = Links(problem), homes(problem)
        self.devices = len(problem["devices"])
        self.times = {op["id"]: op["times"] for op in problem["operators"]}
        serial = problem.get("serial_operators", True)
        self.entering = serial and problem.get("receiver_congestion", True)
        self.leaving = serial and problem.get("sender_congestion", True)

    def own(self, v: int, d: int) -> Fraction:
        """Time of an operator on a device that it can be on."""
        return exact(self.times[v][d])

    def end(self, v: int, d: int, table: Mapping[int, tuple[float | None, ...]]) -> Fraction | None:
        """Earliest end of an operator on a device; None where it cannot be."""
        if d not in self.home[v]:
            return None
        ends = {u: {c: exact(table[u][c]) for c in self.home[u]} for u, _ in self.links.before[v]}
        start = self._passed(d, self.links.before[v], ends, self.entering, lambda times, c: moved(times, c, d))
        return None if start is None else start + self.own(v, d)

    def rest(self, v: int, d: int, table: Mapping[int, tuple[float | None, ...]]) -> Fraction | None:
        """Least that follows the end of an operator on a device; None where it cannot be."""
        if d not in self.home[v]:
            return None
        after = {w: {c: self.own(w, c) + exact(table[w][c]) for c in self.home[w]} for w, _ in self.links.after[v]}
        return self._passed(d, self.links.after[v], after, self.leaving, lambda times, c: moved(times, d, c))

    def _passed(
        self,
        d: int,
        links: list[tuple[int, Any]],
        far: Mapping[int, Mapping[int, Fraction]],
        queues: bool,
        move: Callable[[Any, int], Fraction],
    ) -> Fraction | None:
        """What passes at least between a device and an end, the start or the last, behind the operators linked to it.

        ``far`` is what passes between that end and the farther side of each of these on its devices, ``move`` what a
        flow takes between another device and this one.
        """
        passed = Fraction(0)
        rows: list[tuple[Fraction, Fraction | None, Fraction | None]] = []
        for u, at in far.items():
            flows = [times for other, times in links if other == u]
            for times in flows:
                found = least(at[c] + move(times, c) for c in at)
                if found is None:
                    return None
                passed = max(passed, found)
            handed = [times for times in flows if times is not None]
            if handed and queues:
                away = [c for c in at if c != d]
                here = self.own(u, d) if d in at else None
                there = least(sum((move(times, c) for times in handed), Fraction(0)) for c in away)
                near = [at[d] - self.own(u, d)] if d in at else []
                rows.append((min([*near, *(at[c] for c in away)]), here, there))
        return max(passed, _queue(rows))


def _queue(rows: list[tuple[Fraction, Fraction | None, Fraction | None]]) -> Fraction:
    """The largest of r + Σ min(w · here, (1 − w) · there) over those released at r or later, for any r and w."""
    best = Fraction(0)
    for tenth in _TENTHS if len(rows) > 1 else ():
        w = Fraction(tenth, 10)
        for release, _, _ in rows:
            shares = (
                least((None if here is None else w * here, None if there is None else (1 - w) * there))
                for r, here, there in rows
                if r >= release
            )
            best = max(best, release + sum((share for share in shares if share is not None), Fraction(0)))
    return best


def ends_through(problem: Problem, operator: int) -> EarliestEnds | None:
    """The certificate of an operator, every number rounded down to a float; None if one can run nowhere."""
    steps = EndsSteps(problem)
    order = steps.links.order()
    before: Table = {}
    behind: Table = {}
    earlier, later = _closure(operator, steps.links.before), _closure(operator, steps.links.after)
    for v in order:
        if v in earlier:
            before[v] = tuple(_down(steps.end(v, d, before)) for d in range(steps.devices))
    for v in reversed(order):
        if v in later:
            behind[v] = tuple(_down(steps.rest(v, d, behind)) for d in range(steps.devices))
    value = least(_both(a, b) for a, b in zip(before[operator], behind[operator], strict=True))
    if value is None:
        return None
    return EarliestEnds(value=down(value), operator=operator, before=before, behind=behind)


def _down(value: Fraction | None) -> float | None:
    return None if value is None else max(0.0, down(value))
