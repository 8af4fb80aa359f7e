"""A certificate that shares work out to the devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Certificate, Problem, classes
from partita.checker.makespan.places import allowed
from partita.checker.numbers import FailedCheckError, exact, total


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
