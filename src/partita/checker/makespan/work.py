"""Where operators can run, what waits for what, and a certificate that shares work out to the devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Certificate, Problem, classes
from partita.checker.numbers import FailedCheckError, at_most, exact, total
from partita.checker.walks import in_order


def allowed(problem: Problem, members: list[Mapping[str, Any]]) -> list[int]:
    """Places of the devices that can run all operators of a class, and have room for them."""
    held = total(op.get("memory", 0.0) for op in members)
    return [
        place
        for place, device in enumerate(problem["devices"])
        if all(op["times"][place] is not None for op in members)
        and (device.get("memory") is None or at_most(held, exact(device["memory"])))
    ]


def homes(problem: Problem) -> dict[int, list[int]]:
    """Devices that each operator may be on, with its class."""
    return {
        op["id"]: places for members in classes(problem) for places in [allowed(problem, members)] for op in members
    }


class Links:
    """Who waits for whom: by operator, pairs of the other one and the transfer times of what is handed on, or None."""

    def __init__(self, problem: Problem) -> None:
        self.before: dict[int, list[tuple[int, Any]]] = {op["id"]: [] for op in problem["operators"]}
        self.after: dict[int, list[tuple[int, Any]]] = {op["id"]: [] for op in problem["operators"]}
        for flow in problem.get("flows", ()):
            self._add(flow["source"], flow["target"], flow["times"])
        for source, target in problem.get("precedence", ()):
            self._add(source, target, None)

    def _add(self, source: int, target: int, times: Any) -> None:
        self.before[target].append((source, times))
        self.after[source].append((target, times))

    def order(self) -> list[int]:
        """The operators, each behind those that it waits for.

        Raises ``FailedCheckError`` if some wait for each other.
        """
        row = in_order({v: [w for w, _ in row] for v, row in self.after.items()})
        if len(row) < len(self.after):
            raise FailedCheckError("operators wait for each other in a circle")
        return row


def moved(times: Any, source: int, target: int) -> Fraction:
    """What a transfer takes from one device to another; nothing where nothing is handed on."""
    return Fraction(0) if times is None else exact(times[source][target])


class WeightedWork(Certificate, frozen=True, kw_only=True, tag="weighted-work"):
    """With a weight for every device, the weighted times of the devices add up to at least the weighted work.

    Operators on one device run one after the other, so each device works for at most the makespan C, and the weighted
    mean of what the devices do is at most C. Every class of operators is on some device, where its weighted time is at
    least the least over those that it may be on.
    """

    says = "the devices work one operator at a time, and each class of operators where it is cheapest by these weights"

    weights: tuple[float, ...]  #: One for each device; the largest is 1.

    def proves(self, problem: Problem) -> Fraction:
        """The weighted work over the sum of the weights."""
        if not problem.get("serial_operators", True):
            raise FailedCheckError("it holds where operators on one device exclude each other")
        return shared_work(
            [(members, allowed(problem, members)) for members in classes(problem)], problem, self.weights
        )


def shared_work(
    rows: Iterable[tuple[Sequence[Mapping[str, Any]], Iterable[int]]], problem: Problem, stated: Sequence[float]
) -> Fraction:
    """What operators take at least, those that run together with the devices that they may be on.

    Raises ``FailedCheckError`` if the weights are none, or some operators can run nowhere.
    """
    weights = [exact(weight) for weight in stated]
    if len(weights) != len(problem["devices"]) or max(weights, default=0) != 1:
        raise FailedCheckError("there is one weight for each device, and the largest is 1")
    summed = Fraction(0)
    for members, places in rows if problem.get("serial_operators", True) else ():
        own = [weights[d] * total(op["times"][d] for op in members) for d in places]
        if not own:
            raise FailedCheckError(f"operator {members[0]['id']} can run nowhere")
        summed += min(own)
    return summed / sum(weights)
