"""A bound that counts what is streamed: reloading as work, on devices that have the time for it back from their memory.

A stage S of a streaming problem has load ≥ f(S) + ρ·(bytes(S) + w − M), where f is work and transfers, M the memory, ρ
the time to fetch a byte, and w the least working memory that any stage needs: the smallest workspace, or need, of an
operator. So f(S) + ρ·bytes(S) ≤ T + ρ·(M − w) whenever the load is at most T; for a device without operators this says
T ≥ ρ·(w − M), which some stage proves. With bytes(S) no less than a sum over operators (a parameter that several read
is counted at its first reader), the left side is the load of a uniform problem without memory, and each of its bounds,
less ρ·(M − w), is one here.

Source of the load: Archer et al., "Practical Performance Guarantees for Pipelined DNN Inference" (ICML 2024), eq. 2, 3.
"""

from __future__ import annotations

import math

import msgspec

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Bound
from partita.ground.rounding import rounded_down
from partita.problems.throughput.bounds.hierarchy import HIERARCHY, run_hierarchy
from partita.problems.throughput.bounds.knowledge import Knowledge
from partita.problems.throughput.contraction.blocks import uniform, uniform_refusal
from partita.problems.throughput.problem import MicrobatchSchedule, ThroughputProblem, TimedOperator
from partita.problems.throughput.working_memory import PeakTable


def with_reloading(problem: ThroughputProblem) -> tuple[ThroughputProblem, float]:
    """A problem without memory whose objective is at most that of a streaming one plus the time returned.

    For streaming problems with identical devices that have a limited memory.
    """
    kind = problem.kinds[problem.present[0]]
    assert kind.memory_bytes is not None
    rate = kind.reload_time_per_byte
    held = {op.id: op.memory_bytes for op in problem.operators}
    for parameter in problem.parameters:
        if parameter.users:
            held[parameter.users[0]] += parameter.weight_bytes + parameter.gradient_bytes + parameter.optimizer_bytes
    if problem.working_memory == "peak":
        least = float(PeakTable(problem).own.min())
    else:
        least = min(op.workspace_bytes for op in problem.operators)
    operators: list[TimedOperator] = []
    for op in problem.operators:
        times = tuple(None if time is None else time + rate * held[op.id] for time in op.times)
        operators.append(msgspec.structs.replace(op, times=times))
    relaxed = problem.replace(
        kinds=tuple(msgspec.structs.replace(one, memory_bytes=None) for one in problem.kinds),
        operators=tuple(operators),
        parameters=(),
        saved=(),
        schedule=MicrobatchSchedule(),
        groups=(),
        working_memory="largest",
        streaming=False,
    )
    return relaxed, rate * (kind.memory_bytes - least)


def streams(problem: ThroughputProblem) -> bool:
    """Whether the problem has identical devices, and memory that may cost time."""
    if uniform_refusal(problem) is not None or not problem.streaming:
        return False
    kind = problem.kinds[problem.present[0]]
    return kind.memory_bytes is not None and kind.reload_time_per_byte > 0


class StreamingBound:
    """The hierarchy of bounds on the problem with reloading as work."""

    name = "streaming"
    summary = "streaming: the hierarchy of bounds with what must be fetched counted as work"
    argument = "bytes over the memory are counted as work, and the hierarchy of bounds holds for what that makes"
    scope = "acyclic"

    def supports(self, problem: ThroughputProblem) -> str | None:
        """Identical devices, and loads that add transfers to work; without streaming it is the hierarchy alone."""
        return uniform_refusal(problem)

    def bound(self, problem: ThroughputProblem, monitor: Monitor) -> Bound:
        return Bound(self.prove(problem, monitor), self.name, self.scope, monitor.elapsed_s)

    def prove(self, problem: ThroughputProblem, monitor: Monitor, value: float = math.inf) -> float:
        """The bound as far as the time allows; more than ``value``, of the best split known, need not be proven."""
        relaxed, extra = with_reloading(problem) if streams(problem) else (problem, 0.0)
        knowledge = Knowledge.watched(uniform(relaxed), monitor)
        if math.isfinite(value):
            # The split known costs at most this much there; its blocks do not matter.
            knowledge.incumbent.offer(max(0.0, value + extra), None)
        run_hierarchy(knowledge, HIERARCHY, None if monitor.time_limit_s is None else monitor.remaining_s)
        if not knowledge.uniform.runs:
            return knowledge.bound
        # Work with reloading is a sum over operators, and so is the time returned.
        summed = knowledge.bound + abs(extra)
        return max(0.0, rounded_down(knowledge.bound - extra, summed, 2 * len(problem.operators)))


#: The hierarchy for problems in which memory costs time.
STREAMING = StreamingBound()
