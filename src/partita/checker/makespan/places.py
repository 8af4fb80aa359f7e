"""Where the operators of a ``partita.makespan`` problem can run, and what waits for what."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem, classes
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
