"""What operators and tensors cost a device, from a ``partita.problem`` as it stands in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeVar

from partita.checker.certificate import Problem, classes
from partita.checker.numbers import exact, least, total

NumberT = TypeVar("NumberT", int, Fraction)


def training(problem: Problem) -> bool:
    """Whether there is a backward part."""
    return any(op.get("backward", False) for op in problem["operators"])


def present(problem: Problem) -> list[int]:
    """Places of the kinds of which there are devices."""
    return [place for place, kind in enumerate(problem["kinds"]) if kind["count"] > 0]


def recomputes(problem: Problem) -> bool:
    """Whether the forward part runs once more before the backward part."""
    return bool(problem.get("schedule", {}).get("recompute", False)) and training(problem)


def times(op: Mapping[str, Any], kind: int, again: bool) -> tuple[Fraction, Fraction] | None:
    """Forward and backward work of an operator on a kind; None where it cannot run. ``again`` is ``recomputes``."""
    time = op["times"][kind]
    if time is None:
        return None
    value = exact(time)
    if op.get("backward", False):
        return Fraction(0), value
    return value, value if again else Fraction(0)


def work(members: list[Mapping[str, Any]], kind: int, again: bool) -> Fraction | None:
    """All work of operators on one device of a kind; None where one of them cannot run."""
    parts = [times(op, kind, again) for op in members]
    if any(part is None for part in parts):
        return None
    return sum((forward + backward for forward, backward in (part for part in parts if part)), Fraction(0))


def transfer(link: Mapping[str, Any], size: Any) -> Fraction:
    """What a device, or a group of them, pays for a tensor that crosses its boundary."""
    unit = exact(link.get("transfer_time_per_unit", 1.0))
    return exact(link.get("transfer_latency", 0.0)) + exact(size) * unit


def together(problem: Problem, work: NumberT, into: NumberT, out: NumberT) -> NumberT:
    """The load of a device, by how transfers and work share its time."""
    how = problem.get("communication", "sum")
    if how == "sum":
        return work + into + out
    return max(work, into + out) if how == "overlap" else max(work, into, out)


def cheapest_work(problem: Problem, op: Mapping[str, Any], again: bool) -> Fraction | None:
    """Least work of an operator on any device there is."""
    return least(work([op], kind, again) for kind in present(problem))


def cheapest_transfer(problem: Problem, tensor: Mapping[str, Any]) -> Fraction:
    """Least that any device there is pays for a tensor."""
    return min(transfer(problem["kinds"][kind], tensor["size"]) for kind in present(problem))


def parameter_bytes(parameter: Mapping[str, Any]) -> Fraction:
    """What a parameter takes of every device that holds one of its users."""
    return total(parameter.get(f"{part}_bytes", 0.0) for part in ("weight", "gradient", "optimizer"))


def links(problem: Problem, home: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of which the stage of the first comes no later, as ``home`` calls them.

    Contiguity is of the forward part. A class with backward operators alone counts as forward, its edges turned round.
    """
    late = {op["id"]: op.get("backward", False) for op in problem["operators"]}
    rows = [[op["id"] for op in row] for row in classes(problem)]
    forward = {identity for row in rows if not all(late[identity] for identity in row) for identity in row}
    for tensor in problem.get("tensors", ()):
        u = tensor["producer"]
        for v in tensor["consumers"]:
            if not late[u] and not late[v]:
                yield home[u], home[v]
            elif late[u] and late[v] and not {u, v} <= forward:
                yield home[v], home[u]
