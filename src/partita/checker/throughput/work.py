"""Certificates that count work alone: the largest class of operators, and all work shared by the devices.

They hold for every variant: what is added for transfers, synchronisation, groups or reloading is not negative, what
overlaps counts at least the work, replicas share a stage's work among them, and GPipe's objective is at least the load
of any device.
"""

from __future__ import annotations

from fractions import Fraction

from partita.checker.certificate import Certificate, Problem, classes
from partita.checker.numbers import FailedCheckError, exact, least
from partita.checker.throughput.costs import present, recomputes, work


class LargestOperator(Certificate, frozen=True, kw_only=True, tag="largest-operator"):
    """Some device, or set of replicas, runs an operator and all of its colocation class."""

    says = "the devices that run one operator, with its colocation class, do that work"

    operator: int  #: Its id.

    def proves(self, problem: Problem) -> Fraction:
        """The least over the kinds of devices, shared by as many replicas as there may be."""
        members = next((row for row in classes(problem) if any(op["id"] == self.operator for op in row)), None)
        if members is None:
            raise FailedCheckError(f"there is no operator {self.operator}")
        found, again = [], recomputes(problem)
        for kind in present(problem):
            own = work(members, kind, again)
            replicas = min(problem["kinds"][kind]["count"], problem.get("max_replicas", 1))
            found.append(None if own is None else own / replicas)
        value = least(found)
        if value is None:
            raise FailedCheckError(f"operator {self.operator} can run nowhere")
        return value


class SharedWork(Certificate, frozen=True, kw_only=True, tag="shared-work"):
    """With a weight for every kind of devices, the weighted loads add up to at least the weighted work.

    Each class of operators runs on some kind, where its weighted work is at least the least over the kinds. If no load
    is above T, the weighted loads are at most T · Σ weight · count. This is the dual of the program that spreads work
    over the devices as if it could be divided.
    """

    says = "the work is shared by all devices, each class of operators where it is cheapest by these weights"

    weights: tuple[float, ...]  #: One for each kind, 0 where there are no devices; the largest is 1.

    def proves(self, problem: Problem) -> Fraction:
        """The weighted work over the weighted number of devices."""
        weights = [exact(weight) for weight in self.weights]
        if len(weights) != len(problem["kinds"]) or max(weights, default=0) != 1:
            raise FailedCheckError("there is one weight for each kind of devices, and the largest is 1")
        kinds = present(problem)
        if any(weight for kind, weight in enumerate(weights) if kind not in kinds):
            raise FailedCheckError("a kind of which there are no devices has a weight")
        summed, again = Fraction(0), recomputes(problem)
        for members in classes(problem):
            own = [(kind, work(members, kind, again)) for kind in kinds]
            cheapest = least(None if value is None else weights[kind] * value for kind, value in own)
            if cheapest is None:
                raise FailedCheckError(f"operator {members[0]['id']} can run nowhere")
            summed += cheapest
        capacity = sum((weights[kind] * problem["kinds"][kind]["count"] for kind in kinds), Fraction(0))
        if not capacity:
            raise FailedCheckError("the kinds that have devices have no weight")
        return summed / capacity
