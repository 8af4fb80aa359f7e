"""Rows of stages with degrees of their own: where their devices are, and what that makes of transfers and memory.

Stages are laid out from the last one back, over machines from the last one back: each begins where the one behind it
ends, unless it would then lie in two machines and need not; then it begins a machine. So a handover stays inside a
machine only if both of its stages do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partita.problems.hybrid.plan import HybridPlan, HybridStage
from partita.problems.hybrid.problem import HybridProblem
from partita.problems.hybrid.step.mesh import Mesh
from partita.problems.hybrid.step.pipeline import held, refusal


@dataclass(frozen=True)
class StageMesh(Mesh):
    """One stage of a row: like a stage of a uniform mesh, but for its handovers and what it holds.

    Attributes
    ----------
    rates
        As of ``Mesh.handover``.
    in_flight
        Microbatches of which it holds activations.
    start
        Devices behind it, idle ones among them included.
    """

    rates: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    in_flight: int = 1
    start: int = 0

    def handover(self, rank: int) -> tuple[float, float, float, float]:
        return self.rates

    def flying(self, rank: int) -> tuple[tuple[int, ...], ...]:
        return ((self.in_flight,),)


def is_uniform(plan: HybridPlan) -> bool:
    """Whether all stages have the same degrees."""
    return len({(stage.data_parallel, stage.tensor_parallel) for stage in plan.stages}) == 1


def begin(used: int, width: int, machine: int) -> int:
    """Devices behind a stage of so many, given those in use behind it and the devices of a machine."""
    left = -used % machine
    return used if left == 0 or width <= left else used + left


def shares(used: int, width: int, before: int, machine: int) -> bool:
    """Whether a stage of ``before`` devices lies in one machine with the one of ``width`` that ends at ``used``."""
    return width <= machine and 0 < -used % machine >= before


def handover_rates(mesh: Mesh, enters: bool, leaves: bool) -> tuple[float, float, float, float]:
    """What a byte costs that enters a stage and one that leaves it, and a transfer of each; inside a machine or not.

    Each end counts half of the time that its own devices take.
    """
    network = mesh.network
    calls = network.training.call_times
    rate = [0.5 / (mesh.tensor * (network.inside if inside else network.outside)) for inside in (enters, leaves)]
    return rate[0], rate[1], 0.5 * calls[not enters], 0.5 * calls[not leaves]


def row_in_flight(schedule: str, behind: int, total: int, data: int, microbatches: int) -> int:
    """Microbatches that a stage's replicas hold each, given the replicas of it and those behind, and of all stages."""
    if schedule == "zero-bubble":
        # As many stages as there are: they have the same number of replicas.
        behind = total
    stages = -(-behind // data)
    return sum(held(schedule, stages, 1, microbatches, 0)[0])


def row_meshes(problem: HybridProblem, plan: HybridPlan) -> list[StageMesh]:
    """The stages of a row, first stage first."""
    machine = problem.devices_per_machine
    batch, total = problem.microbatches, plan.microbatches
    starts = row_starts(problem, plan.stages)
    inside = [
        shares(start + stage.devices, stage.devices, before.devices, machine)
        for stage, before, start in zip(plan.stages[1:], plan.stages, starts[1:], strict=False)
    ]
    found, behind = [], total
    for rank, (stage, start) in enumerate(zip(plan.stages, starts, strict=True)):
        d, t = stage.data_parallel, stage.tensor_parallel
        mesh = Mesh(problem, len(plan.stages), d, t, plan.schedule, 1, plan.zero)
        enters, leaves = rank > 0 and inside[rank - 1], rank < len(inside) and inside[rank]
        found.append(
            StageMesh(
                problem,
                len(plan.stages),
                d,
                t,
                plan.schedule,
                plan.chunks,
                plan.zero,
                rates=handover_rates(mesh, enters, leaves),
                in_flight=row_in_flight(plan.schedule, behind, total, d, max(1, batch // d)),
                start=start,
            )
        )
        behind -= d
    return found


def row_starts(problem: HybridProblem, stages: Sequence[HybridStage]) -> list[int]:
    """Devices behind each stage."""
    used, starts = 0, []
    for stage in reversed(stages):
        starts.append(begin(used, stage.devices, problem.devices_per_machine))
        used = starts[-1] + stage.devices
    return starts[::-1]


def row_violations(problem: HybridProblem, plan: HybridPlan) -> list[str]:
    """What of a row is not as it has to be."""
    found, batch = [], problem.microbatches
    if plan.chunks > 1 or plan.schedule == "interleaved":
        found.append("an interleaved schedule has the same degrees in every stage")
    for number, stage in enumerate(plan.stages):
        d, t = stage.data_parallel, stage.tensor_parallel
        if batch % d:
            found.append(f"stage {number}: data-parallel degree {d} does not divide the {batch} microbatches")
        if t > problem.devices_per_machine:
            found.append(
                f"stage {number}: tensor-parallel degree {t} is more than the {problem.devices_per_machine} of a "
                "machine"
            )
    if plan.schedule == "zero-bubble":
        degrees = {stage.data_parallel for stage in plan.stages}
        wrong = refusal(plan.schedule, len(plan.stages), 1, batch // max(degrees))
        if len(degrees) > 1:
            wrong = "a zero-bubble schedule has the same data-parallel degree in every stage"
        found += [] if wrong is None else [wrong]
    start = row_starts(problem, plan.stages)[0]
    needed = start + plan.stages[0].devices
    if needed > problem.devices:
        idle = needed - plan.devices
        parts = f", {idle} of them idle where a machine is not filled," if idle else ""
        found.append(f"the stages take {needed} devices{parts} and the problem has {problem.devices}")
    return found
