"""What a throughput plan is worth, from the definitions: the load of every device, and what it holds.

Not covered, and left to the package's own evaluator: groups of devices, replicas of a stage, memory over the limit at a
price, and chains of units.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem, check_together, placed
from partita.checker.numbers import FailedCheckError, at_most, exact, total
from partita.checker.throughput.costs import links, parameter_bytes, recomputes, times, together, training, transfer


def not_covered(problem: Problem, plan: Mapping[str, Any]) -> str | None:
    """What of a problem or plan this file knows nothing of; None if it knows all."""
    if problem.get("groups"):
        return "groups of devices"
    if problem.get("streaming", False):
        return "memory over the limit at a price"
    if problem.get("row") is not None:
        return "chains of units"
    if any({*entry.get("replica_devices", ())} - {entry["name"]} for entry in plan["devices"]):
        return "replicas of a stage"
    return None


def covers(scope: str, plan: Mapping[str, Any]) -> bool:
    """Whether what is proven of a scope holds for the splits that a plan is one of."""
    return scope in ("", "free", plan.get("contiguity"))


def worth(problem: Problem, plan: Mapping[str, Any]) -> Fraction:
    """The objective of a plan.

    Raises ``FailedCheckError`` if it breaks a limit, or is not a plan of the problem.
    """
    rows = [entry for entry in plan["devices"] if entry["operators"]]
    pairs = ((identity, number) for number, entry in enumerate(rows) for identity in entry["operators"])
    home = placed(pairs, (op["id"] for op in problem["operators"]))
    kinds = {kind["name"]: kind for kind in problem["kinds"]}
    places = {kind["name"]: place for place, kind in enumerate(problem["kinds"])}
    _check_names(rows, kinds)
    check_together(problem, home)
    order = _stage_order(problem, home, len(rows))
    if order is None and plan["contiguity"] != "free":
        raise FailedCheckError("the stages depend on each other in a cycle, and the plan says that it is acyclic")
    moved = _moved(problem, home, [kinds[entry["device_kind"]] for entry in rows])
    flying, again = _in_flight(problem, len(rows), order), recomputes(problem)
    first: list[Fraction] = []
    second: list[Fraction] = []
    for number, entry in enumerate(rows):
        members = [op for op in problem["operators"] if home[op["id"]] == number]
        done = [Fraction(0), Fraction(0)]
        for op in members:
            parts = times(op, places[entry["device_kind"]], again)
            if parts is None:
                raise FailedCheckError(f"operator {op['id']} cannot run on {entry['device_kind']}")
            done = [a + b for a, b in zip(done, parts, strict=True)]
        _check_memory(problem, home, number, kinds[entry["device_kind"]], flying[number])
        row = moved[number]
        if problem.get("schedule", {}).get("name", "inference") == "gpipe" and training(problem):
            first.append(together(problem, done[0], row["in", False], row["out", False]))
            second.append(together(problem, done[1], row["in", True], row["out", True]))
        else:
            into, out = row["in", False] + row["in", True], row["out", False] + row["out", True]
            first.append(together(problem, sum(done, Fraction(0)), into, out))
            second.append(Fraction(0))
    return max(first) + max(second)


def _check_names(rows: list[Mapping[str, Any]], kinds: Mapping[str, Mapping[str, Any]]) -> None:
    names = [entry["name"] for entry in rows]
    if len(set(names)) < len(names):
        raise FailedCheckError("a device is used twice")
    for entry in rows:
        kind, _, number = entry["name"].rpartition(":")
        if kind != entry["device_kind"] or kind not in kinds or not number.isdigit():
            raise FailedCheckError(f"there is no device {entry['name']!r} of kind {entry['device_kind']!r}")
        if str(int(number)) != number or int(number) >= kinds[kind]["count"]:
            raise FailedCheckError(f"there is no device {entry['name']!r}")


def _stage_order(problem: Problem, home: dict[int, int], count: int) -> list[int] | None:
    """Place of every stage in the pipeline, the listed order where it is one; None if they depend in a cycle."""
    edges = {(a, b) for a, b in links(problem, home) if a != b}
    if all(a < b for a, b in edges):
        return list(range(count))
    row: list[int] = []
    while len(row) < count:
        # Of those that wait for none that is left, the first one listed.
        waiting = {b for a, b in edges if a not in row}
        ready = [stage for stage in range(count) if stage not in row and stage not in waiting]
        if not ready:
            return None
        row.append(ready[0])
    return [row.index(stage) for stage in range(count)]


def _moved(
    problem: Problem, home: dict[int, int], links: list[Mapping[str, Any]]
) -> list[dict[tuple[str, bool], Fraction]]:
    """Transfer times of every stage, in and out, of tensors of the forward and of the backward part."""
    backward = {op["id"]: op.get("backward", False) for op in problem["operators"]}
    found = [{(way, late): Fraction(0) for way in ("in", "out") for late in (False, True)} for _ in links]
    for tensor in problem.get("tensors", ()):
        source, late = home[tensor["producer"]], backward[tensor["producer"]]
        others = {home[v] for v in tensor["consumers"]} - {source}
        if others:
            found[source]["out", late] += transfer(links[source], tensor["size"])
        for stage in others:
            found[stage]["in", late] += transfer(links[stage], tensor["size"])
    return found


def _in_flight(problem: Problem, count: int, order: list[int] | None) -> list[int]:
    schedule = problem.get("schedule", {})
    name, batch = schedule.get("name", "inference"), schedule.get("microbatches", 1)
    if name == "inference":
        return [1] * count
    if name == "gpipe":
        return [batch] * count
    places = range(count) if order is None else order
    return [min(count - place, batch) for place in places]


def _check_memory(problem: Problem, home: dict[int, int], stage: int, kind: Mapping[str, Any], flying: int) -> None:
    if kind.get("memory_bytes") is None:
        return
    backward = {op["id"]: op.get("backward", False) for op in problem["operators"]}
    members = [op for op in problem["operators"] if home[op["id"]] == stage]
    held = total(op.get("memory_bytes", 0.0) for op in members)
    workspace = max((exact(op.get("workspace_bytes", 0.0)) for op in members), default=Fraction(0))
    for parameter in problem.get("parameters", ()):
        if any(home[user] == stage for user in parameter["users"]):
            held += parameter_bytes(parameter)
    saved = total(one["bytes"] for one in problem.get("saved", ()) if any(home[user] == stage for user in one["users"]))
    if problem.get("schedule", {}).get("recompute", False) and training(problem):
        # What enters is kept for every microbatch, and one microbatch at a time has all its activations again.
        entering = total(
            tensor["size"]
            for tensor in problem.get("tensors", ())
            if not backward[tensor["producer"]]
            and home[tensor["producer"]] != stage
            and any(home[v] == stage and not backward[v] for v in tensor["consumers"])
        )
        held += flying * entering + saved + workspace
    else:
        held += flying * saved + workspace
    if not at_most(held, exact(kind["memory_bytes"])):
        raise FailedCheckError(f"stage {stage} holds {float(held)!r} bytes, its device {kind['memory_bytes']!r}")
