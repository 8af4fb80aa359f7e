"""What a latency plan is worth: when the last operator is done, by the longest path through pieces and the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem, check_together, placed
from partita.checker.numbers import FailedCheckError, at_most, exact, total
from partita.checker.walks import in_order

#: A piece as (accelerator, number), or an operator on the CPU as (−1, id).
Node = tuple[int, int]


def worth(problem: Problem, plan: Mapping[str, Any]) -> Fraction:
    """The time until the last operator is done.

    Raises ``FailedCheckError`` if a limit is broken, or it is not a plan of the problem.
    """
    operators = {op["id"]: op for op in problem["operators"]}
    node = placed(_nodes(plan), operators)
    pieces: dict[Node, list[int]] = {}
    for identity, place in node.items():
        pieces.setdefault(place, []).append(identity)
    _check_limits(problem, operators, node, pieces)
    after: dict[int, list[int]] = {identity: [] for identity in operators}
    for source, target in problem.get("edges", ()):
        after[source].append(target)
    takes: dict[Node, Fraction] = {}
    for place, members in pieces.items():
        if place[0] < 0:
            takes[place] = exact(operators[place[1]]["cpu_time"])
        else:
            takes[place] = total(operators[v]["accelerator_time"] for v in members)
    following: dict[Node, set[Node]] = {place: set() for place in pieces}
    for u, readers in after.items():
        others = {node[v] for v in readers} - {node[u]}
        following[node[u]] |= others
        moved = exact(operators[u].get("transfer_time", 0.0))
        if others and node[u][0] >= 0:
            takes[node[u]] += moved
        for place in others:
            if place[0] >= 0:
                takes[place] += moved
    for device, number in pieces:
        if device >= 0 and (device, number + 1) in pieces:
            following[device, number].add((device, number + 1))
    return _longest(takes, following)


def _nodes(plan: Mapping[str, Any]) -> Iterator[tuple[int, Node]]:
    number = -1
    for entry in plan["devices"]:
        if entry["kind"] == "accelerator":
            number += 1
            if entry["name"] != f"accelerator:{number}":
                raise FailedCheckError(f"{entry['name']!r} is not the name of accelerator {number}")
            if sorted(v for piece in entry["pieces"] for v in piece) != sorted(entry["operators"]):
                raise FailedCheckError(f"the pieces of {entry['name']!r} are not its operators")
            if not all(entry["pieces"]):
                raise FailedCheckError(f"{entry['name']!r} has an empty piece")
            yield from ((v, (number, place)) for place, piece in enumerate(entry["pieces"]) for v in piece)
        else:
            yield from ((v, (-1, v)) for v in entry["operators"])


def _check_limits(
    problem: Problem, operators: Mapping[int, Any], node: Mapping[int, Node], pieces: Mapping[Node, list[int]]
) -> None:
    limit = problem.get("memory_bytes")
    for device in {place[0] for place in pieces if place[0] >= 0}:
        if device >= problem["accelerators"]:
            raise FailedCheckError(f"there is no accelerator {device}")
        held = [operators[v] for v, place in node.items() if place[0] == device]
        if any(op.get("accelerator_time") is None for op in held):
            raise FailedCheckError(f"accelerator {device} holds an operator that it cannot run")
        memory = total(op.get("memory_bytes", 0.0) for op in held)
        if limit is not None and not at_most(memory, exact(limit)):
            raise FailedCheckError(f"accelerator {device} holds {float(memory)!r} bytes, more than {limit!r}")
        passes = {False: 0, True: 0}
        for place, members in pieces.items():
            if place[0] == device:
                late = {bool(operators[v].get("backward", False)) for v in members}
                if len(late) > 1:
                    raise FailedCheckError(f"a piece of accelerator {device} has forward and backward operators")
                passes[late.pop()] += 1
        if max(passes.values()) > problem.get("pieces", 1):
            raise FailedCheckError(f"accelerator {device} has too many pieces")
    # The CPU is one device.
    check_together(problem, {v: device for v, (device, _) in node.items()})


def _longest(takes: Mapping[Node, Fraction], following: Mapping[Node, set[Node]]) -> Fraction:
    order = in_order(following)
    if len(order) < len(takes):
        raise FailedCheckError("pieces wait for each other in a circle")
    end = dict(takes)
    for place in order:
        for other in following[place]:
            end[other] = max(end[other], end[place] + takes[other])
    return max(end.values())
