"""The objective and the feasibility of a throughput plan: the only place where they are defined.

Source: Tarnawski et al., NeurIPS 2020, §3 and Appendix C (load), Narayanan et al., SOSP 2019 (in-flight microbatches).
"""

from __future__ import annotations

import msgspec
import numpy as np
import rustworkx

from partita.errors import InputError
from partita.throughput.contiguity import Ints, colocation_classes, order_pairs
from partita.throughput.plan import Plan
from partita.throughput.problem import DeviceKind, ThroughputProblem
from partita.units import format_bytes, leq

__all__ = ["Evaluation", "Memory", "StageEvaluation", "evaluate"]


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one stage in bytes, by what it is for.

    ``operators`` is what instance files attach to operators; ``activations`` is for all microbatches in flight.
    """

    operators: float = 0.0
    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    workspace: float = 0.0
    limit: float | None = None

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.operators + self.weights + self.gradients + self.optimizer + self.activations + self.workspace


class StageEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One stage, in the problem's time unit and bytes.

    Attributes
    ----------
    device, kind
        As in the plan.
    compute_forward, compute_backward
        Work per sample; recomputation is part of the backward work.
    communication_in, communication_out
        Transfer time of distinct tensors that enter and leave.
    memory
        What it must hold.
    in_flight
        Microbatches whose activations it holds at once.
    """

    device: str
    kind: str
    compute_forward: float
    compute_backward: float
    communication_in: float
    communication_out: float
    memory: Memory
    in_flight: int = 1

    @property
    def compute(self) -> float:
        """Forward and backward work."""
        return self.compute_forward + self.compute_backward

    @property
    def communication(self) -> float:
        """Transfer time in both directions."""
        return self.communication_in + self.communication_out

    @property
    def load(self) -> float:
        """Time per sample that the device is busy."""
        return self.compute + self.communication


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is worth.

    Attributes
    ----------
    objective
        The largest load.
    feasible
        Whether every device can run its operators and hold them, and the plan keeps what it claims.
    violations
        One sentence for each thing that is wrong.
    acyclic
        Whether the stages can be ordered so that every forward tensor goes forward.
    stages
        In the plan's order.
    """

    objective: float
    feasible: bool
    violations: tuple[str, ...]
    acyclic: bool
    stages: tuple[StageEvaluation, ...]

    @property
    def bottleneck(self) -> int:
        """Index of the first stage with the largest load."""
        return max(range(len(self.stages)), key=lambda i: (self.stages[i].load, -i))


def evaluate(problem: ThroughputProblem, plan: Plan) -> Evaluation:
    """Objective and feasibility of a plan, from the problem alone.

    Raises
    ------
    InputError
        If the plan is not a plan of this problem: an operator is missing, unknown or placed twice, a device or kind is
        unknown, or there are more stages of a kind than devices.
    """
    stage_of = _assignment(problem, plan)
    kinds = {kind.name: place for place, kind in enumerate(problem.kinds)}
    kind_of = [kinds[stage.kind] for stage in plan.stages]
    violations: list[str] = []

    classes = colocation_classes(problem)
    violations += _colocation_violations(problem, classes, stage_of)
    position, acyclic = _positions(problem, classes, stage_of, len(plan.stages))
    if plan.contiguity == "acyclic" and not acyclic:
        violations.append("the stages depend on each other in a cycle, so the split is not contiguous")

    forward = [0.0] * len(plan.stages)
    backward = [0.0] * len(plan.stages)
    for place, op in enumerate(problem.operators):
        stage = int(stage_of[place])
        time = op.times[kind_of[stage]]
        if time is None:
            violations.append(
                f"operator {op.id}{f' ({op.name})' if op.name else ''} cannot run on {plan.stages[stage].kind}, "
                f"where stage {stage} puts it"
            )
            continue
        if op.backward:
            backward[stage] += time
        else:
            forward[stage] += time
            if problem.schedule.recompute and problem.training:
                backward[stage] += time

    incoming, outgoing, entering = _communication(problem, stage_of, kind_of, len(plan.stages))
    in_flight = [problem.schedule.in_flight(len(plan.stages) - position[i]) for i in range(len(plan.stages))]
    memories = _memories(problem, stage_of, kind_of, in_flight, entering)
    stages = tuple(
        StageEvaluation(
            device=stage.device,
            kind=stage.kind,
            compute_forward=forward[i],
            compute_backward=backward[i],
            communication_in=incoming[i],
            communication_out=outgoing[i],
            memory=memories[i],
            in_flight=in_flight[i],
        )
        for i, stage in enumerate(plan.stages)
    )
    for i, result in enumerate(stages):
        limit = result.memory.limit
        if limit is not None and not leq(result.memory.total, limit):
            missing = format_bytes(result.memory.total - limit)
            violations.append(
                f"stage {i} on {result.device} needs {format_bytes(result.memory.total)}, "
                f"{missing} more than its {format_bytes(limit)}"
            )
    return Evaluation(
        objective=max(stage.load for stage in stages),
        feasible=not violations,
        violations=tuple(violations),
        acyclic=acyclic,
        stages=stages,
    )


def _assignment(problem: ThroughputProblem, plan: Plan) -> Ints:
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    known = dict(problem.device_names())
    stage_of = np.full(len(problem.operators), -1, dtype=np.int64)
    used: set[str] = set()
    if not plan.stages:
        raise InputError("the plan has no stages")
    for number, stage in enumerate(plan.stages):
        if stage.device not in known:
            raise InputError(f"plan stage {number}: there is no device {stage.device!r} in problem {problem.name!r}")
        if problem.kinds[known[stage.device]].name != stage.kind:
            raise InputError(f"plan stage {number}: device {stage.device!r} is not of kind {stage.kind!r}")
        if stage.device in used:
            raise InputError(f"plan stage {number}: device {stage.device!r} is used twice")
        used.add(stage.device)
        for identity in stage.operators:
            place = place_of.get(identity)
            if place is None:
                raise InputError(f"plan stage {number}: there is no operator with id {identity}")
            if stage_of[place] >= 0:
                raise InputError(f"operator {identity} is placed twice, in stages {stage_of[place]} and {number}")
            stage_of[place] = number
    missing = np.flatnonzero(stage_of < 0)
    if missing.size:
        raise InputError(f"operator {problem.operators[missing[0]].id} is in no stage ({missing.size} are missing)")
    return stage_of


def _colocation_violations(problem: ThroughputProblem, classes: Ints, stage_of: Ints) -> list[str]:
    first: dict[int, int] = {}
    found = []
    for place, group in enumerate(classes):
        other = first.setdefault(int(group), place)
        if stage_of[other] != stage_of[place]:
            found.append(
                f"operators {problem.operators[other].id} and {problem.operators[place].id} must share a device, "
                f"but are in stages {stage_of[other]} and {stage_of[place]}"
            )
    return found


def _positions(problem: ThroughputProblem, classes: Ints, stage_of: Ints, count: int) -> tuple[list[int], bool]:
    """Each stage's place in the pipeline, and whether the split is acyclic.

    The plan's own order is kept where it is consistent; otherwise an order of the quotient graph is used, and the
    plan's order again where there is none. Stages without operators come first, where no other stage counts them.
    """
    empty = np.bincount(stage_of, minlength=count) == 0
    listed = [0] * count
    for place, stage in enumerate(sorted(range(count), key=lambda s: (not empty[s], s))):
        listed[stage] = place
    # By operators, not by classes: a plan that breaks a class up has its operators where it says.
    pairs = {(int(a), int(b)) for a, b in stage_of[order_pairs(problem, classes)] if a != b}
    if all(a < b for a, b in pairs):
        return listed, True
    graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph()
    graph.add_nodes_from(list(range(count)))
    graph.add_edges_from_no_data(sorted(pairs))
    if not rustworkx.is_directed_acyclic_graph(graph):
        return listed, False
    position = [0] * count
    for place, stage in enumerate(rustworkx.lexicographical_topological_sort(graph, key=lambda s: f"{listed[s]:09d}")):
        position[stage] = place
    return position, True


def _communication(
    problem: ThroughputProblem, stage_of: Ints, kind_of: list[int], count: int
) -> tuple[list[float], list[float], list[float]]:
    """Transfer time in, transfer time out, and the size of forward tensors that enter, for each stage."""
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    incoming, outgoing, entering = [0.0] * count, [0.0] * count, [0.0] * count

    def time(kind: DeviceKind, size: float) -> float:
        return kind.transfer_latency + size * kind.transfer_time_per_unit

    for tensor in problem.tensors:
        source = place_of[tensor.producer]
        home = int(stage_of[source])
        forward: dict[int, bool] = {}
        for consumer in tensor.consumers:
            place = place_of[consumer]
            stage = int(stage_of[place])
            if stage != home:
                forward[stage] = forward.get(stage, False) or not problem.operators[place].backward
        if forward:
            outgoing[home] += time(problem.kinds[kind_of[home]], tensor.size)
        for stage, read_forward in forward.items():
            incoming[stage] += time(problem.kinds[kind_of[stage]], tensor.size)
            if read_forward and not problem.operators[source].backward:
                entering[stage] += tensor.size
    return incoming, outgoing, entering


def _memories(
    problem: ThroughputProblem, stage_of: Ints, kind_of: list[int], in_flight: list[int], entering: list[float]
) -> list[Memory]:
    count = len(kind_of)
    place_of = {op.id: place for place, op in enumerate(problem.operators)}
    operators, workspace = [0.0] * count, [0.0] * count
    weights, gradients, optimizer, saved = [0.0] * count, [0.0] * count, [0.0] * count, [0.0] * count
    for place, op in enumerate(problem.operators):
        stage = int(stage_of[place])
        operators[stage] += op.memory_bytes
        workspace[stage] = max(workspace[stage], op.workspace_bytes)
    for parameter in problem.parameters:
        for stage in {int(stage_of[place_of[user]]) for user in parameter.users}:
            weights[stage] += parameter.weight_bytes
            gradients[stage] += parameter.gradient_bytes
            optimizer[stage] += parameter.optimizer_bytes
    for kept in problem.saved:
        for stage in {int(stage_of[place_of[user]]) for user in kept.users}:
            saved[stage] += kept.bytes
    recompute = problem.schedule.recompute and problem.training
    result = []
    for i in range(count):
        if recompute:
            # Only what enters is kept for every microbatch; one microbatch at a time has all its activations again.
            activations, scratch = in_flight[i] * entering[i], saved[i] + workspace[i]
        else:
            activations, scratch = in_flight[i] * saved[i], workspace[i]
        result.append(
            Memory(
                operators=operators[i],
                weights=weights[i],
                gradients=gradients[i],
                optimizer=optimizer[i],
                activations=activations,
                workspace=scratch,
                limit=problem.kinds[kind_of[i]].memory_bytes,
            )
        )
    return result
