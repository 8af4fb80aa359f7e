"""A certificate that adds up what lies between operators that all others come before or after.

Such an operator is a *separator*: whatever comes before it has ended when it starts, and whatever comes after it starts
when it has ended. So between the end of one separator and the start of the next only the *block* runs of what comes
after the one and before the other. That takes at least the block's work, shared by the devices with a weight for each,
and at least the longest chain through the block from the device of the one to that of the other, with queues at links
(``partita.checker.makespan.ends``). ``reached`` says when each separator ends at the earliest on each device: its own
time, and the least over the devices of the separator before of that one's number and of what the block between takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

from partita.checker.certificate import Certificate, Problem, check_follows, classes
from partita.checker.makespan.ends import EndsSteps, Table
from partita.checker.makespan.work import Links, homes, shared_work
from partita.checker.numbers import FailedCheckError, down, exact, least

Row = tuple[float | None, ...]


class SeparatorPotentials(Certificate, frozen=True, kw_only=True, tag="separator-potentials"):
    """See the module."""

    says = "every schedule passes these operators one by one, and no block between them takes less"

    separators: tuple[int, ...]  #: Ids in their order.
    #: For each block, one more than there are separators, a weight for each device; the largest is 1.
    weights: tuple[tuple[float, ...], ...]
    reached: tuple[Row, ...]  #: For each separator and device the earliest end; None where it cannot be.

    def proves(self, problem: Problem) -> Fraction:
        """The least over the devices of the last separator, with what comes after it."""
        if self.separators != separators(problem) or not self.separators:
            raise FailedCheckError("these are not the operators that all others come before or after")
        if len(self.weights) != len(self.separators) + 1 or len(self.reached) != len(self.separators):
            raise FailedCheckError("there are weights for each block, and ends of each separator")
        chain = SeparatedBlocks(problem)
        for number, row in enumerate(self.reached):
            found = chain.reached(number, self.reached[number - 1] if number else None, self.weights[number])
            if len(row) != len(found):
                raise FailedCheckError(f"separator {self.separators[number]} does not have an end for each device")
            for stated, value in zip(row, found, strict=True):
                check_follows(f"separator {self.separators[number]}", stated, value)
        end = chain.rest(self.reached[-1], self.weights[-1])
        if end is None:
            raise FailedCheckError("some operator can run nowhere")
        return end


def separators(problem: Problem) -> tuple[int, ...]:
    """Operators that every other one comes before or after, in their order."""
    links = Links(problem)
    order = links.order()
    before: dict[int, set[int]] = {}
    for v in order:
        before[v] = set().union(*({u} | before[u] for u, _ in links.before[v]))
    after = dict.fromkeys(order, 0)
    for found in before.values():
        for u in found:
            after[u] += 1
    return tuple(v for v in order if len(before[v]) + after[v] == len(order) - 1)


class SeparatedBlocks:
    """The blocks between the separators, and what they take at least."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.devices = problem, len(problem["devices"])
        self.separators = separators(problem)
        self.operators: dict[int, Mapping[str, Any]] = {op["id"]: op for op in problem["operators"]}
        self.home = homes(problem)

    @cached_property
    def blocks(self) -> list[list[int]]:
        """The operators of every block."""
        links = Links(self.problem)
        place = {s: number for number, s in enumerate(self.separators)}
        passed: dict[int, int] = {}
        for v in links.order():
            passed[v] = max((passed[u] + (u in place) for u, _ in links.before[v]), default=0)
        rows: list[list[int]] = [[] for _ in range(len(self.separators) + 1)]
        for v, number in passed.items():
            if v not in place:
                rows[number].append(v)
        return rows

    def rows(self, number: int) -> list[tuple[list[Mapping[str, Any]], list[int]]]:
        """Of a block, the operators that run together with the devices that they may be on."""
        inside = set(self.blocks[number])
        return [
            (members, self.home[members[0]["id"]])
            for row in classes(self.problem)
            if (members := [op for op in row if op["id"] in inside])
        ]

    def work(self, number: int, weights: tuple[float, ...]) -> Fraction:
        """What a block takes at least, shared by the devices; 0 where operators may overlap."""
        return shared_work(self.rows(number), self.problem, weights)

    def through(self, number: int, source: int | None) -> tuple[list[Fraction | None], Fraction]:
        """The longest chain of a block, from a device of the separator before to each device of the one behind it.

        Also to the end of the block's own operators.
        """
        entry = self.separators[number - 1] if number else None
        last = self.separators[number] if number < len(self.separators) else None
        ends = {v: set(self.home[v]) if v == last else {source} for v in (entry, last) if v is not None}
        inside = {*self.blocks[number], *ends}
        part = dict(self.problem)
        part["operators"] = [
            {"id": v, "times": [0.0 if d in ends[v] else None for d in range(self.devices)]}
            if v in ends
            else {**self.operators[v], "memory": 0.0}
            for v in inside
        ]
        part["flows"] = [f for f in self.problem.get("flows", ()) if {f["source"], f["target"]} <= inside]
        part["precedence"] = [pair for pair in self.problem.get("precedence", ()) if set(pair) <= inside]
        steps, latest = EndsSteps(part), Fraction(0)
        table: Table = {}
        for v in steps.links.order():
            row = [steps.end(v, d, table) for d in range(self.devices)]
            if v == last:
                return row, latest
            table[v] = tuple(None if value is None else max(0.0, down(value)) for value in row)
            latest = max(latest, least(row) or Fraction(0))
        return [], latest

    def reached(self, number: int, before: Row | None, weights: tuple[float, ...]) -> list[Fraction | None]:
        """When a separator ends at the earliest on each device."""
        work = self.work(number, weights)
        found: list[Fraction | None] = [None] * self.devices
        starts = [(None, Fraction(0))] if before is None else _starts(before)
        for source, start in starts:
            row, _ = self.through(number, source)
            for d in self.home[self.separators[number]]:
                chain = row[d]
                if chain is not None:
                    own = exact(self.operators[self.separators[number]]["times"][d])
                    found[d] = least((found[d], start + max(work, chain) + own))
        return found

    def rest(self, before: Row, weights: tuple[float, ...]) -> Fraction | None:
        """When all ends at the earliest."""
        number = len(self.separators)
        work = self.work(number, weights)
        return least(start + max(work, self.through(number, source)[1]) for source, start in _starts(before))


def _starts(before: Row) -> list[tuple[int | None, Fraction]]:
    return [(d, exact(value)) for d, value in enumerate(before) if value is not None]
