"""Pipelines with degrees of their own, or on several kinds of devices: where their devices are, and what that
makes of transfers and memory.

Stages are laid out from the last one back, over machines of their kind from the last one back: each begins where the
one behind it ends, unless it would then lie in two machines and need not; then it begins a machine. So a handover stays
inside a machine only if both of its stages do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from partita.nouns.pipeline import UNSHARED, Plan, Stage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.costs import network_of
from partita.problems.hybrid.step.mesh import DeviceMesh
from partita.problems.hybrid.step.pipeline import held, refusal


@dataclass(frozen=True)
class StageMesh(DeviceMesh):
    """One stage of a pipeline: like a stage of a uniform mesh, but for its handovers and what it holds."""

    rates: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  #: As of ``DeviceMesh.handover``.
    in_flight: int = 1  #: Microbatches of which it holds activations.
    start: int = 0  #: Devices behind it, idle ones among them included.

    def handover(self, rank: int) -> tuple[float, float, float, float]:
        return self.rates

    def flying(self, rank: int) -> tuple[tuple[int, ...], ...]:
        return ((self.in_flight,) * self.chunks,)


def is_uniform(plan: Plan) -> bool:
    """Whether all stages have the same degrees, on devices of one kind."""
    degrees = ((s.data_parallel, s.tensor_parallel, *s.shared, s.kind) for s in plan.stages)
    return len(set(degrees)) == 1


def begin(used: int, width: int, machine: int) -> int:
    """Devices behind a stage of so many, given those in use behind it and the devices of a machine."""
    left = -used % machine
    return used if left == 0 or width <= left else used + left


def shares(used: int, width: int, before: int, machine: int) -> bool:
    """Whether a stage of ``before`` devices lies in one machine with the one of ``width`` that ends at ``used``."""
    return width <= machine and 0 < -used % machine >= before


def handover_price(mesh: DeviceMesh, to: HybridProblem | None) -> tuple[float, float]:
    """What a byte costs a stage that is handed over, and what a transfer does: inside a machine, or to another one.

    ``to`` is the problem on the other machine's devices, None inside a machine. Each end counts half of the time that
    its own devices take, between machines at the lower of both ends' rates.
    """
    network = mesh.network
    if to is None:
        return 0.5 / (mesh.tensor * network.inside), 0.5 * network.training.call_times[0]
    other = network_of(to, 1, 1)
    call = max(network.training.call_times[1], other.training.call_times[1])
    return 0.5 / (mesh.tensor * min(network.outside, other.outside)), 0.5 * call


def stage_in_flight(schedule: str, behind: int, total: int, data: int, microbatches: int) -> int:
    """Microbatches that a stage's replicas hold each, given the replicas of it and those behind, and of all stages."""
    if schedule == "zero-bubble":
        # As many stages as there are: they have the same number of replicas.
        behind = total
    stages = -(-behind // data)
    # Interleaved pipelines are violations; they are judged all the same.
    return sum(held("1f1b" if schedule == "interleaved" else schedule, stages, 1, microbatches, 0)[0])


def free_meshes(problem: HybridProblem, plan: Plan) -> list[StageMesh]:
    """The stages of a pipeline, first stage first."""
    total, starts = plan.microbatches, stage_starts(problem, plan.stages)
    found, behind = [], total
    for rank, (stage, start) in enumerate(zip(plan.stages, starts, strict=True)):
        kind, d, t = problem.on(stage.kind), stage.data_parallel, stage.tensor_parallel
        mesh = StageMesh(
            kind,
            len(plan.stages),
            d,
            t,
            plan.schedule,
            plan.chunks,
            plan.zero,
            in_flight=stage_in_flight(plan.schedule, behind, total, d, max(1, problem.microbatches // d)),
            start=start,
        )
        into, out = (0.0, 0.0), (0.0, 0.0)
        if rank > 0:
            before = plan.stages[rank - 1]
            into = handover_price(mesh, _across(problem, before, stage, start))
        if rank + 1 < len(plan.stages):
            after = plan.stages[rank + 1]
            across = _across(problem, stage, after, starts[rank + 1])
            out = handover_price(mesh, None if across is None else problem.on(after.kind))
        found.append(replace(mesh, rates=(into[0], out[0], into[1], out[1])))
        behind -= d
    return found


def _across(problem: HybridProblem, before: Stage, after: Stage, start: int) -> HybridProblem | None:
    """The problem on the devices of the stage before, if a handover to the one after leaves a machine."""
    kind = problem.on(before.kind)
    if problem.on(after.kind) is not kind:
        return kind
    inside = shares(start + after.device_count, after.device_count, before.device_count, kind.devices_per_machine)
    return None if inside else kind


def stage_starts(problem: HybridProblem, stages: Sequence[Stage]) -> list[int]:
    """Devices of its kind behind each stage."""
    used: dict[str, int] = {}
    starts = []
    for stage in reversed(stages):
        kind = problem.on(stage.kind)
        starts.append(begin(used.get(kind.device, 0), stage.device_count, kind.devices_per_machine))
        used[kind.device] = starts[-1] + stage.device_count
    return starts[::-1]


def free_violations(problem: HybridProblem, plan: Plan) -> list[str]:
    """What of a pipeline is not as it has to be."""
    found, batch = [], problem.microbatches
    degrees = {stage.data_parallel for stage in plan.stages}
    if plan.chunks > 1 or plan.schedule == "interleaved":
        found.append("an interleaved schedule has the same degrees in every stage, on devices of one kind")
    for number, stage in enumerate(plan.stages):
        d, t, kind = stage.data_parallel, stage.tensor_parallel, problem.on(stage.kind)
        if batch % d:
            found.append(f"stage {number}: data-parallel degree {d} does not divide the {batch} microbatches")
        if stage.shared != UNSHARED:
            found.append(
                f"stage {number} has {stage.shared}; where stages have degrees of their own they share out neither"
            )
        if t > kind.devices_per_machine:
            found.append(
                f"stage {number}: tensor-parallel degree {t} is more than the {kind.devices_per_machine} of a machine"
            )
        elif d * t > kind.devices_per_machine and kind.devices_per_machine % t:
            found.append(
                f"stage {number}: groups of {t} devices do not fill the machines of {kind.devices_per_machine} that it "
                "lies on"
            )
    if plan.zero_shards:
        found.append("where stages have degrees of their own, all replicas of a stage share out what ZeRO's stage says")
    if plan.schedule == "zero-bubble":
        wrong = refusal(plan.schedule, len(plan.stages), 1, batch // max(degrees), plan.zero)
        if len(degrees) > 1:
            wrong = "a zero-bubble schedule has the same data-parallel degree in every stage"
        found += [] if wrong is None else [wrong]
    training = problem.step
    if UNSHARED not in training.shared:
        found.append("stages of unlike degrees have context- and expert-parallel degree 1, which is not allowed")
    if training.mesh == "uniform":
        if len(degrees) > 1:
            found.append("in a uniform mesh every stage has the same data-parallel degree")
        for kind in problem.kinds:
            groups = {stage.tensor_parallel for stage in plan.stages if problem.on(stage.kind) is kind}
            if len(groups) > 1:
                found.append(f"in a uniform mesh the stages on {kind.device} have the same tensor-parallel degree")
    starts = stage_starts(problem, plan.stages)
    for kind in problem.kinds:
        mine = [n for n, stage in enumerate(plan.stages) if problem.on(stage.kind) is kind]
        if not mine:
            continue
        needed = starts[mine[0]] + plan.stages[mine[0]].device_count
        if needed > kind.devices:
            idle = needed - sum(plan.stages[number].device_count for number in mine)
            parts = f", {idle} of them idle where a machine is not filled," if idle else ""
            where = f" on {kind.device}" if problem.others else ""
            found.append(f"the stages{where} take {needed} devices{parts} and there are {kind.devices}")
    return found
