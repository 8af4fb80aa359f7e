"""A second evaluator of throughput plans, written from the definitions alone.

It shares no code with ``problems.throughput.evaluate``: it reads the problem and the plan as plain data, works on sets
of operator ids, and recomputes everything for each stage on its own. It is slow and simple on purpose.

The definitions, for a stage that holds the operators S on a device of kind d:

- work: Σ time on d over S, forward and backward apart; a training problem that recomputes counts its forward operators
  once more as backward work.
- in (out): Σ latency(d) + size · time per unit(d) over the tensors made outside S and read in S (made in S and read
  outside), forward and backward ones by who makes them. Each tensor counts once.
- time: work + in + out; max(work, in + out) with overlap; max(work, in, out) with duplex.
- reload, where streaming is allowed: what memory exceeds the limit · reload time per byte, added to the time.
- load of each of r replicas: time / r, and the synchronisation (r − 1)/r · weights · time per byte, added (sum) or the
  larger of the two (overlap, duplex). Weights: gradients of parameters used in S; operator memory if there are none.
- group load: the same in and out for the operators of a group of devices at the group's rates, without work.
- objective: the largest load of devices and groups. For training under gpipe the time of forward work and tensors, and
  that of backward work, tensors, reload and synchronisation have their own maximum, and the two maxima add.
- memory: Σ own memory over S, plus weight, gradient and optimizer bytes of every parameter with a user in S, plus the
  largest workspace in S, plus what is kept for the backward part. Without recomputation that is every saved tensor with
  a user in S, once per microbatch in flight. With it, the saved tensors count once, and per microbatch in flight every
  tensor that a forward operator outside S makes and a forward operator in S reads.
- microbatches in flight: 1 for inference; all of the batch for gpipe; for 1f1b the devices from this stage to the last
  over its replicas, rounded up, at most the batch.
- acyclic: the stages can be ordered so that every tensor between forward operators goes forward, stages of a group one
  after another. Colocation classes without forward operators count through their backward operators, whose tensors
  count in the opposite direction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from partita.nouns.pipeline import Plan
from partita.problems.throughput.problem import ThroughputProblem

__all__ = ["Answer", "StageAnswer", "evaluate", "group_loads", "loads_of", "memory_of", "objective_of", "order_pairs"]


@dataclass(frozen=True)
class StageAnswer:
    """Loads (one, or forward and backward), memory and microbatches in flight of one stage."""

    loads: tuple[float, ...]
    memory: float
    in_flight: int

    @property
    def load(self) -> float:
        return sum(self.loads)


@dataclass(frozen=True)
class Answer:
    """What a plan is worth."""

    objective: float
    feasible: bool
    acyclic: bool
    stages: tuple[StageAnswer, ...]


def _recomputes(problem: ThroughputProblem) -> bool:
    return problem.schedule.recompute and any(op.backward for op in problem.operators)


def _phases(problem: ThroughputProblem) -> list[set[bool]]:
    """What counts together: everything, or under GPipe the forward (False) and the backward (True) things."""
    split = problem.schedule.name == "gpipe" and any(op.backward for op in problem.operators)
    return [{False}, {True}] if split else [{False, True}]


def _time(problem: ThroughputProblem, work: float, entering: float, leaving: float) -> float:
    ways = {
        "sum": [work + entering + leaving],
        "overlap": [work, entering + leaving],
        "duplex": [work, entering, leaving],
    }
    return max(ways[problem.communication])


def _crossing(
    problem: ThroughputProblem, inside: set[int], phase: set[bool], latency: float, rate: float
) -> tuple[float, float]:
    """What enters and what leaves a set of operators."""
    backward = {op.id for op in problem.operators if op.backward}
    entering = leaving = 0.0
    for tensor in problem.tensors:
        if (tensor.producer in backward) not in phase:
            continue
        if tensor.producer in inside and set(tensor.consumers) - inside:
            leaving += latency + rate * tensor.size
        if tensor.producer not in inside and set(tensor.consumers) & inside:
            entering += latency + rate * tensor.size
    return entering, leaving


def _synchronised(problem: ThroughputProblem, inside: set[int]) -> float:
    if problem.parameters:
        return sum(p.gradient_bytes for p in problem.parameters if inside & set(p.users))
    return sum(op.memory_bytes for op in problem.operators if op.id in inside)


def loads_of(
    problem: ThroughputProblem,
    kind: int,
    ids: Collection[int],
    in_flight: int,
    replicas: int = 1,
    *,
    partly: bool = False,
) -> tuple[float, ...] | None:
    """Loads of devices of kind number ``kind`` that hold the operators ``ids``; None if they cannot run one of them.

    One load, or forward and backward load. With ``partly`` operators that cannot run take no time.
    """
    inside = set(ids)
    device = problem.kinds[kind]
    if not partly and any(op.times[kind] is None for op in problem.operators if op.id in inside):
        return None
    reload = 0.0
    if problem.streaming and device.memory_bytes is not None:
        too_much = memory_of(problem, inside, in_flight) - device.memory_bytes
        reload = max(0.0, too_much) * device.reload_time_per_byte
    sync = (replicas - 1) / replicas * _synchronised(problem, inside) * device.sync_time_per_byte
    if problem.weight_sync_per_batch:
        sync /= problem.schedule.microbatches
    result = []
    for phase in _phases(problem):
        work = 0.0
        for op in problem.operators:
            if op.id in inside:
                own = op.times[kind] or 0.0
                work += own if op.backward in phase else 0.0
                work += own if _recomputes(problem) and not op.backward and True in phase else 0.0
        entering, leaving = _crossing(problem, inside, phase, device.transfer_latency, device.transfer_time_per_unit)
        time = _time(problem, work, entering, leaving)
        last = True in phase
        each = (time + (reload if last else 0.0)) / replicas
        own_sync = sync if last else 0.0
        result.append(each + own_sync if problem.communication == "sum" else max(each, own_sync))
    return tuple(result)


def group_loads(problem: ThroughputProblem, group: int, ids: Collection[int]) -> tuple[float, ...]:
    """Loads of the link of a group whose devices hold the operators ``ids``."""
    link = problem.groups[group]
    return tuple(
        _time(problem, 0.0, *_crossing(problem, set(ids), phase, link.transfer_latency, link.transfer_time_per_unit))
        for phase in _phases(problem)
    )


def objective_of(loads: Collection[tuple[float, ...]]) -> float:
    """The largest load of each phase, added up."""
    return sum(max(column) for column in zip(*loads, strict=True))


def memory_of(problem: ThroughputProblem, ids: Collection[int], in_flight: int) -> float:
    """Memory of a device that holds the operators ``ids`` with that many microbatches in flight."""
    inside = set(ids)
    members = [op for op in problem.operators if op.id in inside]
    total = sum(op.memory_bytes for op in members) + max((op.workspace_bytes for op in members), default=0.0)
    for parameter in problem.parameters:
        if inside & set(parameter.users):
            total += parameter.weight_bytes + parameter.gradient_bytes + parameter.optimizer_bytes
    saved = sum(tensor.bytes for tensor in problem.saved if inside & set(tensor.users))
    if not _recomputes(problem):
        return total + in_flight * saved
    forward = {op.id for op in problem.operators if not op.backward}
    entering = sum(
        tensor.size
        for tensor in problem.tensors
        if tensor.producer in forward - inside and set(tensor.consumers) & forward & inside
    )
    return total + saved + in_flight * entering


def order_pairs(problem: ThroughputProblem) -> set[tuple[int, int]]:
    """Pairs of operator ids (a, b): the stage of a must not come after the stage of b."""
    forward = {op.id for op in problem.operators if not op.backward}
    with_forward = {op.colocation for op in problem.operators if op.id in forward and op.colocation is not None}
    orphans = {op.id for op in problem.operators if op.id not in forward and op.colocation not in with_forward}
    pairs: set[tuple[int, int]] = set()
    for tensor in problem.tensors:
        for consumer in tensor.consumers:
            if {tensor.producer, consumer} <= forward:
                pairs.add((tensor.producer, consumer))
            elif not {tensor.producer, consumer} & forward and {tensor.producer, consumer} & orphans:
                pairs.add((consumer, tensor.producer))
    return pairs


def in_flight_of(problem: ThroughputProblem, devices_to_end: int, replicas: int = 1) -> int:
    """Microbatches that a stage holds when that many devices remain, its own included."""
    name, batch = problem.schedule.name, problem.schedule.microbatches
    return {"inference": 1, "gpipe": batch, "1f1b": min(batch, math.ceil(devices_to_end / replicas))}[name]


def pipeline_positions(
    count: int, arrows: Collection[tuple[int, int]], groups: Sequence[int] | None = None
) -> list[int] | None:
    """Position of each stage: as listed if that is consistent, else the first ready one next; None for a cycle.

    With groups, the first group that is ready comes next as a whole.
    """
    groups = [0] * count if groups is None else groups
    runs = [group for place, group in enumerate(groups) if place == 0 or groups[place - 1] != group]
    if all(a < b for a, b in arrows) and len(runs) == len(set(runs)):
        return list(range(count))
    positions = [-1] * count
    position = 0
    left = sorted(set(groups), key=groups.index)
    while left:
        waiting = {groups[b] for a, b in arrows if groups[a] in left and groups[a] != groups[b]}
        group = next((g for g in left if g not in waiting), None)
        if group is None:
            return None
        left.remove(group)
        stages = [stage for stage in range(count) if groups[stage] == group]
        while stages:
            held = {b for a, b in arrows if positions[a] < 0}
            ready = next((stage for stage in stages if stage not in held), None)
            if ready is None:
                return None
            positions[ready] = position
            position += 1
            stages.remove(ready)
    return positions


def device_groups(problem: ThroughputProblem) -> dict[str, int]:
    """Group of every device: the first devices of each kind are in the first group, and so on."""
    result: dict[str, int] = {}
    for place, kind in enumerate(problem.kinds):
        numbers = [group for group, entry in enumerate(problem.groups) for _ in range(entry.counts[place])]
        for number in range(kind.count):
            result[f"{kind.name}:{number}"] = numbers[number] if numbers else 0
    return result


def evaluate(problem: ThroughputProblem, plan: Plan) -> Answer:
    """Objective, feasibility, order and per-stage values of a plan that places every operator exactly once."""
    kind_numbers = {kind.name: number for number, kind in enumerate(problem.kinds)}
    sets: Sequence[set[int]] = [set(stage.operators) for stage in plan.stages]
    devices = [list(stage.devices) for stage in plan.stages]
    group_of = device_groups(problem)
    groups = [group_of[names[0]] for names in devices]
    home = {identity: number for number, members in enumerate(sets) for identity in members}
    arrows = {(home[a], home[b]) for a, b in order_pairs(problem) if home[a] != home[b]}
    positions = pipeline_positions(len(sets), arrows, groups)
    acyclic = positions is not None
    feasible = acyclic or plan.contiguity == "free"
    feasible = feasible and all(len(names) <= problem.max_replicas for names in devices)
    feasible = feasible and all(len({group_of[name] for name in names}) == 1 for names in devices)

    homes_of_class: dict[int, set[int]] = {}
    for op in problem.operators:
        if op.colocation is not None:
            homes_of_class.setdefault(op.colocation, set()).add(home[op.id])
    feasible = feasible and all(len(homes) == 1 for homes in homes_of_class.values())

    answers = []
    for number, members in enumerate(sets):
        kind = kind_numbers[plan.stages[number].kind]
        place = list(range(len(sets))) if positions is None else positions
        to_end = sum(len(devices[other]) for other in range(len(sets)) if place[other] >= place[number])
        in_flight = in_flight_of(problem, to_end, len(devices[number]))
        loads = loads_of(problem, kind, members, in_flight, len(devices[number]))
        if loads is None:
            feasible = False
            loads = loads_of(problem, kind, members, in_flight, len(devices[number]), partly=True)
            assert loads is not None
        memory = memory_of(problem, members, in_flight)
        limit = None if problem.streaming else problem.kinds[kind].memory_bytes
        # All test data are small multiples of a half, so a tolerance only forgives what arithmetic cannot cause.
        feasible = feasible and (limit is None or memory <= limit + 1e-9 * max(1.0, limit))
        answers.append(StageAnswer(loads=loads, memory=memory, in_flight=in_flight))
    links = [
        group_loads(problem, number, {v for place, ids in enumerate(sets) if groups[place] == number for v in ids})
        for number in range(len(problem.groups))
    ]
    return Answer(
        objective=objective_of([*(answer.loads for answer in answers), *links]),
        feasible=feasible,
        acyclic=acyclic,
        stages=tuple(answers),
    )
