"""The objective and the feasibility of a latency plan: the only place where they are defined.

Source: NeurIPS 2020 (device placement), §4 and Appendix A, with accelerators that exchange tensors through host memory
and keep nothing between two invocations but weights.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

from partita.engines.search.result import PlanEvaluation
from partita.ground.dags import topological_order
from partita.ground.rounding import leq
from partita.ground.units import format_bytes
from partita.problems.latency.plan import LatencyPlan, complete, homes, readers_of
from partita.problems.latency.problem import LatencyProblem


@dataclass(frozen=True)
class PieceEvaluation:
    """What one piece S costs; it is invoked once, as a unit."""

    start: float  #: When all that it reads is in host memory, and the piece before it on the accelerator is done.
    transfer_in: float  #: Σ c_u over the distinct producers u outside S with an edge into S.
    compute: float  #: Σ accelerator time of S.
    transfer_out: float  #: Σ c_u over the distinct u in S with an edge that leaves S.

    @property
    def duration(self) -> float:
        """From its start until all its outputs are in host memory."""
        return self.transfer_in + self.compute + self.transfer_out

    @property
    def end(self) -> float:
        """When every operator of the piece is done."""
        return self.start + self.duration


@dataclass(frozen=True)
class AcceleratorEvaluation:
    """One accelerator: the memory of all its pieces together, and each piece."""

    memory_bytes: float
    pieces: tuple[PieceEvaluation, ...]


@dataclass(frozen=True)
class CriticalStep:
    """One step of the critical path: a piece (``operator`` is None), or an operator on the CPU (``device`` is None)."""

    start: float
    end: float
    device: int | None = None
    piece: int | None = None
    operator: int | None = None


class LatencyEvaluation(PlanEvaluation, frozen=True, kw_only=True):
    """What a plan is worth: when the last operator is done; infinite if the pieces wait for each other in a circle."""

    accelerators: tuple[AcceleratorEvaluation, ...]  #: One entry per accelerator of the plan.
    #: A longest path through the pieces and the operators on the CPU, first step first.
    critical_path: tuple[CriticalStep, ...] = ()


def evaluate(problem: LatencyProblem, plan: LatencyPlan) -> LatencyEvaluation:
    """Objective and feasibility of a plan, from the problem alone.

    An operator on the CPU ends its time after the last of its predecessors; CPUs pay no transfers. A piece starts when
    the last producer outside with an edge into it is done, and when the accelerator's piece before it is. The latency
    is the last end: the longest path of the quotient graph, which has a node for each piece and each operator on the
    CPU and must be acyclic. That makes every piece contiguous. A piece is of the forward or of the backward part.

    Raises ``InputError`` if the plan is not one of the problem: a piece is empty, or an operator is unknown or placed
    twice.
    """
    plan = complete(problem, plan)
    home = homes(problem, plan)
    operators = problem.operators
    after = readers_of(problem)[1]
    # Nodes of the quotient: the pieces in the plan's order, then the operators on the CPU in the problem's.
    keys = [(device, number) for device, row in enumerate(plan.accelerators) for number in range(len(row))]
    node_of_piece = {key: place for place, key in enumerate(keys)}
    on_cpu = [v for v, op in enumerate(operators) if op.id not in home]
    numbers = itertools.count(len(keys))
    node = [node_of_piece[home[op.id]] if op.id in home else next(numbers) for op in operators]
    violations = _limits(problem, plan, home)
    into, work, out = ([0.0] * len(keys) for _ in range(3))
    edges: set[tuple[int, int]] = set()
    for v, op in enumerate(operators):
        others = sorted({node[w] for w in after[v]} - {node[v]})
        edges.update((node[v], other) for other in others)
        for other in others:
            if other < len(keys):
                into[other] += op.transfer_time
        if node[v] < len(keys):
            work[node[v]] += op.accelerator_time or 0.0
            out[node[v]] += op.transfer_time if others else 0.0
    edges.update((a, a + 1) for a in range(len(keys) - 1) if keys[a][0] == keys[a + 1][0])
    durations = [sum(parts) for parts in zip(into, work, out, strict=True)] + [operators[v].cpu_time for v in on_cpu]
    order = topological_order(len(durations), sorted(edges))
    start, cause = [0.0] * len(durations), [-1] * len(durations)
    following: list[list[int]] = [[] for _ in durations]
    for a, b in sorted(edges):
        following[a].append(b)
    for a in order:
        end = start[a] + durations[a]
        for b in following[a]:
            if end > start[b] or cause[b] < 0:
                start[b], cause[b] = end, a
    circle = len(order) < len(durations)
    if circle:
        stuck = sorted(set(range(len(durations))) - set(order))
        names = [f"piece {keys[a][1]} of accelerator {keys[a][0]}" for a in stuck if a < len(keys)]
        violations.append(f"the pieces wait for each other in a circle: among {', '.join(names[:4])}")
    pieces = [PieceEvaluation(start[a], into[a], work[a], out[a]) for a in range(len(keys))]
    memory = [0.0] * len(plan.accelerators)
    for op in operators:
        if op.id in home:
            memory[home[op.id][0]] += op.memory_bytes
    return LatencyEvaluation(
        objective=math.inf if circle else max(s + d for s, d in zip(start, durations, strict=True)),
        violations=tuple(violations),
        accelerators=tuple(
            AcceleratorEvaluation(
                memory[device], tuple(p for key, p in zip(keys, pieces, strict=True) if key[0] == device)
            )
            for device in range(len(plan.accelerators))
        ),
        critical_path=()
        if circle
        else _critical([*keys, *((None, problem.operators[v].id) for v in on_cpu)], start, durations, cause),
    )


def _critical(
    names: list[tuple[int | None, int]], start: list[float], durations: list[float], cause: list[int]
) -> tuple[CriticalStep, ...]:
    """A longest path, back from the first node that ends last; by node, its accelerator and piece, or its operator."""
    at = max(range(len(durations)), key=lambda a: (start[a] + durations[a], -a))
    steps = []
    while at >= 0:
        device, number = names[at]
        step = CriticalStep(start[at], start[at] + durations[at], device)
        place = {"operator": number} if device is None else {"piece": number}
        steps.append(dataclasses.replace(step, **place))
        at = cause[at]
    return tuple(reversed(steps))


def _limits(problem: LatencyProblem, plan: LatencyPlan, home: dict[int, tuple[int, int]]) -> list[str]:
    """Every limit that a plan breaks but the order of its pieces, as sentences."""
    violations = []
    used = [device for device, row in enumerate(plan.accelerators) if row]
    if len(used) > problem.accelerators or any(device >= problem.accelerators for device in used):
        last = max(used) + 1
        violations.append(f"the plan names {last} accelerators, the problem has {problem.accelerators}")
    operators = {op.id: op for op in problem.operators}
    training = problem.training
    for device in used:
        row = plan.accelerators[device]
        passes = {False: 0, True: 0}
        for number, piece in enumerate(row):
            kinds = {operators[v].backward for v in piece}
            for backward in kinds:
                passes[backward] += 1
            if len(kinds) == 2:
                violations.append(f"piece {number} of accelerator {device} has forward and backward operators")
        for backward, count in passes.items():
            if count > problem.pieces:
                which = ("backward " if backward else "forward ") if training else ""
                violations.append(
                    f"accelerator {device} has {count} {which}pieces, at most {problem.pieces} are allowed (--pieces)"
                )
        held = [operators[v] for piece in row for v in piece]
        for op in held:
            if op.accelerator_time is None:
                violations.append(f"{op.label} cannot run on an accelerator, and is on accelerator {device}")
        memory, limit = sum(op.memory_bytes for op in held), problem.limit_bytes
        if not leq(memory, limit):
            violations.append(
                f"accelerator {device} needs {format_bytes(memory)}, {format_bytes(memory - limit)} more than its "
                f"{format_bytes(limit)}"
            )
    together: dict[int, int | None] = {}
    for op in problem.operators:
        if op.colocation is not None:
            place = home[op.id][0] if op.id in home else None
            other = together.setdefault(op.colocation, place)
            if other != place:
                violations.append(
                    f"{op.label} is on {_device_name(place)}, others of its colocation class {op.colocation} on "
                    f"{_device_name(other)}"
                )
    return violations


def _device_name(device: int | None) -> str:
    return "the CPU" if device is None else f"accelerator {device}"
