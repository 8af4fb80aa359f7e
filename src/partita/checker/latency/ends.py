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

from partita.checker.certificate import Certificate, Problem, check_follows, classes
from partita.checker.numbers import FailedCheckError, at_most, down, exact, total

#: By operator, on the CPU and on an accelerator; None where it cannot be.
Table = dict[int, tuple[float, float | None]]


class EarliestPieceEnds(Certificate, frozen=True, kw_only=True, tag="earliest-ends"):
    """See the module."""

    says = "no path of operators is done earlier, each on the CPU or an accelerator, with the transfers between these"

    ends: Table  #: By operator the earliest end on the CPU, and on an accelerator (null where it cannot be).

    def proves(self, problem: Problem) -> Fraction:
        """The latest of the operators' earliest ends."""
        step = EndsStep(problem)
        if self.ends.keys() != step.before.keys():
            raise FailedCheckError("it is about other operators than the problem has")
        for v in self.ends:
            for stated, found in zip(self.ends[v], step.ends(v, self.ends), strict=True):
                check_follows(f"operator {v}", stated, found)
        return max(_earlier(row) for row in self.ends.values())


def _earlier(row: tuple[float, float | None]) -> Fraction:
    return min(exact(value) for value in row if value is not None)


class EndsStep:
    """The two numbers of one operator, from those of the operators that it reads."""

    def __init__(self, problem: Problem) -> None:
        self.operators = {op["id"]: op for op in problem["operators"]}
        self.before: dict[int, list[int]] = {identity: [] for identity in self.operators}
        for source, target in problem.get("edges", ()):
            self.before[target].append(source)
        #: Operators that no accelerator can run: a member of the class cannot, or the class does not fit.
        self.barred: set[int] = set()
        limit = problem.get("memory_bytes")
        for members in classes(problem):
            held = total(op.get("memory_bytes", 0.0) for op in members)
            if (
                problem["accelerators"] < 1
                or any(op.get("accelerator_time") is None for op in members)
                or (limit is not None and not at_most(held, exact(limit)))
            ):
                self.barred.update(op["id"] for op in members)

    def ends(self, v: int, table: Mapping[int, tuple[float, float | None]]) -> tuple[Fraction, Fraction | None]:
        """On the CPU, and on an accelerator."""
        ready = entered = Fraction(0)
        for u in self.before[v]:
            cpu, piece = table[u]
            moved = exact(self.operators[u].get("transfer_time", 0.0))
            outs = [] if piece is None else [exact(piece)]
            ready = max(ready, min([exact(cpu), *(out + moved for out in outs)]))
            entered = max(entered, min([exact(cpu) + moved, *outs]))
        op = self.operators[v]
        inside = None if v in self.barred else entered + exact(op["accelerator_time"])
        return ready + exact(op["cpu_time"]), inside


def best_ends(problem: Problem) -> EarliestPieceEnds:
    """The certificate, every number rounded down to a float."""
    step = EndsStep(problem)
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
    return EarliestPieceEnds(value=down(max(map(_earlier, table.values()))), ends=table)
