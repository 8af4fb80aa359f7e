"""The objective and the feasibility of a throughput plan: the only place where they are defined.

Sources: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), §3 and
Appendix C (load), Appendix H.1 (overlap), H.2 (replicas) and §5.3 (GPipe's objective); Narayanan et al., SOSP 2019
(in-flight microbatches); "Pipelined inference" (ICML 2024), eq. 2 and 3 (reloading); Tarnawski et al., "Piper" (NeurIPS
2021), Appendix E (groups). ``docs/variants.md`` gives the definitions in one place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np

from partita.engines.kernels.arrays import Longs
from partita.ground.dags import topological_order
from partita.ground.errors import InputError
from partita.ground.rounding import leq
from partita.ground.units import format_bytes
from partita.nouns.pipeline import Plan
from partita.problems.assignment import stage_of_each
from partita.problems.throughput.contiguity import colocation_classes, distinct_pairs, order_pairs
from partita.problems.throughput.devices import DeviceKind, LinkedGroup
from partita.problems.throughput.evaluation import (
    BusyTime,
    Evaluation,
    GroupEvaluation,
    StageEvaluation,
    StageMemory,
    TransferTimes,
)
from partita.problems.throughput.problem import ThroughputProblem, UnitChain
from partita.problems.throughput.working_memory import order_violation, peak_of_order


def evaluate(problem: ThroughputProblem, plan: Plan) -> Evaluation:
    """Objective and feasibility of a plan, from the problem alone.

    Raises
    ------
    InputError
        If the plan is not a plan of this problem: an operator is missing, unknown or placed twice, a device or kind is
        unknown, or there are more stages of a kind than devices.
    """
    stage_of = _assignment(problem, plan)
    names = [kind.name for kind in problem.kinds]
    kind_of = [names.index(stage.kind) for stage in plan.stages]
    replicas = [len(stage.devices) for stage in plan.stages]
    classes, groups, group_of = colocation_classes(problem), problem.stage_groups(plan), problem.group_of()
    violations = _colocation_violations(problem, classes, stage_of)
    for number, stage in enumerate(plan.stages):
        if replicas[number] > problem.max_replicas:
            violations.append(
                f"stage {number} has {replicas[number]} replicas, the problem allows {problem.max_replicas}"
            )
        if len({group_of[device] for device in stage.devices if device in group_of}) > 1:
            violations.append(f"the replicas of stage {number} are in different groups")
    position, acyclic = _positions(problem, classes, stage_of, groups)
    if problem.row is not None:
        violations += _chain_violations(problem, problem.row, plan, stage_of, position)
    if plan.contiguity == "acyclic" and not acyclic:
        violations.append("the stages depend on each other in a cycle, so the split is not contiguous")

    forward, backward = [0.0] * len(plan.stages), [0.0] * len(plan.stages)
    for place, op in enumerate(problem.operators):
        home = int(stage_of[place])
        time = op.times[kind_of[home]]
        if time is None:
            violations.append(f"{op.label} cannot run on {plan.stages[home].kind}, where stage {home} puts it")
            continue
        if not op.backward:
            forward[home] += time
        if op.backward or (problem.schedule.recompute and problem.training):
            backward[home] += time

    transfers, entering = _communication(problem, stage_of, [problem.kinds[kind] for kind in kind_of])
    in_flight = [
        problem.schedule.in_flight(
            sum(r for r, other in zip(replicas, position, strict=True) if other >= position[i]), replicas[i]
        )
        for i in range(len(plan.stages))
    ]
    memories = _memories(problem, plan, stage_of, in_flight, entering)
    if problem.working_memory == "peak":
        pairs = [order_violation(problem, stage.operators) for stage in plan.stages]
        violations += [
            f"stage {number} runs operator {pair[1]} before operator {pair[0]}, whose tensor it reads"
            for number, pair in enumerate(pairs)
            if pair is not None
        ]
    batch = problem.schedule.microbatches if problem.weight_sync_per_batch else 1
    stages = []
    for i, (entry, memory) in enumerate(zip(plan.stages, memories, strict=True)):
        kind, over = problem.kinds[kind_of[i]], 0.0
        if memory.limit is not None:
            over = max(0.0, memory.total - memory.limit)
            if not problem.streaming and not leq(memory.total, memory.limit):
                violations.append(
                    f"stage {i} on {entry.devices[0]} needs {format_bytes(memory.total)}, "
                    f"{format_bytes(over)} more than its {format_bytes(memory.limit)}"
                )
        reload = over * kind.reload_time_per_byte if problem.streaming else 0.0
        # (r − 1)/r · bytes · time per byte.
        weights = reduced_bytes(problem, memory)
        synchronisation = (replicas[i] - 1) * weights * kind.sync_time_per_byte / (replicas[i] * batch)
        load = _load(problem, forward[i], backward[i], transfers[i], reload, synchronisation, replicas[i])
        stages.append(
            StageEvaluation(
                device=entry.devices[0],
                kind=entry.kind,
                compute_forward=forward[i],
                compute_backward=backward[i],
                transfers=transfers[i],
                memory=memory,
                in_flight=in_flight[i],
                replicas=replicas[i],
                synchronisation=synchronisation,
                reload=reload,
                **msgspec.structs.asdict(load),
            )
        )
    part_of = np.array(groups, dtype=np.int64)[stage_of]
    crossing = _communication(problem, part_of, problem.groups)[0] if problem.groups else []
    links = [
        GroupEvaluation(name=group.name, transfers=entry, **msgspec.structs.asdict(_load(problem, 0.0, 0.0, entry)))
        for group, entry in zip(problem.groups, crossing, strict=True)
    ]
    loaded: list[BusyTime] = [*stages, *links]
    objective = max(entry.load for entry in loaded)
    if problem.gpipe:
        objective = max(entry.forward_load for entry in loaded) + max(entry.backward_load for entry in loaded)
    return Evaluation(
        objective=objective,
        violations=tuple(violations),
        acyclic=acyclic,
        stages=tuple(stages),
        groups=tuple(links),
    )


def reduced_bytes(problem: ThroughputProblem, memory: StageMemory) -> float:
    """What replicas of a stage synchronise: gradients, or what an instance file states as the operators' sizes."""
    return memory.gradients if problem.parameters else memory.operators


