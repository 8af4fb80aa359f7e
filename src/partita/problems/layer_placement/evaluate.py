"""The objective and the feasibility of a layer placement: the only place where they are defined.

The worth of intervals is a largest flow, computed anew without rounding (``network``), or what a simulated run serves
in which requests are shared out like this flow (``served``); the objective is its inverse, seconds per token. The
flows of a plan must keep every width, end where they begin but for source and sink, and carry the largest flow.
Source: Helix, §4.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from partita.engines.search.result import PlanEvaluation
from partita.ground.errors import InputError
from partita.ground.rounding import TOLERANCE, clearly_below, leq
from partita.problems.layer_placement.network import Intervals, LargestFlow, largest_flow, may_pass, rates
from partita.problems.layer_placement.problem import (
    SINK,
    SOURCE,
    HeldLayers,
    LayerPlacement,
    LayerPlacementProblem,
    LinkFlow,
)
from partita.problems.layer_placement.served import ServedRun, served


class MachineFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that holds layers: what flows through it, and what it would pass, in tokens per second."""

    name: str
    layers: tuple[int, int]
    tokens_per_s: float
    most_tokens_per_s: float
    limits: bool  #: Whether it is in the least cut: with more of it more might flow.


class LayerPlacementEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a placement is worth: the inverse of its tokens per second; infinite where nothing flows."""

    tokens_per_s: float  #: What counts: the largest flow, or what is served in the run.
    flow_tokens_per_s: float  #: The largest flow.
    machines: tuple[MachineFlow, ...]  #: As in the plan.
    limiting_links: tuple[tuple[str, str], ...]  #: Those in the least cut.
    run: ServedRun | None = None  #: Where tokens served count.


def intervals(problem: LayerPlacementProblem, plan: LayerPlacement) -> dict[str, tuple[int, int]]:
    """The layers of every machine that holds some.

    Raises ``InputError`` if it is no plan of this problem: a machine is unknown or there twice, or there is no such
    layer.
    """
    known = {machine.name for machine in problem.machines}
    held: dict[str, tuple[int, int]] = {}
    for one in plan.machines:
        if one.name not in known or one.name in held:
            why = "is there twice" if one.name in held else "is none of the problem"
            raise InputError(f"the plan's machine {one.name!r} {why}")
        first, behind = one.layers
        if not 0 <= first <= behind <= problem.layers:
            raise InputError(
                f"the plan has layers {first} to {behind} on machine {one.name!r}; they are numbered 0 to "
                f"{problem.layers}, the last one being behind the last layer"
            )
        if first < behind:
            held[one.name] = (first, behind)
    return held


def evaluate(problem: LayerPlacementProblem, plan: LayerPlacement) -> LayerPlacementEvaluation:
    """Objective and feasibility of a placement, from the problem alone.

    Raises ``InputError`` if it is not a placement of this problem.
    """
    held = intervals(problem, plan)
    found = largest_flow(problem, held)
    passes = rates(problem, held)
    run = served(problem, held, found) if problem.worth == "served" else None
    worth = float(found.worth) if problem.worth == "flow" else 0.0 if run is None else run.tokens_per_s
    return LayerPlacementEvaluation(
        objective=1.0 / worth if worth > 0 else math.inf,
        violations=tuple(_violations(problem, plan, held, found)),
        tokens_per_s=worth,
        flow_tokens_per_s=float(found.worth),
        machines=tuple(
            MachineFlow(
                name=name,
                layers=layers,
                tokens_per_s=float(found.machines[name]),
                most_tokens_per_s=passes[name],
                limits=name in found.cut_machines,
            )
            for name, layers in held.items()
        ),
        limiting_links=found.cut_links,
        run=run,
    )


def complete(problem: LayerPlacementProblem, plan: LayerPlacement) -> LayerPlacement:
    """A plan without flows with a largest one; machines that hold nothing are left out."""
    if plan.flows:
        return plan
    return plan_of(problem, intervals(problem, plan))


def plan_of(problem: LayerPlacementProblem, held: Intervals) -> LayerPlacement:
    """The plan of intervals, with a largest flow."""
    found = largest_flow(problem, held)
    return LayerPlacement(
        machines=tuple(
            HeldLayers(name=machine.name, layers=held[machine.name])
            for machine in problem.machines
            if machine.name in held
        ),
        flows=tuple(
            LinkFlow(source=source, target=target, tokens_per_s=float(flow))
            for (source, target), flow in found.links.items()
        ),
    )


def _violations(
    problem: LayerPlacementProblem, plan: LayerPlacement, held: Intervals, found: LargestFlow
) -> Iterator[str]:
    machines = {machine.name: machine for machine in problem.machines}
    for name, (first, behind) in held.items():
        if machines[name].passes(first, behind, problem.layers) is None:
            tables = [end.tokens_per_s for end in machines[name].ends(first, behind, problem.layers)]
            known = set(machines[name].tokens_per_s).intersection(*tables)
            numbers = ", ".join(map(str, sorted(known))) or "none"
            yield f"machine {name!r} holds {behind - first} layers, and its table says nothing of it, but of {numbers}"
    if found.worth == 0:
        yield "no tokens flow: no machines in a row, joined by links, hold all layers"
    if plan.flows:
        yield from _wrong_flows(problem, plan, held, float(found.worth))


def _wrong_flows(problem: LayerPlacementProblem, plan: LayerPlacement, held: Intervals, worth: float) -> Iterator[str]:
    width = {(link.source, link.target): link.tokens_per_s for link in problem.links}
    passes = rates(problem, held)
    into, out = dict.fromkeys((*held, SINK), 0.0), dict.fromkeys((*held, SOURCE), 0.0)
    known: set[tuple[str, str]] = set()
    for flow in plan.flows:
        pair, what = (flow.source, flow.target), f"the flow from {flow.source!r} to {flow.target!r}"
        if pair not in width or pair in known:
            raise InputError(f"{what} is {'there twice' if pair in known else 'on no link of the problem'}")
        known.add(pair)
        if not may_pass(problem, held, *pair):
            yield f"{what} joins layers that do not follow each other"
        elif not (flow.tokens_per_s >= 0 and leq(flow.tokens_per_s, width[pair])):
            yield f"{what} is {flow.tokens_per_s:g} tokens/s, and the link carries {width[pair]:g}"
        else:
            out[flow.source] += flow.tokens_per_s
            into[flow.target] += flow.tokens_per_s
    for name in held:
        if abs(into[name] - out[name]) > TOLERANCE * max(worth, into[name]):
            yield f"machine {name!r} takes in {into[name]:g} tokens/s and hands on {out[name]:g}"
        if not leq(into[name], passes[name]):
            yield f"machine {name!r} passes {into[name]:g} tokens/s, and at most {passes[name]:g} with its layers"
    if into[SINK] < clearly_below(worth):
        yield f"the flows carry {into[SINK]:g} tokens/s of the {worth:g} that these layers allow"
