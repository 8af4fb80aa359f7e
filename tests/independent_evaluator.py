"""A second evaluator of throughput plans, written from the definitions alone.

It shares no code with ``partita.throughput.evaluate``: it reads the problem and the plan as plain data, works on sets
of operator ids, and recomputes everything for each stage on its own. It is slow and simple on purpose.

The definitions, for a stage that holds the operators S on a device of kind d:

- load: Σ time on d over S (the forward ones twice when a training problem recomputes), plus for every distinct tensor
  with one of {its producer, its consumers} in S and another one outside: latency(d) + size · time per unit(d).
- memory: Σ own memory over S, plus weight, gradient and optimizer bytes of every parameter with a user in S, plus the
  largest workspace in S, plus what is kept for the backward part. Without recomputation that is every saved tensor with
  a user in S, once per microbatch in flight. With it, the saved tensors count once, and per microbatch in flight every
  tensor that a forward operator outside S makes and a forward operator in S reads.
- microbatches in flight: 1 for inference; all of the batch for gpipe; for 1f1b the number of stages from this one to
  the last, at most the batch.
- acyclic: the stages can be ordered so that every tensor between forward operators goes forward. Colocation classes
  without forward operators count through their backward operators, whose tensors count in the opposite direction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from partita.throughput.plan import Plan
from partita.throughput.problem import ThroughputProblem

__all__ = ["Answer", "StageAnswer", "evaluate", "load_of", "memory_of", "order_pairs"]


@dataclass(frozen=True)
class StageAnswer:
    """Load, memory and microbatches in flight of one stage."""

    load: float
    memory: float
    in_flight: int


@dataclass(frozen=True)
class Answer:
    """What a plan is worth."""

    objective: float
    feasible: bool
    acyclic: bool
    stages: tuple[StageAnswer, ...]


def _recomputes(problem: ThroughputProblem) -> bool:
    return problem.schedule.recompute and any(op.backward for op in problem.operators)


def load_of(problem: ThroughputProblem, kind: int, ids: Collection[int]) -> float | None:
    """Load of a device of kind number ``kind`` that holds the operators ``ids``; None if it cannot run one of them."""
    inside = set(ids)
    total = 0.0
    for op in problem.operators:
        if op.id in inside:
            time = op.times[kind]
            if time is None:
                return None
            total += 2 * time if _recomputes(problem) and not op.backward else time
    return total + _transfers(problem, kind, inside)


def _transfers(problem: ThroughputProblem, kind: int, inside: set[int]) -> float:
    device = problem.kinds[kind]
    total = 0.0
    for tensor in problem.tensors:
        touched = {tensor.producer} | set(tensor.consumers)
        if touched & inside and touched - inside:
            total += device.transfer_latency + device.transfer_time_per_unit * tensor.size
    return total


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


def in_flight_of(problem: ThroughputProblem, stages_to_end: int) -> int:
    """Microbatches that a stage holds when that many stages remain, itself included."""
    name, batch = problem.schedule.name, problem.schedule.microbatches
    return {"inference": 1, "gpipe": batch, "1f1b": min(batch, stages_to_end)}[name]


def pipeline_positions(count: int, arrows: Collection[tuple[int, int]]) -> list[int] | None:
    """Position of each stage: as listed if that is consistent, else the first ready one next; None for a cycle."""
    if all(a < b for a, b in arrows):
        return list(range(count))
    positions = [-1] * count
    for position in range(count):
        waiting = {b for a, b in arrows if positions[a] < 0}
        ready = [stage for stage in range(count) if positions[stage] < 0 and stage not in waiting]
        if not ready:
            return None
        positions[ready[0]] = position
    return positions


def evaluate(problem: ThroughputProblem, plan: Plan) -> Answer:
    """Objective, feasibility, order and per-stage values of a plan that places every operator exactly once."""
    kind_numbers = {kind.name: number for number, kind in enumerate(problem.kinds)}
    sets: Sequence[set[int]] = [set(stage.operators) for stage in plan.stages]
    home = {identity: number for number, members in enumerate(sets) for identity in members}
    arrows = {(home[a], home[b]) for a, b in order_pairs(problem) if home[a] != home[b]}
    positions = pipeline_positions(len(sets), arrows)
    acyclic = positions is not None
    feasible = acyclic or plan.contiguity == "free"

    homes_of_class: dict[int, set[int]] = {}
    for op in problem.operators:
        if op.colocation is not None:
            homes_of_class.setdefault(op.colocation, set()).add(home[op.id])
    feasible = feasible and all(len(homes) == 1 for homes in homes_of_class.values())

    answers = []
    for number, members in enumerate(sets):
        kind = kind_numbers[plan.stages[number].kind]
        position = number if positions is None else positions[number]
        load = load_of(problem, kind, members)
        if load is None:
            feasible = False
            load = _transfers(problem, kind, members)
            for op in problem.operators:
                time = op.times[kind]
                if op.id in members and time is not None:
                    load += 2 * time if _recomputes(problem) and not op.backward else time
        in_flight = in_flight_of(problem, len(sets) - position)
        memory = memory_of(problem, members, in_flight)
        limit = problem.kinds[kind].memory_bytes
        # All test data are small multiples of a half, so a tolerance only forgives what arithmetic cannot cause.
        feasible = feasible and (limit is None or memory <= limit + 1e-9 * max(1.0, limit))
        answers.append(StageAnswer(load=load, memory=memory, in_flight=in_flight))
    return Answer(
        objective=max(answer.load for answer in answers), feasible=feasible, acyclic=acyclic, stages=tuple(answers)
    )