def _load(
    problem: ThroughputProblem,
    forward: float,
    backward: float,
    transfers: TransferTimes,
    reload: float = 0.0,
    synchronisation: float = 0.0,
    replicas: int = 1,
) -> BusyTime:
    """Load of each of the replicas of a stage, which take turns, or of a group's link.

    Reloading delays work, and cannot overlap with it; with GPipe's objective it belongs to the backward phase, where
    weights and activations are all needed. Synchronisation is of the backward phase: added where transfers add to work,
    otherwise at once.
    """

    def busy(work: float, incoming: float, outgoing: float, reload: float, synchronised: float) -> float:
        if problem.communication == "sum":
            return (work + (incoming + outgoing) + reload) / replicas + synchronised
        together = (incoming + outgoing,) if problem.communication == "overlap" else (incoming, outgoing)
        return max((max(work, *together) + reload) / replicas, synchronised)

    t = transfers
    parts = [busy(forward + backward, t.incoming, t.outgoing, reload, synchronisation)]
    if problem.gpipe:
        parts = [
            busy(forward, t.forward_in, t.forward_out, 0.0, 0.0),
            busy(backward, t.backward_in, t.backward_out, reload, synchronisation),
        ]
    return BusyTime(load=sum(parts), forward_load=parts[0], backward_load=parts[-1])


