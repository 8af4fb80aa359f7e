"""What a schedule is worth: the end of its last operator, if it keeps every rule of the problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem, check_together
from partita.checker.numbers import TOLERANCE, FailedCheckError, at_most, exact, total


def worth(problem: Problem, plan: Mapping[str, Any]) -> Fraction:
    """The end of the last operator.

    Raises ``FailedCheckError`` if the schedule breaks a rule, or is not one of the problem.
    """
    placed = {int(identity): entry for identity, entry in plan["operators"].items()}
    sent = {int(identity): entry for identity, entry in plan.get("flows", {}).items()}
    if placed.keys() != {op["id"] for op in problem["operators"]}:
        raise FailedCheckError("the plan's operators are not those of the problem")
    devices = range(len(problem["devices"]))
    if any(type(entry["device"]) is not int or entry["device"] not in devices for entry in placed.values()):
        raise FailedCheckError("an operator is on a device that there is not")
    for op in problem["operators"]:
        entry = placed[op["id"]]
        time = op["times"][entry["device"]]
        if time is None:
            raise FailedCheckError(f"operator {op['id']} cannot run on device {entry['device']}")
        _check_length(f"operator {op['id']}", entry, exact(time))
    check_together(problem, {identity: entry["device"] for identity, entry in placed.items()})
    pairs = [(flow["source"], flow["target"]) for flow in problem.get("flows", ())]
    for source, target in [*pairs, *map(tuple, problem.get("precedence", ()))]:
        if not at_most(exact(placed[source]["end"]), exact(placed[target]["start"])):
            raise FailedCheckError(f"operator {target} starts before operator {source} ends")
    _check_flows(problem, placed, sent)
    for d in devices:
        limit = problem["devices"][d].get("memory")
        held = total(op.get("memory", 0.0) for op in problem["operators"] if placed[op["id"]]["device"] == d)
        if limit is not None and not at_most(held, exact(limit)):
            raise FailedCheckError(f"device {d} holds {float(held)!r}, more than its {limit!r}")
        if problem.get("serial_operators", True):
            _check_apart(f"run on device {d}", (e for e in placed.values() if e["device"] == d))
        if problem.get("sender_congestion", True):
            _check_apart(f"leave device {d}", (e for e in sent.values() if e["from"] == d))
        if problem.get("receiver_congestion", True):
            _check_apart(f"enter device {d}", (e for e in sent.values() if e["to"] == d))
    return max(exact(entry["end"]) for entry in placed.values())


def _check_length(what: str, entry: Mapping[str, Any], time: Fraction) -> None:
    start, end = exact(entry["start"]), exact(entry["end"])
    if abs(end - start - time) > TOLERANCE * max(end, time):
        raise FailedCheckError(f"{what} lasts {float(end - start)!r}; it takes {float(time)!r}")


def _check_flows(problem: Problem, placed: Mapping[int, Any], sent: Mapping[int, Any]) -> None:
    """Flows between devices: there, of the right length, after the producer and before the reader; no others."""
    between = set()
    for flow in problem.get("flows", ()):
        source, target = placed[flow["source"]], placed[flow["target"]]
        if source["device"] == target["device"]:
            continue
        between.add(flow["id"])
        entry = sent.get(flow["id"])
        if entry is None:
            raise FailedCheckError(f"flow {flow['id']} is between two devices, and is not moved")
        if (entry["from"], entry["to"]) != (source["device"], target["device"]):
            raise FailedCheckError(f"flow {flow['id']} is moved between other devices than those of its operators")
        _check_length(f"flow {flow['id']}", entry, exact(flow["times"][entry["from"]][entry["to"]]))
        if not at_most(exact(source["end"]), exact(entry["start"])):
            raise FailedCheckError(f"flow {flow['id']} starts before its producer ends")
        if not at_most(exact(entry["end"]), exact(target["start"])):
            raise FailedCheckError(f"operator {flow['target']} starts before flow {flow['id']} arrives")
    if sent.keys() != between:
        raise FailedCheckError("a flow is moved that is not between two devices")


def _check_apart(what: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Refuse spans of which one starts within another; what takes no time may stand at an end."""
    spans = sorted((exact(entry["start"]), exact(entry["end"])) for entry in entries)
    busy = Fraction(0)
    for start, end in spans:
        if not at_most(busy, start):
            raise FailedCheckError(f"two {what} at the same time")
        busy = max(busy, end)
