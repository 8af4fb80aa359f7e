"""What a layer placement is worth: seconds per token of the flow that it states, if that keeps every rule."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from partita.checker.certificate import Problem
from partita.checker.numbers import FailedCheckError, at_most, close, exact

#: The ends of all flow.
SOURCE, SINK = "source", "sink"

Layers = Mapping[str, tuple[int, int]]


def not_covered(problem: Problem, plan: Mapping[str, Any]) -> str | None:
    """What is not known here: tokens served, which a simulated run says."""
    return "tokens served in a simulated run" if problem.get("worth", "flow") == "served" else None


def worth(problem: Problem, plan: Mapping[str, Any]) -> Fraction:
    """The objective of a plan: 1 over what reaches the sink."""
    held = _held(problem, plan)
    width = {(link["from"], link["to"]): exact(link["tokens_per_s"]) for link in problem["links"]}
    into: dict[str, Fraction] = dict.fromkeys((*held, SINK), Fraction(0))
    out: dict[str, Fraction] = dict.fromkeys((*held, SOURCE), Fraction(0))
    known = set()
    for flow in plan["flows"]:
        pair, rate = (flow["from"], flow["to"]), exact(flow["tokens_per_s"])
        if pair in known or pair not in width:
            raise FailedCheckError(f"the flow from {pair[0]} to {pair[1]} is there twice, or on no link")
        known.add(pair)
        if not _follows(problem, held, *pair):
            raise FailedCheckError(f"the flow from {pair[0]} to {pair[1]} joins layers that do not follow each other")
        if not at_most(rate, width[pair]):
            raise FailedCheckError(f"the link from {pair[0]} to {pair[1]} carries less than the flow")
        out[pair[0]] += rate
        into[pair[1]] += rate
    for machine in problem["machines"]:
        name = machine["name"]
        if name not in held:
            continue
        first, behind = held[name]
        # At the ends of the model it passes no more than their tables say, either.
        ends = (
            machine.get("first") if first == 0 else None,
            machine.get("last") if behind == problem["layers"] else None,
        )
        for table in (machine, *(end for end in ends if end is not None)):
            most = table["tokens_per_s"].get(str(behind - first))
            if most is None or not at_most(into[name], exact(most)):
                raise FailedCheckError(f"machine {name} does not pass as much with its layers")
        if not close(into[name], out[name]):
            raise FailedCheckError(f"machine {name} hands on more or less than it takes in")
    if not into[SINK]:
        raise FailedCheckError("nothing reaches the sink")
    return 1 / into[SINK]


def _held(problem: Problem, plan: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """The layers of machines that hold some."""
    names, held = {machine["name"] for machine in problem["machines"]}, {}
    for one in plan["machines"]:
        name, (first, behind) = one["name"], one["layers"]
        if name in held or name not in names:
            raise FailedCheckError(f"machine {name} is there twice, or none of the problem")
        if not 0 <= first <= behind <= problem["layers"]:
            raise FailedCheckError(f"machine {name} has layers that there are not")
        if first < behind:
            held[name] = (first, behind)
    return held


def _follows(problem: Problem, held: Layers, source: str, target: str) -> bool:
    if (source != SOURCE and source not in held) or (target != SINK and target not in held):
        return False
    end = 0 if source == SOURCE else held[source][1]
    if target == SINK:
        return bool(end == problem["layers"])
    first, behind = held[target]
    return first <= end < behind if problem.get("overlap", False) else first == end