def _assignment(problem: ThroughputProblem, plan: Plan) -> Longs:
    known = dict(problem.device_names())
    used: set[str] = set()
    for number, stage in enumerate(plan.stages):
        if len(stage.devices) != stage.data_parallel:
            raise InputError(f"plan stage {number}: it names no devices, or not one for each replica; name them")
        for device in stage.devices:
            if device not in known:
                raise InputError(f"plan stage {number}: there is no device {device!r} in problem {problem.name!r}")
            if problem.kinds[known[device]].name != stage.kind:
                raise InputError(f"plan stage {number}: device {device!r} is not of kind {stage.kind!r}")
            if device in used:
                raise InputError(f"plan stage {number}: device {device!r} is used twice")
            used.add(device)
    ids = [op.id for op in problem.operators]
    stage_of = stage_of_each([stage.operators for stage in plan.stages], ids, "operator")
    return np.array([stage_of[identity] for identity in ids], dtype=np.int64)


def _colocation_violations(problem: ThroughputProblem, classes: Longs, stage_of: Longs) -> list[str]:
    _, first = np.unique(classes, return_index=True)
    return [
        f"operators {problem.operators[other].id} and {problem.operators[place].id} must share a device, "
        f"but are in stages {stage_of[other]} and {stage_of[place]}"
        for place, other in enumerate(first[classes].tolist())
        if stage_of[other] != stage_of[place]
    ]


def _chain_violations(
    problem: ThroughputProblem, chain: UnitChain, plan: Plan, stage_of: Longs, position: Sequence[int]
) -> list[str]:
    """What of a plan is no split of the chain."""
    hosts = {kind.name for kind in problem.kinds if not kind.accelerator}
    home = {op.id: int(stage) for op, stage in zip(problem.operators, stage_of, strict=True)}
    found = []
    homes: list[int] = []
    for number, unit in enumerate(chain.units):
        stages = {home[identity] for identity in unit}
        if len(stages) > 1:
            shown = ", ".join(map(str, sorted(stages)))
            found.append(f"unit {number} of the chain is on stages {shown}; units are whole")
        homes.append(position[min(stages)])
    # Places of those stages that hold anything, without gaps.
    ranks = np.unique(homes, return_inverse=True)[1]
    for number in range(1, len(homes)):
        if ranks[number] not in (ranks[number - 1], ranks[number - 1] + 1):
            found.append(f"unit {number} of the chain is not on the stage of the unit before it, nor on the next one")
    found += [
        f"what unit {first} of the chain hands to unit {last} passes over a stage"
        for first, last in chain.handed
        if ranks[last] > ranks[first] + 1
    ]
    first = position[home[chain.units[0][0]]]
    for stage, at in zip(plan.stages, position, strict=True):
        if chain.hosts_first and stage.kind in hosts and stage.operators and at != first:
            found.append(f"{stage.devices[0]} is no accelerator, and runs more than the begin of the chain")
    counts = {len(stage.devices) for stage in plan.stages}
    if len(counts) > 1:
        shown = ", ".join(map(str, sorted(counts)))
        found.append(f"the stages have {shown} replicas; those of a chain have equally many")
    return found


def _positions(
    problem: ThroughputProblem, classes: Longs, stage_of: Longs, groups: list[int]
) -> tuple[list[int], bool]:
    """Each stage's place in the pipeline, and whether the split is acyclic.

    The plan's own order is kept where it is consistent; otherwise an order of the quotient graph is used, and the
    plan's order again where there is none. Stages without operators come first, where no other stage counts them. The
    stages of a group follow each other.
    """
    count = len(groups)
    empty = np.bincount(stage_of, minlength=count) == 0
    listed = [0] * count
    for place, stage in enumerate(sorted(range(count), key=lambda s: (not empty[s], s))):
        listed[stage] = place
    # By operators, not by classes: a plan that breaks a class up has its operators where it says.
    between = stage_of[order_pairs(problem, classes)]
    pairs = {(int(a), int(b)) for a, b in distinct_pairs(between[between[:, 0] != between[:, 1]])}
    row = [groups[stage] for stage in range(count) if not empty[stage]]
    together = sum(a != b for a, b in itertools.pairwise(row)) == len(set(row)) - 1
    if together and all(a < b for a, b in pairs):
        return listed, True
    ranks = preferred_order(list(dict.fromkeys(row)), {(groups[a], groups[b]) for a, b in pairs})
    if ranks is None:
        return listed, False
    stages = sorted(range(count), key=lambda s: (-1 if empty[s] else ranks.index(groups[s]), listed[s]))
    order = preferred_order(stages, pairs)
    if order is None:
        return listed, False
    return [order.index(stage) for stage in range(count)], True


