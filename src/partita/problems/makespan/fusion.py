"""Makespan problems whose operators are fused, and schedules of the operators behind a fused one.

Fusing says either what the runtime does, or only where to look. In the first case the fused problem is the problem, and
what is proven of it is proven. In the second every schedule of the fused problem is one of the original with the same
makespan (``lift``), but not the other way round: the members of a group run on one device, one after the other, and the
first waits for what any of them needs. So no bound on the fused problem is one on the original.

Source: Moirai (2023), §III-B; which operators are fused is in ``partita.fusion.coarsening``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from partita.fusion.coarsening import coarsen
from partita.fusion.fuse import common_module
from partita.fusion.rules import FusionRules, fusion_rules
from partita.ground.dags import joined
from partita.problems.makespan.instance import build_instance
from partita.problems.makespan.problem import MakespanFlow, MakespanOperator, MakespanPlan, MakespanProblem
from partita.problems.makespan.schedules import left_shifted


@dataclass(frozen=True)
class FusedProblem:
    """A problem with fused operators."""

    #: One operator for each group, with the id of the group's first operator; flows keep theirs.
    problem: MakespanProblem
    groups: dict[int, tuple[int, ...]]  #: By id of the fused operator the ids of its members, in their order.


def fuse_problem(problem: MakespanProblem, rules: FusionRules | str | Path | None = None) -> FusedProblem:
    """The problem in which operators are fused by their types.

    A fused operator takes the time and the memory of its members together, since nothing is known of what fusing saves,
    and runs where all of them can; a group that runs nowhere is left as it is. Groups join the colocation classes of
    their members.

    Parameters
    ----------
    problem
        Its operators say their ``type``; one that does not is fused with nothing.
    rules
        Rules, the name of a table, or a file; the common ones unless stated.

    Raises
    ------
    FormatError, InputError
        If the file of rules is invalid.
    """
    rules = fusion_rules(rules)
    operators = problem.operators
    types = [op.type for op in operators]
    found = coarsen(types, problem.links(), rules.patterns)
    fused = [group for group in found if any(_time(problem, group, d) is not None for d in range(len(problem.devices)))]
    first = {v: group[0] for group in fused for v in group}
    home = {op.id: operators[first.get(v, v)].id for v, op in enumerate(operators)}
    classes = _classes(problem, home)
    members = {group[0]: group for group in fused}
    made = []
    for v, op in enumerate(operators):
        if v in members:
            op = _fused(problem, members[v])
        if first.get(v, v) == v:
            made.append(msgspec.structs.replace(op, colocation=classes.get(op.id)))
    flows = tuple(
        MakespanFlow(id=flow.id, source=home[flow.source], target=home[flow.target], times=flow.times)
        for flow in problem.flows
        if home[flow.source] != home[flow.target]
    )
    pairs = dict.fromkeys((home[u], home[v]) for u, v in problem.precedence if home[u] != home[v])
    note = rules.note(([types[v] for v in group] for group in fused), len(operators), len(made), types)
    changed = problem.replace(operators=tuple(made), flows=flows, precedence=tuple(pairs), notes=(*problem.notes, note))
    groups = {operators[group[0]].id: tuple(operators[v].id for v in group) for group in fused}
    return FusedProblem(changed, {op.id: groups.get(op.id, (op.id,)) for op in made})


def lift(problem: MakespanProblem, groups: Mapping[int, Sequence[int]], plan: MakespanPlan) -> MakespanPlan:
    """A schedule of the original operators, with the devices and the order of a schedule of the fused ones.

    Members run one after the other in the time of their group, flows when the fused schedule moves them; then all is
    moved to the left, which also makes it a schedule where times inside a group are others. If the fused problem is
    ``fuse_problem``'s, it keeps all limits and ends no later than the fused schedule.

    ``groups`` has by id of every fused operator the ids of its members, in their order: those that the problem does not
    know count for nothing, and operators that are in no group run where the first one that they wait for does. The plan
    is on the same devices, and its flows have the numbers of the original ones; leave them out where they do not, and
    flows are moved as soon as they can be.
    """
    instance = build_instance(problem)
    place = {op.id: v for v, op in enumerate(problem.operators)}
    device, start = [-1] * instance.count, [0.0] * instance.count
    ends = [0.0] * instance.count
    for identity, placed in plan.operators.items():
        members = [place[member] for member in groups.get(identity, ()) if member in place]
        lengths = [float(instance.arrays.time[v, placed.device]) for v in members]
        total = sum(lengths)
        scale = (placed.end - placed.start) / total if 0 < total < math.inf else 0.0
        at = placed.start
        for v, length in zip(members, lengths, strict=True):
            device[v], start[v] = placed.device, at
            # Rounding must not put what takes no time behind what comes after the group.
            at = min(at + length * scale, placed.end) if scale else at
            ends[v] = at
    for v in instance.order:
        if device[v] < 0:
            before = [u for u, _ in instance.before[v]]
            device[v] = device[before[0]] if before else 0
            start[v] = ends[v] = max((ends[u] for u in before), default=0.0)
    flow_start = [
        plan.flows[flow.id].start if flow.id in plan.flows else ends[place[flow.source]] for flow in problem.flows
    ]
    return left_shifted(instance, device, start, flow_start)


def _time(problem: MakespanProblem, group: Sequence[int], device: int) -> float | None:
    """What the members of a group take together on a device; None if one of them cannot run there."""
    total = 0.0
    for v in group:
        time = problem.operators[v].times[device]
        if time is None:
            return None
        total += time
    return total


def _fused(problem: MakespanProblem, group: Sequence[int]) -> MakespanOperator:
    members = [problem.operators[v] for v in group]
    return MakespanOperator(
        id=members[0].id,
        times=tuple(_time(problem, group, d) for d in range(len(problem.devices))),
        name="+".join(op.name or str(op.id) for op in members),
        memory=sum(op.memory for op in members),
        module=common_module([op.module for op in members]),
        type="+".join(op.type for op in members),
        members=tuple(op.id for op in members),
    )


def _classes(problem: MakespanProblem, home: Mapping[int, int]) -> dict[int, int]:
    """By id of a fused operator its class: what groups and the classes of their members tie together."""
    place = {op.id: v for v, op in enumerate(problem.operators)}
    pairs = [(row[0], v) for row in problem.classes() for v in row[1:]]
    pairs += [(place[first], place[identity]) for identity, first in home.items()]
    heads: dict[int, set[int]] = {}
    for op, first in zip(problem.operators, joined(len(place), pairs), strict=True):
        heads.setdefault(first, set()).add(home[op.id])
    return {head: number for number, tied in enumerate(heads.values()) if len(tied) > 1 for head in tied}
