"""A certificate that counts transfers, too: paths out of one operator that whatever device holds it pays for.

Let S be what the device with operator v holds. A path starts at v and goes from operator to operator, each step by a
tensor that both touch, or between operators that are in S together. If the path stays in S, its last operator is in S,
and the device does its work. Otherwise the path leaves S at some step, which is by a tensor with one end in S and one
outside, and the device pays for moving that. So each path is charged to work or to a tensor that the device pays; as
the amounts of the paths that end at an operator are at most its work, and those that pass a tensor at most its
transfer, the load of the device is at least the sum of the amounts. Such paths are a maximum flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from partita.checker.certificate import Certificate, Problem
from partita.checker.numbers import FailedCheckError, exact
from partita.checker.throughput.costs import cheapest_transfer, cheapest_work, recomputes, training
from partita.checker.walks import reached


class Path(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operators, the tensor of every step (its place in the problem; −1 between operators together), and the amount."""

    operators: tuple[int, ...]
    tensors: tuple[int, ...]
    amount: float


class TransferPaths(Certificate, frozen=True, kw_only=True, tag="transfer-paths"):
    """See the module."""

    says = (
        "whatever device holds one operator pays for each path out of it, by work at its end or a transfer on its way"
    )

    operator: int  #: Where the paths start: v.
    paths: tuple[Path, ...]  #: With the amounts that are charged along them.

    def scope(self, problem: Problem) -> str:
        """Acyclic splits, where some step needs that what lies between two operators is with them."""
        tie = _ties(problem)
        steps = (step for path in self.paths for step in _steps(path) if step[2] < 0)
        return "free" if all(tie[a] is not None and tie[a] == tie[b] for a, b, _ in steps) else "acyclic"

    def proves(self, problem: Problem) -> Fraction:
        """The sum of the amounts."""
        if problem.get("communication", "sum") != "sum":
            raise FailedCheckError("it holds where transfers add to work")
        if problem.get("max_replicas", 1) > 1:
            raise FailedCheckError("it holds where every stage has one device")
        operators = {op["id"]: op for op in problem["operators"]}
        order = _Order(problem)
        ended: dict[int, Fraction] = {}
        passed: dict[int, Fraction] = {}
        summed = Fraction(0)
        for path in self.paths:
            if not path.operators or path.operators[0] != self.operator:
                raise FailedCheckError(f"a path does not start at operator {self.operator}")
            if len(path.tensors) != len(path.operators) - 1 or not set(path.operators) <= operators.keys():
                raise FailedCheckError("a path names operators that there are, and a tensor between every two")
            amount = exact(path.amount)
            summed += amount
            end = path.operators[-1]
            ended[end] = ended.get(end, Fraction(0)) + amount
            for number, (a, b, tensor) in enumerate(_steps(path)):
                if tensor == -1:
                    order.check_together(path.operators[: number + 1], b)
                    continue
                _check_pins(problem, tensor, a, b)
                passed[tensor] = passed.get(tensor, Fraction(0)) + amount
        again = recomputes(problem)
        for end, amount in ended.items():
            work = cheapest_work(problem, operators[end], again)
            if work is not None and amount > work:
                raise FailedCheckError(f"paths that end at operator {end} charge {float(amount)!r}, and it works less")
        for tensor, amount in passed.items():
            if amount > cheapest_transfer(problem, problem["tensors"][tensor]):
                raise FailedCheckError(f"paths charge {float(amount)!r} to tensor {tensor}, and moving it costs less")
        return summed


def _steps(path: Path) -> list[tuple[int, int, int]]:
    return list(zip(path.operators, path.operators[1:], path.tensors, strict=False))


def _check_pins(problem: Problem, tensor: int, *ends: int) -> None:
    if not 0 <= tensor < len(problem["tensors"]):
        raise FailedCheckError(f"there is no tensor {tensor}")
    entry: Mapping[str, Any] = problem["tensors"][tensor]
    if not set(ends) <= {entry["producer"], *entry["consumers"]}:
        raise FailedCheckError(f"operators {ends[0]} and {ends[1]} do not both touch tensor {tensor}")


def _ties(problem: Problem) -> dict[int, int | None]:
    return {op["id"]: op.get("colocation") for op in problem["operators"]}


class _Order:
    """Who is with whom: by colocation; in acyclic splits also what lies on a path between two that are together."""

    def __init__(self, problem: Problem) -> None:
        self.tie = _ties(problem)
        self.after: dict[int, list[int]] = {identity: [] for identity in self.tie}
        # Contiguity is of the forward part; what that says of backward operators is left out.
        for tensor in () if training(problem) else problem.get("tensors", ()):
            for consumer in tensor["consumers"]:
                self.after[tensor["producer"]].append(consumer)
        self.reached: dict[int, set[int]] = {}

    def check_together(self, held: tuple[int, ...], other: int) -> None:
        """Refuse an operator that may be apart from the set that holds all of the others."""
        last = held[-1]
        if self.tie[last] is not None and self.tie[last] == self.tie[other]:
            return
        behind, before = any(other in self._after(a) for a in held), any(a in self._after(other) for a in held)
        if not (behind and before):
            raise FailedCheckError(f"operator {other} may be on another device than operator {last}")

    def _after(self, start: int) -> set[int]:
        if start not in self.reached:
            self.reached[start] = reached(self.after, start)
        return self.reached[start]