def preferred_order(preferred: Sequence[int], pairs: set[tuple[int, int]]) -> list[int] | None:
    """A topological order in which the most preferred of what is possible is next; None for a cycle."""
    place = {node: number for number, node in enumerate(preferred)}
    order = topological_order(len(preferred), sorted((place[a], place[b]) for a, b in pairs if a != b))
    return [preferred[k] for k in order] if len(order) == len(preferred) else None


def _communication(
    problem: ThroughputProblem, part_of: Longs, links: Sequence[DeviceKind | LinkedGroup]
) -> tuple[list[TransferTimes], list[float]]:
    """Transfer times of each part (stage or group), and the size of forward tensors that enter it.

    ``part_of`` gives each operator's part, ``links`` what each part pays for a tensor.
    """
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    times = [[0.0, 0.0, 0.0, 0.0] for _ in links]
    entering = [0.0] * len(links)

    for tensor in problem.tensors:
        source = place_of[tensor.producer]
        home, backward = int(part_of[source]), problem.operators[source].backward
        forward: dict[int, bool] = {}
        for consumer in tensor.consumers:
            place = place_of[consumer]
            part = int(part_of[place])
            if part != home:
                forward[part] = forward.get(part, False) or not problem.operators[place].backward
        if forward:
            times[home][2 * backward + 1] += links[home].transfer_time(tensor.size)
        for part, read_forward in forward.items():
            times[part][2 * backward] += links[part].transfer_time(tensor.size)
            if read_forward and not backward:
                entering[part] += tensor.size
    transfers = [TransferTimes(forward_in=a, forward_out=b, backward_in=c, backward_out=d) for a, b, c, d in times]
    return transfers, entering


def _memories(
    problem: ThroughputProblem, plan: Plan, stage_of: Longs, in_flight: list[int], entering: list[float]
) -> list[StageMemory]:
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    held = [StageMemory().parts for _ in plan.stages]

    def holders(users: Sequence[int]) -> list[dict[str, float]]:
        return [held[stage] for stage in {int(stage_of[place_of[user]]) for user in users}]

    for place, op in enumerate(problem.operators):
        parts = held[stage_of[place]]
        parts["operators"] += op.memory_bytes
        parts["workspace"] = max(parts["workspace"], op.workspace_bytes)
    for parameter in problem.parameters:
        for parts in holders(parameter.users):
            parts["cache" if parameter.cache else "weights"] += parameter.weight_bytes
            parts["gradients"] += parameter.gradient_bytes
            parts["optimizer"] += parameter.optimizer_bytes
    for kept in problem.saved:
        for parts in holders(kept.users):
            parts["activations"] += kept.bytes
    for i, parts in enumerate(held):
        saved = parts["activations"]
        if problem.schedule.recompute and problem.training:
            # Only what enters is kept for every microbatch; one microbatch at a time has all its activations again.
            parts["activations"], parts["workspace"] = in_flight[i] * entering[i], saved + parts["workspace"]
        else:
            parts["activations"] = in_flight[i] * saved
        if problem.working_memory == "peak":
            parts["workspace"] = peak_of_order(problem, plan.stages[i].operators)
    limits = [problem.kind_named(stage.kind).memory_bytes for stage in plan.stages]
    return [StageMemory(limit=limit, **parts) for limit, parts in zip(limits, held, strict=True)]
