"""A certificate of when operators end at the earliest, on the CPU and on an accelerator.

Operator by operator, each behind those that it reads: on the CPU it ends its time after all of these, and one that ran
on an accelerator has also paid for handing its tensor back. On an accelerator it ends its time after all of these, and
for one that ran on the CPU its piece has also paid for fetching the tensor; what another accelerator made is taken to
come for nothing. An operator that cannot be on an accelerator, because its class cannot or does not fit, has one
choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from partita.checker.certificate import Certificate, Problem
from partita.checker.numbers import FailedCheckError, at_most, close, down, exact, total

#: By operator, on the CPU and on an accelerator; None where it cannot be.
Table = dict[int, tuple[float, float | None]]


class EarliestEnds(Certificate, frozen=True, kw_only=True, tag="earliest-ends"):
    """See the module.

    Attributes
    ----------
    ends
        By operator the earliest end on the CPU, and on an accelerator (null where it cannot be).
    """

    says = "no path of operators is done earlier, each on the CPU or an accelerator, with the transfers between these"

    ends: Table

    def proves(self, problem: Problem) -> Fraction:
        """The latest of the operators' earliest ends."""
        step = Step(problem)
        if self.ends.keys() != step.before.keys():
            raise FailedCheckError("it is about other operators than the problem has")
        for v in self.ends:
            for stated, found in zip(self.ends[v], step.ends(v, self.ends), strict=True):
                if (found is None) != (stated is None):
                    raise FailedCheckError(f"operator {v} is told to be where it cannot be")
                if found is None or stated is None:
                    continue
                if exact(stated) > found or not close(exact(stated), found):
                    raise FailedCheckError(f"{stated!r} of operator {v} does not follow")
        return max(_earlier(row) for row in self.ends.values())


def _earlier(row: tuple[float, float | None]) -> Fraction:
    return min(exact(value) for value in row if value is not None)


class Step:
    """The two numbers of one operator, from those of the operators that it reads."""

    def __init__(self, problem: Problem) -> None:
        self.operators = {op["id"]: op for op in problem["operators"]}
        self.before: dict[int, list[int]] = {identity: [] for identity in self.operators}
        for source, target in problem.get("edges", ()):
            self.before[target].append(source)
        self.barred = self._barred(problem)

    def _barred(self, problem: Problem) -> set[int]:
        """Operators that no accelerator can run: a member of the class cannot, or the class does not fit."""
        classes: dict[tuple[str, int], list[int]] = {}
        for identity, op in self.operators.items():
            tie = op.get("colocation")
            classes.setdefault(("own", identity) if tie is None else ("tie", tie), []).append(identity)
        limit = problem.get("memory_bytes")
        found: set[int] = set()
        for members in classes.values():
            rows = [self.operators[v] for v in members]
            held = total(op.get("memory_bytes", 0.0) for op in rows)
            if (
                problem["accelerators"] < 1
                or any(op.get("accelerator_time") is None for op in rows)
                or (limit is not None and not at_most(held, exact(limit)))
            ):
                found.update(members)
        return found

    def ends(self, v: int, table: Mapping[int, tuple[float, float | None]]) -> tuple[Fraction, Fraction | None]:
        """On the CPU, and on an accelerator."""
        ready = entered = Fraction(0)
        for u in self.before[v]:
            cpu, piece = table[u]
            moved = exact(self.operators[u].get("transfer_time", 0.0))
            out = None if piece is None else exact(piece)
            ready = max(ready, _least(exact(cpu), None if out is None else out + moved))
            entered = max(entered, _least(exact(cpu) + moved, out))
        op = self.operators[v]
        inside = None if v in self.barred else entered + exact(op["accelerator_time"])
        return ready + exact(op["cpu_time"]), inside


def _least(one: Fraction, other: Fraction | None) -> Fraction:
    return one if other is None else min(one, other)


def best_ends(problem: Problem) -> EarliestEnds:
    """The certificate, every number rounded down to a float."""
    step = Step(problem)
    table: Table = {}
    pending = list(step.before)
    while pending:
        ready = [v for v in pending if all(u in table for u in step.before[v])]
        if not ready:
            raise FailedCheckError("operators wait for each other in a circle")
        for v in ready:
            cpu, piece = step.ends(v, table)
            table[v] = down(cpu), None if piece is None else down(piece)
        pending = [v for v in pending if v not in table]
    return EarliestEnds(value=down(max(map(_earlier, table.values()))), ends=table)
